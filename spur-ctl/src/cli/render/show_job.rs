//! `scontrol show job`.

use super::accounts::numbers::percent;
use super::job_text::{self as text, Stream};
use super::record::Record;
use super::{View, or_null};
use spur_core::api::{IdleGpu, JobView};
use spur_core::denial::Denial;
use spur_core::job::array::SHOWN_DEFAULT;
use spur_core::job::spec::{JobKind, JobSpec};
use spur_core::resources::GpuCount;
use spur_core::slurm::{codes, gres, hostlist, signal, timespec};
use spur_core::time::Millis;
use std::fmt;

/// What `-d` adds.
#[derive(Debug)]
pub struct Details<'a> {
    /// The job's newest refusals by the fence, newest last.
    pub denials: &'a [Denial],
}

/// The record of one job.
pub fn record(view: &View, job: &JobView, details: Option<&Details<'_>>, one_line: bool) -> String {
    let mut record = Record::new(first(job), one_line);
    if let Some(part) = job.het {
        record.line(format_args!("HetJobIdSet={}", part.id_set()));
    }
    identity(&mut record, job, details.is_some());
    times(&mut record, view, job);
    place(&mut record, job);
    resources(&mut record, view, job, details.is_some());
    files(&mut record, job);
    requests(&mut record, job);
    gpus(&mut record, job);
    if let Some(details) = details {
        refusals(&mut record, view, job, details);
    }
    record.line("");
    record.end()
}

fn first(job: &JobView) -> String {
    let (id, name) = (job.id, &job.spec.name);
    if let Some(part) = job.het {
        let (leader, offset) = (part.leader, part.offset);
        return format!("JobId={id} HetJobId={leader} HetJobOffset={offset} JobName={name}");
    }
    let Some(array) = &job.array else {
        return format!("JobId={id} JobName={name}");
    };
    let tasks = array.tasks_text(SHOWN_DEFAULT);
    let throttle = match array.throttle {
        0 => String::new(),
        most => format!("ArrayTaskThrottle={most} "),
    };
    format!(
        "JobId={id} ArrayJobId={} ArrayTaskId={tasks} {throttle}JobName={name}",
        array.job
    )
}

fn identity(record: &mut Record, job: &JobView, details: bool) {
    let (spec, owner, extras) = (&job.spec, &job.spec.owner, job.spec.extras());
    let label = if extras.mcs_label.is_empty() {
        "N/A"
    } else {
        &extras.mcs_label
    };
    record.line(format_args!(
        "UserId={}({}) GroupId={}({}) MCS_label={label}",
        owner.user, owner.uid, owner.group, owner.gid
    ));
    record.line(format_args!(
        "Priority={} Nice={} Account={} QOS={}",
        job.priority,
        spec.nice,
        or_null(&spec.account),
        or_null(&spec.qos)
    ));
    record.line(format_args!(
        "JobState={} Reason={} Dependency={}",
        text::state(job),
        codes::one_word(&text::reason(job)),
        or_null(&job.dependency)
    ));
    record.line(format_args!(
        "Requeue={} Restarts={} BatchFlag={} Reboot={} ExitCode={}",
        u8::from(spec.requeue),
        job.restarts,
        u8::from(text::is_batch(job)),
        u8::from(extras.reboot),
        signal::pair(job.exit)
    ));
    if details {
        record.line(format_args!(
            "DerivedExitCode={}",
            signal::pair(job.derived_exit)
        ));
    }
}

fn times(record: &mut Record, view: &View, job: &JobView) {
    let stamp = |at: Option<Millis>| Stamp(view, at);
    let extras = job.spec.extras();
    let limit = job
        .spec
        .time_limit
        .map_or_else(|| "Partition_Limit".to_owned(), timespec::limit_long);
    let least = extras.time_min.map(timespec::limit_long);
    record.line(format_args!(
        "RunTime={} TimeLimit={limit} TimeMin={}",
        timespec::elapsed_long(text::run_secs(view, job)),
        least.as_deref().unwrap_or("N/A")
    ));
    record.line(format_args!(
        "SubmitTime={} EligibleTime={}",
        stamp(Some(job.submitted)),
        stamp(text::eligible(job))
    ));
    record.line(format_args!("AccrueTime={}", stamp(text::accrues(job))));
    let deadline = extras.deadline.map(|at| view.clock.stamp(at));
    record.line(format_args!(
        "StartTime={} EndTime={} Deadline={}",
        stamp(text::start_shown(view, job)),
        stamp(text::end(view, job)),
        deadline.as_deref().unwrap_or("N/A")
    ));
    let suspended = job.suspended.map(|at| view.clock.stamp(at));
    let scheduler = match text::backfilled(job) {
        (false, _) => "Main",
        (true, false) => "Backfill",
        (true, true) => "Backfill:*",
    };
    record.line(format_args!(
        "SuspendTime={} SecsPreSuspend={} LastSchedEval={} Scheduler={scheduler}",
        suspended.as_deref().unwrap_or("None"),
        job.suspended_ms / 1000,
        stamp(text::last_evaluation(job))
    ));
}

