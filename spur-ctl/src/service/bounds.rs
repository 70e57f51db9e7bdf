//! How large a request may be. What the core checks (does it make sense on this cluster?) is not here.

use super::refuse;
use spur_core::api::{AccountFilter, JobFilter, Refusal, RefusalKind, Request, SetCrontab};
use spur_core::job::change::JobChange;
use spur_core::job::het::COMPONENTS_MAX;
use spur_core::job::spec::{JobSpec, Payload};
use spur_core::job::step::StepSpec;
use spur_core::manage::Manage;
use spur_core::mesh::MeshAsk;
use spur_core::slurm::crontab::ENTRIES_MAX;

/// The largest batch script (4 MiB, Slurm's `max_script_size`).
const SCRIPT_MAX: usize = 4 << 20;
/// The largest environment (2 MiB).
const ENV_MAX: usize = 2 << 20;
/// All arguments of a script together (1 MiB).
const ARGS_MAX: usize = 1 << 20;
/// The longest single text.
const TEXT_MAX: usize = 4096;
/// The longest list of an array's tasks, or of what a job waits for.
const ARRAY_MAX: usize = 65_536;
/// The longest comment.
const COMMENT_MAX: usize = 16_384;
/// The longest submit line.
const LINE_MAX: usize = 65_536;
/// The longest value of a setting: a list of many nodes or users.
const SETTING_MAX: usize = 1 << 20;
/// Most names or numbers in one list.
const LIST_MAX: usize = 100_000;
/// The longest crontab.
const CRONTAB_MAX: usize = 1 << 20;
/// Most resource limits.
const RLIMITS_MAX: usize = 64;

/// Refuses what is too large.
pub(super) fn check(request: &Request) -> Result<(), Refusal> {
    match request {
        Request::TestOnly { spec } => spec_fits(spec),
        Request::Submit { spec, payload } => {
            spec_fits(spec)?;
            payload.as_ref().map_or(Ok(()), payload_fits)
        }
        Request::Run { spec, step, .. } => spec_fits(spec).and_then(|()| step_fits(step)),
        Request::Step { step, .. } => step_fits(step),
        Request::SubmitHet { specs, payload } => {
            components_fit(specs)?;
            payload.as_ref().map_or(Ok(()), payload_fits)
        }
        Request::RunHet { specs, steps, .. } => {
            components_fit(specs)?;
            parts_fit(specs.len(), steps)
        }
        Request::StepHet { offsets, steps, .. } => parts_fit(offsets.len(), steps),
        Request::Cancel { filter, .. }
        | Request::Jobs { filter }
        | Request::JobLines { filter, .. } => filter_fits(filter),
        Request::Hold { jobs } | Request::Release { jobs } => list("job list", jobs.len()),
        Request::Control { jobs, .. } => list("job list", jobs.len()),
        Request::UpdateJob { name, comment, .. } => {
            text("name", name.as_deref().unwrap_or(""), TEXT_MAX)?;
            text("comment", comment.as_deref().unwrap_or(""), COMMENT_MAX)
        }
        Request::UpdateNode { nodes, reason, .. } => {
            list("node list", nodes.len())?;
            text("reason", reason.as_deref().unwrap_or(""), TEXT_MAX)
        }
        Request::Accounting { filter, .. } => account_fits(filter),
        Request::ChangeJobs { jobs, change } => {
            list("job list", jobs.len())?;
            change_fits(change)
        }
        Request::SetCrontab(set) => crontab_fits(set),
        Request::Manage(request) => manage_fits(request),
        Request::Mesh(ask) => mesh_fits(ask),
        Request::Ping
        | Request::Crontab { .. }
        | Request::AwaitAllocation { .. }
        | Request::Attach { .. }
        | Request::Finish { .. }
        | Request::AwaitEnd { .. }
        | Request::AwaitCleaned { .. }
        | Request::Submission { .. }
        | Request::Nodes
        | Request::Partitions
        | Request::Topology
        | Request::Configuration
        | Request::Denials { .. }
        | Request::DenialRows { .. }
        | Request::Script { .. }
        | Request::Requeue { .. }
        | Request::UpdatePartition { .. }
        | Request::Stats
        | Request::Usage { .. }
        | Request::IdleGpus
        | Request::Explain { .. }
        | Request::State
        | Request::Reservations
        | Request::Licenses
        | Request::Accounts
        | Request::Reconfigure
        | Request::ResetStats
        | Request::Shutdown => Ok(()),
    }
}

