//! Words and numbers that several views derive from a job in the same way.

mod files;

pub use files::{Stream, file, pattern, stream, write_file};

use super::{View, or_null};
use spur_core::api::JobView;
use spur_core::id::NodeName;
use spur_core::job::het::HetPart;
use spur_core::job::spec::JobKind;
use spur_core::job::state::{JobState, Reason};
use spur_core::resources::{GpuCount, MemoryRequest};
use spur_core::slurm::{codes, digits, gres, hostlist, timespec};
use spur_core::time::{Millis, TimeLimit};

/// The state in full, `COMPLETING` while an ended job is being cleaned up.
pub fn state(job: &JobView) -> &'static str {
    if is_configuring(job) {
        return "CONFIGURING";
    }
    codes::job_state(job.state, job.completing)
}

/// The state in one to three letters.
pub fn state_compact(job: &JobView) -> &'static str {
    if is_configuring(job) {
        return "CF";
    }
    codes::job_state_compact(job.state, job.completing)
}

/// Whether it holds its nodes and waits for the controller's prolog.
pub fn is_configuring(job: &JobView) -> bool {
    job.state == JobState::Running && job.reason == Reason::Prolog
}

/// The reason in one word for lists.
pub fn reason(job: &JobView) -> String {
    codes::reason_with(job.reason, &job.unavailable)
}

/// Adds the same.
pub fn write_reason(job: &JobView, out: &mut String) {
    if job.unavailable.is_empty() {
        out.push_str(codes::reason(job.reason));
    } else {
        out.push_str(&reason(job));
    }
}

/// Adds the same as records show it: without blanks.
pub fn write_reason_in_one_word(job: &JobView, out: &mut String) {
    let start = out.len();
    write_reason(job, out);
    if out[start..].contains(' ') {
        let word = codes::one_word(&out[start..]);
        out.truncate(start);
        out.push_str(&word);
    }
}

/// Names of the allocation's nodes, folded; empty while the job has none.
pub fn node_list(job: &JobView) -> String {
    let mut list = String::new();
    write_nodes(job, &mut list);
    list
}

/// Adds the same.
pub fn write_nodes(job: &JobView, out: &mut String) {
    match job.nodes.as_slice() {
        [] => {}
        [one] => out.push_str(one.name.as_str()),
        nodes => {
            let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            out.push_str(&hostlist::compress(&names));
        }
    }
}

/// Names of nodes as a user gave them, folded.
pub fn hosts(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    hostlist::compress(names)
}

/// Whether lists show the reason in place of the nodes.
pub fn shows_reason(job: &JobView) -> bool {
    let why = matches!(
        job.state,
        JobState::Pending | JobState::Failed | JobState::Timeout | JobState::OutOfMemory
    );
    why && !job.completing
}

/// Waits, held.
pub fn is_held(job: &JobView) -> bool {
    job.state == JobState::Pending && job.priority == 0
}

/// From when it may start, or might when it was cancelled; unknown of one that is held or waits for other jobs.
pub fn eligible(job: &JobView) -> Option<Millis> {
    let kept =
        job.priority == 0 || !job.dependency.is_empty() || job.reason == Reason::JobArrayTaskLimit;
    let unknown = job.started.is_none() && kept;
    (!unknown).then_some(job.eligible)
}

/// Since when its waiting counts.
pub fn accrues(job: &JobView) -> Option<Millis> {
    if job.reason == Reason::JobArrayTaskLimit {
        return Some(job.eligible);
    }
    eligible(job)
}

/// When it was last looked at: when it started, or when it was queued.
pub fn last_evaluation(job: &JobView) -> Option<Millis> {
    Some(job.started.unwrap_or(job.submitted))
}

/// Whether it was looked at beside the head of the queue, and whether that was the last time: what Slurm calls backfill. Jobs
/// that wait for room are, and so were jobs that started while one before them waited.
pub fn backfilled(job: &JobView) -> (bool, bool) {
    let waits = job.state == JobState::Pending
        && matches!(
            job.reason,
            Reason::Resources | Reason::Priority | Reason::JobArrayTaskLimit
        );
    let started = job.started.is_some() && job.backfilled;
    (waits || started, waits)
}

