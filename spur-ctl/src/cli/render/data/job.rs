//! Jobs in structured output, in the order of Slurm's parsers.

mod flags;
mod resources;

use super::{Document, Number, Parser, bare};
use crate::cli::link::{self, Trouble};
use crate::cli::render::View;
use crate::cli::render::job_text::{self as text, Stream};
use spur_core::api::{JobView, NodeView, Reply, Request};
use spur_core::job::het::HetPart;
use spur_core::job::spec::JobKind;
use spur_core::job::state::{ExitStatus, JobState};
use spur_core::resources::{GpuCount, MemoryRequest};
use spur_core::slurm::{gres, hostlist, signal};
use spur_core::time::{Millis, TimeLimit};
use std::borrow::Borrow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Nodes by name: how their cores are laid out. They are asked for when the first job holds one.
#[derive(Default)]
pub struct Nodes(OnceCell<Result<BTreeMap<String, Arc<NodeView>>, Trouble>>);

impl Nodes {
    fn get(&self, name: &str) -> Option<&NodeView> {
        let known = self.0.get_or_init(Self::ask).as_ref().ok()?;
        known.get(name).map(|node| &**node)
    }

    fn ask() -> Result<BTreeMap<String, Arc<NodeView>>, Trouble> {
        let Reply::Nodes(nodes) = link::question(&Request::Nodes)? else {
            return Err(link::unexpected());
        };
        let named = |node: Arc<NodeView>| (node.node.name.to_string(), node);
        Ok(nodes.into_iter().map(named).collect())
    }

    /// Why they could not be had, if they could not.
    fn trouble(self) -> Option<Trouble> {
        self.0.into_inner().and_then(Result::err)
    }
}

/// `jobs`, `last_backfill`, `last_update`, which Slurm does not say of a job that was asked for `alone`. What is written by then stays
/// written if a job or the nodes cannot be read: the document has to say so.
pub fn all<J: Borrow<JobView>>(
    doc: &mut Document,
    view: &View,
    jobs: impl Iterator<Item = Result<J, Trouble>>,
    alone: bool,
) -> Result<(), Trouble> {
    let (nodes, mut some, mut came) = (Nodes::default(), false, Ok(()));
    let readable = jobs.map_while(|job| job.map_err(|trouble| came = Err(trouble)).ok());
    doc.list("jobs", readable, |doc, job| {
        some = true;
        doc.item(|doc| one(doc, view, job.borrow(), &nodes));
    });
    let now = if some { view.clock.now.secs() } else { 0 };
    doc.number("last_backfill", Number::Is(now));
    doc.number("last_update", Number::Is(if alone { 0 } else { now }));
    came.and(nodes.trouble().map_or(Ok(()), Err))
}

/// The fields of one job.
fn one(doc: &mut Document, view: &View, job: &JobView, nodes: &Nodes) {
    array(doc, view, job);
    flags::write(doc, job);
    kinds(doc, view, job);
    counts(doc, job);
    dependencies(doc, job);
    ends(doc, view, job);
    places(doc, view, job, nodes);
    mail(doc, job);
    shape(doc, job);
    memory(doc, job);
    policy(doc, job);
    sharing(doc, job);
    state(doc, view, job);
    files(doc, job);
    limits(doc, job);
    tres(doc, view, job);
    doc.int("user_id", job.spec.owner.uid.0);
    doc.text("user_name", &job.spec.owner.user);
    let wait = job
        .spec
        .switches
        .and_then(|switches| switches.max_wait_secs);
    doc.count("maximum_switch_wait_time", wait.unwrap_or(0));
    doc.text("wckey", &job.spec.extras().wckey);
    doc.text("current_working_directory", &job.spec.work_dir);
}

fn moment(doc: &mut Document, key: &str, at: Option<Millis>) {
    doc.number(key, Number::Is(at.map_or(0, Millis::secs)));
}

fn zero(doc: &mut Document, key: &str) {
    doc.number(key, Number::Is(0));
}

/// A count of which 0 means that it was not given.
fn given(doc: &mut Document, key: &str, count: u32) {
    doc.number(key, Number::maybe((count > 0).then(|| count.into())));
}

