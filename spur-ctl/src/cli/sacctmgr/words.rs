//! Words of a command: which rows are meant, what they become, what is shown of them.

use super::super::failure::Failure;
use spur_core::manage::Setting;

/// The words behind the entity, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Names that stand alone.
    pub(super) names: Vec<String>,
    /// `KEY=VALUE` before `set`, or all of them where there is none; keys in small letters.
    pub(super) pairs: Vec<Setting>,
    /// `KEY=VALUE` behind `set`.
    pub(super) set: Vec<Setting>,
    /// `format=`.
    pub(super) format: Option<String>,
    /// Single words that change what is shown: `withassoc`, `wopi`.
    pub(super) modes: Vec<String>,
}

/// Words that stand alone and are no names.
const MODES: [&str; 14] = [
    "onlydefaults",
    "tree",
    "withassoc",
    "withclusters",
    "withcoordinator",
    "withcoordinators",
    "withdeleted",
    "withfed",
    "withrawqoslevel",
    "withsubaccounts",
    "wolimits",
    "wopinfo",
    "woplimits",
    "withusage",
];

/// Sorts the words.
pub(super) fn read(words: &[String]) -> Result<Words, Failure> {
    let mut read = Words::default();
    let mut setting = false;
    for word in words {
        let lower = word.to_ascii_lowercase();
        match lower.as_str() {
            "where" => {
                setting = false;
                continue;
            }
            "set" => {
                setting = true;
                continue;
            }
            _ => {}
        }
        let Some((key, value)) = word.split_once('=') else {
            if MODES.contains(&lower.as_str()) {
                read.modes.push(lower);
            } else if setting {
                return Err(Failure::plain(format!(" Unknown option: {word}"), 1));
            } else {
                read.names.extend(names(word));
            }
            continue;
        };
        let key = key.trim().to_ascii_lowercase();
        let value = unquoted(value.trim()).to_owned();
        if super::is(&key, "format", 2) {
            read.format = Some(value);
            continue;
        }
        let pair = Setting { key, value };
        if setting {
            read.set.push(pair);
        } else {
            read.pairs.push(pair);
        }
    }
    Ok(read)
}

impl Words {
    /// The values of a condition, by its full name.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let found = self.pairs.iter().filter(|pair| pair.key == name);
        found.flat_map(|pair| names(&pair.value)).collect()
    }

    /// Whether a mode was given.
    pub(super) fn has(&self, mode: &str) -> bool {
        self.modes.iter().any(|own| own == mode)
    }
}

/// Names of a list with commas.
pub(super) fn names(list: &str) -> Vec<String> {
    let names = list.split(',').map(|name| unquoted(name.trim()));
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn unquoted(text: &str) -> &str {
    let of = |quote: char| {
        text.strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote))
    };
    of('"').or_else(|| of('\'')).unwrap_or(text)
}

/// Words of a line.
pub(super) fn split(line: &str) -> Vec<String> {
    line.split_whitespace()
        .take_while(|word| !word.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Words {
        read(&split(line)).unwrap()
    }

    #[test]
    fn words_are_sorted() {
        let words =
            of("alice,bob where account=ml set fairshare=3 GrpJobs=4 format=user%20,account");
        assert_eq!(words.names, ["alice", "bob"]);
        assert_eq!(words.list("account"), ["ml"]);
        assert_eq!(words.set.len(), 2);
        assert_eq!(words.set[1].key, "grpjobs");
        assert_eq!(words.format.as_deref(), Some("user%20,account"));
        assert!(of("withassoc user=x").has("withassoc"));
    }
}
