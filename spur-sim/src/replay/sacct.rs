//! What `sacct -P` prints. Columns are found by name; steps and jobs that never ran are left out.
//!
//! Needed: Submit, and either Elapsed (or `ElapsedRaw`) or Start and End. Used where they are: `JobID`, `JobName`, User, Partition,
//! Timelimit (or `TimelimitRaw`), `NNodes`, `NCPUS`, `ReqMem`, `ReqTRES`, `AllocTRES`, State.

use super::columns::{BadTrace, Columns, Row, seconds};
use super::trace::{Trace, TraceJob, moment};
use spur_core::slurm::size::parse_mib;
use spur_core::slurm::timespec::{parse_limit, parse_span};
use spur_core::time::TimeLimit;

pub(super) fn read(columns: &Columns<'_>, file: &str, text: &str) -> Result<Trace, BadTrace> {
    columns.require(&["Submit"])?;
    if !columns.has("Elapsed") && !columns.has("ElapsedRaw") {
        columns.require(&["Start", "End"])?;
    }
    let mut trace = Trace::default();
    for row in columns.rows(text) {
        let row = row?;
        match job(&row)? {
            Ok(job) => trace.push(file, job)?,
            Err(why) => trace.leave_out(why),
        }
    }
    Ok(trace)
}

/// The job of a line, or why it is none to replay.
fn job(row: &Row<'_>) -> Result<Result<TraceJob, &'static str>, BadTrace> {
    if row.text("JobID").contains('.') {
        return Ok(Err("is a step"));
    }
    if unknown(row.text("Submit")) {
        return Ok(Err("has no submit time"));
    }
    if row.text("State").starts_with("PENDING") || row.text("State").starts_with("RUNNING") {
        return Ok(Err("had not ended"));
    }
    let Some(run_secs) = run_time(row)?.filter(|secs| *secs > 0) else {
        return Ok(Err("did not run"));
    };
    let tres = |name: &str| {
        let columns = ["ReqTRES", "AllocTRES"].into_iter();
        columns
            .filter_map(|column| Some((column, tres_of(row.text(column), name)?)))
            .next()
    };
    let count = |column: &'static str, name: &str| -> Result<u32, BadTrace> {
        if let Some((list, text)) = tres(name) {
            let number = text.parse().ok();
            return row.read(list, "a list of TRES with whole counts", |_| number);
        }
        if row.text(column).is_empty() {
            return Ok(0);
        }
        row.read(column, "a whole number", |text| text.parse().ok())
    };
    let (nodes, cpus) = (count("NNodes", "node")?, count("NCPUS", "cpu")?);
    Ok(Ok(TraceJob {
        line: row.line,
        submitted: row.read("Submit", "a time such as 2026-11-30T16:00:00", moment)?,
        run_secs,
        limit: limit(row)?,
        nodes,
        gpus: count("", "gres/gpu")?,
        cpus,
        memory_mib: memory(row, tres("mem"), (nodes, cpus))?,
        user: row.text("User").to_owned(),
        partition: row
            .text("Partition")
            .split(',')
            .next()
            .unwrap_or("")
            .to_owned(),
        name: row.text("JobName").to_owned(),
    }))
}

fn unknown(text: &str) -> bool {
    matches!(text, "" | "Unknown" | "None" | "N/A")
}

/// Seconds that it ran; `None` if it never started.
fn run_time(row: &Row<'_>) -> Result<Option<u64>, BadTrace> {
    const TIME: &str = "a time such as 2026-11-30T16:00:00";
    if !unknown(row.text("ElapsedRaw")) {
        return row
            .read("ElapsedRaw", "a number of seconds", seconds)
            .map(Some);
    }
    if !unknown(row.text("Elapsed")) {
        let read = |text: &str| match parse_span(text).ok()? {
            TimeLimit::Secs(secs) => Some(secs),
            TimeLimit::Unlimited => None,
        };
        let wanted = "a run time such as 1-02:30:00";
        return row.read("Elapsed", wanted, read).map(Some);
    }
    if unknown(row.text("Start")) || unknown(row.text("End")) {
        return Ok(None);
    }
    let (start, end) = (
        row.read("Start", TIME, moment)?,
        row.read("End", TIME, moment)?,
    );
    Ok(Some(end.secs_since(start)))
}

fn limit(row: &Row<'_>) -> Result<Option<TimeLimit>, BadTrace> {
    let raw = row.text("TimelimitRaw");
    if raw.bytes().all(|byte| byte.is_ascii_digit()) && !raw.is_empty() {
        let minutes = row.read("TimelimitRaw", "a number of minutes", seconds)?;
        return Ok(Some(TimeLimit::Secs(minutes.saturating_mul(60))));
    }
    let text = if raw.is_empty() {
        row.text("Timelimit")
    } else {
        raw
    };
    if unknown(text) || text.eq_ignore_ascii_case("Partition_Limit") {
        return Ok(None);
    }
    let column = if raw.is_empty() {
        "Timelimit"
    } else {
        "TimelimitRaw"
    };
    row.read(
        column,
        "a time limit such as 1-00:00:00 or UNLIMITED",
        |text| parse_limit(text).ok(),
    )
    .map(Some)
}

/// MiB in all: from TRES, else from `ReqMem`, which older versions print for each node (`4Gn`) or CPU (`4Gc`).
fn memory(
    row: &Row<'_>,
    tres: Option<(&'static str, &str)>,
    (nodes, cpus): (u32, u32),
) -> Result<u64, BadTrace> {
    if let Some((list, text)) = tres {
        let mib = mib_of(text);
        return row.read(list, "a list of TRES with memory such as mem=64G", |_| mib);
    }
    let text = row.text("ReqMem");
    if unknown(text) || text == "0" || text == "0n" {
        return Ok(0);
    }
    let (amount, times) = match text.strip_suffix(['n', 'c']) {
        Some(amount) if text.ends_with('n') => (amount, nodes.max(1)),
        Some(amount) => (amount, cpus.max(1)),
        None => (text, 1),
    };
    let mib = mib_of(amount).and_then(|mib| mib.checked_mul(u64::from(times)));
    row.read("ReqMem", "an amount of memory such as 64G", |_| mib)
}

/// MiB of `64G` or `1.50T`; fractions are rounded up.
fn mib_of(text: &str) -> Option<u64> {
    let Some((whole, rest)) = text.split_once('.') else {
        return parse_mib(text).ok();
    };
    let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let next = whole.parse::<u64>().ok()?.checked_add(1)?;
    parse_mib(&format!("{next}{unit}")).ok()
}

/// The value of one TRES in `billing=8,cpu=8,gres/gpu=2,mem=64G,node=1`. Typed GPUs count where no total is given.
fn tres_of<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = list.split(',').filter_map(|pair| pair.split_once('='));
    let exact = pairs.clone().find(|(key, _)| *key == name);
    let typed = || pairs.find(|(key, _)| key.split_once(':').is_some_and(|(key, _)| key == name));
    exact.or_else(typed).map(|(_, value)| value)
}
