//! MPI: the processes of a step find each other by PMI, over all its nodes; and the programs that bring starters of their own find srun.

use crate::possible;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::{NOBODY, Output};
use vm_tests::{host, procs, wait};

/// Functions for scripts that speak PMI themselves.
const PMI: &str = include_str!("mpi/pmi.sh");

/// An MPI program, for every MPI there is.
const RING: &str = include_str!("mpi/ring.c");

/// srun with these options, on a script that speaks PMI.
fn srun(cluster: &Cluster, options: &[&str], script: &str) -> Output {
    let script = format!("{PMI}{script}");
    let words = [&["srun"], options, &["sh", "-c", &script]].concat();
    cluster.run(NOBODY, &words)
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn tasks_on_two_nodes_exchange_what_they_put() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 0);
    let first = "ask init pmi_version=1 pmi_subversion=1
         ask get_my_kvsname; name=${heard##*=}
         ask put kvsname=$name key=k$PMI_RANK value=v$PMI_RANK
         ask barrier_in
         ask get kvsname=$name key=k$(((PMI_RANK + 1) % PMI_SIZE)); next=$(value)
         ask get kvsname=$name key=PMI_process_mapping
         echo $PMI_RANK $PMI_SIZE $next $(value)
         ask finalize; echo $heard";
    let output = srun(&cluster, &["-N2", "-n3"], first).good();
    assert_eq!(
        sorted(&output),
        [
            "0 3 v1 (vector,(0,1,2),(1,1,1))",
            "1 3 v2 (vector,(0,1,2),(1,1,1))",
            "2 3 v0 (vector,(0,1,2),(1,1,1))",
            "cmd=finalize_ack rc=0",
            "cmd=finalize_ack rc=0",
            "cmd=finalize_ack rc=0",
        ]
    );
    let second = "ask init pmi_version=2 pmi_subversion=0; ask2 fullinit
         ask2 'kvs-put;key=k;value=a;;b'
         test $PMI_RANK = 0 && ask2 'name-publish;name=s;port=p'
         ask2 kvs-fence
         ask2 'kvs-get;key=k'; found=$heard
         test $PMI_RANK = 1 && ask2 'name-lookup;name=s' && echo \"$heard\"
         ask2 'info-getjobattr;key=universeSize'; echo $PMI_RANK \"$found\" $(value)
         ask2 finalize";
    let output = srun(&cluster, &["-N2", "--mpi=pmi2"], second).good();
    assert_eq!(
        sorted(&output),
        [
            "0 cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b; 2",
            "1 cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b; 2",
            "cmd=name-lookup-response;rc=0;value=p;port=p;",
        ]
    );
    let none = "echo ${PMI_FD:-none} ${PMI_RANK:-none}; ls /proc/self/fd | wc -l";
    let output = srun(&cluster, &["--mpi=none"], none).good();
    assert_eq!(
        output, "none none\n4\n",
        "no interface, no descriptor of it"
    );
    let refused = cluster.run(NOBODY, &["srun", "--mpi=pmi9", "true"]);
    assert!(
        refused.code == 1 && refused.err.contains("Invalid MPI type 'pmi9'"),
        "{refused:?}"
    );
    cluster.down();
}

#[test]
fn one_task_ends_them_all() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 0);
    let begin = "ask init pmi_version=1 pmi_subversion=1";
    // It says so.
    let script = format!("{begin}; test $PMI_RANK = 1 && say abort exitcode=3; sleep 100");
    let output = srun(&cluster, &["-N2"], &script);
    assert_eq!(output.code, 3, "{output:?}");
    let said = "srun: error: n2: task 1 aborted the step (MPI_Abort) with code 3";
    assert!(output.err.contains(said), "{output:?}");
    // It fails between MPI's beginning and its end, also where nobody waits for it.
    let script = format!("{begin}; test $PMI_RANK = 1 && exit 4; sleep 100");
    let output = srun(&cluster, &["-N2"], &script);
    assert!(
        output.code != 0 && output.err.contains("task 1: Exited with exit code 4"),
        "{output:?}"
    );
    // It ends well, and others wait for it, on its own node and on another.
    let script = format!("{begin}; test $PMI_RANK = 1 && exit; ask barrier_in; sleep 100");
    for nodes in ["-N1", "-N2"] {
        let output = srun(&cluster, &[nodes, "-n2"], &script);
        assert_eq!(output.code, 1, "{output:?}");
        assert!(
            output.err.contains("task 1 ended while others wait"),
            "{output:?}"
        );
    }
    // A program without MPI ends when it likes.
    let output = srun(
        &cluster,
        &["-N2"],
        "test $PMI_RANK = 1 && exit 4; sleep 1; echo done",
    );
    assert_eq!((output.code, output.out.as_str()), (4, "done\n"));
    cluster.await_idle();
    cluster.down();
}

