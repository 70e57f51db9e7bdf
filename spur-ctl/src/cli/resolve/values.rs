//! Values that Slurm checks even where the option has no effect here: a wrong one is an error all the same, in Slurm's words.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::Options;
use super::{invalid, numbers};
use spur_core::slurm::distribution::canonical;

/// Checks what was given. Options that the command does not have are passed over.
pub fn check(options: &Options) -> Result<(), Failure> {
    if given(options, "verbose").is_some() && given(options, "quiet").is_some() {
        let why = "don't specify both --verbose (-v) and --quiet (-Q)";
        return Err(Failure::error(options.command, why));
    }
    distribution(options)?;
    binding(options)?;
    clocks(options)?;
    sampling(options)?;
    topology(options)?;
    switches(options)
}

/// The last of an option that the command may not have, and its value.
fn given<'a>(options: &'a Options, long: &str) -> Option<Option<&'a str>> {
    let last = options.given().iter().rev();
    let mut last = last.filter(|given| given.flag.long == long);
    last.next().map(|given| given.value.as_deref())
}

fn value<'a>(options: &'a Options, long: &str) -> Option<&'a str> {
    given(options, long).flatten()
}

/// A whole number that other options must not be above either.
fn whole(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn distribution(options: &Options) -> Result<(), Failure> {
    let Some(text) = value(options, "distribution") else {
        return Ok(());
    };
    let bad = || invalid(options, "distribution");
    let (main, flag) = text.split_once(',').unwrap_or((text, "pack"));
    if let Some(size) = strip(main, "plane") {
        let size = size.strip_prefix('=').unwrap_or_default();
        if !["pack", "nopack"].contains(&flag.to_ascii_lowercase().as_str()) {
            return Err(bad());
        }
        if !whole(size) {
            let why = "Invalid plane size or size not specified";
            return Err(bad().after(options.command, why));
        }
        return Ok(());
    }
    let Some(spread) = canonical(text) else {
        return Err(bad());
    };
    if spread.starts_with("arbitrary") && !options.on("nodelist") {
        let why = "With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option";
        return Err(Failure::error(options.command, why));
    }
    Ok(())
}

fn strip<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let begins = text.get(..prefix.len())?.eq_ignore_ascii_case(prefix);
    begins.then(|| &text[prefix.len()..])
}

