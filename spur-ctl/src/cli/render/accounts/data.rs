//! Records as `sacct --json` and `--yaml` show them, in the shapes of Slurm's parsers.

use super::fields::{clocks, text_of};
use super::{Context, Row};
use crate::cli::render::data::{Document, Number};
use crate::cli::render::job_text::{self as text, Stream};
use crate::cli::render::step_columns::distribution;
use spur_core::api::{JobView, StepView};
use spur_core::id::{StepId, StepKind};
use spur_core::job::spec::JobKind;
use spur_core::job::state::{ExitStatus, JobState};
use spur_core::resources::MemoryRequest;
use spur_core::slurm::{hostlist, signal};
use spur_core::time::{Millis, TimeLimit};

/// What Slurm writes for the start of a job that never started.
const NEVER: u64 = 4_294_967_294;
/// What it writes for energy that nobody measured.
const UNKNOWN_ENERGY: i64 = -2;
/// Numbers of kinds of resources.
const CPU: i64 = 1;
const MEM: i64 = 2;
const ENERGY: i64 = 3;
const NODE: i64 = 4;
const BILLING: i64 = 5;
const GPU: i64 = 1001;

/// A job with its steps: an element of the list `jobs`.
pub fn job(doc: &mut Document, context: &Context, rows: &[Row]) {
    let Some((first, steps)) = rows.split_first() else {
        return;
    };
    doc.item(|doc| {
        head(doc, context, first);
        times(doc, context, first);
        exit(doc, "exit_code", own_exit(&first.run.job));
        middle(doc, context, first);
        doc.list("steps", steps, |doc, row| step(doc, context, row));
        doc.text("submit_line", &first.run.job.spec.submit_line);
        resources(doc, first);
        doc.text("used_gres", "");
        doc.text("user", &first.run.job.spec.owner.user);
        doc.map("wckey", |doc| {
            doc.text("wckey", &first.run.job.spec.extras().wckey);
            doc.texts("flags", []);
        });
        doc.text("working_directory", &first.run.job.spec.work_dir);
    });
}

/// The status that a job is recorded with: what ended a cancelled job is said by its state.
fn own_exit(job: &JobView) -> ExitStatus {
    if matches!(job.state, JobState::Cancelled | JobState::Timeout) {
        ExitStatus::default()
    } else {
        job.exit
    }
}

fn head(doc: &mut Document, context: &Context, row: &Row) {
    let job = &*row.run.job;
    let spec = &job.spec;
    doc.text("account", &spec.account);
    doc.map("comment", |doc| {
        doc.text("administrator", &spec.extras().admin_comment);
        // As Slurm has it without `AccountingStoreFlags=job_comment`; `-o Comment` shows it.
        doc.text("job", "");
        doc.text("system", "");
    });
    doc.count("allocation_nodes", job.nodes.len() as u64);
    array(doc, job);
    doc.map("association", |doc| {
        doc.text("account", &spec.account);
        doc.text("cluster", &context.cluster);
        doc.text("partition", "");
        doc.text("user", &spec.owner.user);
        doc.count("id", context.association(job).into());
    });
    doc.text("block", "");
    doc.text("cluster", &context.cluster);
    doc.text("constraints", &spec.constraint);
    doc.text("container", &spec.extras().container);
    exit(doc, "derived_exit_code", job.derived_exit);
}

fn array(doc: &mut Document, job: &JobView) {
    let array = job.array.as_ref();
    let task = array.and_then(|array| array.task);
    let waiting = array.filter(|_| task.is_none());
    doc.map("array", |doc| {
        doc.count("job_id", array.map_or(0, |array| u64::from(array.job.0)));
        doc.map("limits", |doc| {
            doc.map("max", |doc| {
                doc.map("running", |doc| {
                    doc.count("tasks", waiting.map_or(0, |array| array.throttle.into()));
                });
            });
        });
        doc.number("task_id", Number::maybe(task.map(u64::from)));
        let tasks = waiting.map(|array| array.tasks.to_string());
        doc.text("task", &tasks.unwrap_or_default());
    });
}

fn exit(doc: &mut Document, key: &str, status: ExitStatus) {
    doc.map(key, |doc| {
        let word = match (status.signal, status.code) {
            (0, 0) => "SUCCESS",
            (0, _) => "ERROR",
            (_, _) => "SIGNALED",
        };
        doc.texts("status", [word]);
        let exited = status.signal == 0;
        let code = exited.then_some(u64::from(status.code));
        doc.number("return_code", Number::maybe(code));
        doc.map("signal", |doc| {
            let number = (!exited).then_some(u64::from(status.signal));
            doc.number("id", Number::maybe(number));
            let name = if exited {
                String::new()
            } else {
                signal::name(status.signal)
            };
            doc.text("name", &name);
        });
    });
}

