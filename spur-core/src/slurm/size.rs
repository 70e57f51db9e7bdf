//! Amounts of memory: `--mem=4G` in, `64G` or `1000000M` out. The unit of the value is MiB.

use crate::slurm::digits;

/// A text that is no amount of memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid memory size {0:?}: write a whole number with K, M (the default), G or T")]
pub struct BadSize(pub String);

/// MiB of `2000`, `4G`, `512MB`, `1t`; kibibytes are rounded up. A sign, a fraction or an amount beyond 2^63 MiB is refused.
pub fn parse_mib(text: &str) -> Result<u64, BadSize> {
    let bad = || BadSize(text.to_owned());
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: u64 = digits.parse().map_err(|_| bad())?;
    let factor: u64 = match unit.to_ascii_uppercase().as_str() {
        "K" | "KB" => return Ok(number.div_ceil(1024)),
        "" | "M" | "MB" => 1,
        "G" | "GB" => 1024,
        "T" | "TB" => 1024 * 1024,
        _ => return Err(bad()),
    };
    number
        .checked_mul(factor)
        .filter(|mib| *mib <= u64::MAX / 2)
        .ok_or_else(bad)
}

/// The amount in the largest unit in which it is whole, as `squeue` and TRES lists show it: `0`, `1500M`, `64G`.
pub fn display_mib(mib: u64) -> String {
    let mut text = String::new();
    write_mib(mib, &mut text);
    text
}

/// Adds the same.
pub fn write_mib(mib: u64, out: &mut String) {
    if mib == 0 {
        return out.push('0');
    }
    let (mut number, mut units) = (mib, "MGTPEZ".chars());
    let mut unit = units.next();
    while number % 1024 == 0 && unit != Some('Z') {
        number /= 1024;
        unit = units.next();
    }
    digits::push(out, number);
    out.push(unit.unwrap_or('Z'));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_in_mib() {
        for (text, mib) in [
            ("0", 0),
            ("2000", 2000),
            ("1k", 1),
            ("1024K", 1),
            ("1025KB", 2),
            ("512M", 512),
            ("512mb", 512),
            ("4G", 4096),
            ("1GB", 1024),
            ("2T", 2_097_152),
            ("0007", 7),
        ] {
            assert_eq!(parse_mib(text), Ok(mib), "{text}");
        }
        for text in [
            "",
            "lots",
            "G",
            "-1",
            "+1",
            "1.5G",
            "1 G",
            "1GiB",
            "1P",
            "1Kb1",
            "99999999999999999999",
            "18446744073709551615G",
            "1G ",
            "１",
        ] {
            assert!(parse_mib(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_whole_unit() {
        for (mib, text) in [
            (0, "0"),
            (1, "1M"),
            (1024, "1G"),
            (65_536, "64G"),
            (70_656, "69G"),
            (1_000_000, "1000000M"),
            (1_048_576, "1T"),
            (1500, "1500M"),
            (1 << 50, "1Z"),
            (1 << 60, "1024Z"),
        ] {
            assert_eq!(display_mib(mib), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(mib in 0u64..(1 << 39)) {
            let text = display_mib(mib);
            if !text.ends_with('P') && !text.ends_with('E') {
                prop_assert_eq!(parse_mib(&text), Ok(mib));
            }
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC*") {
            let _parsed = parse_mib(&text);
        }
    }
}
