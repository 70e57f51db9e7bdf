//! `scontrol show job`.

use super::accounts::numbers::percent;
use super::job_text::{self as text, Stream};
use super::record::{Put, Record, by};
use super::{View, or_null};
use spur_core::api::{IdleGpu, JobView};
use spur_core::denial::Denial;
use spur_core::job::array::SHOWN_DEFAULT;
use spur_core::job::spec::{JobKind, JobSpec};
use spur_core::job::state::ExitStatus;
use spur_core::resources::GpuCount;
use spur_core::slurm::{gres, hostlist, timespec};
use spur_core::time::{Millis, TimeLimit};

/// What `-d` adds.
#[derive(Debug)]
pub struct Details<'a> {
    /// The job's newest refusals by the fence, newest last.
    pub denials: &'a [Denial],
}

/// The record of one job.
pub fn record(view: &View, job: &JobView, details: Option<&Details<'_>>, one_line: bool) -> String {
    let mut record = Record::new(String::new(), one_line);
    write(&mut record, view, job, details);
    record.into_text()
}

/// Adds the record of one job.
pub fn write(record: &mut Record, view: &View, job: &JobView, details: Option<&Details<'_>>) {
    first(record, job);
    if let Some(part) = job.het {
        record.begin().add("HetJobIdSet=", &part.id_set());
    }
    identity(record, job, details.is_some());
    times(record, view, job);
    place(record, job);
    resources(record, view, job, details.is_some());
    files(record, job);
    requests(record, job);
    gpus(record, job);
    if let Some(details) = details {
        refusals(record, view, job, details);
    }
    record.begin().end();
}

fn first(record: &mut Record, job: &JobView) {
    record.add("JobId=", job.id.0);
    if let Some(part) = job.het {
        record.add(" HetJobId=", part.leader.0);
        record.add(" HetJobOffset=", part.offset);
    } else if let Some(array) = &job.array {
        record.add(" ArrayJobId=", array.job.0);
        record.add(" ArrayTaskId=", &array.tasks_text(SHOWN_DEFAULT));
        if array.throttle > 0 {
            record.add(" ArrayTaskThrottle=", array.throttle);
        }
    }
    record.add(" JobName=", &job.spec.name);
}

fn identity(record: &mut Record, job: &JobView, details: bool) {
    let (spec, owner, extras) = (&job.spec, &job.spec.owner, job.spec.extras());
    let label = if extras.mcs_label.is_empty() {
        "N/A"
    } else {
        &extras.mcs_label
    };
    let (user, group) = (owner.uid.0, owner.gid.0);
    record.begin().add("UserId=", &owner.user).add("(", user);
    record.add(") GroupId=", &owner.group).add("(", group);
    record.add(") MCS_label=", label);
    record.begin().add("Priority=", job.priority);
    record.add(" Nice=", spec.nice);
    record.add(" Account=", or_null(&spec.account));
    record.add(" QOS=", or_null(&spec.qos));
    record.begin().add("JobState=", text::state(job));
    record.add(
        " Reason=",
        by(|out| text::write_reason_in_one_word(job, out)),
    );
    record.add(" Dependency=", or_null(&job.dependency));
    record.begin().add("Requeue=", spec.requeue);
    record.add(" Restarts=", job.restarts);
    record.add(" BatchFlag=", text::is_batch(job));
    record.add(" Reboot=", extras.reboot);
    exit(record, " ExitCode=", job.exit);
    if details {
        exit(record.begin(), "DerivedExitCode=", job.derived_exit);
    }
}

/// `CODE:SIGNAL`.
fn exit(record: &mut Record, key: &str, exit: ExitStatus) {
    record.add(key, exit.code).add(":", exit.signal);
}

