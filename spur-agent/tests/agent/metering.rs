//! What jobs use, as the controller hears it.

use super::node::{Node, possible, wait};
use super::orders::run;
use spur_core::agent::order::Report;
use spur_core::id::{JobId, StepKind};
use spur_core::usage::metric::{Metric, Quality, Source, Subject, Value};
use spur_core::usage::summary::{JobUsage, StepUsage};
use spur_core::usage::words::{UsageEventKind, UsageRecord};

/// Shell code that takes about this many milliseconds of CPU time.
fn burn(millis: u32) -> String {
    format!(
        "while [ $(awk '{{s+=$14+$15}} END {{print s*10}}' /proc/$$/stat) -lt {millis} ]; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done"
    )
}

fn job_record(node: &Node, number: u32) -> JobUsage {
    node.controller
        .record("the job's record", |record| match record {
            UsageRecord::Job(usage) if usage.job == JobId(number) => Some(usage.clone()),
            _ => None,
        })
}

fn step_record(node: &Node, number: u32) -> StepUsage {
    node.controller
        .record("the step's record", |record| match record {
            UsageRecord::Step(usage) if usage.job == JobId(number) => Some(usage.clone()),
            _ => None,
        })
}

fn ended(node: &Node) {
    node.controller.report("the end", |report| {
        matches!(report, Report::StepEnded { .. })
    });
}

#[test]
fn a_jobs_cpu_time_and_its_gpus_work_arrive_as_series_and_as_records() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let busy = format!("{}.busy", node.device(2));
    let script = format!("echo 400 > {busy}; {}; sleep 2; echo 0 > {busy}", burn(300));
    run(&node, 1, 5, &[2, 3], &script);
    let cpu = node.controller.usage("the step's CPU time", |usage| {
        usage
            .iter()
            .find_map(|(key, value)| match (key.subject, key.metric, value) {
                (Subject::Step(JobId(1), StepKind::Batch), Metric::CpuTime, Value::Count(us))
                    if *us >= 100_000 =>
                {
                    Some(*key)
                }
                _ => None,
            })
    });
    assert_ne!(cpu.quality, Quality::Estimated);
    node.controller.usage("the GPU's work", |usage| {
        usage.iter().find(|(key, value)| {
            key.subject == Subject::JobGpu(JobId(1), 2)
                && key.metric == Metric::GpuBusyTime
                && matches!(value, Value::Count(1..))
        })?;
        Some(())
    });
    ended(&node);
    let step = step_record(&node, 1);
    assert!(
        (300_000..10_000_000).contains(&step.used.cpu_us),
        "{step:?}"
    );
    assert_eq!((step.coverage, step.generation.0), (1000, 5));
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    let job = job_record(&node, 1);
    assert_eq!(job.used.cpu_us, step.used.cpu_us);
    assert!(
        job.used.memory_peak.is_some_and(|bytes| bytes > 0),
        "{job:?}"
    );
    let [used, unused] = &job.gpus[..] else {
        panic!("{job:?}")
    };
    let told = used.busy.unwrap();
    assert_eq!(
        (told.source, told.quality),
        (Source::Simulated, Quality::Estimated)
    );
    // At 40 %, for a part of the time that it was held: how much of it was looked at is the machine's affair.
    assert!(told.us > 0 && told.us < used.held_us / 2, "{used:?}");
    assert_eq!(unused.busy.map(|busy| busy.us), Some(0));
    assert_eq!(
        (used.opened, used.energy_mj, used.memory_total.is_some()),
        (None, None, false),
        "{used:?}"
    );
    node.finish();
}

#[test]
fn an_idle_gpu_is_named_and_its_work_too() {
    if !possible() {
        return;
    }
    let node = Node::start("[meter]\nidle_after = 2\nidle_grace = 1\n");
    run(&node, 1, 5, &[4], "sleep 60");
    let idle = node.controller.record("idle", |record| match record {
        UsageRecord::Event(event) if event.job == Some(JobId(1)) && event.gpu == Some(4) => {
            match &event.what {
                UsageEventKind::Idle(idle) => Some(idle.clone()),
                _ => None,
            }
        }
        _ => None,
    });
    assert!(idle.millis >= 2_000 && idle.busy == Some(0), "{idle:?}");
    std::fs::write(format!("{}.busy", node.device(4)), "900").unwrap();
    node.controller.record("busy", |record| match record {
        UsageRecord::Event(event) if event.what == UsageEventKind::Busy => Some(()),
        _ => None,
    });
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    node.finish();
}

#[test]
fn a_restarted_meter_goes_on_and_marks_the_gap() {
    if !possible() {
        return;
    }
    let mut node = Node::start("");
    std::fs::write(format!("{}.busy", node.device(1)), "500").unwrap();
    let script = format!(
        "{}; touch {}; sleep 60",
        burn(200),
        node.out("burnt").display()
    );
    run(&node, 1, 5, &[1], &script);
    wait("the job has worked", || {
        node.out("burnt").exists().then_some(())
    });
    node.controller.usage("the GPU's work", |usage| {
        let busy = usage
            .iter()
            .find(|(key, _)| key.metric == Metric::GpuBusyTime)?;
        matches!(busy.1, Value::Count(500_000..)).then_some(())
    });
    node.stop_agent();
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    node.start_agent();
    let order = super::orders::job(&node, 1, 5, &[1]);
    let batch = super::orders::batch(&node, &order, &script);
    node.controller.welcome_to(5, [order], [batch]);
    let gap = node.controller.record("the gap", |record| match record {
        UsageRecord::Event(event) if event.job == Some(JobId(1)) => match &event.what {
            UsageEventKind::Gap { millis, .. } => Some(*millis),
            _ => None,
        },
        _ => None,
    });
    assert!((2_000..30_000).contains(&gap), "{gap}");
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    let job = job_record(&node, 1);
    assert!(job.used.cpu_us >= 200_000 && job.coverage < 1000, "{job:?}");
    assert!(job.elapsed_us() >= gap * 1000, "{job:?}");
    let busy = job.gpus[0].busy.unwrap();
    assert!(
        busy.us >= 500_000 && busy.us < job.gpus[0].held_us,
        "{job:?}"
    );
    node.finish();
}

#[test]
fn records_wait_for_a_controller_that_acknowledges_nothing() {
    if !possible() {
        return;
    }
    let mut node = Node::start("");
    node.controller.mute(true);
    run(&node, 1, 5, &[], "true");
    let first = step_record(&node, 1);
    node.kill_agent();
    node.controller.mute(false);
    node.start_agent();
    // It comes again under its number: the controller has it once.
    let steps = |node: &Node| {
        let records = node.controller.records();
        records
            .iter()
            .filter(|record| matches!(record, UsageRecord::Step(usage) if usage.job == JobId(1)))
            .count()
    };
    node.controller.welcome();
    node.controller.cleaned(1);
    job_record(&node, 1);
    assert_eq!(steps(&node), 1);
    assert_eq!(step_record(&node, 1), first);
    let spool = node.dir.path().join("state/spool/records");
    // Its head is left: who it is, and the next number.
    let length = || std::fs::metadata(&spool).unwrap().len();
    wait("the spool is empty", || (length() < 150).then_some(()));
    node.finish();
}