fn array(doc: &mut Document, _: &View, job: &JobView) {
    let array = job.array.as_ref();
    doc.text("account", &job.spec.account);
    moment(doc, "accrue_time", text::accrues(job));
    doc.text("admin_comment", &job.spec.extras().admin_comment);
    doc.text("allocating_node", &job.spec.submit_host);
    doc.number(
        "array_job_id",
        Number::Is(array.map_or(0, |a| a.job.0.into())),
    );
    doc.number(
        "array_task_id",
        Number::maybe(array.and_then(|a| a.task).map(u64::from)),
    );
    doc.number(
        "array_max_tasks",
        Number::Is(array.map_or(0, |a| a.throttle.into())),
    );
    let waiting = array.filter(|a| a.task.is_none()).map(|a| a.tasks_text(0));
    doc.text("array_task_string", waiting.as_deref().unwrap_or_default());
    doc.int("association_id", job.spec.association);
    doc.text("batch_features", &job.spec.extras().batch_features);
    doc.bool("batch_flag", text::is_batch(job));
    doc.text("batch_host", text::batch_host(job).unwrap_or_default());
}

fn kinds(doc: &mut Document, view: &View, job: &JobView) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    doc.text("burst_buffer", &extras.burst_buffer);
    doc.text("burst_buffer_state", "");
    doc.text("cluster", &view.cluster);
    doc.text("cluster_features", &extras.cluster_features);
    doc.text("command", &spec.command);
    doc.text("comment", &spec.comment);
    doc.text("container", &extras.container);
    doc.text("container_id", &extras.container_id);
    doc.bool("contiguous", spec.contiguous);
    doc.int("core_spec", extras.core_spec.unwrap_or(0));
    // What Slurm has when none are asked for.
    doc.int("thread_spec", extras.thread_spec.unwrap_or(32_766));
    given(doc, "cores_per_socket", extras.cores_per_socket);
}

fn counts(doc: &mut Document, job: &JobView) {
    let spec = &job.spec;
    let held = text::cpu_count(job);
    let billed = u32::try_from(held).map_or(f64::MAX, f64::from);
    let billing = if job.nodes.is_empty() {
        Number::UnsetFraction
    } else {
        Number::Fraction(billed)
    };
    doc.number("billable_tres", billing);
    doc.number(
        "cpus_per_task",
        Number::Is(spec.cpus_per_task.max(1).into()),
    );
    for key in [
        "cpu_frequency_minimum",
        "cpu_frequency_maximum",
        "cpu_frequency_governor",
    ] {
        doc.number(key, Number::Unset);
    }
    let per_gpu = text::per_gpu(spec.cpus_per_gpu.into());
    doc.text("cpus_per_tres", per_gpu.as_deref().unwrap_or_default());
    doc.text("cron", "");
}

fn dependencies(doc: &mut Document, job: &JobView) {
    let extras = job.spec.extras();
    moment(doc, "deadline", extras.deadline);
    doc.number("delay_boot", Number::Is(extras.delay_boot.unwrap_or(0)));
    doc.text("dependency", &job.dependency);
    exit(doc, "derived_exit_code", job.derived_exit);
}

/// How something ended.
pub(super) fn exit(doc: &mut Document, key: &str, exit: ExitStatus) {
    doc.map(key, |doc| {
        let (status, code) = match (exit.code, exit.signal) {
            (0, 0) => ("SUCCESS", Number::Is(0)),
            (code, 0) => ("ERROR", Number::Is(code.into())),
            (_, _) => ("SIGNALED", Number::Unset),
        };
        doc.texts("status", [status]);
        doc.number("return_code", code);
        doc.map("signal", |doc| {
            let id = (exit.signal > 0).then(|| exit.signal.into());
            doc.number("id", Number::maybe(id));
            let name = (exit.signal > 0).then(|| signal::name(exit.signal));
            doc.text("name", name.as_deref().unwrap_or_default());
        });
    });
}

fn ends(doc: &mut Document, view: &View, job: &JobView) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    moment(doc, "eligible_time", text::eligible(job));
    moment(doc, "end_time", text::end(view, job));
    doc.text("excluded_nodes", &text::hosts(&spec.exclude));
    exit(doc, "exit_code", job.exit);
    doc.text("extra", &extras.extra);
    doc.text("failed_node", "");
    doc.text("features", &spec.constraint);
    doc.text("federation_origin", "");
    doc.text("federation_siblings_active", "");
    doc.text("federation_siblings_viable", "");
    doc.list("gres_detail", 0..job.nodes.len(), |doc, at| {
        let gpus = &job.nodes[at].share.gpus;
        let model = job.gpu_models.get(at).cloned().unwrap_or_default();
        if !gpus.is_empty() {
            let count = gpus.len();
            let held = gres::display(&GpuCount { model, count });
            doc.item_text(&format!("{held}(IDX:{gpus})"));
        }
    });
    doc.int("group_id", spec.owner.gid.0);
    doc.text("group_name", &spec.owner.group);
    let part = job.het;
    let number = |number: Option<u32>| Number::Is(number.unwrap_or(0).into());
    doc.number("het_job_id", number(part.map(|part| part.leader.0)));
    let set = part.map(HetPart::id_set);
    doc.text("het_job_id_set", set.as_deref().unwrap_or_default());
    doc.number("het_job_offset", number(part.map(|part| part.offset)));
    doc.int("job_id", job.id.0);
}