fn times(record: &mut Record, view: &View, job: &JobView) {
    let stamp = |at: Option<Millis>, unknown: &'static str| {
        by(move |out| match at {
            Some(at) => view.clock.write(at, out),
            None => out.push_str(unknown),
        })
    };
    let limit = |limit: Option<TimeLimit>, unknown: &'static str| {
        by(move |out| match limit {
            Some(limit) => timespec::write_limit_long(limit, out),
            None => out.push_str(unknown),
        })
    };
    let extras = job.spec.extras();
    let run = text::run_secs(view, job);
    record
        .begin()
        .add("RunTime=", by(|out| timespec::write_elapsed_long(run, out)));
    record.add(" TimeLimit=", limit(job.spec.time_limit, "Partition_Limit"));
    record.add(" TimeMin=", limit(extras.time_min, "N/A"));
    record
        .begin()
        .add("SubmitTime=", stamp(Some(job.submitted), UNKNOWN));
    record.add(" EligibleTime=", stamp(text::eligible(job), UNKNOWN));
    record
        .begin()
        .add("AccrueTime=", stamp(text::accrues(job), UNKNOWN));
    record
        .begin()
        .add("StartTime=", stamp(text::start_shown(view, job), UNKNOWN));
    record.add(" EndTime=", stamp(text::end(view, job), UNKNOWN));
    record.add(" Deadline=", stamp(extras.deadline, "N/A"));
    if let Some(cron) = &extras.cron {
        record
            .begin()
            .add("CronJob=Yes CrontabSpec=\"", cron.times.as_str());
        record.add("\"", "");
    }
    let scheduler = match text::backfilled(job) {
        (false, _) => "Main",
        (true, false) => "Backfill",
        (true, true) => "Backfill:*",
    };
    record
        .begin()
        .add("SuspendTime=", stamp(job.turned, "None"));
    record.add(" SecsPreSuspend=", job.ran_before_ms / 1000);
    record.add(
        " LastSchedEval=",
        stamp(text::last_evaluation(job), UNKNOWN),
    );
    record.add(" Scheduler=", scheduler);
}

/// A moment that is not known.
const UNKNOWN: &str = "Unknown";

fn place(record: &mut Record, job: &JobView) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    record.begin().add("Partition=", &spec.partition);
    record
        .add(" AllocNode:Sid=", &spec.submit_host)
        .add(":", spec.submit_sid);
    record
        .begin()
        .add("ReqNodeList=", or_null(&text::hosts(&spec.nodelist)));
    record.add(" ExcNodeList=", or_null(&text::hosts(&spec.exclude)));
    record
        .begin()
        .add("NodeList=", by(|out| text::write_nodes(job, out)));
    let planned = text::planned_nodes(job);
    if !planned.is_empty() {
        record.add(" SchedNodeList=", &hostlist::compress(&planned));
    }
    let features = (!extras.batch_features.is_empty())
        .then(|| format!("BatchFeatures={}", extras.batch_features));
    let host = text::batch_host(job).map(|host| format!("BatchHost={host}"));
    let line: Vec<String> = features.into_iter().chain(host).collect();
    record.maybe((!line.is_empty()).then(|| line.join(" ")));
    let least = text::node_count(job);
    record.begin();
    match text::max_nodes(job) {
        0 => record.add("NumNodes=", least),
        most => record
            .add("NumNodes=", least.min(most.into()))
            .add("-", most),
    };
    record.add(" NumCPUs=", text::cpu_count(job));
    record.add(" NumTasks=", text::task_count(job));
    record.add(" CPUs/Task=", spec.cpus_per_task.max(1));
    record.add(" ReqB:S:C:T=0:0:", Given(extras.cores_per_socket));
    record.add(":", Given(extras.threads_per_core));
}

/// A number, or `*` where it was not given.
struct Given(u32);

impl Put for Given {
    fn put(self, out: &mut String) {
        match self.0 {
            0 => out.push('*'),
            given => given.put(out),
        }
    }
}

