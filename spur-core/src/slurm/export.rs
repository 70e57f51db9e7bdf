//! `--export`: which variables of the submitter a job gets.
//!
//! | value | the job gets |
//! |---|---|
//! | absent, `ALL` | everything |
//! | `NONE` | `SLURM_*` and `SPANK_*` only, and a login environment on the node |
//! | `NIL` | `SLURM_*` and `SPANK_*` only, and nothing else |
//! | `A,B=x` | `A` as it is, `B` as given, `SLURM_*` and `SPANK_*`, and a login environment |
//! | `ALL,B=x` | everything, and `B` as given, and a login environment |

/// What is always kept: Slurm's own, and where our controller is, as `SLURM_CONF` says of Slurm's.
const ALWAYS: [&str; 3] = ["SLURM_", "SPANK_", "SPUR_CONTROLLER="];

/// An environment cut down by `--export`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// `NAME=VALUE` entries.
    pub env: Vec<String>,
    /// Whether the node adds what a login of the user would set (`SLURM_GET_USER_ENV`); for batch jobs only.
    pub login: bool,
}

/// Applies `--export` (as written; empty for the default) to the submitter's environment. Later settings of a name win.
pub fn apply(export: &str, env: &[String]) -> Exported {
    let slurm = |entry: &&String| ALWAYS.iter().any(|begin| entry.starts_with(begin));
    if export.is_empty() || export.eq_ignore_ascii_case("ALL") {
        return Exported {
            env: env.to_vec(),
            login: false,
        };
    }
    let mut kept: Vec<String> = Vec::new();
    for entry in env.iter().filter(slurm) {
        set(&mut kept, entry);
    }
    let login = !export.eq_ignore_ascii_case("NIL");
    if !login || export.eq_ignore_ascii_case("NONE") {
        return Exported { env: kept, login };
    }
    for element in elements(export) {
        if element.eq_ignore_ascii_case("ALL") {
            kept.extend(env.iter().filter(|entry| !slurm(entry)).cloned());
        } else if let Some((name, value)) = element.split_once('=') {
            set(&mut kept, &format!("{name}={}", unquoted(value)));
        } else if let Some(entry) = env.iter().rfind(|entry| name_of(entry) == element) {
            set(&mut kept, entry);
        }
    }
    Exported { env: kept, login }
}

/// The name of a `NAME=VALUE` entry.
pub fn name_of(entry: &str) -> &str {
    entry.split_once('=').map_or(entry, |(name, _)| name)
}

/// Sets a `NAME=VALUE` entry, in place if the name is there already.
pub fn set(env: &mut Vec<String>, entry: &str) {
    let name = name_of(entry);
    match env.iter_mut().find(|held| name_of(held) == name) {
        Some(held) => entry.clone_into(held),
        None => env.push(entry.to_owned()),
    }
}

/// Splits at commas outside quotes.
fn elements(export: &str) -> Vec<&str> {
    let (mut quote, mut start, mut elements) = (None, 0, Vec::new());
    for (at, c) in export.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, ',') => {
                elements.push(&export[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    elements.push(&export[start..]);
    elements.retain(|element| !element.is_empty());
    elements
}

/// A value without the pair of quotes around it.
fn unquoted(value: &str) -> &str {
    let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'').or_else(|| inner('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn env(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn export_decides_what_a_job_gets() {
        let mine = env(&["HOME=/h", "A=1", "B=2", "SLURM_CONF=/c", "SPANK_X=y"]);
        for (export, kept, login) in [
            (
                "",
                &["HOME=/h", "A=1", "B=2", "SLURM_CONF=/c", "SPANK_X=y"][..],
                false,
            ),
            (
                "all",
                &["HOME=/h", "A=1", "B=2", "SLURM_CONF=/c", "SPANK_X=y"],
                false,
            ),
            ("NONE", &["SLURM_CONF=/c", "SPANK_X=y"], true),
            ("NIL", &["SLURM_CONF=/c", "SPANK_X=y"], false),
            ("A", &["SLURM_CONF=/c", "SPANK_X=y", "A=1"], true),
            (
                "A,B=x,MISSING",
                &["SLURM_CONF=/c", "SPANK_X=y", "A=1", "B=x"],
                true,
            ),
            (
                "ALL,B=x=y,NEW=",
                &[
                    "SLURM_CONF=/c",
                    "SPANK_X=y",
                    "HOME=/h",
                    "A=1",
                    "B=x=y",
                    "NEW=",
                ],
                true,
            ),
            (
                "E='vi -x,y',A",
                &["SLURM_CONF=/c", "SPANK_X=y", "E=vi -x,y", "A=1"],
                true,
            ),
            ("E=\"q\"", &["SLURM_CONF=/c", "SPANK_X=y", "E=q"], true),
            (",,A,", &["SLURM_CONF=/c", "SPANK_X=y", "A=1"], true),
        ] {
            assert_eq!(
                apply(export, &mine),
                Exported {
                    env: env(kept),
                    login
                },
                "{export}"
            );
        }
    }

    #[test]
    fn commands_in_a_job_find_the_controller_whatever_is_exported() {
        let mine = env(&["SPUR_CONTROLLER=unix:/s", "A=1"]);
        for export in ["NONE", "NIL", "B"] {
            assert_eq!(apply(export, &mine).env, mine[..1], "{export}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_applied(export in "\\PC*", mine in proptest::collection::vec("\\PC{0,8}", 0..8)) {
            let _env = apply(&export, &mine);
        }

        #[test]
        fn nothing_appears_from_nowhere(names in "[A-C](,[A-C]){0,3}", mine in proptest::collection::vec("[A-D]=[0-9]", 0..8)) {
            prop_assert!(apply(&names, &mine).env.iter().all(|entry| mine.contains(entry)));
        }
    }
}
