use super::{idle, json, plot, report};
use crate::cli::render::accounts::sheet::{Sheet, Style};
use crate::cli::render::accounts::{Context, fields, rows};
use crate::cli::render::tests::samples::{at, train, view};
use crate::cli::seff;
use spur_core::api::{
    AccountedJob, GpuNow, IdleGpu, JobView, NodeEvent, SeriesKind, SeriesPoint, SeriesView,
    UsageReport,
};
use spur_core::id::{Generation, JobId, NodeName, StepKind};
use spur_core::job::state::JobState;
use spur_core::usage::histogram::Histogram;
use spur_core::usage::idle::Idle;
use spur_core::usage::metric::{Quality, Source};
use spur_core::usage::summary::{Busy, GpuUsage, JobUsage, Processes, StepUsage};
use spur_core::usage::words::{UsageEvent, UsageEventKind};
use std::sync::Arc;

fn gpu(index: u32, busy_secs: Option<u64>) -> GpuUsage {
    let mut utilization = Histogram::default();
    if let Some(busy) = busy_secs {
        utilization.add(0, (100 - busy) * 1000);
        utilization.add(1000, busy * 1000);
    }
    GpuUsage {
        index,
        uuid: format!("GPU-{index}"),
        model: "h200".into(),
        held_us: 100_000_000,
        busy: busy_secs.map(|busy| Busy {
            us: busy * 1_000_000,
            source: Source::Simulated,
            quality: Quality::Estimated,
        }),
        utilization,
        opened: Some(busy_secs.is_some_and(|busy| busy > 0)),
        first_busy_us: None,
        longest_idle_us: busy_secs.map(|busy| (100 - busy) * 1_000_000),
        trailing_idle_us: None,
        memory_peak: Some(3 << 30).filter(|_| index == 2),
        memory_total: Some(141 << 30),
        energy_mj: Some(70_000_000),
        sm_active: None,
        throttle_thermal_us: None,
        throttle_power_us: Some(2_000_000),
        errors: Vec::new(),
        ecc_corrected: None,
        ecc_uncorrected: None,
    }
}

fn node(name: &str, gpus: Vec<GpuUsage>) -> JobUsage {
    JobUsage {
        job: JobId(4),
        generation: Generation(9),
        node: NodeName::new(name).unwrap(),
        started: at(1),
        ended: at(101),
        cpus: 8,
        memory_mib: 65_536,
        used: Processes {
            cpu_us: 200_250_000,
            user_us: Some(150_000_000),
            system_us: Some(50_250_000),
            memory_peak: Some(16 << 30),
            memory_mean: Some(8 << 30),
            read_bytes: Some(5 << 20),
            ..Processes::default()
        },
        gpus,
        coverage: 995,
    }
}

/// Job 4 with four GPUs on each of two nodes, of which one was used; it ended after 100 s.
fn used() -> UsageReport {
    let mut job = train();
    job.state = JobState::Completed;
    job.ended = Some(at(101));
    job.generation = Generation(9);
    let first = (2..6).map(|index| gpu(index, Some(if index == 2 { 80 } else { 0 })));
    let second = (0..4).map(|index| gpu(index, Some(0)));
    let nodes = vec![
        node("n0001", first.collect()),
        node("n0002", second.collect()),
    ];
    let series = SeriesView {
        node: NodeName::new("n0001").unwrap(),
        kind: SeriesKind::GpuBusy,
        gpu: Some(2),
        step: 10_000,
        points: (0..10)
            .map(|n| SeriesPoint {
                millis: if n == 5 { 0 } else { 10_000 },
                mean: n * 100,
                min: n * 90,
                max: 1000,
            })
            .collect(),
    };
    UsageReport {
        record: AccountedJob {
            job: Arc::new(job),
            requeued: None,
            nodes,
            steps: Vec::new(),
            live: false,
        },
        now: Vec::new(),
        events: vec![NodeEvent {
            node: NodeName::new("n0001").unwrap(),
            event: UsageEvent {
                at: at(50),
                job: Some(JobId(4)),
                gpu: Some(3),
                what: UsageEventKind::DeviceError {
                    code: 79,
                    text: "GPU has fallen off the bus".into(),
                },
            },
        }],
        series: vec![series],
    }
}