fn places(doc: &mut Document, _: &View, job: &JobView, nodes: &Nodes) {
    resources::write(doc, job, nodes);
    doc.list("job_size_str", None::<u8>, |_, _| ());
    let base = spur_core::slurm::codes::job_state(job.state, false);
    let completing = job.completing.then_some("COMPLETING");
    let configuring = text::is_configuring(job).then_some("CONFIGURING");
    let flags = completing.into_iter().chain(configuring);
    doc.texts("job_state", std::iter::once(base).chain(flags));
    moment(doc, "last_sched_evaluation", text::last_evaluation(job));
    doc.text("licenses", &job.spec.extras().licenses);
}

fn mail(doc: &mut Document, job: &JobView) {
    let extras = job.spec.extras();
    let kinds = extras
        .mail_type
        .split(',')
        .filter(|kind| !kind.is_empty() && *kind != "NONE");
    doc.texts("mail_type", kinds);
    let user = match extras.mail_user.as_str() {
        "" => &job.spec.owner.user,
        user => user,
    };
    doc.text("mail_user", user);
}

fn shape(doc: &mut Document, job: &JobView) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    zero(doc, "max_cpus");
    doc.number("max_nodes", Number::Is(text::max_nodes(job).into()));
    doc.text("mcs_label", &extras.mcs_label);
    let per_gpu = text::per_gpu(text::memory_per_gpu(job));
    doc.text("memory_per_tres", per_gpu.as_deref().unwrap_or_default());
    doc.text("name", &spec.name);
    doc.text("network", &extras.network);
    doc.text("nodes", &text::node_list(job));
    doc.int("nice", spec.nice);
    let or_any = |count: u32| match count {
        0 => Number::Infinite,
        count => Number::Is(count.into()),
    };
    doc.number("tasks_per_core", or_any(extras.tasks_per_core));
    doc.number("tasks_per_tres", Number::Is(spec.tasks_per_gpu.into()));
    doc.number("tasks_per_node", Number::Is(spec.tasks_per_node.into()));
    doc.number("tasks_per_socket", or_any(spec.tasks_per_socket));
    zero(doc, "tasks_per_board");
    doc.number("cpus", Number::Is(text::cpu_count(job)));
    doc.number("node_count", Number::Is(text::node_count(job)));
    doc.number("tasks", Number::Is(text::task_count(job)));
    doc.text("partition", &spec.partition);
    doc.text("prefer", &spec.prefer);
}

fn memory(doc: &mut Document, job: &JobView) {
    let (per_cpu, per_node) = match job.spec.memory {
        MemoryRequest::PerCpu(mib) => (Number::Is(mib), Number::Unset),
        MemoryRequest::PerNode(mib) => (Number::Unset, Number::Is(mib)),
        MemoryRequest::Default | MemoryRequest::PerGpu(_) => (Number::Unset, Number::Is(0)),
    };
    doc.number("memory_per_cpu", per_cpu);
    doc.number("memory_per_node", per_node);
    doc.number(
        "minimum_cpus_per_node",
        Number::Is(text::cpus_per_node(job)),
    );
    doc.number(
        "minimum_tmp_disk_per_node",
        Number::Is(job.spec.extras().tmp_mib),
    );
    doc.map("power", |doc| doc.list("flags", None::<u8>, |_, _| ()));
    zero(doc, "preempt_time");
    zero(doc, "preemptable_time");
    doc.number("pre_sus_time", Number::Is(job.ran_before_ms / 1000));
}