/// Whether it runs without a limit.
pub fn runs_for_ever(job: &JobView) -> bool {
    job.spec.time_limit == Some(TimeLimit::Unlimited) && job.started.is_some()
}

/// Most nodes that it was asked to get while it waits; 0 if that was not said.
pub fn max_nodes(job: &JobView) -> u32 {
    let spec = &job.spec;
    if job.state != JobState::Pending {
        0
    } else if spec.nodes_set {
        spec.nodes_max
    } else if spec.hold {
        // A job that was submitted held has its nodes counted at once.
        spec.nodes_min.max(1)
    } else {
        0
    }
}

/// `OK`, `NO`, `YES`: whether others may run on its nodes.
pub fn sharing(job: &JobView) -> &'static str {
    match (job.spec.exclusive, job.spec.extras().oversubscribe) {
        (true, _) => "NO",
        (false, true) => "YES",
        (false, false) => "OK",
    }
}

/// When the job started, or is expected to: not before `--begin`.
pub fn start(job: &JobView) -> Option<Millis> {
    if job.started.is_some() || job.state != JobState::Pending {
        return job.started;
    }
    let begin = job.spec.begin.filter(|begin| *begin > job.submitted);
    let expected = job.expected.as_ref().and_then(|expected| expected.start);
    expected.max(begin)
}

/// The same for people: what was expected for a moment that has passed is expected now.
pub fn start_shown(view: &View, job: &JobView) -> Option<Millis> {
    let waits = job.state == JobState::Pending;
    start(job).map(|at| if waits { at.max(view.clock.now) } else { at })
}

/// When the job ended, or will by its limit after its expected start.
pub fn end(view: &View, job: &JobView) -> Option<Millis> {
    let by_limit = || match job.spec.time_limit? {
        TimeLimit::Secs(secs) => {
            let end = start_shown(view, job)?.plus_secs(secs);
            Some(Millis(end.0.saturating_add(job.suspended_ms)))
        }
        TimeLimit::Unlimited => None,
    };
    job.ended.or_else(by_limit)
}

/// The nodes where it is expected to start.
pub fn planned_nodes(job: &JobView) -> Vec<&str> {
    let expected = job
        .expected
        .as_ref()
        .filter(|_| job.state == JobState::Pending);
    let nodes = expected.map_or(&[][..], |expected| &expected.nodes);
    nodes.iter().map(NodeName::as_str).collect()
}

/// The same, folded; `(null)` if none are known.
pub fn sched_nodes(job: &JobView) -> String {
    or_null(&hostlist::compress(&planned_nodes(job))).to_owned()
}

/// The first node, where a batch script runs.
pub fn batch_host(job: &JobView) -> Option<&str> {
    job.nodes.first().map(|node| node.name.as_str())
}

/// Seconds that the job has run; those for which it was stopped do not count.
pub fn run_secs(view: &View, job: &JobView) -> u64 {
    let Some(started) = job.started else { return 0 };
    let running = matches!(job.state, JobState::Running | JobState::Suspended);
    let ended = job.ended.filter(|_| !running);
    let until = job.suspended.or(ended).unwrap_or(view.clock.now);
    until
        .secs_since(started)
        .saturating_sub(job.suspended_ms / 1000)
}

/// The limit, for lists.
pub fn time_limit(job: &JobView) -> String {
    job.spec
        .time_limit
        .map_or_else(|| "NOT_SET".to_owned(), timespec::limit)
}

/// What is left of the limit, for lists.
pub fn time_left(view: &View, job: &JobView) -> String {
    match job.spec.time_limit {
        None => "NOT_SET".to_owned(),
        Some(TimeLimit::Unlimited) => "UNLIMITED".to_owned(),
        Some(TimeLimit::Secs(limit)) => match limit.checked_sub(run_secs(view, job)) {
            Some(left) => timespec::elapsed(left),
            None => "INVALID".to_owned(),
        },
    }
}

