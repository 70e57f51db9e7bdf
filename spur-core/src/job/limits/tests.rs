use super::{Size, apply, cpus_on_a_node, gpu_defaults};
use crate::fixture::{batch, gang, gpus, partition};
use crate::job::spec::{JobSpec, Switches};
use crate::job::state::Reason;
use crate::partition::Partition;
use crate::resources::MemoryRequest;

fn limited(edit: impl FnOnce(&mut Partition)) -> Partition {
    let mut partition = partition("gpu");
    edit(&mut partition);
    partition
}

fn applied(partition: &Partition, mut spec: JobSpec) -> JobSpec {
    apply(partition, &mut spec);
    spec
}

#[test]
fn a_job_above_a_limit_waits_and_says_of_which() {
    let nodes = limited(|p| (p.min_nodes, p.max_nodes) = (2, 3));
    let memory = limited(|p| p.max_mem_per_node = 1000);
    let of = |memory| JobSpec { memory, ..batch() };
    let table = [
        (&nodes, gang(2, 1), None),
        (&nodes, gang(3, 1), None),
        (&nodes, gang(4, 1), Some(Reason::PartitionNodeLimit)),
        (&nodes, gang(1, 1), Some(Reason::PartitionNodeLimit)),
        (&memory, of(MemoryRequest::PerNode(1000)), None),
        (
            &memory,
            of(MemoryRequest::PerNode(1001)),
            Some(Reason::MaxMemPerLimit),
        ),
        (
            &memory,
            JobSpec {
                cpus_per_task: 2,
                ..of(MemoryRequest::PerCpu(501))
            },
            Some(Reason::MaxMemPerLimit),
        ),
        (
            &memory,
            JobSpec {
                memory: MemoryRequest::PerGpu(300),
                ..gang(1, 4)
            },
            Some(Reason::MaxMemPerLimit),
        ),
    ];
    for (partition, spec, expected) in table {
        let found = Size::of(&spec).above(partition).map(|(reason, _)| reason);
        assert_eq!(found, expected, "{spec:?}");
    }
    let (_, text) = Size::of(&gang(4, 1)).above(&nodes).unwrap();
    assert_eq!(
        text,
        "it asks for 4 nodes, and partition gpu gives a job at most 3"
    );
}

#[test]
fn requests_are_raised_to_keep_within_the_limits() {
    let nodes = limited(|p| p.min_nodes = 2);
    let open = applied(&nodes, batch());
    assert_eq!((open.nodes_min, open.nodes_max, open.tasks), (2, 2, 2));
    let range = JobSpec {
        nodes_max: 4,
        ..gang(1, 1)
    };
    assert_eq!(applied(&nodes, range).nodes_min, 2);
    assert_eq!(applied(&nodes, gang(1, 1)).nodes_min, 1, "must not grow");
    let memory = limited(|p| p.max_mem_per_cpu = 1000);
    let per_cpu = applied(
        &memory,
        JobSpec {
            memory: MemoryRequest::PerCpu(2500),
            cpus_per_task: 2,
            ..batch()
        },
    );
    assert_eq!(per_cpu.cpus_per_task, 6);
    assert_eq!(per_cpu.memory, MemoryRequest::PerCpu(834));
    let per_node = applied(
        &memory,
        JobSpec {
            memory: MemoryRequest::PerNode(2500),
            ..batch()
        },
    );
    assert_eq!((per_node.mincpus, per_node.cpus_per_task), (3, 3));
    let two = applied(
        &memory,
        JobSpec {
            memory: MemoryRequest::PerNode(5000),
            tasks: 2,
            tasks_set: true,
            ..batch()
        },
    );
    assert_eq!((two.mincpus, two.cpus_per_task), (5, 3));
    assert_eq!(cpus_on_a_node(&two), 6);
    let whole = limited(|p| p.max_mem_per_node = 5000);
    let all = JobSpec {
        memory: MemoryRequest::PerNode(0),
        ..batch()
    };
    assert_eq!(applied(&whole, all).memory, MemoryRequest::PerNode(5000));
}

#[test]
fn nobody_waits_for_switches_longer_than_slurm_lets_them() {
    for (asked, waits) in [(None, 300), (Some(60), 60), (Some(600), 300)] {
        let max_wait_secs = asked;
        let switches = Some(Switches {
            count: 1,
            max_wait_secs,
        });
        let spec = applied(
            &partition("gpu"),
            JobSpec {
                switches,
                ..batch()
            },
        );
        assert_eq!(spec.switches.unwrap().max_wait_secs, Some(waits));
    }
}

#[test]
fn gpus_bring_their_own_defaults() {
    let partition = limited(|p| (p.def_mem_per_gpu, p.def_cpu_per_gpu) = (2000, 4));
    let filled = |mut spec: JobSpec| {
        gpu_defaults(&partition, &mut spec);
        (spec.memory, spec.cpus_per_gpu)
    };
    let default = MemoryRequest::Default;
    assert_eq!(filled(batch()), (default, 0));
    assert_eq!(filled(gang(1, 2)), (MemoryRequest::PerGpu(2000), 4));
    let own = JobSpec {
        memory: MemoryRequest::PerNode(1),
        cpus_per_task_set: true,
        gpus_total: gpus(2),
        ..batch()
    };
    assert_eq!(filled(own), (MemoryRequest::PerNode(1), 0));
}