/// Names and keys are of bounded length.
fn mesh_fits(ask: &MeshAsk) -> Result<(), Refusal> {
    match ask {
        MeshAsk::Found { first, .. } => list("list of endpoints", first.endpoints.len()),
        MeshAsk::List | MeshAsk::Token(_) | MeshAsk::Withdraw { .. } | MeshAsk::Remove { .. } => {
            Ok(())
        }
    }
}

fn crontab_fits(set: &SetCrontab) -> Result<(), Refusal> {
    let (specs, payloads) = (&set.specs, &set.payloads);
    text("crontab", set.table.as_deref().unwrap_or(""), CRONTAB_MAX)?;
    if specs.len() > ENTRIES_MAX {
        return Err(too_large("crontab", specs.len(), ENTRIES_MAX));
    }
    if specs.len() != payloads.len() {
        return Err(refuse(RefusalKind::Invalid, "every entry has a script"));
    }
    specs.iter().try_for_each(spec_fits)?;
    payloads.iter().try_for_each(payload_fits)
}

fn too_large(what: &str, size: usize, max: usize) -> Refusal {
    refuse(
        RefusalKind::Invalid,
        format!("{what} of {size} is too large: at most {max}"),
    )
}

fn text(what: &str, value: &str, max: usize) -> Result<(), Refusal> {
    if value.len() > max {
        return Err(too_large(what, value.len(), max));
    }
    if value.contains('\0') {
        return Err(refuse(
            RefusalKind::Invalid,
            format!("{what} contains a zero byte"),
        ));
    }
    Ok(())
}

fn list(what: &str, len: usize) -> Result<(), Refusal> {
    if len > LIST_MAX {
        Err(too_large(what, len, LIST_MAX))
    } else {
        Ok(())
    }
}

fn spec_fits(spec: &JobSpec) -> Result<(), Refusal> {
    for (what, value) in [
        ("job name", &spec.name),
        ("account", &spec.account),
        ("partition", &spec.partition),
        ("qos", &spec.qos),
        ("constraint", &spec.constraint),
        ("working directory", &spec.work_dir),
        ("input file name", &spec.stdin),
        ("output file name", &spec.stdout),
        ("error file name", &spec.stderr),
        ("command", &spec.command),
        ("submit host", &spec.submit_host),
    ] {
        text(what, value, TEXT_MAX)?;
    }
    text("comment", &spec.comment, COMMENT_MAX)?;
    text("export list", &spec.export, ENV_MAX)?;
    text("preferred features", &spec.prefer, TEXT_MAX)?;
    text("array", &spec.array, ARRAY_MAX)?;
    text("dependency", &spec.dependency, ARRAY_MAX)?;
    text("submit line", &spec.submit_line, LINE_MAX)?;
    let extras = spec.extras.iter().flat_map(|extras| extras.texts());
    for (what, value) in extras {
        text(what, value, COMMENT_MAX)?;
    }
    list("node list", spec.nodelist.len())?;
    list("list of excluded nodes", spec.exclude.len())
}

fn step_fits(step: &StepSpec) -> Result<(), Refusal> {
    text("step name", &step.name, TEXT_MAX)?;
    list("list of excluded nodes", step.exclude.len())?;
    list("node list", step.nodelist.len())
}

