//! What is known of the use of GPUs goes with those who hold them.

use crate::event::Event;
use crate::fixture::{World, gang};
use crate::id::{NodeId, Uid};
use crate::time::Millis;
use crate::usage::idle::Idle;
use crate::view::job_view;

/// Evidence of which every part is told.
pub(super) fn idle() -> Idle {
    Idle {
        since: Millis(900_000),
        millis: 60_000,
        held: 90_000,
        opened: Some(true),
        open_now: Some(false),
        busy: Some(123),
        memory: Some(1 << 30),
    }
}

fn told(node: u32, job: crate::id::JobId, gpu: u32, idle: Option<Idle>) -> Event {
    Event::GpuIdle {
        node: NodeId(node),
        job,
        gpu,
        idle,
    }
}

#[test]
fn a_verdict_is_of_gpus_that_the_job_holds_and_ends_with_them() {
    let mut world = World::new(2, 8);
    let job = world.start(gang(1, 2));
    let share = world.job(job).allocation[0].clone();
    let node = share.node.0;
    let gpu = share.gpus.iter().next().unwrap();
    let other = (0..8).find(|gpu| !share.gpus.contains(*gpu)).unwrap();
    for wrong in [
        told(node, job, other, Some(idle())),
        told(1 - node, job, gpu, Some(idle())),
        told(node, job, gpu, None),
    ] {
        assert!(world.apply(wrong).ignored.is_some());
    }
    assert_eq!(
        world.apply(told(node, job, gpu, Some(idle()))).ignored,
        None
    );
    let view = job_view(&world.cluster, world.job(job));
    assert_eq!((view.idle.len(), view.idle[0].gpu), (1, gpu));
    assert_eq!(world.apply(told(node, job, gpu, None)).ignored, None);
    assert!(world.job(job).idle.is_empty());
    world.apply(told(node, job, gpu, Some(idle())));
    world.apply(Event::Cancelled { job, by: Uid(7) });
    assert!(world.job(job).idle.is_empty());
    assert_eq!(world.job(job).cancelled_by, Some(Uid(7)));
}

#[test]
fn how_busy_a_gpu_was_is_forgotten_when_it_changes_hands() {
    let mut world = World::new(1, 8);
    let said = |gpus| Event::Utilization {
        node: NodeId(0),
        gpus,
    };
    let recent = |world: &World| -> Vec<(u32, u16)> {
        let node = &world.cluster.nodes[&NodeId(0)];
        node.utilization
            .iter()
            .map(|r| (r.gpu, r.permille))
            .collect()
    };
    world.apply(said(vec![(7, 5), (0, 2000), (1, 10), (99, 1)]));
    assert_eq!(recent(&world), [(0, 1000), (1, 10), (7, 5)]);
    assert!(world.apply(said(vec![(8, 1)])).ignored.is_some());
    let job = world.start(gang(1, 2));
    assert_eq!(recent(&world), [(7, 5)], "the new holder begins anew");
    world.apply(said(vec![(0, 900)]));
    let generation = world.job(job).generation;
    world.apply(Event::Cancelled { job, by: Uid(0) });
    world.apply(Event::Cleaned {
        job,
        node: NodeId(0),
        generation,
    });
    assert_eq!(recent(&world), [(7, 5)]);
}
