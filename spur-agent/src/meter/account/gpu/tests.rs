use super::*;

const POLICY: IdlePolicy = IdlePolicy {
    after: 5_000,
    grace: 3_000,
    threshold: 10,
};

fn told(rank: Rank, permille: u64) -> BusyTold {
    BusyTold {
        rank,
        source: if rank == Rank::Work {
            Source::DrmSched
        } else {
            Source::Nvml
        },
        quality: Quality::Sampled,
        us: permille * 1000,
        millis: 1000,
    }
}

/// Seconds in which both, or one, of two sources tell.
fn run(seconds: impl IntoIterator<Item = (Option<u64>, Option<u64>)>) -> (JobGpu, Vec<Change>) {
    let mut gpu = JobGpu::new("GPU-1", "h200", 1024, 0);
    let mut changes = Vec::new();
    for (second, (work, device)) in (1u64..).zip(seconds) {
        let now = second * 1000;
        for (rank, share) in [(Rank::Work, work), (Rank::Device, device)] {
            if let Some(share) = share {
                gpu.tell(now, told(rank, share));
            }
        }
        changes.extend(gpu.tick(now, Millis(now), &POLICY));
    }
    (gpu, changes)
}

#[test]
fn sources_are_never_mixed() {
    let (gpu, _) = run([(Some(500), Some(1000)); 10]);
    let record = gpu.record(3);
    let busy = record.busy.unwrap();
    assert_eq!((busy.us, busy.source), (5_000_000, Source::DrmSched));
    assert_eq!(
        (record.held_us, record.utilization.total()),
        (10_000_000, 10_000)
    );
    assert_eq!(record.utilization.quantile(50), Some(500));
}

#[test]
fn a_source_that_told_for_a_moment_only_is_not_the_records() {
    let seconds = (0..20).map(|second| ((second < 2).then_some(900), Some(400)));
    let (gpu, _) = run(seconds);
    assert_eq!(gpu.record(0).busy.unwrap().us, 8_000_000);
    let mut series = Vec::new();
    gpu.series(JobId(1), 0, 20_000, &mut series);
    let busy = series
        .iter()
        .find(|(key, _)| key.metric == Metric::GpuBusyTime)
        .unwrap();
    assert_eq!(
        (busy.0.source, busy.1),
        (Source::Nvml, Value::Count(8_000_000))
    );
    assert!(series.is_sorted_by_key(|(key, _)| *key));
}

#[test]
fn what_nothing_tells_is_absent_and_idle_only_if_unopened() {
    let (gpu, changes) = run([(None, None); 30]);
    let record = gpu.record(0);
    assert_eq!(
        (record.busy, record.opened, record.longest_idle_us),
        (None, None, None)
    );
    assert_eq!(changes, []);
    let mut gpu = JobGpu::new("", "", 0, 0);
    gpu.holders = Some(0);
    let changes: Vec<_> = (1..=30)
        .filter_map(|second| gpu.tick(second * 1000, Millis(second * 1000), &POLICY))
        .collect();
    assert!(
        matches!(&changes[..], [Change::Idle(idle)] if idle.opened == Some(false)),
        "{changes:?}"
    );
    assert_eq!(
        (gpu.record(0).opened, gpu.record(0).memory_total),
        (Some(false), None)
    );
}

#[test]
fn an_idle_gpu_is_named_once_and_again_after_work() {
    let busy = |second: u64| if second == 12 { 800 } else { 0 };
    let (_, changes) = run((1..=24).map(|second| (None, Some(busy(second)))));
    assert!(
        matches!(
            changes[..],
            [Change::Idle(_), Change::Busy, Change::Idle(_)]
        ),
        "{changes:?}"
    );
}

#[test]
fn the_devices_counters_count_from_the_grant_on_through_a_reset() {
    let mut gpu = JobGpu::new("", "", 0, 0);
    for (second, energy) in [(1, 5_000), (2, 5_400), (3, 100)] {
        let mut look = DeviceLook::default();
        look.tell(
            Metric::HwEnergy,
            Source::Nvml,
            Quality::Sampled,
            Value::Count(energy),
        );
        look.errors = vec![(79, "gone".into())];
        gpu.take_device(second * 1000, &look);
    }
    let record = gpu.record(0);
    assert_eq!(record.energy_mj, Some(500));
    assert_eq!(record.errors, [DeviceErrors { code: 79, count: 3 }]);
    assert_eq!(record.ecc_corrected, None);
}

#[test]
fn exact_work_counts_from_the_kernels_counters() {
    let mut gpu = JobGpu::new("", "", 0, 0);
    gpu.take_work(1000, 1000, (300_000, 7, 2));
    gpu.take_work(2000, 1000, (450_000, 9, 5));
    gpu.tick(2000, Millis(0), &POLICY);
    assert_eq!(gpu.record(0).busy.map(|busy| busy.us), Some(450_000));
}
