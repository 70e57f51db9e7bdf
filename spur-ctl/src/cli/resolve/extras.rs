//! Options that most jobs do not have, as [`Extras`] of a request.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::Options;
use super::input::Surroundings;
use super::{invalid, numbers, submission};
use spur_core::job::extras::Extras;
use spur_core::slurm::signal::parse_warning;
use spur_core::slurm::timespec::{self, begin};
use spur_core::slurm::{mail, size};
use spur_core::time::{Millis, TimeLimit};

/// Reads the options.
pub(super) fn of(options: &Options, here: &Surroundings) -> Result<Extras, Failure> {
    let text = |long: &str| options.value(long).unwrap_or_default().to_owned();
    let number = |long| Ok(numbers::number(options, long, 0)?.unwrap_or(0));
    let only_batch = options.command == Command::Sbatch;
    Ok(Extras {
        licenses: text("licenses"),
        mail_type: mail_type(options)?,
        mail_user: text("mail-user"),
        wckey: text("wckey"),
        mcs_label: text("mcs-label"),
        admin_comment: String::new(),
        extra: text("extra"),
        deadline: moment(options, here, "deadline")?,
        time_min: span(options, "time-min")?,
        signal: signal(options)?,
        core_spec: numbers::number(options, "core-spec", 0)?,
        thread_spec: numbers::number(options, "thread-spec", 0)?,
        tmp_mib: tmp(options)?,
        reservation: text("reservation"),
        container: text("container"),
        container_id: text("container-id"),
        network: text("network"),
        power: text("power"),
        burst_buffer: text("bb"),
        batch_features: if only_batch {
            text("batch")
        } else {
            String::new()
        },
        cluster_features: text("cluster-constraint"),
        delay_boot: delay_boot(options)?,
        priority: priority(options)?,
        no_kill: no_kill(options),
        reboot: options.on("reboot"),
        spread_job: options.on("spread-job"),
        use_min_nodes: options.on("use-min-nodes"),
        overcommit: options.on("overcommit"),
        oversubscribe: options.on("oversubscribe"),
        wait_all_nodes: wait_all_nodes(options),
        oom_kill_step: oom_kill_step(options),
        cores_per_socket: number("cores-per-socket")?,
        threads_per_core: number("threads-per-core")?,
        tasks_per_core: number("ntasks-per-core")?,
        tres_per_task: text("tres-per-task"),
        tres_bind: tres_bind(options),
        tres_freq: tres_freq(options),
        cpu_freq: text("cpu-freq"),
        distribution: text("distribution"),
        profile: text("profile"),
        acctg_freq: text("acctg-freq"),
        cron: None,
    })
}

fn mail_type(options: &Options) -> Result<String, Failure> {
    // Every one given counts, as in Slurm.
    let mut events = mail::Events::default();
    for given in options
        .given()
        .iter()
        .filter(|given| given.flag.long == "mail-type")
    {
        let list = given.value.as_deref().unwrap_or_default();
        events = events
            .with(list)
            .ok_or_else(|| invalid(options, "mail-type"))?;
    }
    Ok(events.to_string())
}

/// A moment, as `--begin` has it.
pub(super) fn moment(
    options: &Options,
    here: &Surroundings,
    long: &str,
) -> Result<Option<Millis>, Failure> {
    let Some(text) = options.value(long) else {
        return Ok(None);
    };
    begin::parse_begin(text, here.now, here.utc_offset)
        .map(Some)
        .map_err(|why| invalid(options, long).after_moment(&why))
}

fn span(options: &Options, long: &str) -> Result<Option<TimeLimit>, Failure> {
    let Some(text) = options.value(long) else {
        return Ok(None);
    };
    timespec::parse_limit(text)
        .map(Some)
        .map_err(|_| invalid(options, long))
}

fn signal(options: &Options) -> Result<Option<spur_core::job::extras::Warning>, Failure> {
    let Some(text) = options.value("signal") else {
        return Ok(None);
    };
    parse_warning(text)
        .map(Some)
        .map_err(|_| invalid(options, "signal"))
}

fn tmp(options: &Options) -> Result<u64, Failure> {
    let Some(text) = options.value("tmp") else {
        return Ok(0);
    };
    size::parse_mib(text).map_err(|_| invalid(options, "tmp"))
}

/// In minutes, as a time limit is.
fn delay_boot(options: &Options) -> Result<Option<u64>, Failure> {
    Ok(match span(options, "delay-boot")? {
        Some(TimeLimit::Secs(secs)) => Some(secs),
        Some(TimeLimit::Unlimited) | None => None,
    })
}

/// A number, or `TOP`, which is the highest.
fn priority(options: &Options) -> Result<Option<u32>, Failure> {
    let Some(text) = options.value("priority") else {
        return Ok(None);
    };
    if text.eq_ignore_ascii_case("TOP") {
        return Ok(Some(u32::MAX - 2));
    }
    let bad = |why: &str| Err(Failure::usage(options.command, why));
    match text.parse::<i64>() {
        Ok(..0) => bad("Priority must be >= 0"),
        Ok(number) => match u32::try_from(number).ok().filter(|n| *n < u32::MAX - 1) {
            Some(number) => Ok(Some(number)),
            None => bad("Priority must be < 4294967294"),
        },
        Err(_) => Err(invalid(options, "priority")),
    }
}

/// `--no-kill=off` takes it back.
fn no_kill(options: &Options) -> bool {
    options
        .last("no-kill")
        .is_some_and(|given| !matches!(given.value.as_deref(), Some("off" | "no")))
}

fn wait_all_nodes(options: &Options) -> Option<bool> {
    if options.command == Command::Srun {
        return None;
    }
    options.value("wait-all-nodes").map(|value| value != "0")
}

fn oom_kill_step(options: &Options) -> Option<bool> {
    let given = options.last("oom-kill-step")?;
    Some(given.value.as_deref() != Some("0"))
}

/// `--tres-bind`, and `--gpu-bind` in its words.
fn tres_bind(options: &Options) -> String {
    let gpu = options
        .value("gpu-bind")
        .map(|kind| format!("gres/gpu:{kind}"));
    let single = || submission::per_gpu(options).map(|tasks| format!("gres/gpu:single:{tasks}"));
    gpu.or_else(|| options.value("tres-bind").map(str::to_owned))
        .or_else(single)
        .unwrap_or_default()
}

fn tres_freq(options: &Options) -> String {
    let gpu = options.value("gpu-freq").map(|freq| format!("gpu:{freq}"));
    gpu.unwrap_or_default()
}