/// Words before a binding that say how much is told about it.
fn quietly(text: &str) -> impl Iterator<Item = &str> {
    const MANNERS: [&str; 4] = ["q", "quiet", "v", "verbose"];
    text.split(',')
        .filter(|word| !MANNERS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

fn binding(options: &Options) -> Result<(), Failure> {
    const CPUS: [&str; 13] = [
        "no",
        "none",
        "rank",
        "rank_ldom",
        "sockets",
        "socket",
        "cores",
        "core",
        "threads",
        "thread",
        "ldoms",
        "ldom",
        "one_thread",
    ];
    const MEMORY: [&str; 7] = ["no", "none", "rank", "local", "sort", "nosort", "prefer"];
    let command = options.command;
    let lists = |word: &str, names: &[&str]| {
        let name = word.split(':').next().unwrap_or_default();
        names.iter().any(|known| name.eq_ignore_ascii_case(known))
    };
    if let Some(text) = value(options, "cpu-bind") {
        // A map is a list itself.
        let first = quietly(text).next().unwrap_or("none");
        if !lists(first, &CPUS) && !lists(first, &["map_cpu", "mask_cpu", "map_ldom", "mask_ldom"])
        {
            let why = "Failed to parse --cpu-bind= values.";
            let first = format!("unrecognized --cpu-bind argument \"{first}\"");
            return Err(Failure::fatal(command, why).after(command, first));
        }
    }
    if let Some(text) = value(options, "mem-bind") {
        let first = quietly(text).next().unwrap_or("none");
        if !lists(first, &MEMORY) && !lists(first, &["map_mem", "mask_mem"]) {
            return Err(Failure::usage(
                command,
                format!("unrecognized --mem-bind argument \"{first}\""),
            ));
        }
    }
    if let Some(text) = value(options, "gpu-bind") {
        let kind = quietly(text).next().unwrap_or_default();
        if !lists(
            kind,
            &[
                "closest", "map_gpu", "mask_gpu", "none", "per_task", "single",
            ],
        ) {
            return Err(Failure::usage(
                command,
                format!("Invalid --gpu-bind argument: {text}"),
            ));
        }
        gpu_list(options, text)?;
    }
    if let Some(text) = value(options, "accel-bind")
        && !text.chars().any(|c| matches!(c, 'g' | 'n' | 'v'))
    {
        return Err(invalid(options, "accel-bind"));
    }
    Ok(())
}

/// The numbers of `map_gpu:0,1*2` and the masks of `mask_gpu:0x3,C`, each with a number of repetitions.
fn gpu_list(options: &Options, text: &str) -> Result<(), Failure> {
    let kind = strip(text, "verbose,").unwrap_or(text);
    let (list, radix) = match (strip(kind, "map_gpu:"), strip(kind, "mask_gpu:")) {
        (Some(list), _) => (list, 10),
        (None, Some(list)) => (list, 16),
        (None, None) => return Ok(()),
    };
    let bad = || {
        Failure::usage(
            options.command,
            format!("Invalid --gpu-bind argument: {text}"),
        )
    };
    for word in list.split(',').filter(|word| !word.is_empty()) {
        let word = if radix == 16 {
            word.strip_prefix("0x").unwrap_or(word)
        } else {
            word
        };
        if let Some(wrong) = word.chars().find(|c| !c.is_digit(radix) && *c != '*') {
            let why = format!("Failed to validate {word}, offending character is {wrong}");
            return Err(bad().after(options.command, why));
        }
        let (number, times) = word.split_once('*').unwrap_or((word, "1"));
        let times = if times.is_empty() { "0" } else { times };
        let fits = |text: &str, radix| text.is_empty() || i64::from_str_radix(text, radix).is_ok();
        if !fits(number, radix) || !fits(times, 10) {
            return Err(bad());
        }
    }
    Ok(())
}

fn clocks(options: &Options) -> Result<(), Failure> {
    let command = options.command;
    let speed = |word: &str, more: &[&str]| {
        let named = ["low", "medium", "high", "highm1"];
        whole(word)
            || named
                .iter()
                .chain(more)
                .any(|known| word.eq_ignore_ascii_case(known))
    };
    if let Some(text) = value(options, "gpu-freq") {
        let word = |word: &str| speed(strip(word, "memory=").unwrap_or(word), &["verbose"]);
        if !text.split(',').all(word) {
            return Err(Failure::usage(
                command,
                format!("Invalid --gpu-freq argument: gpu:{text}"),
            ));
        }
    }
    if let Some(text) = value(options, "cpu-freq") {
        const GOVERNORS: [&str; 6] = [
            "conservative",
            "ondemand",
            "performance",
            "powersave",
            "schedutil",
            "userspace",
        ];
        let bad = || Failure::usage(command, "Invalid --cpu-freq argument");
        let (range, governor) = text
            .split_once(':')
            .map_or((text, None), |(r, g)| (r, Some(g)));
        let parts: Vec<&str> = range.split('-').collect();
        let wrong = parts.iter().find(|part| !speed(part, &GOVERNORS));
        let governs = |word: &str| {
            GOVERNORS
                .iter()
                .any(|known| word.eq_ignore_ascii_case(known))
        };
        if let Some(word) = wrong.copied().or(governor.filter(|word| !governs(word))) {
            return Err(bad().after(
                command,
                format!("unrecognized --cpu-freq argument \"{word}\""),
            ));
        }
        if parts.len() > 1 && governor.is_none() {
            let why = "You must explicitly choose a governor when defining a range. Please specify only one value for the \
                       desired frequency (p1) or choose a specific governor (p3).";
            return Err(bad().after(command, why));
        }
    }
    Ok(())
}

fn sampling(options: &Options) -> Result<(), Failure> {
    let command = options.command;
    if let Some(text) = value(options, "profile") {
        const PROFILES: [&str; 6] = ["all", "none", "energy", "task", "lustre", "network"];
        let known = |word: &str| PROFILES.iter().any(|p| word.eq_ignore_ascii_case(p));
        if !text.split(',').any(known) {
            return Err(Failure::usage(
                command,
                format!("invalid --profile={text} option"),
            ));
        }
    }
    if let Some(text) = value(options, "acctg-freq") {
        const TYPES: [&str; 4] = ["energy", "task", "network", "filesystem"];
        let right = |word: &str| match word.split_once('=') {
            Some((kind, rate)) => TYPES.iter().any(|t| kind.eq_ignore_ascii_case(t)) && whole(rate),
            None => whole(word),
        };
        if !text.split(',').all(right) {
            return Err(Failure::usage(
                command,
                format!("Invalid --acctg-freq specification: {text}"),
            ));
        }
    }
    if let Some(text) = value(options, "mpi") {
        const KINDS: [&str; 4] = ["none", "pmi2", "list", "openmpi"];
        if !KINDS.contains(&text) && pmix_version(text).is_none() {
            let why = format!("Invalid MPI type '{text}', --mpi=list for acceptable types");
            let failure = Failure::error(command, why);
            return Err(failure.after(command, format!("cannot find mpi plugin for mpi/{text}")));
        }
    }
    Ok(())
}

/// Whether this kind of MPI is PMIx, and which version of its library is wanted; 0: any.
pub fn pmix_version(kind: &str) -> Option<u32> {
    match kind.strip_prefix("pmix")? {
        "" => Some(0),
        version => match version.strip_prefix("_v")? {
            // Slurm's names for them. What a node's library is, its node says.
            known @ ("3" | "4" | "5" | "6") => known.parse().ok(),
            _ => None,
        },
    }
}

fn topology(options: &Options) -> Result<(), Failure> {
    let command = options.command;
    if let Some(text) = value(options, "hint") {
        const HINTS: [&str; 4] = [
            "compute_bound",
            "memory_bound",
            "multithread",
            "nomultithread",
        ];
        if !HINTS.iter().any(|hint| text.eq_ignore_ascii_case(hint)) {
            let why = format!("unrecognized --hint argument \"{text}\", see --hint=help");
            return Err(Failure::error(command, why));
        }
    }
    if let Some(text) = value(options, "extra-node-info") {
        for (part, which) in text.split(':').zip(["first", "second", "third"]) {
            if part != "*" && !whole(part) {
                let why = format!("Invalid numeric value \"{part}\" for {which} arg of -B.");
                return Err(Failure::error(command, why));
            }
        }
    }
    for long in ["ntasks-per-core", "threads", "relative"] {
        if value(options, long).is_some() {
            numbers::number(options, long, u32::from(long != "relative"))?;
        }
    }
    if let Some(text) = value(options, "resv-ports").filter(|text| !whole(text)) {
        let why = format!("Invalid numeric value \"{text}\" for --resv-port.");
        return Err(Failure::error(command, why));
    }
    Ok(())
}

/// Options that are on or off.
fn switches(options: &Options) -> Result<(), Failure> {
    let one_of = |long: &str, known: &[&str]| match value(options, long) {
        Some(text) if !known.iter().any(|k| text.eq_ignore_ascii_case(k)) => {
            Err(invalid(options, long))
        }
        Some(_) | None => Ok(()),
    };
    one_of("oom-kill-step", &["0", "1"])?;
    one_of("no-kill", &["off", "no"])?;
    one_of("kill-on-invalid-dep", &["yes", "no", "y", "n"])?;
    one_of("send-libs", &["yes", "no", "y", "n"])?;
    if options.command != Command::Srun && value(options, "wait-all-nodes").is_some() {
        numbers::number(options, "wait-all-nodes", 0)?;
        one_of("wait-all-nodes", &["0", "1"])?;
    }
    if let Some(text) = value(options, "kill-on-bad-exit").filter(|text| !whole(text)) {
        let why = format!("Invalid numeric value \"{text}\" for --kill-on-bad-exit.");
        return Err(Failure::error(options.command, why));
    }
    if options.command == Command::Salloc
        && value(options, "kill-command")
            .is_some_and(|signal| spur_core::slurm::signal::parse(signal).is_err())
    {
        return Err(invalid(options, "kill-command"));
    }
    if let Some(mode) = value(options, "get-user-env") {
        // Seconds, then how: S, L or both.
        let rest = mode.trim_start_matches(|c: char| c.is_ascii_digit());
        if !matches!(rest, "" | "S" | "s" | "L" | "l") {
            return Err(invalid(options, "get-user-env"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
