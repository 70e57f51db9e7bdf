//! Conditions: which rows are meant. A word that is none is refused, so that a slip never means every row.

use super::super::failure::Failure;
use super::super::flags::nearest::slip;
use super::is;
use super::words::Words;
use spur_core::manage::Setting;

/// What rows are chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Accounts,
    Associations,
    Clusters,
    Qos,
    Tres,
    Users,
}

/// A condition: how it may be written, the shortest beginning that is taken, and its name here.
type Condition = (&'static str, usize, &'static str);

const ACCOUNTS: [Condition; 9] = [
    ("acct", 4, "names"),
    ("accounts", 1, "names"),
    ("names", 1, "names"),
    ("clusters", 1, "clusters"),
    ("descriptions", 1, "descriptions"),
    ("organizations", 1, "organizations"),
    ("parents", 2, "parents"),
    ("users", 1, "users"),
    ("qoslevel", 1, "qos"),
];
const ASSOCIATIONS: [Condition; 10] = [
    ("acct", 4, "accounts"),
    ("accounts", 2, "accounts"),
    ("associd", 3, "ids"),
    ("clusters", 1, "clusters"),
    ("defaultqos", 8, "defaultqos"),
    ("ids", 1, "ids"),
    ("parents", 4, "parents"),
    ("partitions", 3, "partitions"),
    ("qoslevel", 1, "qos"),
    ("users", 1, "users"),
];
const CLUSTERS: [Condition; 2] = [("clusters", 1, "names"), ("names", 1, "names")];
const QOS: [Condition; 4] = [
    ("descriptions", 1, "descriptions"),
    ("ids", 1, "ids"),
    ("names", 1, "names"),
    ("qoslevel", 1, "names"),
];
const TRES: [Condition; 3] = [
    ("ids", 1, "ids"),
    ("names", 1, "names"),
    ("types", 1, "types"),
];
const USERS: [Condition; 12] = [
    ("acct", 4, "accounts"),
    ("accounts", 2, "accounts"),
    ("adminlevel", 2, "adminlevel"),
    ("associd", 3, "ids"),
    ("clusters", 1, "clusters"),
    ("defaultaccount", 8, "defaultaccount"),
    ("ids", 1, "ids"),
    ("names", 1, "names"),
    ("parents", 4, "parents"),
    ("partitions", 3, "partitions"),
    ("qoslevel", 1, "qos"),
    ("users", 1, "names"),
];

fn conditions(of: Rows) -> &'static [Condition] {
    match of {
        Rows::Accounts => &ACCOUNTS,
        Rows::Associations => &ASSOCIATIONS,
        Rows::Clusters => &CLUSTERS,
        Rows::Qos => &QOS,
        Rows::Tres => &TRES,
        Rows::Users => &USERS,
    }
}

/// Gives the conditions their full names, and the names among them to those that stand alone. All that are none are refused.
pub(super) fn read(mut words: Words, of: Rows) -> Result<Words, Failure> {
    let known = conditions(of);
    let (mut refused, mut hints) = (String::new(), String::new());
    let mut pairs = Vec::new();
    for pair in std::mem::take(&mut words.pairs) {
        let meant = |(full, least, _): &&Condition| is(&pair.key, full, *least);
        match known.iter().find(meant) {
            Some((.., "names")) => words.names.extend(super::words::names(&pair.value)),
            Some((.., name)) => pairs.push(Setting {
                key: (*name).to_owned(),
                ..pair
            }),
            None => {
                refused.push_str(&format!(
                    " Unknown condition: {}={}\n",
                    pair.key, pair.value
                ));
                let near = slip(&pair.key, known.iter().map(|(full, ..)| *full));
                if let Some(near) = near {
                    hints.push_str(&format!("Did you mean {near}=?\n"));
                }
            }
        }
    }
    if !refused.is_empty() {
        let text = format!("{refused}Use keyword 'set' to modify value\n{hints}");
        return Err(Failure::plain(text.trim_end_matches('\n'), 1));
    }
    words.pairs = pairs;
    Ok(words)
}

/// Whether a list, if there is one, has the name.
pub(super) fn wanted(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Whether the cluster is meant.
pub(super) fn here(words: &Words, cluster: &str) -> bool {
    let clusters = words.list("clusters");
    clusters.iter().any(|name| name == "all") || wanted(&clusters, cluster)
}

#[cfg(test)]
mod tests {
    use super::super::words;
    use super::*;

    fn of(line: &str, rows: Rows) -> Result<Words, String> {
        let words = words::read(&words::split(line)).map_err(|failure| failure.text)?;
        read(words, rows).map_err(|failure| failure.text)
    }

    #[test]
    fn a_misspelt_condition_is_refused_whatever_rows_are_chosen() {
        for (rows, line) in [
            (Rows::Qos, "where nme=high"),
            (Rows::Qos, "where nme=high set priority=77"),
            (Rows::Users, "where usr=nobody set maxjobs=4"),
            (Rows::Users, "where name=nobody acount=bio"),
            (Rows::Associations, "usr=nobody"),
            (Rows::Accounts, "name=x foo=y"),
            (Rows::Clusters, "foo=x"),
            (Rows::Tres, "foo=x"),
        ] {
            let text = of(line, rows).unwrap_err();
            assert!(text.starts_with(" Unknown condition: "), "{line}: {text}");
            assert!(
                text.contains("\nUse keyword 'set' to modify value\n"),
                "{text}"
            );
        }
        let text = of("where name=nobody acount=bio", Rows::Users).unwrap_err();
        assert_eq!(
            text,
            " Unknown condition: acount=bio\nUse keyword 'set' to modify value\nDid you mean accounts=?\n"
        );
    }

    #[test]
    fn conditions_have_one_name_however_they_are_written() {
        let words = of(
            "where user=a,b acc=bio partition=p set maxjobs=4",
            Rows::Users,
        )
        .unwrap();
        assert_eq!(words.names, ["a", "b"]);
        assert_eq!(words.list("accounts"), ["bio"]);
        assert_eq!(words.list("partitions"), ["p"]);
        assert_eq!(words.set.len(), 1);
        let words = of("acct=bio cluster=x", Rows::Accounts).unwrap();
        assert_eq!(words.names, ["bio"]);
        assert!(!here(&words, "dev") && here(&words, "x"));
    }
}
