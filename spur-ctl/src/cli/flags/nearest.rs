//! The nearest right word to a wrong one.

/// Words longer than this are not compared, so that the work is bounded.
const MAX_WORD: usize = 64;

/// The candidate that was most likely meant: one that begins alike (three letters at least) or differs in few letters. `None` if
/// there is none, or if `word` is too short to tell.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    best(word, candidates, true)
}

/// The candidate that `word` is a slip of: it differs in few letters. For words of which any beginning is taken already.
pub fn slip<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    best(word, candidates, false)
}

fn best<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    alike: bool,
) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    if word.len() < 3 || word.len() > MAX_WORD {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let Some(distance) = likeness(&word, &candidate.to_ascii_lowercase(), alike) else {
            continue;
        };
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// How far apart two words are; `None` if too far to be mistaken for each other.
fn likeness(word: &str, candidate: &str, alike: bool) -> Option<usize> {
    if candidate.len() > MAX_WORD {
        return None;
    }
    // Whether a word is in the plural makes no difference.
    let bare = |word: &str| word.strip_suffix('s').unwrap_or(word).len();
    let (a, b) = (word.as_bytes(), candidate.as_bytes());
    let (single, other) = (&a[..bare(word)], &b[..bare(candidate)]);
    let distance = distance(a, b).min(distance(single, other));
    let shorter = word.len().min(candidate.len());
    let first = usize::from(a.first() == b.first());
    // Short words are soon others: they must begin alike, and a letter is missing, too much, or in another place.
    let letters = |word: &[u8]| {
        let mut letters = word.to_vec();
        letters.sort_unstable();
        letters
    };
    let slip = single.len() != other.len() || letters(single) == letters(other);
    let most = match word.len() {
        0..=4 => first * usize::from(slip),
        5 => 1,
        6..=7 => 1 + first,
        8..=11 => 2,
        _ => 3,
    };
    let begins =
        alike && shorter >= 3 && (word.starts_with(candidate) || candidate.starts_with(word));
    (distance <= most || begins).then_some(distance)
}

/// Letters that must be put in, left out, replaced, or swapped with their neighbour.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = above[j] + usize::from(x != y);
            let mut least = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            let swapped = i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x;
            if swapped {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognized_and_nonsense_is_not() {
        let words = [
            "partition",
            "time",
            "time-min",
            "mem",
            "nodes",
            "no-kill",
            "cpus-per-task",
        ];
        for (word, meant) in [
            ("partiton", Some("partition")),
            ("partitoin", Some("partition")),
            ("timelimit", Some("time")),
            ("memory", Some("mem")),
            ("cpu-per-task", Some("cpus-per-task")),
            ("ndoes", Some("nodes")),
            ("tme", Some("time")),
            ("tiem", Some("time")),
            ("nde", Some("nodes")),
            ("partion", Some("partition")),
            ("mmem", Some("mem")),
            ("nope", None),
            ("bogus", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words), meant, "{word}");
        }
        let long = "a".repeat(100_000);
        assert_eq!(nearest(&long, words), None);
    }

    #[test]
    fn a_beginning_is_no_slip() {
        let words = ["AllocNodes", "Elapsed", "UserName"];
        for (word, meant) in [
            ("all", None),
            ("Elapsd", Some("Elapsed")),
            ("usernam", Some("UserName")),
        ] {
            assert_eq!(slip(word, words), meant, "{word}");
        }
        assert_eq!(slip("shwo", ["show", "shutdown"]), Some("show"));
        assert_eq!(slip("jbo", ["jobs", "node"]), Some("jobs"));
    }

    #[test]
    fn distances() {
        for (a, b, n) in [
            ("", "", 0),
            ("ab", "ba", 1),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), n, "{a} {b}");
        }
    }
}
