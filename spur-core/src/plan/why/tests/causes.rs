//! Where a start cannot be told, or not soon: what is in the way.

use super::*;
use crate::fixture::partition;
use crate::job::spec::Switches;
use crate::resources::MemoryRequest;
use crate::topology::{Switch, Topology, TopologyPlugin};

fn configured(world: &mut World, edit: impl FnOnce(&mut Partition), topology: Topology) {
    let mut gpu = partition("gpu");
    edit(&mut gpu);
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: vec![gpu],
        min_job_age: 300,
        node_timeout: 60,
        node_config: Default::default(),
        topology,
    });
}

fn never() -> Option<StartEstimate> {
    Some(StartEstimate {
        start: None,
        basis: StartBasis::Never,
        nodes: Vec::new(),
    })
}

fn on(node: &str, spec: JobSpec) -> JobSpec {
    JobSpec {
        nodelist: vec![node.to_owned()],
        ..spec
    }
}

#[test]
fn jobs_without_a_limit_are_named_wherever_they_stand() {
    let mut world = World::new(4, 8);
    for node in ["n1", "n2", "n3"] {
        world.start(on(node, gang(1, 8)));
    }
    let endless = world.start(on("n4", gang(1, 1)));
    world.does(Event::JobUpdated {
        job: endless,
        time_limit: Some(TimeLimit::Unlimited),
        name: None,
        comment: None,
        partition: None,
        priority: None,
    });
    let job = world.submit(JobSpec {
        exclusive: true,
        ..gang(4, 0)
    });
    world.plan();
    let why = ask(&world, job, never());
    assert_eq!(why.need, "4 whole nodes");
    assert_eq!(why.releases[0].job, endless, "{:?}", why.releases);
    let text = said(&why);
    assert!(
        text.ends_with("no start can be told, since job 4 has no time limit"),
        "{text}"
    );
}

#[test]
fn nodes_that_must_come_back_first_are_named() {
    let mut world = World::new(4, 8);
    world.does(Event::NodeUpdated {
        node: NodeId(0),
        admin: AdminState::Drain,
        reason: "bad fan".to_owned(),
        by: Uid(0),
    });
    world.does(Event::NodeDisconnected { node: NodeId(3) });
    let first = world.submit(gang(3, 1));
    let job = world.submit(gang(4, 1));
    world.plan();
    for (job, names) in [(first, "1 of n1 and n4"), (job, "n1 and n4")] {
        let why = ask(&world, job, never());
        assert_eq!(why.reason, Reason::Resources, "nobody is before it");
        let text = said(&why);
        let end = format!("it cannot start before {names} can serve again");
        assert!(text.ends_with(&end), "{text}");
    }
}

#[test]
fn a_rest_says_when_it_ends() {
    let mut world = World::new(2, 8);
    let failed = world.start(on("n1", batch()));
    world.does(Event::LaunchFailed {
        job: failed,
        node: NodeId(0),
        generation: world.job(failed).generation,
        why: "no space".to_owned(),
        node_fault: true,
        rests: true,
    });
    let job = world.submit(on("n1", batch()));
    world.plan();
    let until = world.node(0).trouble.as_ref().unwrap().until.unwrap();
    let why = ask(&world, job, None);
    let text = said(&why);
    let clause = format!("left alone until +{}s", until.secs() - 1000);
    assert!(text.contains(&clause), "{text}");
    assert_eq!(why.by_limits, Some(until));
}

#[test]
fn what_is_kept_for_others_is_no_advice_and_would_be_room_without_them() {
    let mut world = World::new(1, 8);
    world.start(gang(1, 4));
    world.submit(gang(1, 8));
    let job = world.submit(gang(1, 6));
    let small = world.submit(gang(1, 4));
    world.plan();
    let jobs: Vec<JobView> = world
        .cluster
        .jobs
        .values()
        .map(|job| job_view(&world.cluster, job))
        .collect();
    let node = node_view(&world.cluster, world.node(0));
    let nodes = [&node];
    let known = Known {
        at: world.now,
        partition: world.cluster.partitions.first(),
        nodes: &nodes,
        job: &|id| jobs.iter().find(|row| row.id == id),
        ahead: 1,
        expected: None,
        held_back: &|_| true,
        network: false,
    };
    let row = |id| jobs.iter().find(|row| row.id == id).unwrap();
    let why = explain(row(job), &known).unwrap();
    assert_eq!(why.advice, Vec::<String>::new());
    let why = explain(row(small), &known).unwrap();
    assert_eq!(groups(&why), [(Stop::Shape, 1, "kept for jobs before it")]);
    assert_eq!(why.by_limits, None, "it waits for nothing but those");
    assert_eq!(why.releases, []);
}

