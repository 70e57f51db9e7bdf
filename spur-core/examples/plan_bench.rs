//! Figures for the planner: how long a pass takes with 1,000 nodes of 8 GPUs and 10,000 pending jobs. Prints one line of
//! `name value unit` for each figure; `cargo xtask bench` reads them.

use spur_core::cluster::Cluster;
use spur_core::event::{Event, NodeHello};
use spur_core::id::{Gid, NodeName, Uid};
use spur_core::job::admit::admit;
use spur_core::job::spec::{GresFlags, JobKind, JobSpec, Owner};
use spur_core::node::FenceState;
use spur_core::partition::{Partition, PartitionState};
use spur_core::plan::{Budget, plan};
use spur_core::resources::{Gpu, GpuCount, GpuVendor, Inventory, MemoryRequest};
use spur_core::time::{Millis, TimeLimit};
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODES: u32 = 1_000;
const JOBS: u32 = 10_000;
const ROUNDS: usize = 21;
const NOW: Millis = Millis(1_000_000);

fn main() {
    let empty = cluster();
    let mut full = empty.clone();
    submit(&mut full, NODES, |_| gpus(8));
    start_all(&mut full);

    let mut alike = full.clone();
    submit(&mut alike, JOBS, |_| gpus(2));
    report("plan_full_cluster_10k_alike", &mut alike);

    let mut varied = full.clone();
    submit(&mut varied, JOBS, |n| JobSpec {
        cpus_per_task: 1 + n % 32,
        ..gpus(1 + n % 8)
    });
    report("plan_full_cluster_10k_of_256_kinds", &mut varied);

    let mut different = full;
    submit(&mut different, JOBS, |n| JobSpec {
        memory: MemoryRequest::PerNode(u64::from(n) + 1),
        ..gpus(1 + n % 8)
    });
    report("plan_full_cluster_10k_all_different", &mut different);

    let mut fresh = empty.clone();
    submit(&mut fresh, JOBS, |_| gpus(1));
    report("plan_empty_cluster_8k_starts_of_10k", &mut fresh);

    let mut gangs = empty;
    submit(&mut gangs, JOBS, |n| JobSpec {
        nodes_min: 1 + n % 16,
        nodes_max: 1 + n % 16,
        nodes_set: true,
        ..gpus(8)
    });
    report("plan_empty_cluster_10k_gangs", &mut gangs);
}

/// Median and worst time of a pass over an unchanged cluster.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn report(name: &str, cluster: &mut Cluster) {
    let mut times: Vec<Duration> = Vec::new();
    let mut started = 0;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let found = plan(cluster, NOW, Budget::default());
        times.push(begin.elapsed());
        started = found.placements.len();
    }
    times.sort();
    let (median, worst) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    println!("{name}_median {} us", median.as_micros());
    println!("{name}_worst {} us", worst.as_micros());
    println!("{name}_started {started} jobs");
}

fn start_all(cluster: &mut Cluster) {
    let found = plan(cluster, NOW, Budget::default());
    for event in cluster.plan_events(found) {
        cluster.apply(NOW, &event);
    }
}

fn submit(cluster: &mut Cluster, count: u32, spec: impl Fn(u32) -> JobSpec) {
    for n in 0..count {
        let mut spec = spec(n);
        let admitted = admit(cluster, &mut spec, NOW).expect("the benchmark's jobs are possible");
        let job = cluster.next_job_id().expect("numbers suffice");
        let priority = admitted.priority;
        cluster.apply(
            NOW,
            &Event::Submitted {
                job,
                spec: Arc::new(spec),
                priority,
            },
        );
    }
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    let partition = Partition {
        name: "gpu".to_owned(),
        default: true,
        nodes: None,
        max_time: TimeLimit::Unlimited,
        default_time: None,
        default_mem_per_cpu: 1024,
        state: PartitionState::Up,
        priority_tier: 1,
        min_nodes: 0,
        max_nodes: 0,
        max_cpus_per_node: 0,
        max_mem_per_node: 0,
        max_mem_per_cpu: 0,
        def_mem_per_gpu: 0,
        def_cpu_per_gpu: 0,
    };
    let configured = Event::Configured {
        cluster: "bench".to_owned(),
        partitions: vec![partition],
        min_job_age: 300,
        node_timeout: 300,
        node_config: Default::default(),
        topology: Default::default(),
    };
    cluster.apply(NOW, &configured);
    for n in 1..=NODES {
        cluster.apply(NOW, &Event::NodeConnected(hello(n)));
    }
    cluster
}

fn hello(n: u32) -> NodeHello {
    NodeHello {
        name: NodeName::new(format!("n{n}")).expect("a legal name"),
        inventory: Inventory {
            cpus: 64,
            sockets: 2,
            cores_per_socket: 32,
            threads_per_core: 1,
            memory_mib: 1_000_000,
            gpus: (0..8).map(gpu).collect(),
            simulated: true,
            cpus_by_numa: Vec::new(),
            features: Vec::new(),
        },
        boot_id: "1".to_owned(),
        boot_time: NOW,
        agent_start: NOW,
        fence: FenceState::Guarded,
        fence_note: String::new(),
        version: String::new(),
        os: String::new(),
        hostname: String::new(),
        address: String::new(),
        jobs: Vec::new(),
        fence_suffices: None,
        gpus_sick: None,
        gpu_notes: Vec::new(),
        keeps_gpus: Some(true),
        stuck: Vec::new(),
    }
}

fn gpu(index: u32) -> Gpu {
    Gpu {
        index,
        vendor: GpuVendor::Simulated,
        model: "h200".to_owned(),
        uuid: String::new(),
        pci: String::new(),
        numa: Some(index / 4),
        memory_mib: 144_384,
        files: Vec::new(),
        links: Vec::new(),
        rail: None,
        parent: None,
    }
}

fn gpus(count: u32) -> JobSpec {
    JobSpec {
        kind: JobKind::Batch,
        owner: Owner {
            uid: Uid(1000),
            gid: Gid(1000),
            groups: Vec::new(),
            user: "alice".to_owned(),
            group: "alice".to_owned(),
            home: "/".to_owned(),
            shell: "/bin/sh".to_owned(),
        },
        name: "job".to_owned(),
        account: String::new(),
        partition: String::new(),
        qos: String::new(),
        comment: String::new(),
        nodes_min: 1,
        nodes_max: 1,
        nodes_set: false,
        tasks: 1,
        tasks_set: false,
        tasks_per_node: 0,
        cpus_per_task: 1,
        cpus_per_task_set: false,
        memory: MemoryRequest::Default,
        gpus_per_node: Some(GpuCount {
            model: String::new(),
            count,
        }),
        gpus_total: None,
        gpus_per_task: None,
        nodelist: Vec::new(),
        exclude: Vec::new(),
        constraint: String::new(),
        exclusive: false,
        time_limit: None,
        begin: None,
        hold: false,
        nice: 0,
        requeue: true,
        work_dir: "/".to_owned(),
        stdin: String::new(),
        stdout: String::new(),
        stderr: String::new(),
        append: false,
        export: String::new(),
        command: String::new(),
        submit_host: String::new(),
        submit_sid: 0,
        gpus_per_socket: None,
        tasks_per_gpu: 0,
        cpus_per_gpu: 0,
        gres_flags: GresFlags::default(),
        switches: None,
        prefer: String::new(),
        tasks_per_socket: 0,
        sockets_per_node: 0,
        mincpus: 0,
        segment: 0,
        contiguous: false,
    }
}