#[test]
fn a_lost_node_ends_the_tasks_that_wait_for_it() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 0);
    let script = format!(
        "{PMI}ask init pmi_version=1 pmi_subversion=1; echo up\n\
         test $PMI_RANK = 0 && ask barrier_in; sleep 100"
    );
    let command = ["srun", "-N2", "-o", "out", "sh", "-c", &script];
    let child = cluster.spawn(NOBODY, &command);
    let out = cluster.home(NOBODY).join("out");
    let up = || fs::read_to_string(&out).is_ok_and(|text| text == "up\nup\n");
    wait::until_true("both tasks run", SOON, up);
    let dir = cluster.dir().to_str().expect("a plain name");
    let supervisor = procs::mentioning(dir).into_iter().find(|process| {
        let mut args = process.args.iter();
        process.is("spurd") && args.any(|arg| arg.contains("/n2/") && arg.contains("steps"))
    });
    supervisor.expect("n2 has a supervisor").kill();
    let output = Output::of(child);
    assert!(
        output.code != 0 && output.err.contains("Node failure on n2"),
        "{output:?}"
    );
    cluster.await_idle();
    cluster.down();
}

#[test]
fn input_that_nobody_reads_keeps_no_barrier_shut() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 0);
    let script = format!(
        "{PMI}ask init pmi_version=1 pmi_subversion=1\n\
         sleep 1; for n in 1 2 3; do ask put kvsname=$PMI_JOBID key=k$n value=v; ask barrier_in; done\n\
         ask finalize; wc -c"
    );
    let words = ["srun", "-N2", "-n2", "sh", "-c", &script];
    let mut command = cluster.command(NOBODY, &words);
    let bytes = 8 << 20;
    let mut source = Command::new("head")
        .args(["-c", &bytes.to_string(), "/dev/zero"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("head(1) is installed");
    let input = source.stdout.take().expect("it is piped");
    let output = Output::of(command.stdin(input).spawn().expect("srun starts")).good();
    assert!(source.wait().expect("it is a child").success());
    assert_eq!(output, format!("{bytes}\n{bytes}\n"));
    cluster.down();
}

/// The ring, made by a compiler where everybody can run it; `None`, with a word, where there is no such compiler.
fn ring(cluster: &Cluster, compiler: &str) -> Option<PathBuf> {
    let (source, ring) = (cluster.dir().join("ring.c"), cluster.dir().join(compiler));
    fs::write(&source, RING).expect("a file can be written");
    let made = Command::new(compiler)
        .arg("-o")
        .args([&ring, &source])
        .status();
    match made {
        Ok(status) => assert!(status.success(), "{compiler} fails"),
        Err(_) => {
            host::skip(&format!("{compiler} is not installed"));
            return None;
        }
    }
    Some(ring)
}

/// What the ring says of so many ranks on so many nodes, sorted.
fn rounds(ranks: u32, nodes: u32) -> Vec<String> {
    let sum = ranks * (ranks + 1) / 2;
    let each = ranks / nodes;
    let line = |rank: u32| {
        let token = if rank == 0 { ", token ok" } else { "" };
        let node = rank / each + 1;
        format!("rank {rank} of {ranks} on n{node}: sum {sum}{token}")
    };
    (0..ranks).map(line).collect()
}

#[test]
fn mpich_runs_over_several_nodes() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(4, 0);
    let Some(ring) = ring(&cluster, "mpicc.mpich") else {
        return cluster.down();
    };
    let ring = ring.to_str().expect("a plain name");
    for options in [["-N2", "-n4"], ["-N4", "-n8"], ["-N1", "-n3"]] {
        for mpi in ["--mpi=pmi2", "--quiet"] {
            let output = cluster.run(NOBODY, &["srun", options[0], options[1], mpi, ring]);
            let numbers = options.map(|option| option[2..].parse().expect("a number"));
            let due = rounds(numbers[1], numbers[0]);
            assert_eq!(sorted(&output.good()), due, "{options:?} {mpi}");
        }
    }
    let output = cluster.run(NOBODY, &["srun", "-N2", "-n4", ring, "abort"]);
    assert_eq!(output.code, 3, "{output:?}");
    let output = cluster.run(NOBODY, &["srun", "-N2", "-n4", ring, "exit"]);
    let said = "n2: task 3: Exited with exit code 7";
    assert!(output.code != 0 && output.err.contains(said), "{output:?}");
    cluster.await_idle();
    cluster.down();
}