/// Nodes held, or least number wanted.
pub fn node_count(job: &JobView) -> u64 {
    if job.nodes.is_empty() {
        job.spec.nodes_min.max(1).into()
    } else {
        job.nodes.len() as u64
    }
}

/// Tasks.
pub fn task_count(job: &JobView) -> u64 {
    let spec = &job.spec;
    let per_node = u64::from(spec.tasks_per_node) * node_count(job);
    match (spec.tasks_set, per_node) {
        (false, 1..) => per_node,
        (_, _) => u64::from(spec.tasks).max(node_count(job)),
    }
}

/// CPUs wanted.
pub fn cpus_wanted(job: &JobView) -> u64 {
    let spec = &job.spec;
    let by_tasks = task_count(job) * u64::from(spec.cpus_per_task.max(1));
    let by_gpus = gpus_wanted(job) * u64::from(spec.cpus_per_gpu);
    by_tasks.max(by_gpus)
}

/// CPUs held, or wanted.
pub fn cpu_count(job: &JobView) -> u64 {
    if job.nodes.is_empty() {
        return cpus_wanted(job);
    }
    job.nodes
        .iter()
        .map(|node| u64::from(node.share.cpus.len()))
        .sum()
}

/// Most tasks on one node that the request implies, times CPUs of each: Slurm's `MinCPUsNode`.
pub fn cpus_per_node(job: &JobView) -> u64 {
    let spec = &job.spec;
    let by_tasks = u64::from(spec.cpus_per_task.max(1)) * u64::from(spec.tasks_per_node.max(1));
    by_tasks.max(spec.mincpus.into())
}

/// MiB wanted, as far as the request alone says.
pub fn memory_wanted(job: &JobView) -> u64 {
    match job.spec.memory {
        MemoryRequest::Default => 0,
        MemoryRequest::PerNode(mib) => mib * node_count(job),
        MemoryRequest::PerCpu(mib) => mib * cpus_wanted(job),
        MemoryRequest::PerGpu(mib) => mib * gpus_wanted(job),
    }
}

/// Memory of the request in the unit that it is counted in.
pub fn memory_request(job: &JobView) -> (&'static str, u64) {
    match job.spec.memory {
        MemoryRequest::Default => ("MinMemoryNode", 0),
        MemoryRequest::PerNode(mib) => ("MinMemoryNode", mib),
        MemoryRequest::PerCpu(mib) => ("MinMemoryCPU", mib),
        MemoryRequest::PerGpu(mib) => ("MinMemoryTRES", mib),
    }
}

/// GPUs wanted.
pub fn gpus_wanted(job: &JobView) -> u64 {
    let spec = &job.spec;
    let count = |gpus: &Option<GpuCount>| gpus.as_ref().map(|gpus| u64::from(gpus.count));
    count(&spec.gpus_total)
        .or_else(|| count(&spec.gpus_per_node).map(|n| n * node_count(job)))
        .or_else(|| {
            let sockets = node_count(job) * u64::from(spec.sockets_per_node.max(1));
            count(&spec.gpus_per_socket).map(|n| n * sockets)
        })
        .or_else(|| count(&spec.gpus_per_task).map(|n| n * task_count(job)))
        .unwrap_or(0)
}

/// `4`, or what stands for "not given".
pub fn given(count: u32, otherwise: &str) -> String {
    match count {
        0 => otherwise.to_owned(),
        count => count.to_string(),
    }
}

/// `gres/gpu:4`: so much for each GPU, as TRES columns write it; nothing if it was not given.
pub fn per_gpu(count: u64) -> Option<String> {
    (count > 0).then(|| format!("gres/gpu:{count}"))
}

