//! Numbers as `sacct` and its kin write them.

use spur_core::slurm::timespec;

/// CPU time: `00:01.250` below an hour where there is a fraction, else `01:02:03`, `1-00:00:00`.
pub fn cpu_time(micros: u64) -> String {
    let (secs, millis) = (micros / 1_000_000, micros / 1000 % 1000);
    if secs < 3600 && millis > 0 {
        format!("{:02}:{:02}.{millis:03}", secs / 60, secs % 60)
    } else {
        timespec::elapsed_long(secs)
    }
}

/// Bytes of memory: in K while that is a whole number in no larger unit, as Slurm has it; or in the unit that is asked for, with
/// two decimals unless they are none.
pub fn memory(bytes: u64, units: Option<char>, raw: bool) -> String {
    match units {
        _ if bytes == 0 => return "0".to_owned(),
        Some(unit) if bytes.is_multiple_of(size_of_unit(unit)) => {
            return format!("{}{unit}", bytes / size_of_unit(unit));
        }
        Some(unit) => return in_unit(bytes, unit),
        None if raw => return bytes.to_string(),
        None => {}
    }
    let (mut number, mut letters) = (bytes.div_ceil(1024), "KMGTPE".chars());
    let mut letter = letters.next();
    while number.is_multiple_of(1024) && letter != Some('E') {
        number /= 1024;
        letter = letters.next();
    }
    format!("{number}{}", letter.unwrap_or('E'))
}

/// Bytes in one `K`, `M`, `G`, `T` or `P`.
fn size_of_unit(unit: char) -> u64 {
    let power = "KMGTP".find(unit).map_or(1, |at| at + 1);
    1 << (10 * power)
}

#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn in_unit(bytes: u64, unit: char) -> String {
    format!("{:.2}{unit}", bytes as f64 / size_of_unit(unit) as f64)
}

/// Bytes of input and output, in MB of two decimals, or in the unit that is asked for.
pub fn disk(bytes: u64, units: Option<char>) -> String {
    in_unit(bytes, units.unwrap_or('M'))
}

/// Joules of so many millijoules: `950`, `12.35K`, `1.20M`.
pub fn energy(millijoules: u64) -> String {
    let joules = millijoules / 1000;
    if joules < 1000 {
        return joules.to_string();
    }
    let (mut hundredths, mut letter) = (millijoules / 10_000, 'K');
    for next in ['M', 'G'] {
        if hundredths < 100_000 {
            break;
        }
        (hundredths, letter) = (hundredths / 1000, next);
    }
    format!("{}.{:02}{letter}", hundredths / 100, hundredths % 100)
}

/// Thousandths as a percentage: `25.0%`.
pub fn percent(permille: u64) -> String {
    format!("{}.{}%", permille / 10, permille % 10)
}

/// Microseconds as hours of two decimals, rounded.
pub fn hours(micros: u64) -> String {
    let hundredths = micros.saturating_add(18_000_000) / 36_000_000;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Bytes for people: `1.50 GB`, as `seff` has it.
#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
pub fn bytes(bytes: u64) -> String {
    let (mut number, mut units) = (bytes as f64 / 1024.0, ["KB", "MB", "GB", "TB", "PB"].iter());
    let mut unit = units.next();
    while number >= 1024.0
        && let Some(next) = units.next()
    {
        (number, unit) = (number / 1024.0, Some(next));
    }
    format!("{number:.2} {}", unit.unwrap_or(&"PB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_slurm_writes_them() {
        assert_eq!(cpu_time(0), "00:00:00");
        assert_eq!(cpu_time(5_371), "00:00.005");
        assert_eq!(cpu_time(61_250_000), "01:01.250");
        assert_eq!(cpu_time(3_600_250_000), "01:00:00");
        assert_eq!(memory(18_040 << 10, None, false), "18040K");
        assert_eq!(memory(1 << 30, None, false), "1G");
        assert_eq!(memory(1_610_612_736, Some('G'), false), "1.50G");
        assert_eq!(memory(1_610_612_736, Some('M'), false), "1536M");
        assert_eq!(memory(1_610_612_736, Some('K'), false), "1572864K");
        assert_eq!(memory(1_610_612_737, Some('K'), false), "1572864.00K");
        assert_eq!(memory(1_610_612_736, Some('T'), false), "0.00T");
        assert_eq!(memory(0, Some('G'), false), "0");
        assert_eq!(disk(25_827, None), "0.02M");
        assert_eq!(energy(950_999), "950");
        assert_eq!(energy(12_345_678), "12.34K");
        assert_eq!(energy(1_200_000_000), "1.20M");
        assert_eq!(percent(255), "25.5%");
        assert_eq!(hours(5_400_000_000), "1.50");
        assert_eq!(hours(105_300_000), "0.03");
        assert_eq!(bytes(1_610_612_736), "1.50 GB");
    }
}
