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
            format!("Invalid numeric value \"{text}\" for --{long}."),
        )),
    }
}

/// `-N MIN[-MAX]`.
pub fn nodes(options: &Options) -> Result<Option<(u32, u32)>, Failure> {
    let Some(text) = options.value("nodes") else {
        return Ok(None);
    };
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let count = |part: &str| {
        let plain = scaled(part).filter(|count| *count > 0);
        let why = format!("\"{part}\" is not a valid node count");
        plain.ok_or_else(|| invalid(options, "nodes").after(options.command, why))
    };
    let (min, max) = (count(low)?, count(high)?);
    if max < min {
        let why = format!("Maximum node count {max} is less than minimum node count {min}");
        return Err(invalid(options, "nodes").after(options.command, why));
    }
    Ok(Some((min, max)))
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
