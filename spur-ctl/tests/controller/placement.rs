//! Features, weights, topology and limits: written in the configuration, asked for by commands, shown by views.

use crate::agent::Agent;
use crate::process::Controller;
use std::path::Path;
use std::process::Stdio;

const MORE: &str = r#"
[[node]]
nodes = "n1"
features = ["a100", "ib"]
weight = 10
[[node]]
nodes = "n2"
features = ["b200"]
[topology]
plugin = "tree"
switch = [{ name = "s1", nodes = "n1" }, { name = "s2", nodes = "n2" }, { name = "top", switches = "s[1-2]" }]
[[partition]]
name = "small"
nodes = "n[1-2]"
min_nodes = 1
max_nodes = 1
max_cpus_per_node = 32
max_mem_per_node = 5000
default_mem_per_cpu = 10
def_mem_per_gpu = 3000
def_cpu_per_gpu = 4
"#;

/// Runs `spur WORDS…` and shows all that came of it.
async fn run(controller: &Controller, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_spur"))
        .args(words)
        .env("SPUR_CONTROLLER", controller.address())
        .current_dir(&controller.dir)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    format!("{}{}{code}", text(output.stdout), text(output.stderr))
}

async fn cluster(dir: &Path) -> (Controller, Vec<Agent>) {
    let mut controller = Controller::prepare(dir, &dir.join("state"), MORE);
    controller.run();
    let mut agents = Vec::new();
    for name in ["n1", "n2"] {
        agents.push(Agent::connect(&controller, name).await.0);
    }
    std::fs::write(dir.join("job.sh"), "#!/bin/sh\n#SBATCH -C a100\ntrue\n").unwrap();
    (controller, agents)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_configured_is_shown_as_slurm_shows_it() {
    let dir = tempfile::tempdir().unwrap();
    let (controller, _agents) = cluster(dir.path()).await;
    let shown = run(&controller, "sinfo -h -p small -o %N|%f|%b|%w|%s|%B").await;
    assert_eq!(shown, "n1|a100,ib|a100,ib|10|1|32\nn2|b200|b200|1|1|32\n0");
    let all = run(&controller, "sinfo -h -p gpu -o %w|%s|%B").await;
    assert_eq!(all, "1+|1-infinite|UNLIMITED\n0");
    let node = run(&controller, "scontrol show node n1").await;
    for line in [
        "   AvailableFeatures=a100,ib\n   ActiveFeatures=a100,ib\n",
        " Weight=10 ",
    ] {
        assert!(node.contains(line), "{node}");
    }
    let partition = run(&controller, "scontrol show partition small").await;
    for line in [
        "   MaxNodes=1 MaxTime=UNLIMITED MinNodes=1 LLN=NO MaxCPUsPerNode=32 MaxCPUsPerSocket=UNLIMITED\n",
        "   JobDefaults=DefCpuPerGPU=4,DefMemPerGPU=3000\n   DefMemPerCPU=10 MaxMemPerNode=5000\n",
    ] {
        assert!(partition.contains(line), "{partition}");
    }
    let topology = run(&controller, "scontrol show topology").await;
    assert_eq!(
        topology,
        "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n1\n\
         SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n2\n\
         SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-2] Switches=s[1-2]\n0"
    );
    let none = run(&controller, "scontrol show topology n9").await;
    assert_eq!(
        none,
        "scontrol: error: Topology information contains no switch or node named n9\n0"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn submissions_are_answered_as_slurm_answers_them() {
    let dir = tempfile::tempdir().unwrap();
    let (controller, _agents) = cluster(dir.path()).await;
    let failed = "sbatch: error: Batch job submission failed:";
    let never = format!("{failed} Requested node configuration is not available\n1");
    let feature = format!("{failed} Invalid feature specification\n1");
    let table = [
        ("-C nope", feature.clone()),
        ("-C [a100&b200]", feature.clone()),
        ("-C (a100", feature),
        (
            "--prefer=nope",
            format!("{failed} Invalid preferred feature specification\n1"),
        ),
        ("-C a100&b200", never.clone()),
        ("-N2 -C a100", never.clone()),
        ("-N2 -C [a100|b200]", never.clone()),
        ("-N3", never.clone()),
        ("-G17", never.clone()),
        ("-p small -c 40", never.clone()),
        (
            "-c 65",
            format!("sbatch: error: CPU count per node can not be satisfied\n{never}"),
        ),
        (
            "--sockets-per-node=3",
            format!(
                "sbatch: error: Socket, core and/or thread specification can not be satisfied\n{never}"
            ),
        ),
        (
            "-v --gpus-per-node=9",
            format!(
                "sbatch: error: no node of partition gpu has 9 GPUs; the most is 8, on node n1\n{never}"
            ),
        ),
    ];
    for (options, expected) in table {
        let words = format!("sbatch {options} --wrap true");
        // With -v, the options come first.
        let answer = run(&controller, &words).await;
        let answer = answer
            .split_inclusive('\n')
            .filter(|line| !line.starts_with("sbatch: ") || line.starts_with("sbatch: error: "))
            .collect::<String>();
        assert_eq!(answer, expected, "{options}");
    }
    // Held, so that what they say of themselves stays.
    let table = [
        ("job.sh", "Features=a100 "),
        ("-C a100,ib --wrap true", "Features=a100&ib "),
        ("--prefer=b200 --wrap true", "Prefer=b200\n"),
        ("-N2 --switches=2@1:30 --wrap true", "Switches=2@00:01:30\n"),
        ("-N2 --switches=1 --wrap true", "Switches=1@00:05:00\n"),
        (
            "-G1 --gres-flags=enforce-binding --wrap true",
            "GresEnforceBind=Yes\n",
        ),
        (
            "-G3 --cpus-per-gpu=4 --wrap true",
            "NumCPUs=12 NumTasks=1 CPUs/Task=1 ",
        ),
        ("-G2 --mem-per-gpu=2G --wrap true", "MinMemoryTRES=2G "),
        (
            "-G2 --mem-per-gpu=2G --wrap true",
            "MemPerTres=gres/gpu:2048\n",
        ),
        ("-G4 --ntasks-per-gpu=2 --wrap true", "NumTasks=8 "),
        ("-G4 --ntasks-per-gpu=2 --wrap true", "NtasksPerTRES=2\n"),
        (
            "-n8 --ntasks-per-socket=4 --wrap true",
            "NtasksPerN:B:S:C=0:0:4:* ",
        ),
        ("--contiguous -N2 --wrap true", "Contiguous=1 "),
        ("--mincpus=10 --wrap true", "MinCPUsNode=10 "),
        ("-p small -G1 --wrap true", "CpusPerTres=gres/gpu:4\n"),
        ("-G16 --wrap true", "TresPerJob=gres/gpu:16\n"),
    ];
    for (options, expected) in table {
        let words = format!("sbatch --parsable -H {options}");
        let said = run(&controller, &words).await;
        let id = said
            .strip_suffix("\n0")
            .unwrap_or_else(|| panic!("{options}: {said}"));
        let record = run(&controller, &format!("scontrol show job {id}")).await;
        assert!(record.contains(expected), "{options}: {record}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_above_a_partitions_limits_wait_and_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let (controller, _agents) = cluster(dir.path()).await;
    let client = controller.client().await;
    for (options, reason) in [
        ("-p small -N2", "PartitionNodeLimit"),
        ("-p small --mem=6000", "MaxMemPerLimit"),
    ] {
        let said = run(
            &controller,
            &format!("sbatch --parsable {options} --wrap true"),
        )
        .await;
        let id = said
            .strip_suffix("\n0")
            .unwrap_or_else(|| panic!("{options}: {said}"));
        let job = spur_core::id::JobId(id.parse().unwrap());
        let waits = client
            .job_until(job, "a reason", |job| {
                job.reason != spur_core::job::state::Reason::None
            })
            .await;
        assert_eq!(waits.reason.to_string(), reason, "{options}");
    }
}