fn secs(at: Option<Millis>) -> u64 {
    at.map_or(0, |at| at.secs())
}

fn times(doc: &mut Document, context: &Context, row: &Row) {
    let job = &*row.run.job;
    let ended = row
        .run
        .requeued
        .or(job.ended.filter(|_| job.state.is_terminal()));
    let until = ended.unwrap_or(context.view.clock.now);
    let (ran, stopped) = clocks(context, row);
    doc.map("time", |doc| {
        doc.count("elapsed", ran);
        let eligible = text::eligible(job);
        doc.count("eligible", secs(eligible));
        doc.count("end", secs(ended));
        let waited = eligible.map_or(0, |at| job.started.unwrap_or(until).secs_since(at));
        doc.number("planned", Number::Is(waited));
        let start = match job.started {
            None if ended.is_some() => NEVER,
            started => secs(started),
        };
        doc.count("start", start);
        doc.count("submission", job.submitted.secs());
        doc.count("suspended", stopped);
        cpu_time(doc, "system", row, |used| used.system_us);
        doc.number("limit", limit(job.spec.time_limit));
        cpu_time(doc, "total", row, |used| Some(used.cpu_us));
        cpu_time(doc, "user", row, |used| used.user_us);
    });
}

fn limit(limit: Option<TimeLimit>) -> Number {
    match limit {
        Some(TimeLimit::Secs(secs)) => Number::Is(secs.div_ceil(60)),
        Some(TimeLimit::Unlimited) => Number::Infinite,
        None => Number::Unset,
    }
}

fn cpu_time(
    doc: &mut Document,
    key: &str,
    row: &Row,
    of: impl Fn(&spur_core::usage::summary::Processes) -> Option<u64>,
) {
    let us = row.sum().and_then(|sum| of(&sum)).unwrap_or(0);
    doc.map(key, |doc| {
        doc.count("seconds", us / 1_000_000);
        doc.count("microseconds", us % 1_000_000);
    });
}

fn middle(doc: &mut Document, context: &Context, row: &Row) {
    let job = &*row.run.job;
    let (spec, extras) = (&job.spec, job.spec.extras());
    doc.text("extra", &extras.extra);
    doc.text("failed_node", "");
    let flags = text_of("Flags", context, row);
    doc.texts("flags", flags.split(',').filter_map(flag));
    doc.text("group", &spec.owner.group);
    doc.map("het", |doc| {
        doc.int("job_id", job.het.map_or(0, |part| part.leader.0));
        let offset = job.het.map(|part| u64::from(part.offset));
        doc.number("job_offset", Number::maybe(offset));
    });
    doc.count("job_id", job.id.0.into());
    doc.text("name", &spec.name);
    doc.text("licenses", &extras.licenses);
    doc.map("mcs", |doc| doc.text("label", &extras.mcs_label));
    doc.text("nodes", &text_of("NodeList", context, row));
    doc.text("partition", &spec.partition);
    doc.bool("hold", job.state == JobState::Pending && job.priority == 0);
    doc.number("priority", Number::Is(job.priority.into()));
    doc.text("qos", &spec.qos);
    doc.text("qosreq", "");
    required(doc, job);
    let by = job.cancelled_by.map(|by| context.view.user(by));
    doc.text("kill_request_user", &by.unwrap_or_default());
    doc.count("restart_cnt", job.restarts.into());
    doc.map("reservation", |doc| {
        doc.int("id", 0);
        doc.text("name", &extras.reservation);
    });
    doc.text("script", "");
    files(doc, job);
    doc.map("state", |doc| {
        let word = super::fields::state_word(row);
        doc.texts("current", [word]);
        doc.text("reason", "None");
    });
}

/// The spelling of a flag in this shape.
fn flag(word: &str) -> Option<&'static str> {
    match word {
        "SchedSubmit" => Some("STARTED_ON_SUBMIT"),
        "SchedMain" => Some("STARTED_ON_SCHEDULE"),
        "SchedBackfill" => Some("STARTED_ON_BACKFILL"),
        "StartReceived" => Some("START_RECEIVED"),
        _ => None,
    }
}

