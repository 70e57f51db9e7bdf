//! Flags of qualities of service, by Slurm's names.

use super::super::{Sign, changed_list, invalid, list};
use crate::api::Refusal;

/// Every flag, and the shortest beginning that is taken for it.
const FLAGS: [(&str, usize); 13] = [
    ("DenyOnLimit", 3),
    ("EnforceUsageThreshold", 2),
    ("NoDecay", 3),
    ("NoReserve", 3),
    ("OverPartQOS", 2),
    ("PartitionMaxNodes", 12),
    ("PartitionMinNodes", 12),
    ("PartitionQOS", 10),
    ("PartitionTimeLimit", 10),
    ("Relative", 3),
    ("RequiresReservation", 3),
    ("UsageFactorSafe", 3),
    ("UsageThreshold", 6),
];

/// The flags as they are to be; `-1` and `none` take all away.
pub(super) fn changed(old: &[String], sign: Sign, value: &str) -> Result<Vec<String>, Refusal> {
    if value == "-1" || value.eq_ignore_ascii_case("none") {
        return Ok(Vec::new());
    }
    let words: Result<Vec<&str>, Refusal> = list(value).iter().map(|word| named(word)).collect();
    Ok(changed_list(old, sign, &words?.join(",")))
}

fn named(word: &str) -> Result<&'static str, Refusal> {
    let lower = word.to_ascii_lowercase();
    let begins = |full: &str, least: usize| {
        lower.len() >= least && full.to_ascii_lowercase().starts_with(&lower)
    };
    let found = FLAGS.iter().find(|(full, least)| begins(full, *least));
    found.map(|(full, _)| *full).ok_or_else(|| {
        let known: Vec<&str> = FLAGS.iter().map(|(full, _)| *full).collect();
        invalid(format!(
            " Bad QOS flag: {word} (known are {})",
            known.join(", ")
        ))
    })
}
