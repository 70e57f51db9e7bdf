//! Every rule must be able to fail.

use super::*;
use crate::fixture::{World, gang};
use crate::id::{StepKind, Uid};

/// One node: job 1 runs on two GPUs, job 2 has ended there and is not clean, job 3 waits.
fn cluster() -> Cluster {
    let mut world = World::new(1, 8);
    world.start(gang(1, 2));
    let second = world.start(gang(1, 2));
    world.does(crate::event::Event::Cancelled {
        job: second,
        by: Uid(0),
    });
    world.submit(gang(1, 8));
    world.cluster
}

fn breaks(damage: impl FnOnce(&mut Cluster)) -> String {
    let mut cluster = cluster();
    assert_eq!(check(&cluster), Ok(()));
    damage(&mut cluster);
    check(&cluster).unwrap_err().to_string()
}

fn job(cluster: &mut Cluster, id: u32) -> &mut Job {
    cluster.jobs.get_mut(&JobId(id)).unwrap()
}

fn node(cluster: &mut Cluster) -> &mut Node {
    cluster.nodes.get_mut(&NodeId(0)).unwrap()
}

#[test]
fn sums_and_double_grants() {
    let twice = "node 0: GPUs granted twice or not there (job 2)";
    assert_eq!(
        breaks(|c| assert!(job(c, 1).allocation[0].gpus.insert(2))),
        twice
    );
    let twice = "node 0: CPUs granted twice or not there (job 2)";
    assert_eq!(
        breaks(|c| assert!(job(c, 1).allocation[0].cpus.insert(1))),
        twice
    );
    let wrong = |what| format!("node 0: the {what} counted as used are not those that jobs hold");
    assert_eq!(
        breaks(|c| assert!(node(c).gpus_used.insert(7))),
        wrong("GPUs")
    );
    assert_eq!(
        breaks(|c| assert!(node(c).cpus_used.remove(0))),
        wrong("CPUs")
    );
    assert_eq!(breaks(|c| node(c).memory_used += 1), wrong("MiB of memory"));
    assert_eq!(
        breaks(|c| assert!(node(c).jobs.insert(JobId(3)))),
        wrong("jobs")
    );
    assert!(
        breaks(|c| node(c).inventory.gpus.truncate(1)).contains("GPUs granted twice or not there")
    );
    assert!(breaks(|c| node(c).inventory.cpus = 1).contains("CPUs granted twice or not there"));
    assert!(breaks(|c| node(c).inventory.memory_mib = 1).contains("memory granted twice"));
    let nowhere = "a job holds something on a node that is not there";
    assert_eq!(
        breaks(|c| job(c, 1).allocation[0].node = NodeId(9)),
        "job 1 (RUNNING): a step exceeds the allocation"
    );
    assert_eq!(
        breaks(|c| {
            job(c, 1).allocation[0].node = NodeId(9);
            job(c, 1).steps.clear();
        }),
        wrong("GPUs")
    );
    assert_eq!(
        breaks(|c| {
            let mut far = job(c, 1).allocation[0].clone();
            far.node = NodeId(9);
            job(c, 1).allocation.push(far);
        }),
        nowhere
    );
}

#[test]
fn jobs() {
    let allocation = "a job holds an allocation exactly while it runs";
    for (damage, what) in [
        (
            (|c| job(c, 1).allocation.clear()) as fn(&mut Cluster),
            allocation,
        ),
        (
            |c| job(c, 3).allocation = job(c, 1).allocation.clone(),
            allocation,
        ),
        (
            |c| job(c, 2).uncleaned.clear(),
            "its leftovers and unclean nodes differ",
        ),
        (
            |c| job(c, 2).leftovers.clear(),
            "its leftovers and unclean nodes differ",
        ),
        (
            |c| {
                let leftovers = job(c, 2).leftovers.clone();
                job(c, 1).uncleaned.insert(NodeId(0));
                job(c, 1).leftovers = leftovers;
            },
            "it runs where it is not clean",
        ),
        (
            |c| job(c, 2).ended = None,
            "its end time does not match its state",
        ),
        (
            |c| job(c, 1).generation = Generation(0),
            "it runs without a generation",
        ),
        (
            |c| job(c, 2).generation = Generation(1),
            "a leftover is newer than the job",
        ),
        (
            |c| job(c, 3).steps = job(c, 1).steps.clone(),
            "it waits and has steps",
        ),
        (
            |c| {
                let step = job(c, 1).steps.get_mut(&StepKind::Batch).unwrap();
                step.shares[0].share.gpus.insert(5);
            },
            "a step exceeds the allocation",
        ),
        (
            |c| {
                let step = job(c, 1).steps.get_mut(&StepKind::Batch).unwrap();
                step.reported.insert(NodeId(0), crate::fixture::OK);
                step.reported.insert(NodeId(1), crate::fixture::OK);
            },
            "more nodes reported than a step has",
        ),
    ] {
        let said = breaks(damage);
        assert!(said.ends_with(what), "{said}, expected {what}");
    }
}

#[test]
fn clusters() {
    assert_eq!(
        breaks(|c| c.next_job = JobId(3)),
        "a job's number is not below the next one"
    );
    assert_eq!(
        breaks(|c| c.generation = Generation(1)),
        "a job's generation was never given out"
    );
    assert_eq!(
        breaks(|c| c.node_ids.clear()),
        "names and numbers of nodes do not match"
    );
    let index = "the index of waiting and due jobs is wrong";
    assert_eq!(breaks(|c| job(c, 1).started = None), index);
}

#[test]
fn steps_in_time() {
    let before = cluster();
    let falls = |damage: fn(&mut Cluster)| {
        let mut after = before.clone();
        damage(&mut after);
        check_step(&before, &after).unwrap_err().to_string()
    };
    assert_eq!(check_step(&before, &before), Ok(()));
    assert_eq!(falls(|c| c.next_job = JobId(1)), "the next job number fell");
    assert_eq!(
        falls(|c| c.generation = Generation(0)),
        "the generation fell"
    );
    assert_eq!(falls(|c| c.nodes.clear()), "a node was forgotten");
    assert_eq!(
        falls(|c| job(c, 1).generation = Generation(0)),
        "job 1 (RUNNING): its generation fell"
    );
}

#[test]
fn a_mesh_whose_rules_are_broken() {
    let stored = |prefix: u64, last_member: u32| {
        let names = ["prefix", "last_member"];
        let stored: BTreeMap<_, _> = names
            .into_iter()
            .zip([prefix, last_member.into()])
            .collect();
        rmp_serde::from_slice(&rmp_serde::to_vec_named(&stored).unwrap()).unwrap()
    };
    assert_eq!(
        breaks(|c| c.mesh = stored(1, 0)),
        "the mesh has a foreign network"
    );
    assert_eq!(
        breaks(|c| c.mesh = stored(0xfd00_0000_0000_0001, 0)),
        "the mesh has no controller"
    );
    assert_eq!(
        breaks(|c| c.mesh = stored(0, 3)),
        "a mesh that is not founded has something"
    );
}