fn sacct(report: &UsageReport, list: &str) -> String {
    let context = Context {
        view: view(at(200)),
        cluster: "base".into(),
        units: None,
        expand: false,
        accounts: Default::default(),
    };
    let sheet = Sheet::parse(list, fields::FIELDS, Style::Parted("|".into(), false)).unwrap();
    let rows = rows(report.record.clone(), report.now.clone(), false);
    sheet.row(&context, &rows[0])
}

#[test]
fn seff_sacct_and_usage_say_the_same_of_one_gpu_in_eight() {
    let report = used();
    let effort = seff::text(&report, "base", at(200));
    for line in [
        "Cluster: base",
        "State: COMPLETED (exit code 0)",
        "Nodes: 2",
        "Cores per node: 8",
        "CPU Utilized: 00:06:40",
        "CPU Efficiency: 25.00% of 00:26:40 core-walltime",
        "Job Wall-clock time: 00:01:40",
        "Memory Efficiency: 25.00% of 64.00 GB on n0001",
        "GPUs Utilized: 1 of 8",
        "GPU Efficiency: 10.00% of 0.22 GPU-hours",
        "GPU Energy: 560000 J",
        "GPU Longest Idle: 00:01:40",
        "  GPU n0001:2: 80.0% busy (simulated, estimated), 3.00 GB at most",
        "  GPU n0001:3: 0.0% busy (simulated, estimated), never opened",
    ] {
        assert!(
            effort.lines().any(|other| other == line),
            "{line}\n{effort}"
        );
    }
    let list = "TotalCPU,UserCPU,Elapsed,GpuUtil,GpuUtilP50,GpuUtilP95,GpuHours,GpuIdle,ConsumedEnergyRaw,TRESUsageInTot";
    assert_eq!(
        sacct(&report, list),
        "06:40.500|00:05:00|00:01:40|10.0%|0.0%|100.0%|0.22|7|560000|energy=560000,gres/gpumem=6G,gres/gpuutil=80\n"
    );
    let text = report::text(&view(at(200)), &report);
    for part in [
        "CPU     06:40.500 used of 00:26:40 held: 25.0%",
        "GPUs    1 used of 8 held, 0.22 GPU-hours: 10.0% busy, p50 0.0%, p95 100.0%",
        "longest idle 00:01:40",
        "simulated, estimated",
        "n0001 GPU 3: device-error 79 GPU has fallen off the bus",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let told = serde_json::to_value(json::report(&report, at(0))).unwrap();
    assert_eq!(told["totals"]["gpu_efficiency_percent"], 10.0);
    assert_eq!(told["totals"]["cpu_efficiency_percent"], 25.0);
    assert_eq!(told["totals"]["gpus_used"], 1);
    assert_eq!(
        told["nodes"][0]["processes"]["runqueue_us"],
        serde_json::Value::Null
    );
    assert_eq!(told["series"][0]["points"][5], serde_json::Value::Null);
}

#[test]
fn what_was_not_measured_is_said_and_no_zero() {
    let mut report = used();
    report.record.nodes.clear();
    let effort = seff::text(&report, "base", at(200));
    assert!(effort.contains("CPU Utilized: not measured\n"), "{effort}");
    assert!(
        effort.contains("GPUs Utilized: not measured, of 8\n"),
        "{effort}"
    );
    assert!(effort.contains("2 of 2 nodes reported nothing"), "{effort}");
    assert_eq!(
        sacct(&report, "TotalCPU,GpuUtil,GpuIdle,TRESUsageInTot"),
        "|||\n"
    );
    let text = report::text(&view(at(200)), &report);
    assert!(text.contains("Use: not measured"), "{text}");
    assert!(
        plot::svg(
            &view(at(200)),
            &UsageReport {
                series: vec![],
                ..report
            }
        )
        .is_none()
    );
}

#[test]
fn a_step_s_line_has_its_own_numbers() {
    let mut report = used();
    let mut job = JobView::clone(&report.record.job);
    job.steps = vec![spur_core::api::StepView {
        kind: StepKind::Numbered(0),
        name: "train.py".into(),
        state: spur_core::job::step::StepState::Running,
        started: at(1),
        ended: None,
        shares: job
            .nodes
            .iter()
            .map(|held| spur_core::job::step::StepShare {
                share: held.share.clone(),
                task_ids: vec![held.share.node.0],
            })
            .collect(),
        exit: Default::default(),
        suspended_ms: 0,
    }];
    report.record.steps = ["n0001", "n0002"]
        .map(|name| StepUsage {
            job: JobId(4),
            step: StepKind::Numbered(0),
            generation: Generation(9),
            node: NodeName::new(name).unwrap(),
            started: at(1),
            ended: at(101),
            used: Processes {
                cpu_us: if name == "n0001" {
                    60_000_000
                } else {
                    20_000_000
                },
                memory_peak: Some(if name == "n0001" {
                    5036 << 10
                } else {
                    4096 << 10
                }),
                memory_mean: Some(2 << 20),
                read_bytes: Some(25_827),
                ..Processes::default()
            },
            coverage: 1000,
        })
        .to_vec();
    report.record.job = Arc::new(job);
    report.now = vec![GpuNow {
        node: NodeName::new("n0001").unwrap(),
        gpu: 2,
        age: 100,
        busy: Some(955),
        memory: Some(1 << 30),
        power: None,
    }];
    let rows = rows(report.record.clone(), report.now.clone(), true);
    let context = Context {
        view: view(at(11)),
        cluster: String::new(),
        units: None,
        expand: false,
        accounts: Default::default(),
    };
    let list = "JobID,State,NTasks,MaxRSS,MaxRSSNode,AveRSS,MinCPU,MinCPUNode,AveCPU,TotalCPU,MaxDiskRead,Elapsed,TRESUsageInTot";
    let sheet = Sheet::parse(list, fields::FIELDS, Style::Parted("|".into(), true)).unwrap();
    assert_eq!(
        sheet.row(&context, &rows[1]),
        "4.0|RUNNING|2|5036K|n0001|2M|00:00:20|n0002|00:00:40|00:01:20|0.02M|00:00:10|\
         cpu=00:01:20,energy=560000,fs/disk=51654,gres/gpumem=1G,gres/gpuutil=95,mem=5036K|\n"
    );
}

#[test]
fn idle_gpus_are_named_with_owner_and_evidence() {
    let mut job = train();
    job.idle = vec![IdleGpu {
        node: NodeName::new("n0002").unwrap(),
        gpu: 3,
        idle: Idle {
            since: at(10),
            millis: 900_000,
            held: 1_000_000,
            opened: Some(true),
            open_now: Some(false),
            busy: Some(31),
            memory: Some(2 << 30),
        },
    }];
    let jobs = [Arc::new(job)];
    let text = idle::text(&view(at(1000)), &jobs, true);
    let line = text.lines().nth(1).unwrap();
    for part in [
        "slurmtest",
        "n0002",
        " 3 ",
        "00:16:30",
        "not open now, 3.1% busy in 00:16:40 held, keeps 2.00 GB",
    ] {
        assert!(line.contains(part), "{part}\n{text}");
    }
    let told = serde_json::to_value(idle::report(&jobs, at(1000))).unwrap();
    assert_eq!(
        (&told[0]["user"], &told[0]["busy_percent"]),
        (&"slurmtest".into(), &3.1.into())
    );
    assert_eq!(told[0]["idle_seconds"], 990, "until now");
    let none = |everything| idle::text(&view(at(0)), &[], everything);
    assert_eq!(none(true), "No GPU is held and idle.\n");
    assert!(none(false).contains("other users' jobs are shown to operators only"));
}

#[test]
fn the_picture_is_whole_and_escapes_what_users_write() {
    let mut report = used();
    let mut job = JobView::clone(&report.record.job);
    let mut spec = (*job.spec).clone();
    spec.name = "<script>&\u{1b}".into();
    job.spec = Arc::new(spec);
    report.record.job = Arc::new(job);
    let picture = plot::svg(&view(at(200)), &report).unwrap();
    assert!(picture.contains("&lt;script&gt;&amp;?"), "{picture}");
    assert!(!picture.contains("<script"), "{picture}");
    assert_eq!(
        picture.matches("<polyline").count(),
        2,
        "a gap parts the line"
    );
    assert_eq!(picture.matches("<polygon").count(), 2);
    assert!(picture.contains("n0001 GPU 2") && picture.ends_with("</svg>\n"));
    assert!(!picture.contains("NaN") && !picture.contains("inf"));
}