/// Whether nodes can start programs by PMIx; says so where they cannot, and that srun says it too.
fn has_pmix(cluster: &Cluster) -> bool {
    let listed = cluster.run(NOBODY, &["srun", "--mpi=list"]).good();
    let tried = cluster.run(NOBODY, &["srun", "--mpi=pmix", "true"]);
    let has = listed.contains("\tpmix\n");
    assert_eq!(tried.code == 0, has, "{listed} {tried:?}");
    if !has {
        assert!(tried.err.contains("libpmix2"), "{tried:?}");
        host::skip("libpmix2 is not installed");
    }
    has
}

/// The ring of Open MPI, where it can be made and run by PMIx.
fn pmix_ring(cluster: &Cluster) -> Option<PathBuf> {
    has_pmix(cluster)
        .then(|| ring(cluster, "mpicc.openmpi"))
        .flatten()
}

#[test]
fn open_mpi_runs_over_several_nodes_by_pmix() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(4, 0);
    let Some(ring) = pmix_ring(&cluster) else {
        return cluster.down();
    };
    let ring = ring.to_str().expect("a plain name");
    // These nodes have one machine's name and shared memory: Open MPI takes them for one.
    let plain = ["OMPI_MCA_btl=self,tcp"];
    let direct = [plain[0], "OMPI_MCA_pmix_base_collect_data=0"];
    let run = |settings: &[&str], words: &[&str]| {
        cluster.run(NOBODY, &[&["env"], settings, &["srun"], words].concat())
    };
    for (nodes, tasks, mpi, settings) in [
        ("2", "4", "--mpi=pmix", &plain[..]),
        ("4", "8", "--mpi=pmix_v4", &plain),
        ("1", "3", "--mpi=pmix", &plain),
        // What others put is asked for when it is needed, and not brought to a fence.
        ("2", "4", "--mpi=pmix", &direct),
    ] {
        let output = run(settings, &[mpi, "-N", nodes, "-n", tasks, ring]);
        if mpi == "--mpi=pmix_v4" && output.err.contains("asks for another") {
            // Another version of the library is here, and says so.
            continue;
        }
        let numbers = [nodes, tasks].map(|text| text.parse().expect("a number"));
        let said = format!("{output:?}\n{}", cluster.logs());
        assert_eq!(output.code, 0, "{said}");
        let due = rounds(numbers[1], numbers[0]);
        assert_eq!(sorted(&output.out), due, "{nodes} {tasks} {mpi}: {said}");
    }
    let output = run(&plain, &["--mpi=pmix_v3", ring]);
    assert!(
        output.code == 1 && output.err.contains("--mpi=pmix_v3 asks for another"),
        "{output:?}"
    );
    // What is sent before the server is ready arrives.
    let line = "echo in | srun --mpi=pmix -N2 -n2 cat";
    assert_eq!(cluster.run(NOBODY, &["sh", "-c", line]).good(), "in\nin\n");
    // Two programs are one world.
    let two = ["--mpi=pmix", "-N1", "-n1", ring, ":", "-N1", "-n1", ring];
    assert_eq!(sorted(&run(&plain, &two).good()), rounds(2, 2));
    let output = run(&plain, &["--mpi=pmix", "-N2", "-n4", ring, "abort"]);
    let said = "n2: task 3 aborted the step (MPI_Abort) with code 3";
    assert!(output.code == 3 && output.err.contains(said), "{output:?}");
    let output = run(&plain, &["--mpi=pmix", "-N2", "-n4", ring, "exit"]);
    let said = "n2: task 3: Exited with exit code 7";
    assert!(output.code != 0 && output.err.contains(said), "{output:?}");
    let output = run(&plain, &["--mpi=pmix", "-N2", "-n4", ring, "leave"]);
    let said = "task 3 ended while others wait for it in MPI";
    assert!(output.code == 1 && output.err.contains(said), "{output:?}");
    cluster.await_idle();
    nothing_is_left(&cluster);
    cluster.down();
}

/// Less than the ring takes when it hangs.
const ENDED_WITHIN: Duration = Duration::from_secs(60);

/// No server, and no folder of one.
fn nothing_is_left(cluster: &Cluster) {
    let nodes = cluster.dir().join("nodes");
    let folders = || {
        let nodes = fs::read_dir(&nodes).expect("nodes have folders").flatten();
        let steps = nodes.filter_map(|node| fs::read_dir(node.path().join("state/steps")).ok());
        let mut steps = steps.flatten().flatten();
        steps.any(|step| step.path().join("pmix").exists())
    };
    wait::until_true("no folder of a PMIx server is left", ENDED_WITHIN, || {
        !folders()
    });
    let gone = || servers(cluster).is_empty();
    wait::until_true("no PMIx server is left", ENDED_WITHIN, gone);
}

/// The PMIx servers of this cluster.
fn servers(cluster: &Cluster) -> Vec<procs::Process> {
    let dir = cluster.dir().to_str().expect("a plain name");
    let mut all = procs::mentioning(dir);
    all.retain(|process| {
        process.is("spurd") && process.args.iter().any(|arg| arg == "pmix-server")
    });
    all
}

