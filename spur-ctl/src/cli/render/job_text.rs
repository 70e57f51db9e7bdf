//! Words and numbers that several views derive from a job in the same way.

use super::{View, or_null};
use spur_core::api::JobView;
use spur_core::id::NodeName;
use spur_core::job::state::JobState;
use spur_core::resources::{GpuCount, MemoryRequest};
use spur_core::slurm::{codes, filename, gres, hostlist, timespec};
use spur_core::time::{Millis, TimeLimit};

/// The state in full, `COMPLETING` while an ended job is being cleaned up.
pub fn state(job: &JobView) -> &'static str {
    codes::job_state(job.state, job.completing)
}

/// The state in one to three letters.
pub fn state_compact(job: &JobView) -> &'static str {
    codes::job_state_compact(job.state, job.completing)
}

/// The reason in one word for lists.
pub fn reason(job: &JobView) -> String {
    codes::reason_with(job.reason, &job.unavailable)
}

/// Names of the allocation's nodes, folded; empty while the job has none.
pub fn node_list(job: &JobView) -> String {
    let names: Vec<&str> = job.nodes.iter().map(|node| node.name.as_str()).collect();
    hostlist::compress(&names)
}

/// Where it runs, or why it does not, in parentheses.
pub fn nodes_or_reason(job: &JobView) -> String {
    let ended_badly = matches!(
        job.state,
        JobState::Pending | JobState::Failed | JobState::Timeout | JobState::OutOfMemory
    );
    if ended_badly && !job.completing {
        format!("({})", reason(job))
    } else {
        node_list(job)
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
        TimeLimit::Secs(secs) => Some(start_shown(view, job)?.plus_secs(secs)),
        TimeLimit::Unlimited => None,
    };
    job.ended.or_else(by_limit)
}

/// The nodes where it is expected to start, folded; `(null)` if none are known.
pub fn sched_nodes(job: &JobView) -> String {
    let nodes = job
        .expected
        .as_ref()
        .map_or(&[][..], |expected| &expected.nodes);
    let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    or_null(&hostlist::compress(&names)).to_owned()
}

/// The first node, where a batch script runs.
pub fn batch_host(job: &JobView) -> Option<&str> {
    job.nodes.first().map(|node| node.name.as_str())
}

/// Seconds that the job has run.
pub fn run_secs(view: &View, job: &JobView) -> u64 {
    let Some(started) = job.started else { return 0 };
    let running = job.state == JobState::Running;
    let until = job.ended.filter(|_| !running).unwrap_or(view.clock.now);
    until.secs_since(started)
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
    let gpus = job.spec.gpus_per_task.as_ref()?;
    (gpus.count > 0).then(|| format!("gres/gpu:per_task:{}", gpus.count))
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
    let memory = if mib == 0 {
        String::new()
    } else {
        format!("mem={},", view.mib(mib))
    };
    let gpu = if gpus == 0 {
        String::new()
    } else {
        format!(",gres/gpu={gpus}")
    };
    format!("cpu={cpus},{memory}node={nodes},billing={cpus}{gpu}")
}

/// What the job asked for, as TRES.
pub fn wanted_tres(view: &View, job: &JobView) -> String {
    tres(
        view,
        cpus_wanted(job),
        memory_wanted(job),
        node_count(job),
        gpus_wanted(job),
    )
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

/// Which of the job's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard input.
    In,
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Where the batch script's stream goes, as it was asked for.
fn asked(job: &JobView, stream: Stream) -> &str {
    let spec = &job.spec;
    let output = if spec.stdout.is_empty() {
        filename::DEFAULT_OUTPUT
    } else {
        &spec.stdout
    };
    match stream {
        Stream::In if spec.stdin.is_empty() => "/dev/null",
        Stream::In => &spec.stdin,
        Stream::Err if !spec.stderr.is_empty() => &spec.stderr,
        Stream::Out | Stream::Err => output,
    }
}

/// The same, absolute, with its symbols as they are.
pub fn pattern(job: &JobView, stream: Stream) -> String {
    absolute(asked(job, stream), &job.spec.work_dir)
}

fn absolute(path: &str, folder: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{folder}/{path}")
    }
}

/// Where the batch script's stream goes: absolute, with the symbols replaced.
pub fn file(job: &JobView, stream: Stream) -> String {
    let (spec, pattern) = (&job.spec, asked(job, stream));
    let names = filename::Names {
        job: job.id.0,
        array: None,
        step: spur_core::id::StepKind::Batch,
        task: 0,
        node: 0,
        host: batch_host(job).unwrap_or("n/a"),
        name: &spec.name,
        user: &spec.owner.user,
    };
    absolute(&filename::expand(pattern, &names), &spec.work_dir)
}

/// The command as records show it.
pub fn command(job: &JobView) -> &str {
    or_null(&job.spec.command)
}
