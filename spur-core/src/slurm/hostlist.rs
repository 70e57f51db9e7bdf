//! Lists of hosts: `n[1-4,7]`, `rack[0-1]n[01-16]-ib,login`.
//!
//! Parsing keeps order and repetitions, as `scontrol show hostnames` does. Folding joins neighbours of the list only, as
//! `scontrol show hostlist` does: `n3,n1,n2` is `n[3,1-2]`.

/// The most names that one list may stand for.
pub const MAX_HOSTS: usize = 65_536;

/// The longest name in bytes (`HOST_NAME_MAX` of POSIX).
pub const MAX_NAME: usize = 255;

/// Why a text is no host list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHostlist {
    /// Brackets do not pair, or nest.
    #[error("unbalanced brackets in host list {0:?}")]
    Brackets(String),
    /// What is between brackets is not a list of numbers and ranges.
    #[error("invalid range {0:?} in host list: write numbers and rising ranges, as in n[1-4,7]")]
    Range(String),
    /// It stands for too many names.
    #[error("host list stands for more than {MAX_HOSTS} hosts")]
    TooMany,
    /// One of its names is too long.
    #[error("host list holds a name of more than {MAX_NAME} bytes")]
    TooLong,
}

/// The names that a list stands for, in order. Blanks separate as commas do; empty elements count for nothing.
pub fn parse(list: &str) -> Result<Vec<String>, BadHostlist> {
    let mut hosts = Vec::new();
    for element in elements(list)? {
        expand(element, &mut hosts)?;
    }
    Ok(hosts)
}

/// Splits at commas and blanks outside brackets.
fn elements(list: &str) -> Result<Vec<&str>, BadHostlist> {
    let unbalanced = || BadHostlist::Brackets(list.to_owned());
    let mut elements = Vec::new();
    let (mut inside, mut start) = (false, 0);
    for (at, c) in list.char_indices() {
        match c {
            '[' if inside => return Err(unbalanced()),
            '[' => inside = true,
            ']' if !inside => return Err(unbalanced()),
            ']' => inside = false,
            ',' | ' ' | '\t' | '\n' if !inside => {
                elements.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(unbalanced());
    }
    elements.push(&list[start..]);
    elements.retain(|element| !element.is_empty());
    Ok(elements)
}

/// Expands one element: every bracket multiplies what stands before it.
fn expand(element: &str, hosts: &mut Vec<String>) -> Result<(), BadHostlist> {
    let room = MAX_HOSTS - hosts.len();
    let mut names = vec![String::new()];
    let mut rest = element;
    while let Some((literal, after)) = rest.split_once('[') {
        let (ranges, after) = after
            .split_once(']')
            .ok_or_else(|| BadHostlist::Brackets(element.to_owned()))?;
        let numbers = numbers(ranges, room / names.len())?;
        append(&mut names, literal)?;
        let mut product = Vec::with_capacity(names.len() * numbers.len());
        // The last bracket's numbers change fastest, those of the others the slower the further behind they stand.
        if after.contains('[') {
            for number in &numbers {
                for name in &names {
                    product.push(joined(name, number)?);
                }
            }
        } else {
            for name in &names {
                for number in &numbers {
                    product.push(joined(name, number)?);
                }
            }
        }
        names = product;
        rest = after;
    }
    append(&mut names, rest)?;
    if names.len() > room {
        return Err(BadHostlist::TooMany);
    }
    hosts.append(&mut names);
    Ok(())
}

fn joined(name: &str, more: &str) -> Result<String, BadHostlist> {
    if name.len() + more.len() > MAX_NAME {
        return Err(BadHostlist::TooLong);
    }
    Ok([name, more].concat())
}

fn append(names: &mut [String], literal: &str) -> Result<(), BadHostlist> {
    for name in names {
        *name = joined(name, literal)?;
    }
    Ok(())
}

/// The numbers of `1-3,007`, as text with their padding; at most `room`.
fn numbers(ranges: &str, room: usize) -> Result<Vec<String>, BadHostlist> {
    let bad = || BadHostlist::Range(ranges.to_owned());
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (width, low, high) = (
            low.len(),
            number(low).ok_or_else(bad)?,
            number(high).ok_or_else(bad)?,
        );
        if high < low {
            return Err(bad());
        }
        if high - low >= (room - numbers.len()) as u64 {
            return Err(BadHostlist::TooMany);
        }
        if width > MAX_NAME {
            return Err(BadHostlist::TooLong);
        }
        numbers.extend((low..=high).map(|n| format!("{n:0width$}")));
    }
    Ok(numbers)
}

fn number(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if plain {
        digits.parse().ok().filter(|n| *n < u64::MAX)
    } else {
        None
    }
}

/// Numbers that follow each other, written with the padding of the first.
struct Run<'a> {
    width: usize,
    low: u64,
    high: u64,
    first: &'a str,
}