fn required(doc: &mut Document, job: &JobView) {
    let per_cpu = text::memory_wanted(job) / text::cpus_wanted(job).max(1);
    let (of_cpu, of_node) = if let MemoryRequest::PerNode(mib) = job.spec.memory {
        (None, Some(mib))
    } else {
        (Some(per_cpu), None)
    };
    doc.map("required", |doc| {
        doc.count("CPUs", text::cpus_wanted(job));
        doc.number("memory_per_cpu", Number::maybe(of_cpu));
        doc.number("memory_per_node", Number::maybe(of_node));
    });
}

fn files(doc: &mut Document, job: &JobView) {
    let batch = job.spec.kind == JobKind::Batch;
    let own_err = !job.spec.stderr.is_empty();
    let streams = [
        ("stdin", Stream::In, batch),
        ("stdout", Stream::Out, batch),
        ("stderr", Stream::Err, batch && own_err),
    ];
    for (name, stream, there) in streams {
        let path = if there {
            text::file(job, stream)
        } else {
            String::new()
        };
        doc.text(&format!("{name}_expanded"), &path);
    }
    for at in [1, 2, 0] {
        let (name, stream, there) = streams[at];
        let path = if there {
            text::pattern(job, stream)
        } else {
            String::new()
        };
        doc.text(name, &path);
    }
}

/// An amount of a kind of resource.
fn amount(doc: &mut Document, (kind, name, id): (&str, &str, i64), count: i64) {
    doc.item(|doc| {
        doc.text("type", kind);
        doc.text("name", name);
        doc.int("id", id);
        doc.int("count", count);
    });
}

/// What is held: CPUs, MiB, nodes and GPUs.
struct Held {
    cpus: u64,
    mib: u64,
    nodes: u64,
    gpus: u64,
    energy: Option<i64>,
    billing: bool,
}

impl Held {
    fn list(&self, doc: &mut Document, key: &str) {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let all = [
            (("cpu", "", CPU), Some(signed(self.cpus))),
            (("mem", "", MEM), (self.mib > 0).then_some(signed(self.mib))),
            (("energy", "", ENERGY), self.energy),
            (("node", "", NODE), Some(signed(self.nodes))),
            (
                ("billing", "", BILLING),
                self.billing.then_some(signed(self.cpus)),
            ),
            (
                ("gres", "gpu", GPU),
                (self.gpus > 0).then_some(signed(self.gpus)),
            ),
        ];
        let there = all.into_iter().filter(|_| self.nodes > 0);
        let there = there.filter_map(|(kind, count)| Some((kind, count?)));
        doc.list(key, there, |doc, (kind, count)| amount(doc, kind, count));
    }
}

fn resources(doc: &mut Document, row: &Row) {
    let job = &*row.run.job;
    let held = job.nodes.iter().map(|node| &node.share);
    let energy = row
        .totals
        .gpu_energy_mj
        .map(|mj| i64::try_from(mj / 1000).unwrap_or(i64::MAX));
    let batch = job.spec.kind == JobKind::Batch;
    let allocated = Held {
        cpus: held.clone().map(|share| u64::from(share.cpus.len())).sum(),
        mib: held.clone().map(|share| share.memory_mib).sum(),
        gpus: held.map(|share| u64::from(share.gpus.len())).sum(),
        nodes: job.nodes.len() as u64,
        energy: energy.or(batch.then_some(UNKNOWN_ENERGY)),
        billing: true,
    };
    let requested = Held {
        cpus: text::cpus_wanted(job),
        mib: text::memory_wanted(job),
        nodes: text::node_count(job),
        gpus: text::gpus_wanted(job),
        energy: None,
        billing: true,
    };
    doc.map("tres", |doc| {
        allocated.list(doc, "allocated");
        requested.list(doc, "requested");
    });
}

fn step(doc: &mut Document, context: &Context, row: &Row) {
    let Some(step) = &row.step else { return };
    doc.item(|doc| {
        step_times(doc, context, row, step);
        exit(doc, "exit_code", step.exit);
        let on = step.shares.iter().map(|share| share.share.node);
        let held = |node| {
            row.run
                .job
                .nodes
                .iter()
                .find(|held| held.share.node == node)
        };
        let names: Vec<&str> = on.filter_map(held).map(|held| held.name.as_str()).collect();
        doc.map("nodes", |doc| {
            doc.count("count", step.shares.len() as u64);
            doc.text("range", &hostlist::compress(&names));
            doc.texts("list", names.iter().copied());
        });
        let tasks = step
            .shares
            .iter()
            .map(|share| u64::from(share.share.tasks))
            .sum();
        doc.map("tasks", |doc| doc.count("count", tasks));
        doc.text("pid", "");
        frequency(doc, step.kind);
        doc.text("kill_request_user", "");
        doc.texts("state", [super::fields::state_word(row)]);
        doc.map("statistics", |doc| {
            doc.map("CPU", |doc| doc.int("actual_frequency", 0));
            doc.map("energy", |doc| doc.number("consumed", Number::Is(0)));
        });
        doc.map("step", |doc| {
            let id = StepId {
                job: row.run.job.id,
                step: step.kind,
            };
            doc.text("id", &id.to_string());
            doc.text("name", &step.name);
        });
        doc.map("task", |doc| {
            doc.text("distribution", distribution(&row.run.job, step));
        });
        step_resources(doc, row, step);
    });
}