fn resources(record: &mut Record, view: &View, job: &JobView, details: bool) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    let wanted = by(|out| text::write_wanted_tres(view, job, out));
    record.begin().add("ReqTRES=", wanted);
    record.begin();
    if job.nodes.is_empty() {
        record.add("AllocTRES=", "(null)");
    } else {
        record.add("AllocTRES=", &text::job_tres(view, job));
    }
    record
        .begin()
        .add("Socks/Node=", Given(spec.sockets_per_node));
    record.add(" NtasksPerN:B:S:C=", spec.tasks_per_node);
    record.add(":0:", Given(spec.tasks_per_socket));
    record.add(":", Given(extras.tasks_per_core));
    match (extras.core_spec, extras.thread_spec) {
        (Some(cores), _) => record.add(" CoreSpec=", cores),
        (None, Some(threads)) => record.add(" ThreadSpec=", threads),
        (None, None) => record.add(" CoreSpec=", "*"),
    };
    if details && !job.nodes.is_empty() {
        shares(record, job);
    }
    let mib = |mib: u64| by(move |out| view.write_mib(mib, out));
    let (name, memory) = text::memory_request(job);
    record.begin().add("MinCPUsNode=", text::cpus_per_node(job));
    record.add(" ", name).add("=", mib(memory));
    record.add(" MinTmpDiskNode=", mib(extras.tmp_mib));
    record.begin().add("Features=", or_null(&spec.constraint));
    let delay = extras.delay_boot.unwrap_or(0);
    record.add(
        " DelayBoot=",
        by(|out| timespec::write_elapsed_long(delay, out)),
    );
    said(record, "ClusterFeatures=", &extras.cluster_features);
    said(record, "Prefer=", &spec.prefer);
    said(record, "Reservation=", &extras.reservation);
    record.begin().add("OverSubscribe=", text::sharing(job));
    record.add(" Contiguous=", spec.contiguous);
    record.add(" Licenses=", or_null(&extras.licenses));
    record.add(" Network=", or_null(&extras.network));
}

/// A line of what was said, if anything was.
fn said(record: &mut Record, key: &str, value: &str) {
    if !value.is_empty() {
        record.begin().add(key, value);
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
    record.begin().add("Command=", text::command(job));
    record.begin().add("WorkDir=", &spec.work_dir);
    // Slurm has a blank behind each of these.
    for (key, value) in [
        ("AdminComment=", &extras.admin_comment),
        ("Comment=", &spec.comment),
        ("Extra=", &extras.extra),
    ] {
        if !value.is_empty() {
            record.begin().add(key, value).add(" ", "");
        }
    }
    if spec.kind == JobKind::Batch {
        for (key, stream) in [
            ("StdErr=", Stream::Err),
            ("StdIn=", Stream::In),
            ("StdOut=", Stream::Out),
        ] {
            let file = by(|out| text::write_file(job, stream, out));
            record.begin().add(key, file);
        }
    }
}

fn requests(record: &mut Record, job: &JobView) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    record.maybe(spec.switches.map(|switches| {
        let wait = timespec::elapsed_long(switches.max_wait_secs.unwrap_or(0));
        format!("Switches={}@{wait}", switches.count)
    }));
    said(record, "BurstBuffer=", &extras.burst_buffer);
    record.maybe(binding(spec));
    let kills = extras
        .oom_kill_step
        .map(|kill| format!("OOMKillStep={}", u8::from(kill)));
    record.maybe(kills);
    let per_gpu = |key: &str, count| text::per_gpu(count).map(|text| format!("{key}={text}"));
    record.maybe(per_gpu("CpusPerTres", spec.cpus_per_gpu.into()));
    record.maybe(per_gpu("MemPerTres", text::memory_per_gpu(job)));
    record.maybe(text::task_binding(job).map(|text| format!("TresBind={text}")));
    said(record, "TresFreq=", &extras.tres_freq);
}

/// GPUs as they were asked for, and what follows them.
fn gpus(record: &mut Record, job: &JobView) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    for (key, gpus) in [
        ("TresPerJob=gres/", &spec.gpus_total),
        ("TresPerNode=gres/", &spec.gpus_per_node),
        ("TresPerSocket=gres/", &spec.gpus_per_socket),
    ] {
        if let Some(gpus) = gpus.as_ref().filter(|gpus| gpus.count > 0) {
            let gpus = by(|out| gres::write(gpus, out));
            record.begin().add(key, gpus);
        }
    }
    record.maybe(text::tres_per_task(job).map(|text| format!("TresPerTask={text}")));
    if !extras.mail_type.is_empty() && extras.mail_type != "NONE" {
        let user = match extras.mail_user.as_str() {
            "" => &spec.owner.user,
            user => user,
        };
        record.begin().add("MailUser=", user);
        record.add(" MailType=", &extras.mail_type);
    }
    if spec.tasks_per_gpu > 0 {
        record.begin().add("NtasksPerTRES=", spec.tasks_per_gpu);
    }
    if !(extras.container.is_empty() && extras.container_id.is_empty()) {
        record.begin().add("Container=", or_null(&extras.container));
        record.add(" ContainerID=", or_null(&extras.container_id));
    }
    if spec.segment > 0 {
        record.begin().add("SegmentSize=", spec.segment);
    }
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
