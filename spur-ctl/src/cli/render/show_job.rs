//! `scontrol show job`.

use super::accounts::numbers::percent;
use super::job_text::{self as text, Stream};
use super::record::Record;
use super::{View, or_null};
use spur_core::api::{IdleGpu, JobView};
use spur_core::denial::Denial;
use spur_core::job::spec::{JobKind, JobSpec};
use spur_core::job::state::JobState;
use spur_core::resources::GpuCount;
use spur_core::slurm::{codes, gres, hostlist, signal, timespec};

/// What `-d` adds.
#[derive(Debug)]
pub struct Details<'a> {
    /// The job's newest refusals by the fence, newest last.
    pub denials: &'a [Denial],
}

/// The record of one job.
pub fn record(view: &View, job: &JobView, details: Option<&Details<'_>>, one_line: bool) -> String {
    let spec = &job.spec;
    let mut record = Record::new(format!("JobId={} JobName={}", job.id, spec.name), one_line);
    identity(&mut record, job, details.is_some());
    times(&mut record, view, job);
    place(&mut record, job);
    resources(&mut record, view, job, details.is_some());
    files(&mut record, job);
    requests(&mut record, job);
    if let Some(details) = details {
        refusals(&mut record, view, job, details);
    }
    record.line("");
    record.end()
}

fn identity(record: &mut Record, job: &JobView, details: bool) {
    let (spec, owner) = (&job.spec, &job.spec.owner);
    record.line(format!(
        "UserId={}({}) GroupId={}({}) MCS_label=N/A",
        owner.user, owner.uid, owner.group, owner.gid
    ));
    record.line(format!(
        "Priority={} Nice={} Account={} QOS={}",
        job.priority,
        spec.nice,
        or_null(&spec.account),
        or_null(&spec.qos)
    ));
    let reason = codes::one_word(&text::reason(job));
    record.line(format!(
        "JobState={} Reason={reason} Dependency=(null)",
        text::state(job)
    ));
    record.line(format!(
        "Requeue={} Restarts={} BatchFlag={} Reboot=0 ExitCode={}",
        u8::from(spec.requeue),
        job.restarts,
        u8::from(spec.kind == JobKind::Batch),
        signal::pair(job.exit)
    ));
    if details {
        record.line(format!(
            "DerivedExitCode={}",
            signal::pair(job.derived_exit)
        ));
    }
}

fn times(record: &mut Record, view: &View, job: &JobView) {
    let clock = &view.clock;
    let limit = job
        .spec
        .time_limit
        .map_or_else(|| "NOT_SET".to_owned(), timespec::limit_long);
    let run = timespec::elapsed_long(text::run_secs(view, job));
    record.line(format!("RunTime={run} TimeLimit={limit} TimeMin=N/A"));
    let held = job.state == JobState::Pending && job.priority == 0;
    let eligible = clock.stamp_or(Some(job.eligible).filter(|_| !held), "Unknown");
    record.line(format!(
        "SubmitTime={} EligibleTime={eligible}",
        clock.stamp(job.submitted)
    ));
    record.line(format!("AccrueTime={eligible}"));
    let (start, end) = (text::start_shown(view, job), text::end(view, job));
    record.line(format!(
        "StartTime={} EndTime={} Deadline=N/A",
        clock.stamp_or(start, "Unknown"),
        clock.stamp_or(end, "Unknown")
    ));
    record.line("SuspendTime=None SecsPreSuspend=0 LastSchedEval=Unknown Scheduler=Main");
}

fn place(record: &mut Record, job: &JobView) {
    let spec = &job.spec;
    record.line(format!(
        "Partition={} AllocNode:Sid={}:{}",
        spec.partition, spec.submit_host, spec.submit_sid
    ));
    record.line(format!(
        "ReqNodeList={} ExcNodeList={}",
        or_null(&hostlist::compress(&spec.nodelist)),
        or_null(&hostlist::compress(&spec.exclude))
    ));
    let planned = match text::sched_nodes(job).as_str() {
        "(null)" => String::new(),
        nodes => format!(" SchedNodeList={nodes}"),
    };
    record.line(format!("NodeList={}{planned}", text::node_list(job)));
    record.maybe(text::batch_host(job).map(|host| format!("BatchHost={host}")));
    let nodes = if job.nodes.is_empty() {
        format!("{}-{}", spec.nodes_min, spec.nodes_max)
    } else {
        job.nodes.len().to_string()
    };
    record.line(format!(
        "NumNodes={nodes} NumCPUs={} NumTasks={} CPUs/Task={} ReqB:S:C:T=0:0:*:*",
        text::cpu_count(job),
        text::task_count(job),
        spec.cpus_per_task.max(1)
    ));
}