fn policy(doc: &mut Document, job: &JobView) {
    let (spec, extras) = (&job.spec, job.spec.extras());
    doc.bool("hold", text::is_held(job));
    doc.number("priority", Number::Is(job.priority.into()));
    let newest = doc.parser() >= Parser::V42;
    if newest {
        doc.list("priority_by_partition", None::<u8>, |_, _| ());
    }
    let profile = extras.profile.to_ascii_uppercase();
    let profile = if profile.is_empty() {
        "NOT_SET"
    } else {
        &profile
    };
    doc.texts("profile", profile.split(','));
    doc.text("qos", &spec.qos);
    doc.bool("reboot", extras.reboot);
    doc.text("required_nodes", &text::hosts(&spec.nodelist));
    let switches = spec.switches.map_or(0, |switches| switches.count);
    doc.int(
        if newest {
            "required_switches"
        } else {
            "minimum_switches"
        },
        switches,
    );
    doc.bool("requeue", spec.requeue);
    zero(doc, "resize_time");
    doc.int("restart_cnt", job.restarts);
    doc.text("resv_name", &extras.reservation);
    let planned = text::planned_nodes(job);
    doc.text("scheduled_nodes", &hostlist::compress(&planned));
    doc.text("selinux_context", "");
}

fn sharing(doc: &mut Document, job: &JobView) {
    let word = text::sharing(job);
    let shared = match word {
        "NO" => Some("none"),
        "YES" => Some("oversubscribe"),
        _ => None,
    };
    doc.texts("shared", shared);
    if doc.parser() < Parser::V42 {
        let exclusive = match word {
            "NO" => Some("true"),
            "YES" => Some("false"),
            _ => None,
        };
        doc.texts("exclusive", exclusive);
        doc.bool("oversubscribe", word != "NO");
        doc.list("show_flags", None::<u8>, |_, _| ());
    }
    doc.int("sockets_per_board", 0);
    given(doc, "sockets_per_node", job.spec.sockets_per_node);
}

fn state(doc: &mut Document, view: &View, job: &JobView) {
    moment(doc, "start_time", text::start_shown(view, job));
    let reason = text::reason(job);
    let described = !job.unavailable.is_empty();
    doc.text("state_description", if described { &reason } else { "" });
    doc.text("state_reason", spur_core::slurm::codes::reason(job.reason));
}

fn files(doc: &mut Document, job: &JobView) {
    let batch = job.spec.kind == JobKind::Batch;
    for (key, stream) in [
        ("standard_error", Stream::Err),
        ("standard_input", Stream::In),
        ("standard_output", Stream::Out),
    ] {
        let file = if batch {
            text::file(job, stream)
        } else {
            String::new()
        };
        doc.text(key, &file);
    }
}

fn minutes(limit: Option<TimeLimit>) -> Number {
    match limit {
        None => Number::Unset,
        Some(TimeLimit::Unlimited) => Number::Infinite,
        Some(TimeLimit::Secs(secs)) => Number::Is(secs / 60),
    }
}

fn limits(doc: &mut Document, job: &JobView) {
    let extras = job.spec.extras();
    moment(doc, "submit_time", Some(job.submitted));
    moment(doc, "suspend_time", job.turned);
    doc.text("system_comment", "");
    doc.number("time_limit", minutes(job.spec.time_limit));
    doc.number(
        "time_minimum",
        minutes(extras.time_min.or(Some(TimeLimit::Secs(0)))),
    );
    given(doc, "threads_per_core", extras.threads_per_core);
}

fn tres(doc: &mut Document, view: &View, job: &JobView) {
    let spec = &job.spec;
    let gpus = |gpus: &Option<GpuCount>| bare(&text::tres_gpus(gpus.as_ref())).to_owned();
    doc.text(
        "tres_bind",
        text::task_binding(job).as_deref().unwrap_or_default(),
    );
    doc.text("tres_freq", &spec.extras().tres_freq);
    doc.text("tres_per_job", &gpus(&spec.gpus_total));
    doc.text("tres_per_node", &gpus(&spec.gpus_per_node));
    doc.text("tres_per_socket", &gpus(&spec.gpus_per_socket));
    doc.text(
        "tres_per_task",
        text::tres_per_task(job).as_deref().unwrap_or_default(),
    );
    doc.text("tres_req_str", &text::wanted_tres(view, job));
    let held = (!job.nodes.is_empty()).then(|| text::job_tres(view, job));
    doc.text("tres_alloc_str", held.as_deref().unwrap_or_default());
}

/// Whether it waits.
pub(super) fn waits(job: &JobView) -> bool {
    job.state == JobState::Pending
}