/// A moment that is written when it is shown.
struct Stamp<'a>(&'a View, Option<Millis>);

impl fmt::Display for Stamp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        match self.1 {
            Some(at) => self.0.clock.write(at, &mut text),
            None => return f.write_str("Unknown"),
        }
        f.write_str(&text)
    }
}

fn place(record: &mut Record, job: &JobView) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    record.line(format_args!(
        "Partition={} AllocNode:Sid={}:{}",
        spec.partition, spec.submit_host, spec.submit_sid
    ));
    record.line(format_args!(
        "ReqNodeList={} ExcNodeList={}",
        or_null(&text::hosts(&spec.nodelist)),
        or_null(&text::hosts(&spec.exclude))
    ));
    let planned = text::planned_nodes(job);
    let planned = match planned.as_slice() {
        [] => String::new(),
        nodes => format!(" SchedNodeList={}", hostlist::compress(nodes)),
    };
    record.line(format_args!("NodeList={}{planned}", text::node_list(job)));
    let features = (!extras.batch_features.is_empty())
        .then(|| format!("BatchFeatures={}", extras.batch_features));
    let host = text::batch_host(job).map(|host| format!("BatchHost={host}"));
    let line: Vec<String> = features.into_iter().chain(host).collect();
    record.maybe((!line.is_empty()).then(|| line.join(" ")));
    let least = text::node_count(job);
    let nodes = match text::max_nodes(job) {
        0 => least.to_string(),
        most => format!("{}-{most}", least.min(most.into())),
    };
    record.line(format_args!(
        "NumNodes={nodes} NumCPUs={} NumTasks={} CPUs/Task={} ReqB:S:C:T=0:0:{}:{}",
        text::cpu_count(job),
        text::task_count(job),
        spec.cpus_per_task.max(1),
        text::given(extras.cores_per_socket, "*"),
        text::given(extras.threads_per_core, "*")
    ));
}

/// `CoreSpec=4`, `ThreadSpec=4`, `CoreSpec=*`.
fn core_spec(job: &JobView) -> String {
    let extras = job.spec.extras();
    match (extras.core_spec, extras.thread_spec) {
        (Some(cores), _) => format!("CoreSpec={cores}"),
        (None, Some(threads)) => format!("ThreadSpec={threads}"),
        (None, None) => "CoreSpec=*".to_owned(),
    }
}

fn resources(record: &mut Record, view: &View, job: &JobView, details: bool) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    record.line(format_args!("ReqTRES={}", text::wanted_tres(view, job)));
    let held = (!job.nodes.is_empty()).then(|| text::job_tres(view, job));
    record.line(format_args!(
        "AllocTRES={}",
        held.as_deref().unwrap_or("(null)")
    ));
    record.line(format_args!(
        "Socks/Node={} NtasksPerN:B:S:C={}:0:{}:{} {}",
        text::given(spec.sockets_per_node, "*"),
        spec.tasks_per_node,
        text::given(spec.tasks_per_socket, "*"),
        text::given(extras.tasks_per_core, "*"),
        core_spec(job)
    ));
    if details && !job.nodes.is_empty() {
        shares(record, job);
    }
    let (name, mib) = text::memory_request(job);
    record.line(format_args!(
        "MinCPUsNode={} {name}={} MinTmpDiskNode={}",
        text::cpus_per_node(job),
        view.mib(mib),
        view.mib(extras.tmp_mib)
    ));
    record.line(format_args!(
        "Features={} DelayBoot={}",
        or_null(&spec.constraint),
        timespec::elapsed_long(extras.delay_boot.unwrap_or(0))
    ));
    said(record, "ClusterFeatures", &extras.cluster_features);
    said(record, "Prefer", &spec.prefer);
    said(record, "Reservation", &extras.reservation);
    record.line(format_args!(
        "OverSubscribe={} Contiguous={} Licenses={} Network={}",
        text::sharing(job),
        u8::from(spec.contiguous),
        or_null(&extras.licenses),
        or_null(&extras.network)
    ));
}