fn resources(record: &mut Record, view: &View, job: &JobView, details: bool) {
    let spec = &job.spec;
    record.line(format!("ReqTRES={}", text::wanted_tres(view, job)));
    let held = (!job.nodes.is_empty()).then(|| text::job_tres(view, job));
    record.line(format!("AllocTRES={}", held.as_deref().unwrap_or("(null)")));
    record.line(format!(
        "Socks/Node={} NtasksPerN:B:S:C={}:0:{}:* CoreSpec=*",
        text::given(spec.sockets_per_node, "*"),
        spec.tasks_per_node,
        text::given(spec.tasks_per_socket, "*")
    ));
    if details && !job.nodes.is_empty() {
        shares(record, job);
    }
    let (name, mib) = text::memory_request(job);
    record.line(format!(
        "MinCPUsNode={} {name}={} MinTmpDiskNode=0",
        text::cpus_per_node(job),
        view.mib(mib)
    ));
    record.line(format!(
        "Features={} DelayBoot=00:00:00",
        or_null(&spec.constraint)
    ));
    record.maybe((!spec.prefer.is_empty()).then(|| format!("Prefer={}", spec.prefer)));
    let sharing = if spec.exclusive { "NO" } else { "OK" };
    record.line(format!(
        "OverSubscribe={sharing} Contiguous={} Licenses=(null) Network=(null)",
        u8::from(spec.contiguous)
    ));
}

/// What the job holds on each node; neighbours with the same share have one line.
fn shares(record: &mut Record, job: &JobView) {
    let lines: Vec<(String, &str)> = job
        .nodes
        .iter()
        .enumerate()
        .map(|(at, node)| {
            let model = job.gpu_models.get(at).cloned().unwrap_or_default();
            let share = &node.share;
            let gpus = match share.gpus.len() {
                0 => String::new(),
                count => format!(
                    "{}(IDX:{})",
                    gres::display(&GpuCount { model, count }),
                    share.gpus
                ),
            };
            let text = format!(
                "CPU_IDs={} Mem={} GRES={gpus}",
                share.cpus, share.memory_mib
            );
            (text, node.name.as_str())
        })
        .collect();
    record.line(format!("JOB_GRES={}", or_null(&all_gpus(job))));
    for alike in lines.chunk_by(|a, b| a.0 == b.0) {
        let names: Vec<&str> = alike.iter().map(|(_, name)| *name).collect();
        record.line(format!(
            "  Nodes={} {}",
            hostlist::compress(&names),
            alike[0].0
        ));
    }
}

/// `gpu:h200:8`: all GPUs of the job by model.
fn all_gpus(job: &JobView) -> String {
    let mut counts: Vec<GpuCount> = Vec::new();
    for (at, node) in job.nodes.iter().enumerate() {
        let model = job.gpu_models.get(at).cloned().unwrap_or_default();
        let count = node.share.gpus.len();
        match counts.iter_mut().find(|known| known.model == model) {
            Some(known) => known.count += count,
            None => counts.push(GpuCount { model, count }),
        }
    }
    counts.retain(|gpus| gpus.count > 0);
    counts
        .iter()
        .map(gres::display)
        .collect::<Vec<_>>()
        .join(",")
}

fn files(record: &mut Record, job: &JobView) {
    record.line(format!("Command={}", text::command(job)));
    record.line(format!("WorkDir={}", job.spec.work_dir));
    if !job.spec.comment.is_empty() {
        record.line(format!("Comment={} ", job.spec.comment));
    }
    if job.spec.kind == JobKind::Batch {
        record.line(format!("StdErr={}", text::file(job, Stream::Err)));
        record.line(format!("StdIn={}", text::file(job, Stream::In)));
        record.line(format!("StdOut={}", text::file(job, Stream::Out)));
    }
}