/// srun of a ring of which one rank does nothing, when all of them run.
fn hanging(cluster: &Cluster, ring: &str) -> Child {
    let out = cluster.home(NOBODY).join("out");
    fs::remove_file(&out).ok();
    let srun = [
        "srun",
        "--mpi=pmix",
        "-N2",
        "-n4",
        "-o",
        "out",
        ring,
        "hang",
    ];
    let words = [&["env", "OMPI_MCA_btl=self,tcp"], &srun[..]].concat();
    let child = cluster.spawn(NOBODY, &words);
    let up = || fs::read_to_string(&out).is_ok_and(|text| text.matches("up\n").count() == 4);
    wait::until_true("every rank runs", SOON, up);
    child
}

#[test]
fn whoever_is_killed_takes_the_others_of_a_pmix_step_along() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 0);
    let Some(ring) = pmix_ring(&cluster) else {
        return cluster.down();
    };
    let ring = ring.to_str().expect("a plain name");
    let start = || hanging(&cluster, ring);
    // A rank on the second node.
    let child = start();
    let ranks = procs::mentioning(ring);
    let rank = ranks
        .iter()
        .filter(|process| process.args.first().is_some_and(|arg| arg == ring));
    let rank = rank.max_by_key(|process| process.pid).expect("ranks run");
    rank.kill();
    let output = Output::of(child);
    assert!(
        output.code != 0 && output.err.contains("Killed"),
        "{output:?}"
    );
    nothing_is_left(&cluster);
    // The server of a node.
    let child = start();
    let all = servers(&cluster);
    assert_eq!(all.len(), 2, "{all:?}");
    let of_second = all.iter().find(|process| process.mentions("/n2/"));
    of_second.expect("n2 has a server").kill();
    let output = Output::of(child);
    let said = "n2: the node's PMIx server has ended";
    assert!(output.code == 1 && output.err.contains(said), "{output:?}");
    nothing_is_left(&cluster);
    // srun.
    let child = start();
    let dir = cluster.dir().to_str().expect("a plain name");
    let all = procs::mentioning(dir);
    let srun = all.iter().find(|process| process.is("srun"));
    srun.expect("srun runs").kill();
    assert_ne!(Output::of(child).code, 0);
    nothing_is_left(&cluster);
    // A supervisor.
    let child = start();
    let supervisor = procs::mentioning(dir).into_iter().find(|process| {
        let mut args = process.args.iter();
        process.is("spurd") && args.any(|arg| arg == "supervise") && process.mentions("/n2/")
    });
    supervisor.expect("n2 has a supervisor").kill();
    let output = Output::of(child);
    assert!(
        output.code != 0 && output.err.contains("Node failure on n2"),
        "{output:?}"
    );
    nothing_is_left(&cluster);
    cluster.await_idle();
    cluster.down();
}

#[test]
fn a_node_that_cannot_start_its_part_ends_an_mpi_step() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 0);
    // The second node's file is in a folder that is not there.
    cluster.run(NOBODY, &["mkdir", "n1"]).good();
    let script = "ask init pmi_version=1 pmi_subversion=1; ask barrier_in; sleep 100";
    let output = srun(&cluster, &["-N2", "-o", "%N/out"], script);
    assert!(
        output.code == 1 && output.err.contains("n2/out: No such file or directory"),
        "{output:?}"
    );
    cluster.await_idle();
    cluster.down();
}

#[test]
fn starters_of_mpi_programs_find_srun() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(4, 0);
    for (compiler, starter) in [
        ("mpicc.mpich", "mpirun.mpich"),
        ("mpicc.openmpi", "mpirun.openmpi"),
    ] {
        let Some(ring) = ring(&cluster, compiler) else {
            continue;
        };
        for (nodes, tasks) in [("2", "4"), ("4", "4")] {
            // These nodes have one machine's name and shared memory: Open MPI takes them for one.
            let line = format!(
                "HOME=$PWD OMPI_MCA_btl=self,tcp {starter} {}",
                ring.display()
            );
            let words = ["salloc", "-Q", "-N", nodes, "-n", tasks, "sh", "-c", &line];
            let output = cluster.run(NOBODY, &words);
            let numbers = [nodes, tasks].map(|text| text.parse().expect("a number"));
            let said = format!("{starter} on {nodes} nodes: {output:?}\n{}", cluster.logs());
            assert_eq!(output.code, 0, "{said}");
            assert_eq!(
                sorted(&output.out),
                rounds(numbers[1], numbers[0]),
                "{said}"
            );
        }
    }
    cluster.await_idle();
    cluster.down();
}