#[test]
fn what_is_lacking_is_what_comes_back() {
    let mut world = World::of(1, &crate::fixture::inventory(8, 16_384, 8));
    let holder = world.start(JobSpec {
        memory: MemoryRequest::PerNode(12_288),
        ..gang(1, 1)
    });
    let job = world.submit(JobSpec {
        memory: MemoryRequest::PerNode(8_192),
        ..gang(1, 2)
    });
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(groups(&why), [(Stop::Busy, 1, "4 GiB of 16 GiB free")]);
    assert_eq!(
        (why.releases[0].job, why.releases[0].gives.as_str()),
        (holder, "12 GiB")
    );
    let by_gpu = world.submit(JobSpec {
        cpus_per_gpu: 2,
        memory: MemoryRequest::PerNode(8_192),
        ..gang(1, 2)
    });
    world.plan();
    let why = ask(&world, by_gpu, None);
    assert_eq!(why.need, "2 GPUs, 4 CPUs and 8 GiB on one node");
}

#[test]
fn what_the_partition_gives_of_a_node_is_named() {
    let mut world = World::new(1, 8);
    configured(&mut world, |p| p.max_cpus_per_node = 4, Topology::default());
    let cpus = |cpus_per_task| JobSpec {
        cpus_per_task,
        memory: MemoryRequest::PerNode(1),
        ..batch()
    };
    let first = world.start(cpus(3));
    let job = world.submit(cpus(2));
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(
        groups(&why),
        [(
            Stop::Busy,
            1,
            "1 left of the 4 CPUs that partition gpu gives there"
        )]
    );
    assert_eq!(why.releases[0].job, first);
    assert_eq!(why.releases[0].gives, "3 CPUs");
    assert_eq!(why.by_limits, world.job(first).ended);
}

#[test]
fn few_switches_are_said_as_long_as_they_are_waited_for() {
    let mut world = World::new(4, 8);
    let name = |n: u32| NodeName::new(format!("n{n}")).unwrap();
    let leaf = |at: u32| Switch {
        name: format!("s{at}"),
        nodes: vec![name(2 * at + 1), name(2 * at + 2)],
        switches: Vec::new(),
    };
    let topology = Topology {
        plugin: TopologyPlugin::Block,
        switches: vec![leaf(0), leaf(1)],
        block_sizes: Vec::new(),
    };
    configured(&mut world, |_| {}, topology);
    let job = world.submit(JobSpec {
        switches: Some(Switches {
            count: 1,
            max_wait_secs: Some(200),
        }),
        ..gang(3, 1)
    });
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(groups(&why), [(Stop::Shape, 4, "on too many switches")]);
    let until = world.job(job).eligible.plus_secs(200).secs() - 1000;
    let text = said(&why);
    let clause = format!("it waits until +{until}s for nodes on at most 1 switch, then takes any");
    assert!(text.contains(&clause), "{text}");
}

#[test]
fn gpus_on_other_sockets_are_no_room() {
    let mut two = crate::fixture::inventory(8, 16_384, 8);
    (two.sockets, two.cores_per_socket) = (2, 4);
    for gpu in &mut two.gpus {
        gpu.numa = Some(gpu.index / 4);
    }
    let mut world = World::of(1, &two);
    world.start(JobSpec {
        gpus_per_socket: gpus(2),
        sockets_per_node: 2,
        ..batch()
    });
    let job = world.submit(JobSpec {
        gpus_per_socket: gpus(4),
        sockets_per_node: 1,
        ..batch()
    });
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(
        groups(&why),
        [(Stop::Shape, 1, "its free GPUs are on other sockets")]
    );
}
