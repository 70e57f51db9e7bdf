//! Clients, who submit once and sometimes change their minds, and the operator, who puts right what faults left behind.

use crate::controller::{CLIENT, Controller};
use crate::machine::Around;
use crate::queue::Happening;
use crate::workload::{any_spec, plain};
use spur_core::event::Event;
use spur_core::id::{JobId, Uid};
use spur_core::job::spec::{JobKind, JobSpec};
use spur_core::job::state::JobState;
use spur_core::node::AdminState;

/// How often the operator looks, in milliseconds.
pub(crate) const OPERATOR_EVERY: u64 = 120_000;

/// Submits a job of chance; tries again while nobody is there.
pub(crate) fn submit(client: usize, controller: &mut Controller, around: &mut Around<'_>) -> bool {
    let mut specs = vec![any_spec(around.rng, around.params)];
    if around.rng.chance(80) {
        specs = parted(&specs[0]);
    }
    let sent = controller.submit(client, specs, around);
    if !sent {
        let wait = around.rng.between(500, 2_000);
        around.queue.after(wait, Happening::Submit(client));
    }
    sent
}

/// A heterogeneous job like a job, of two components that fit together on every cluster.
fn parted(like: &JobSpec) -> Vec<JobSpec> {
    let component = || JobSpec {
        hold: like.hold,
        requeue: like.requeue,
        time_limit: like.time_limit,
        ..plain(like.kind)
    };
    vec![component(), component()]
}

/// A client that was answered may change its mind later.
pub(crate) fn answered(client: usize, around: &mut Around<'_>) {
    if around.rng.chance(300) {
        let wait = around.rng.between(1, 120_000);
        around.queue.after(wait, Happening::Meddle(client));
    }
}

/// Cancels, requeues, holds, or starts another step.
pub(crate) fn meddle(job: JobId, controller: &mut Controller, around: &mut Around<'_>) {
    let Some(found) = controller.cluster.jobs.get(&job) else {
        return;
    };
    let (kind, state) = (found.spec.kind, found.state);
    match around.rng.between(0, 9) {
        0..=3 => controller.wish(Event::Cancelled { job, by: CLIENT }, around),
        4..=5 => controller.wish(Event::Requeued { job }, around),
        6 => controller.wish(
            Event::Held {
                job,
                by_admin: false,
            },
            around,
        ),
        _ if kind == JobKind::Alloc && state == JobState::Running && controller.up => {
            controller.grant_step(job, around);
            controller.finish(around);
        }
        _ => {}
    }
}

/// Resumes drained nodes and releases held jobs.
pub(crate) fn operate(controller: &mut Controller, around: &mut Around<'_>) {
    let drained = controller
        .cluster
        .nodes
        .values()
        .filter(|node| node.admin != AdminState::Up);
    for node in drained.map(|node| node.id).collect::<Vec<_>>() {
        let (admin, reason, by) = (AdminState::Up, String::new(), Uid(0));
        controller.wish(
            Event::NodeUpdated {
                node,
                admin,
                reason,
                by,
            },
            around,
        );
    }
    let held = controller.cluster.pending().filter(|job| job.priority == 0);
    for job in held.map(|job| job.id).collect::<Vec<_>>() {
        controller.wish(Event::Released { job }, around);
    }
    around.queue.after(OPERATOR_EVERY, Happening::Operator);
}
