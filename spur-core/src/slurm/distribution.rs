//! `--distribution`: how tasks are spread over nodes, sockets and cores, as Slurm writes it.

use std::borrow::Cow;

/// The levels within a node that follow the one over nodes.
const WITHIN: [&str; 3] = ["block", "cyclic", "fcyclic"];

/// A distribution in the words that Slurm puts into `SLURM_DISTRIBUTION`: `*` is the default of its level (`block` over nodes, `cyclic`
/// over sockets, over cores what is over sockets), letters are small, and `pack` or `nopack` comes last or stands alone. `None` for what
/// is no distribution. `plane` is not read here: it has a size.
#[must_use]
pub fn canonical(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (levels, flag) = match text.split_once(',') {
        Some((levels, flag)) => (levels, Some(flag)),
        None if is_flag(&text) => return Some(text),
        None => (text.as_str(), None),
    };
    let levels = spread(levels)?;
    match flag {
        None => Some(levels),
        Some(flag) => is_flag(flag).then(|| format!("{levels},{flag}")),
    }
}

fn is_flag(word: &str) -> bool {
    word == "pack" || word == "nopack"
}

fn spread(text: &str) -> Option<String> {
    if text == "arbitrary" || text == "hostfile" {
        return Some("arbitrary".to_owned());
    }
    let mut levels: Vec<Cow<'_, str>> = text.split(':').map(Cow::from).collect();
    if levels.len() > 3 {
        return None;
    }
    let sockets = match levels.get(1).map(AsRef::as_ref) {
        Some("*") | None => "cyclic".to_owned(),
        Some(word) => word.to_owned(),
    };
    let defaults = ["block", "cyclic", &sockets];
    for (level, default) in levels.iter_mut().zip(defaults) {
        if level == "*" {
            *level = Cow::Owned(default.to_owned());
        }
    }
    let (nodes, within) = levels.split_first()?;
    let known = matches!(nodes.as_ref(), "block" | "cyclic")
        && within.iter().all(|level| WITHIN.contains(&level.as_ref()));
    known.then(|| levels.join(":"))
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn distributions_are_written_as_slurm_writes_them() {
        for (text, written) in [
            ("block", "block"),
            ("Cyclic:Block", "cyclic:block"),
            ("block:fcyclic:cyclic", "block:fcyclic:cyclic"),
            ("*", "block"),
            ("*:*", "block:cyclic"),
            ("*:*:*", "block:cyclic:cyclic"),
            ("*:block:*", "block:block:block"),
            ("cyclic:*:fcyclic", "cyclic:cyclic:fcyclic"),
            ("pack", "pack"),
            ("NoPack", "nopack"),
            ("*,pack", "block,pack"),
            ("block:block:block,nopack", "block:block:block,nopack"),
            ("arbitrary", "arbitrary"),
            ("hostfile", "arbitrary"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(written), "{text}");
        }
        for bad in [
            "",
            "fcyclic",
            ":",
            "block:",
            "block:block:block:block",
            "block:arbitrary",
            "arbitrary:block",
            "pack,block",
            "block,pack,nopack",
            "block,",
            ",pack",
            "spread",
            "plane",
        ] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }
}