/// The list as Slurm folds it.
pub fn compress<S: AsRef<str>>(hosts: &[S]) -> String {
    let mut folded = String::new();
    let mut group: Option<(&str, Vec<Run<'_>>)> = None;
    for host in hosts {
        let host = host.as_ref();
        let (prefix, digits) = split(host);
        let Some(n) = number(digits) else {
            write_group(&mut folded, group.take());
            write_element(&mut folded, host);
            continue;
        };
        if group.as_ref().is_none_or(|(held, _)| *held != prefix) {
            write_group(&mut folded, group.take());
        }
        let (_, runs) = group.get_or_insert_with(|| (prefix, Vec::new()));
        match runs.last_mut() {
            Some(run) if follows(run, n, digits) => run.high = n,
            _ => runs.push(Run {
                width: digits.len(),
                low: n,
                high: n,
                first: digits,
            }),
        }
    }
    write_group(&mut folded, group);
    folded
}

/// A name's text and the number at its end.
fn split(host: &str) -> (&str, &str) {
    let text = host.trim_end_matches(|c: char| c.is_ascii_digit());
    host.split_at(text.len())
}

fn follows(run: &Run<'_>, n: u64, digits: &str) -> bool {
    let width = run.width;
    run.high.checked_add(1) == Some(n) && format!("{n:0width$}") == digits
}

fn write_group(folded: &mut String, group: Option<(&str, Vec<Run<'_>>)>) {
    let Some((prefix, runs)) = group else { return };
    let texts: Vec<String> = runs
        .iter()
        .map(
            |Run {
                 width,
                 low,
                 high,
                 first,
             }| {
                if low == high {
                    (*first).to_owned()
                } else {
                    format!("{low:0width$}-{high:0width$}")
                }
            },
        )
        .collect();
    let alone = runs.len() == 1 && runs[0].low == runs[0].high;
    let list = texts.join(",");
    write_element(
        folded,
        &if alone {
            [prefix, &list].concat()
        } else {
            format!("{prefix}[{list}]")
        },
    );
}

fn write_element(folded: &mut String, element: &str) {
    if !folded.is_empty() {
        folded.push(',');
    }
    folded.push_str(element);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn lists_expand_in_the_order_written() {
        for (list, hosts) in [
            ("", ""),
            ("n1", "n1"),
            ("n[1-4,7]", "n1 n2 n3 n4 n7"),
            ("n[001-003]", "n001 n002 n003"),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("n[9-11]", "n9 n10 n11"),
            ("b,a[2],a1,b", "b a2 a1 b"),
            ("r[0-1]n[1-2]", "r0n1 r0n2 r1n1 r1n2"),
            // As the real Slurm 24.11.5 prints them.
            (
                "a[0-1]b[2-3]c[4-5]",
                "a0b2c4 a0b2c5 a1b2c4 a1b2c5 a0b3c4 a0b3c5 a1b3c4 a1b3c5",
            ),
            (
                "a[0-1]b[2-3]c[4-5]d[6-7]",
                "a0b2c4d6 a0b2c4d7 a1b2c4d6 a1b2c4d7 a0b3c4d6 a0b3c4d7 a1b3c4d6 a1b3c4d7 a0b2c5d6 a0b2c5d7 a1b2c5d6 a1b2c5d7 \
                 a0b3c5d6 a0b3c5d7 a1b3c5d6 a1b3c5d7",
            ),
            (
                "[1-2]a[0-1]b[2-3]x",
                "1a0b2x 1a0b3x 2a0b2x 2a0b3x 1a1b2x 1a1b3x 2a1b2x 2a1b3x",
            ),
            ("n[1-2]-ib,login", "n1-ib n2-ib login"),
            (" n1, n2\tn3,,", "n1 n2 n3"),
            ("[1-2]", "1 2"),
            (
                "n[18446744073709551613-18446744073709551614]",
                "n18446744073709551613 n18446744073709551614",
            ),
        ] {
            assert_eq!(parse(list), Ok(words(hosts)), "{list}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for list in ["n[1-2", "n1]", "n[1[2]]", "n]1["] {
            assert!(
                matches!(parse(list), Err(BadHostlist::Brackets(_))),
                "{list}"
            );
        }
        for list in [
            "n[]",
            "n[a]",
            "n[3-1]",
            "n[1-]",
            "n[-1]",
            "n[1,]",
            "n[1 - 2]",
            "n[+1]",
            "n[1-2-3]",
            "n[18446744073709551616]",
        ] {
            assert!(matches!(parse(list), Err(BadHostlist::Range(_))), "{list}");
        }
        for list in [
            "n[1-65537]",
            "n[1-300]m[1-300]",
            "n[0-18446744073709551614]",
            "n[1-65536],m",
        ] {
            assert_eq!(parse(list), Err(BadHostlist::TooMany), "{list}");
        }
        assert_eq!(parse(&"n".repeat(256)), Err(BadHostlist::TooLong));
        assert_eq!(
            parse(&format!("n[{}1]", "0".repeat(300))),
            Err(BadHostlist::TooLong)
        );
        assert_eq!(parse("n[1-65536]").map(|hosts| hosts.len()), Ok(65_536));
    }

    #[test]
    fn neighbours_fold_as_in_slurm() {
        for (hosts, list) in [
            ("", ""),
            ("n0001 n0002 n0003 n0007", "n[0001-0003,0007]"),
            ("n1", "n1"),
            ("n1 n2", "n[1-2]"),
            ("n3 n1 n2", "n[3,1-2]"),
            ("n1 n1", "n[1,1]"),
            ("n9 n10", "n[9-10]"),
            ("n09 n10", "n[09-10]"),
            ("n099 n100", "n[099-100]"),
            ("n09 n010", "n[09,010]"),
            ("n1 m1 n2", "n1,m1,n2"),
            ("login n1 n2", "login,n[1-2]"),
            ("n1-ib n2-ib", "n1-ib,n2-ib"),
            ("1 2", "[1-2]"),
        ] {
            assert_eq!(compress(&words(hosts)), list, "{hosts}");
        }
    }

    proptest! {
        #[test]
        fn folding_loses_nothing(hosts in proptest::collection::vec("[a-c]{1,2}0{0,2}[0-9]{0,3}(-x)?", 0..40)) {
            prop_assert_eq!(parse(&compress(&hosts)), Ok(hosts));
        }

        #[test]
        fn folded_lists_are_folded_once(hosts in proptest::collection::vec("n[0-9]{1,3}", 0..40)) {
            let once = compress(&hosts);
            prop_assert_eq!(compress(&parse(&once).unwrap()), once);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC*", brackets in "[n0-9\\[\\],\\-]{0,24}") {
            for list in [text, brackets] {
                if let Ok(hosts) = parse(&list) {
                    prop_assert!(hosts.len() <= MAX_HOSTS);
                }
            }
        }
    }
}
