use super::{BadGpus as Bad, settle, written};
use crate::fixture::{batch, gpus};
use crate::job::spec::JobSpec;
use crate::resources::{GpuCount, MemoryRequest};

/// A request in short: `G` in all, `n` per node, `s` per socket, `t` per task; `N` nodes, `T` tasks, `S` sockets per node,
/// `c` CPUs per task, `C` CPUs per GPU, `g` tasks per GPU, `p` tasks per node, `k` tasks per socket.
fn asked(text: &str) -> JobSpec {
    let mut spec = batch();
    for word in text.split_whitespace() {
        let (key, number) = word.split_at(1);
        let number: u32 = number.parse().unwrap();
        match key {
            "G" => spec.gpus_total = gpus(number),
            "n" => spec.gpus_per_node = gpus(number),
            "s" => spec.gpus_per_socket = gpus(number),
            "t" => spec.gpus_per_task = gpus(number),
            "N" => (spec.nodes_min, spec.nodes_max, spec.nodes_set) = (number, number, true),
            "T" => (spec.tasks, spec.tasks_set) = (number, true),
            "S" => spec.sockets_per_node = number,
            "c" => (spec.cpus_per_task, spec.cpus_per_task_set) = (number, true),
            "C" => spec.cpus_per_gpu = number,
            "g" => spec.tasks_per_gpu = number,
            "p" => spec.tasks_per_node = number,
            "k" => spec.tasks_per_socket = number,
            _ => panic!("{word}"),
        }
    }
    spec
}

#[test]
fn what_follows_is_filled_in_once_and_for_all() {
    // Tasks, tasks per node, tasks per socket, CPUs per task, nodes.
    let table = [
        ("", (1, 0, 0, 1, 1)),
        ("G8", (1, 0, 0, 1, 1)),
        ("G8 t2", (4, 0, 0, 1, 1)),
        ("G16 n8", (1, 0, 0, 1, 2)),
        ("G16 n8 N2", (1, 0, 0, 1, 2)),
        ("n8 t2 T8", (8, 4, 0, 1, 1)),
        ("n8 s4 S2", (1, 0, 0, 1, 1)),
        ("s4 t2 S2 T4", (4, 0, 2, 1, 1)),
        ("t2 T4 C3", (4, 0, 0, 6, 1)),
        ("t2 T4 C3 c6", (4, 0, 0, 6, 1)),
        ("G4 g2", (8, 0, 0, 1, 1)),
        ("n4 g2 N2", (16, 0, 0, 1, 2)),
        ("s2 S2 g1 N2", (8, 0, 0, 1, 2)),
        // Tasks given besides do not count, as in Slurm.
        ("G4 g2 T5", (8, 0, 0, 1, 1)),
        ("g2 T8", (8, 0, 0, 1, 1)),
        ("g2 N3", (6, 0, 0, 1, 3)),
    ];
    for (text, expected) in table {
        let mut spec = asked(text);
        assert_eq!(settle(&mut spec), Ok(()), "{text}");
        let found = (
            spec.tasks,
            spec.tasks_per_node,
            spec.tasks_per_socket,
            spec.cpus_per_task,
            spec.nodes_min,
        );
        assert_eq!(found, expected, "{text}");
        let before = spec.clone();
        assert_eq!(settle(&mut spec), Ok(()), "{text} again");
        assert_eq!(spec, before, "{text} again");
    }
    let mut spec = asked("g2 T8");
    settle(&mut spec).unwrap();
    assert_eq!(spec.gpus_total, gpus(4));
}

#[test]
fn contradictions_are_refused_as_slurm_does() {
    let table = [
        ("G2 n4", Bad::Total),
        ("G2 t4 T1", Bad::Total),
        ("G2 s4 S1", Bad::Total),
        ("n2 t4 T1", Bad::Node),
        ("s2", Bad::Sockets),
        ("G9 n8", Bad::TotalPerNode),
        ("G16 n8 N1", Bad::Nodes(2, 1, 1)),
        ("n8 s3 S2", Bad::NodePerSocket),
        ("n8 s4 S1", Bad::SocketsDiffer),
        ("G5 t2", Bad::TotalPerTask),
        ("G8 t2 T3", Bad::TasksDiffer),
        ("n5 t2 T2", Bad::NodePerTask),
        ("n8 t2 T4 p2", Bad::TasksPerNodeDiffer),
        ("s3 t2 S2 T4", Bad::SocketPerTask),
        ("s4 t2 S2 T4 k1", Bad::TasksPerSocketDiffer),
        ("t2 T4 C3 c5", Bad::CpusDiffer),
        ("G2 N3", Bad::FewerThanNodes),
        ("g2", Bad::NothingPerGpu),
        ("g2 T5", Bad::TasksPerGpu),
        ("C2", Bad::CpusWithoutGpu(2)),
    ];
    for (text, why) in table {
        assert_eq!(settle(&mut asked(text)), Err(why), "{text}");
    }
    let mut memory = JobSpec {
        memory: MemoryRequest::PerGpu(1024),
        ..batch()
    };
    assert_eq!(settle(&mut memory), Err(Bad::MemoryWithoutGpu(1024)));
    let mut mixed = asked("G4");
    let model = "h200".to_owned();
    mixed.gpus_per_node = Some(GpuCount { model, count: 2 });
    assert_eq!(settle(&mut mixed), Err(Bad::MixedModels));
    let (model, count) = ("a100".to_owned(), 2);
    mixed.gpus_total = Some(GpuCount { model, count });
    let several = Bad::SeveralModels("a100".to_owned(), "h200".to_owned());
    assert_eq!(settle(&mut mixed), Err(several));
}

#[test]
fn only_the_commands_ask_for_a_number_of_tasks() {
    let table = [
        ("t1", Err(Bad::TasksUnknown)),
        ("t1 N2 c4", Err(Bad::TasksUnknown)),
        ("t1 N2", Ok(())),
        ("t1 N2 c4 p2", Ok(())),
        ("t1 T1", Ok(())),
        ("t1 G4", Ok(())),
        ("G4 C2 c2", Err(Bad::Cpus)),
        ("G4 C2", Ok(())),
    ];
    for (text, expected) in table {
        assert_eq!(written(&asked(text)), expected, "{text}");
    }
}