fn step_times(doc: &mut Document, context: &Context, row: &Row, step: &StepView) {
    let ended = step.ended.or(row.run.requeued);
    let (ran, stopped) = clocks(context, row);
    doc.map("time", |doc| {
        doc.count("elapsed", ran);
        doc.number("end", Number::Is(secs(ended)));
        doc.number("start", Number::Is(step.started.secs()));
        doc.count("suspended", stopped);
        cpu_time(doc, "system", row, |used| used.system_us);
        cpu_time(doc, "total", row, |used| Some(used.cpu_us));
        cpu_time(doc, "user", row, |used| used.user_us);
    });
}

fn frequency(doc: &mut Document, kind: StepKind) {
    let batch = kind == StepKind::Batch;
    let number = if batch { Number::Is(0) } else { Number::Unset };
    doc.map("CPU", |doc| {
        doc.map("requested_frequency", |doc| {
            doc.number("min", number);
            doc.number("max", number);
        });
        doc.text("governor", if batch { "0" } else { "Unknown" });
    });
}

fn step_resources(doc: &mut Document, row: &Row, step: &StepView) {
    let held = step.shares.iter().map(|share| &share.share);
    let allocated = Held {
        cpus: held.clone().map(|share| u64::from(share.cpus.len())).sum(),
        mib: held.clone().map(|share| share.memory_mib).sum(),
        gpus: held.map(|share| u64::from(share.gpus.len())).sum(),
        nodes: step.shares.len() as u64,
        energy: None,
        billing: false,
    };
    // What a step used is in the record when it has ended; `sstat` tells of those that run.
    let ended = step.ended.is_some();
    let of = |read: fn(&Row) -> Vec<Amount>| if ended { read(row) } else { Vec::new() };
    doc.map("tres", |doc| {
        for (key, measured) in [("requested", of(read)), ("consumed", of(wrote))] {
            doc.map(key, |doc| {
                doc.texts("max", []);
                doc.texts("min", []);
                let tasks = allocated_tasks(step);
                let each: Vec<_> = measured
                    .iter()
                    .map(|(kind, sum)| (*kind, sum / tasks))
                    .collect();
                doc.list("average", each, |doc, (kind, count)| {
                    amount(doc, kind, count)
                });
                doc.list("total", measured, |doc, (kind, count)| {
                    amount(doc, kind, count)
                });
            });
        }
        allocated.list(doc, "allocated");
    });
}

fn allocated_tasks(step: &StepView) -> i64 {
    let tasks = step
        .shares
        .iter()
        .map(|share| i64::from(share.share.tasks))
        .sum();
    std::cmp::max(tasks, 1)
}

type Tres = (&'static str, &'static str, i64);
type Amount = (Tres, i64);

fn measured(all: [(Tres, Option<u64>); 4]) -> Vec<Amount> {
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let all = all.into_iter();
    all.filter_map(|(kind, count)| Some((kind, signed(count?))))
        .collect()
}

/// What the step's processes used, CPU time in milliseconds.
fn read(row: &Row) -> Vec<Amount> {
    let sum = row.sum();
    let of =
        |of: fn(&spur_core::usage::summary::Processes) -> Option<u64>| sum.as_ref().and_then(of);
    measured([
        (("cpu", "", CPU), of(|sum| Some(sum.cpu_us / 1000))),
        (("mem", "", MEM), of(|sum| sum.memory_peak)),
        (("energy", "", ENERGY), Some(0)),
        (("fs", "disk", 6), of(|sum| sum.read_bytes)),
    ])
}

/// What they wrote.
fn wrote(row: &Row) -> Vec<Amount> {
    let sum = row.sum();
    measured([
        (("energy", "", ENERGY), Some(0)),
        (("fs", "disk", 6), sum.and_then(|sum| sum.write_bytes)),
        (("cpu", "", CPU), None),
        (("mem", "", MEM), None),
    ])
}