/// Components of a heterogeneous job.
fn components_fit(specs: &[JobSpec]) -> Result<(), Refusal> {
    if specs.len() < 2 {
        let why = "a heterogeneous job has two components or more";
        return Err(refuse(RefusalKind::Invalid, why));
    }
    if specs.len() > COMPONENTS_MAX {
        return Err(too_large("job", specs.len(), COMPONENTS_MAX));
    }
    specs.iter().try_for_each(spec_fits)
}

/// Parts of a step, one for each component.
fn parts_fit(components: usize, steps: &[StepSpec]) -> Result<(), Refusal> {
    if components != steps.len() || steps.is_empty() || steps.len() > COMPONENTS_MAX {
        let why = "a step has one part for each of its components";
        return Err(refuse(RefusalKind::Invalid, why));
    }
    steps.iter().try_for_each(step_fits)
}

fn change_fits(change: &JobChange) -> Result<(), Refusal> {
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    text("comment", &given(&change.comment), COMMENT_MAX)?;
    for (what, value) in [
        ("job name", &change.name),
        ("partition", &change.partition),
        ("account", &change.account),
        ("qos", &change.qos),
        ("dependency", &change.dependency),
        ("node list", &change.nodelist),
        ("list of excluded nodes", &change.exclude),
        ("constraint", &change.constraint),
        ("working directory", &change.work_dir),
        ("input file name", &change.stdin),
        ("output file name", &change.stdout),
        ("error file name", &change.stderr),
        ("preferred features", &change.prefer),
        ("reservation", &change.reservation),
        ("licenses", &change.licenses),
        ("wckey", &change.wckey),
        ("admin comment", &change.admin_comment),
        ("extra", &change.extra),
        ("mcs label", &change.mcs_label),
        ("mail type", &change.mail_type),
        ("mail user", &change.mail_user),
    ] {
        text(what, &given(value), TEXT_MAX)?;
    }
    Ok(())
}

fn payload_fits(payload: &Payload) -> Result<(), Refusal> {
    if payload.script.is_empty() {
        return Err(refuse(RefusalKind::Invalid, "the batch script is empty"));
    }
    let sum = |texts: &[String]| texts.iter().map(|text| text.len() + 1).sum::<usize>();
    for (what, size, max) in [
        ("script", payload.script.len(), SCRIPT_MAX),
        ("environment", sum(&payload.env), ENV_MAX),
        ("arguments", sum(&payload.args), ARGS_MAX),
        (
            "list of resource limits",
            payload.rlimits.len(),
            RLIMITS_MAX,
        ),
    ] {
        if size > max {
            return Err(too_large(what, size, max));
        }
    }
    for value in payload.env.iter().chain(&payload.args) {
        text("argument or variable", value, ENV_MAX)?;
    }
    Ok(())
}

fn manage_fits(request: &Manage) -> Result<(), Refusal> {
    list("list of names", request.names.len())?;
    list(
        "list of settings",
        request.settings.len() + request.scope.len(),
    )?;
    for name in &request.names {
        text("name", name, TEXT_MAX)?;
    }
    for setting in request.settings.iter().chain(&request.scope) {
        text("setting", &setting.key, TEXT_MAX)?;
        text("setting", &setting.value, SETTING_MAX)?;
    }
    Ok(())
}

fn account_fits(filter: &AccountFilter) -> Result<(), Refusal> {
    list("job list", filter.ids.len())?;
    list("user list", filter.users.len())?;
    list("account list", filter.accounts.len())?;
    list("partition list", filter.partitions.len())?;
    list("name list", filter.names.len())?;
    list("node list", filter.nodes.len())
}

fn filter_fits(filter: &JobFilter) -> Result<(), Refusal> {
    list("job list", filter.ids.len())?;
    list("user list", filter.users.len())?;
    list("partition list", filter.partitions.len())?;
    list("name list", filter.names.len())?;
    list("node list", filter.nodes.len())?;
    list("account list", filter.accounts.len())
}