/// A line of what was said, if anything was.
fn said(record: &mut Record, key: &str, value: &str) {
    if !value.is_empty() {
        record.line(format_args!("{key}={value}"));
    }
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
    record.line(format_args!("JOB_GRES={}", or_null(&all_gpus(job))));
    for alike in lines.chunk_by(|a, b| a.0 == b.0) {
        let names: Vec<&str> = alike.iter().map(|(_, name)| *name).collect();
        record.line(format_args!(
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
    let (spec, extras) = (&job.spec, job.spec.extras());
    record.line(format_args!("Command={}", text::command(job)));
    record.line(format_args!("WorkDir={}", spec.work_dir));
    // Slurm has a blank behind each of these.
    for (key, value) in [
        ("AdminComment", &extras.admin_comment),
        ("Comment", &spec.comment),
        ("Extra", &extras.extra),
    ] {
        if !value.is_empty() {
            record.line(format_args!("{key}={value} "));
        }
    }
    if spec.kind == JobKind::Batch {
        record.line(format_args!("StdErr={}", text::file(job, Stream::Err)));
        record.line(format_args!("StdIn={}", text::file(job, Stream::In)));
        record.line(format_args!("StdOut={}", text::file(job, Stream::Out)));
    }
}

fn requests(record: &mut Record, job: &JobView) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    record.maybe(spec.switches.map(|switches| {
        let wait = timespec::elapsed_long(switches.max_wait_secs.unwrap_or(0));
        format!("Switches={}@{wait}", switches.count)
    }));
    said(record, "BurstBuffer", &extras.burst_buffer);
    record.maybe(binding(spec));
    let kills = extras
        .oom_kill_step
        .map(|kill| format!("OOMKillStep={}", u8::from(kill)));
    record.maybe(kills);
    let per_gpu = |key: &str, count| text::per_gpu(count).map(|text| format!("{key}={text}"));
    record.maybe(per_gpu("CpusPerTres", spec.cpus_per_gpu.into()));
    record.maybe(per_gpu("MemPerTres", text::memory_per_gpu(job)));
    record.maybe(text::task_binding(job).map(|text| format!("TresBind={text}")));
    said(record, "TresFreq", &extras.tres_freq);
}

/// GPUs as they were asked for, and what follows them.
fn gpus(record: &mut Record, job: &JobView) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    let some = |gpus: &Option<GpuCount>| gpus.as_ref().filter(|gpus| gpus.count > 0).cloned();
    let per = |key: &str, gpus| some(gpus).map(|g| format!("{key}=gres/{}", gres::display(&g)));
    record.maybe(per("TresPerJob", &spec.gpus_total));
    record.maybe(per("TresPerNode", &spec.gpus_per_node));
    record.maybe(per("TresPerSocket", &spec.gpus_per_socket));
    record.maybe(text::tres_per_task(job).map(|text| format!("TresPerTask={text}")));
    if !extras.mail_type.is_empty() && extras.mail_type != "NONE" {
        let user = match extras.mail_user.as_str() {
            "" => &spec.owner.user,
            user => user,
        };
        record.line(format_args!(
            "MailUser={user} MailType={}",
            extras.mail_type
        ));
    }
    let per_tres =
        (spec.tasks_per_gpu > 0).then(|| format!("NtasksPerTRES={}", spec.tasks_per_gpu));
    record.maybe(per_tres);
    if !(extras.container.is_empty() && extras.container_id.is_empty()) {
        record.line(format_args!(
            "Container={} ContainerID={}",
            or_null(&extras.container),
            or_null(&extras.container_id)
        ));
    }
    record.maybe((spec.segment > 0).then(|| format!("SegmentSize={}", spec.segment)));
}

/// `--gres-flags` and the like, in Slurm's words.
fn binding(spec: &JobSpec) -> Option<String> {
    let flags = spec.gres_flags;
    let words = [
        (flags.allow_task_sharing, "GresAllowTaskSharing=Yes"),
        (flags.disable_binding, "GresEnforceBind=No"),
        (flags.enforce_binding, "GresEnforceBind=Yes"),
        (flags.multiple_tasks_per_sharing, "GresOneTaskPerSharing=No"),
        (flags.one_task_per_sharing, "GresOneTaskPerSharing=Yes"),
        (
            spec.kill_on_invalid_dep == Some(true),
            "KillOInInvalidDependent=Yes",
        ),
        (
            spec.kill_on_invalid_dep == Some(false),
            "KillOInInvalidDependent=No",
        ),
        (spec.extras().spread_job, "SpreadJob=Yes"),
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
        record.line(format_args!("ReasonText={}", job.reason_text));
    }
    let count = job.denials;
    if count.total > 0 {
        record.line(format_args!(
            "FenceDenials={} FenceSuppressed={}",
            count.total, count.suppressed
        ));
    }
    for denial in details.denials {
        record.line(format_args!("  {}", denied(view, denial)));
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