fn requests(record: &mut Record, job: &JobView) {
    let spec = &job.spec;
    record.maybe(spec.switches.map(|switches| {
        let wait = timespec::elapsed_long(switches.max_wait_secs.unwrap_or(0));
        format!("Switches={}@{wait}", switches.count)
    }));
    record.maybe(binding(spec));
    let per_gpu = |key: &str, count| text::per_gpu(count).map(|text| format!("{key}={text}"));
    record.maybe(per_gpu("CpusPerTres", spec.cpus_per_gpu.into()));
    record.maybe(per_gpu("MemPerTres", text::memory_per_gpu(job)));
    record.maybe(text::task_binding(job).map(|text| format!("TresBind={text}")));
    let some = |gpus: &Option<GpuCount>| gpus.as_ref().filter(|gpus| gpus.count > 0).cloned();
    let per = |key: &str, gpus| some(gpus).map(|g| format!("{key}=gres/{}", gres::display(&g)));
    record.maybe(per("TresPerJob", &spec.gpus_total));
    record.maybe(per("TresPerNode", &spec.gpus_per_node));
    record.maybe(per("TresPerSocket", &spec.gpus_per_socket));
    let mut task: Vec<String> = Vec::new();
    if spec.cpus_per_task_set {
        task.push(format!("cpu={}", spec.cpus_per_task));
    }
    task.extend(
        some(&spec.gpus_per_task).map(|gpus| match gpus.model.as_str() {
            "" => format!("gres/gpu={}", gpus.count),
            model => format!("gres/gpu:{model}={}", gpus.count),
        }),
    );
    record.maybe((!task.is_empty()).then(|| format!("TresPerTask={}", task.join(","))));
    let per_tres =
        (spec.tasks_per_gpu > 0).then(|| format!("NtasksPerTRES={}", spec.tasks_per_gpu));
    record.maybe(per_tres);
    record.maybe((spec.segment > 0).then(|| format!("SegmentSize={}", spec.segment)));
}

/// `--gres-flags`, in Slurm's words.
fn binding(spec: &JobSpec) -> Option<String> {
    let flags = spec.gres_flags;
    let words = [
        (flags.allow_task_sharing, "GresAllowTaskSharing=Yes"),
        (flags.disable_binding, "GresEnforceBind=No"),
        (flags.enforce_binding, "GresEnforceBind=Yes"),
        (flags.multiple_tasks_per_sharing, "GresOneTaskPerSharing=No"),
        (flags.one_task_per_sharing, "GresOneTaskPerSharing=Yes"),
    ];
    let set: Vec<&str> = words
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, w)| *w)
        .collect();
    (!set.is_empty()).then(|| set.join(","))
}

/// What the fence refused the job, and what else there is to say of it: lines of our own, after Slurm's.
fn refusals(record: &mut Record, view: &View, job: &JobView, details: &Details<'_>) {
    if !job.reason_text.is_empty() {
        record.line(format!("ReasonText={}", job.reason_text));
    }
    let count = job.denials;
    record.line(format!(
        "FenceDenials={} FenceSuppressed={}",
        count.total, count.suppressed
    ));
    for denial in details.denials {
        record.line(format!("  {}", denied(view, denial)));
    }
    for idle in &job.idle {
        record.line(idle_gpu(view, idle));
    }
}

/// A GPU that the job holds and does not use, as `Key=Value` words.
fn idle_gpu(view: &View, idle: &IdleGpu) -> String {
    let yes = |told: Option<bool>| match told {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    let evidence = &idle.idle;
    let busy = evidence.busy.map(|busy| percent(u64::from(busy)));
    format!(
        "IdleGpu={}:{} IdleSince={} Opened={} OpenNow={} Busy={}",
        idle.node,
        idle.gpu,
        view.clock.stamp(evidence.since),
        yes(evidence.opened),
        yes(evidence.open_now),
        busy.as_deref().unwrap_or("unknown")
    )
}

/// One refusal as `Key=Value` words.
pub fn denied(view: &View, denial: &Denial) -> String {
    let mut text = format!(
        "Denied={} JobId={} Node={} Pid={} UserId={}({}) Command={} Device={} Op={} Reason={}",
        view.clock.stamp(denial.at),
        denial.job,
        denial.node,
        denial.pid,
        view.user(denial.uid),
        denial.uid,
        or_null(&denial.command),
        device(denial),
        denial.op.word(),
        denial.reason.word()
    );
    let object = (!denial.object.is_empty()).then(|| denial.object.clone());
    let more = [
        ("Target", denial.target_pid.map(|pid| pid.to_string())),
        ("Object", object),
        ("Label", denial.label.map(|label| label.word().to_owned())),
        ("Noted", denial.noted.then(|| "yes".to_owned())),
    ];
    for (key, value) in more {
        if let Some(value) = value {
            text.push_str(&format!(" {key}={value}"));
        }
    }
    text
}

/// The device's path and numbers.
fn device(denial: &Denial) -> String {
    if (denial.major, denial.minor) == (0, 0) {
        return or_null("").to_owned();
    }
    format!(
        "{}({}:{})",
        or_null(&denial.device),
        denial.major,
        denial.minor
    )
}
