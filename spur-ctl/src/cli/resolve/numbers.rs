//! Numbers among the options, with Slurm's messages.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::invalid;
use spur_core::resources::{GpuCount, MemoryRequest};
use spur_core::slurm::{gres, size};

/// A whole number of at least `least`; `None` if not given.
pub fn number(options: &Options, long: &str, least: u32) -> Result<Option<u32>, Failure> {
    let Some(text) = options.value(long) else {
        return Ok(None);
    };
    match text.parse::<u32>() {
        Ok(number) if number >= least && number <= i32::MAX.unsigned_abs() => Ok(Some(number)),
        _ => Err(Failure::error(
            options.command,
            wrong(text, &format!("--{long}")),
        )),
    }
}

/// What Slurm says of a number that is none or too large.
pub fn wrong(text: &str, of: &str) -> String {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let fits = text
        .parse::<u32>()
        .is_ok_and(|number| number <= i32::MAX.unsigned_abs());
    if digits && !fits {
        format!("Numeric argument ({text}) too large for {of}.")
    } else {
        format!("Invalid numeric value \"{text}\" for {of}.")
    }
}

/// `--immediate` in seconds: `default` if given without a number.
pub fn immediate(options: &Options, default: u64) -> Result<Option<u64>, Failure> {
    let Some(given) = options.last("immediate") else {
        return Ok(None);
    };
    let Some(text) = given.value.as_deref() else {
        return Ok(Some(default));
    };
    match text.parse::<u32>() {
        Ok(secs) if secs <= i32::MAX.unsigned_abs() => Ok(Some(secs.into())),
        _ => Err(Failure::error(options.command, wrong(text, "immediate"))),
    }
}

/// `-N MIN[-MAX]`; of a list of sizes the least and the greatest.
pub fn nodes(options: &Options) -> Result<Option<(u32, u32)>, Failure> {
    let Some(text) = options.value("nodes") else {
        return Ok(None);
    };
    let bad = |why: String| Failure::usage(options.command, why);
    let small = |most: i64, least: u32| {
        bad(format!(
            "Maximum node count {most} is less than minimum node count {least}"
        ))
    };
    let count = |part: &str| {
        scaled(part).ok_or_else(|| bad(format!("\"{part}\" is not a valid node count")))
    };
    let (mut least, mut most) = (u32::MAX, 0);
    for element in text.split(',') {
        let (low, high) = element.split_once('-').unwrap_or((element, element));
        let min = count(if low.is_empty() { element } else { low })?;
        if high.is_empty() {
            return Err(small(-1, min));
        }
        let max = count(high)?;
        if max > 0 && max < min {
            return Err(small(max.into(), min));
        }
        (least, most) = (least.min(min), most.max(max.max(min)));
    }
    if most == 0 {
        let why = "Node count specification invalid";
        return Err(super::notice::not_submitted(options.command, why));
    }
    Ok(Some((least.max(1), most)))
}

/// A count that may end in `k` or `m` (of 1024).
fn scaled(text: &str) -> Option<u32> {
    let (digits, factor) = match text.to_ascii_lowercase().pop()? {
        'k' => (&text[..text.len() - 1], 1 << 10),
        'm' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    digits
        .parse::<u32>()
        .ok()
        .filter(|_| plain)?
        .checked_mul(factor)
}

/// Memory: one of three options. Of several, the one from the strongest source counts; two from the same source exclude
/// each other.
pub fn memory(options: &Options) -> Result<MemoryRequest, Failure> {
    let names = ["mem", "mem-per-cpu", "mem-per-gpu"];
    let given: Vec<_> = names.iter().filter_map(|name| options.last(name)).collect();
    let Some(strongest) = given.iter().map(|given| given.source).max() else {
        return Ok(MemoryRequest::Default);
    };
    let mut strong = given.iter().filter(|given| given.source == strongest);
    let (Some(one), None) = (strong.next(), strong.next()) else {
        let why = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.";
        return Err(Failure::fatal(options.command, why));
    };
    let long = one.flag.long;
    let text = one.value.as_deref().unwrap_or_default();
    let mib = size::parse_mib(text).map_err(|_| invalid(options, long))?;
    Ok(match long {
        "mem" => MemoryRequest::PerNode(mib),
        "mem-per-cpu" => MemoryRequest::PerCpu(mib),
        _ => MemoryRequest::PerGpu(mib),
    })
}

/// `--gpus` and its like.
pub fn gpus(options: &Options, long: &str) -> Result<Option<GpuCount>, Failure> {
    let Some(text) = options.value(long) else {
        return Ok(None);
    };
    gres::parse_gpus(text)
        .map(Some)
        .map_err(|why| Failure::error(options.command, why))
}

/// GPUs on every node: `--gpus-per-node` or `--gres`. Of both, the one from the stronger source counts; from the same source
/// they must agree.
pub fn gpus_per_node(options: &Options) -> Result<Option<GpuCount>, Failure> {
    let source = |long| options.last(long).map(|given| given.source);
    let (by_count, by_gres) = (source("gpus-per-node"), source("gres"));
    let counted = || gpus(options, "gpus-per-node");
    if by_gres.is_none() || by_count > by_gres {
        return counted();
    }
    let text = options.value("gres").unwrap_or_default();
    let listed = gres::parse_gres(text).map_err(|why| Failure::error(options.command, why))?;
    // `--gres=none` and `--gres=gpu:0` ask for no GPU, which is not the same as saying nothing.
    let none = || GpuCount {
        model: String::new(),
        count: 0,
    };
    let listed = Some(listed.unwrap_or_else(none));
    if by_count == by_gres && counted()? != listed {
        let why = "--gres and --gpus-per-node ask for different numbers of GPUs";
        return Err(Failure::error(options.command, why));
    }
    Ok(listed)
}