/// `gres/gpu:per_task:2`: each task sees its own GPUs; nothing if they are not asked for by task.
pub fn task_binding(job: &JobView) -> Option<String> {
    let given = &job.spec.extras().tres_bind;
    if !given.is_empty() {
        return Some(given.clone());
    }
    let gpus = job.spec.gpus_per_task.as_ref()?;
    (gpus.count > 0).then(|| format!("gres/gpu:per_task:{}", gpus.count))
}

/// `cpu=2,gres/gpu=1`: what each task gets, as far as that was said.
pub fn tres_per_task(job: &JobView) -> Option<String> {
    let spec = &job.spec;
    let mut words: Vec<String> = Vec::new();
    if spec.cpus_per_task_set {
        words.push(format!("cpu={}", spec.cpus_per_task));
    }
    let gpus = spec.gpus_per_task.as_ref().filter(|gpus| gpus.count > 0);
    words.extend(gpus.map(|gpus| match gpus.model.as_str() {
        "" => format!("gres/gpu={}", gpus.count),
        model => format!("gres/gpu:{model}={}", gpus.count),
    }));
    let other = &spec.extras().tres_per_task;
    if words.is_empty() && !other.is_empty() {
        words.push(other.clone());
    }
    (!words.is_empty()).then(|| words.join(","))
}

/// MiB for each GPU; 0 if memory was not asked for like that.
pub fn memory_per_gpu(job: &JobView) -> u64 {
    match job.spec.memory {
        MemoryRequest::PerGpu(mib) => mib,
        MemoryRequest::Default | MemoryRequest::PerNode(_) | MemoryRequest::PerCpu(_) => 0,
    }
}

/// `gres/gpu:4`, as TRES columns write a request; `N/A` for none.
pub fn tres_gpus(gpus: Option<&GpuCount>) -> String {
    match gpus {
        Some(gpus) if gpus.count > 0 => format!("gres/{}", gres::display(gpus)),
        Some(_) | None => "N/A".to_owned(),
    }
}

/// `cpu=1,mem=1G,node=1,billing=1,gres/gpu=2`.
pub fn tres(view: &View, cpus: u64, mib: u64, nodes: u64, gpus: u64) -> String {
    let mut text = String::new();
    write_tres(view, [cpus, mib, nodes, gpus], &mut text);
    text
}

/// Adds the same of these four.
fn write_tres(view: &View, [cpus, mib, nodes, gpus]: [u64; 4], out: &mut String) {
    out.push_str("cpu=");
    digits::push(out, cpus);
    if mib > 0 {
        out.push_str(",mem=");
        view.write_mib(mib, out);
    }
    for (key, number) in [(",node=", nodes), (",billing=", cpus)] {
        out.push_str(key);
        digits::push(out, number);
    }
    if gpus > 0 {
        out.push_str(",gres/gpu=");
        digits::push(out, gpus);
    }
}

/// What the job asked for, as TRES.
pub fn wanted_tres(view: &View, job: &JobView) -> String {
    let mut text = String::new();
    write_wanted_tres(view, job, &mut text);
    text
}

/// Adds the same.
pub fn write_wanted_tres(view: &View, job: &JobView, out: &mut String) {
    let wanted = [
        cpus_wanted(job),
        memory_wanted(job),
        node_count(job),
        gpus_wanted(job),
    ];
    write_tres(view, wanted, out);
}

/// What the job holds, as TRES; what it asked for while it holds nothing.
pub fn job_tres(view: &View, job: &JobView) -> String {
    if job.nodes.is_empty() {
        return wanted_tres(view, job);
    }
    let shares = || job.nodes.iter().map(|node| &node.share);
    let memory = shares().map(|share| share.memory_mib).sum();
    let gpus = shares().map(|share| u64::from(share.gpus.len())).sum();
    tres(view, cpu_count(job), memory, node_count(job), gpus)
}

/// Whether a script is the job's; of a heterogeneous job it is that of its first component.
pub fn is_batch(job: &JobView) -> bool {
    job.spec.kind == JobKind::Batch && job.het.is_none_or(HetPart::leads)
}

/// The command as records show it.
pub fn command(job: &JobView) -> &str {
    or_null(&job.spec.command)
}
