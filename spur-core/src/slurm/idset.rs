//! Sets of small numbers as text: `0-3,8`. The display half is [`IdSet`]'s own.

use crate::resources::IdSet;
use std::str::FromStr;

/// A text that is no set of ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid id list {0:?}: write numbers up to {max} and rising ranges, as in 0-3,8", max = IdSet::MAX)]
pub struct BadIdSet(pub String);

impl FromStr for IdSet {
    type Err = BadIdSet;

    /// Reads `0-3,8`; the empty text is the empty set. A list that names more than 65,536 ids, repetitions included, is refused.
    fn from_str(text: &str) -> Result<Self, BadIdSet> {
        let bad = || BadIdSet(text.to_owned());
        let id = |digits: &str| {
            let plain = digits.bytes().all(|b| b.is_ascii_digit());
            digits
                .parse()
                .ok()
                .filter(|id| plain && *id <= Self::MAX)
                .ok_or_else(bad)
        };
        let mut set = Self::new();
        let mut room = Self::MAX + 1;
        if text.is_empty() {
            return Ok(set);
        }
        for range in text.split(',') {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let (low, high): (u32, u32) = (id(low)?, id(high)?);
            if high < low {
                return Err(bad());
            }
            room = room.checked_sub(high - low + 1).ok_or_else(bad)?;
            for id in low..=high {
                set.insert(id);
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sets_are_read() {
        for (text, ids) in [
            ("", vec![]),
            ("0", vec![0]),
            ("0-3,8", vec![0, 1, 2, 3, 8]),
            ("8,0-1,1", vec![0, 1, 8]),
            ("65535", vec![65_535]),
        ] {
            assert_eq!(
                text.parse(),
                Ok(ids.into_iter().collect::<IdSet>()),
                "{text}"
            );
        }
        for text in [
            "a",
            "3-1",
            "1,",
            ",1",
            "1-",
            "-1",
            "+1",
            "1-2-3",
            "65536",
            "0-4294967295",
            "0-65535,1",
            " 1",
            "1 ",
        ] {
            assert!(text.parse::<IdSet>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(ids in proptest::collection::vec(0u32..400, 0..60)) {
            let set: IdSet = ids.into_iter().collect();
            prop_assert_eq!(set.to_string().parse(), Ok(set));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC*", near in "[0-9,\\-]{0,12}") {
            let (_a, _b) = (text.parse::<IdSet>(), near.parse::<IdSet>());
        }
    }
}
