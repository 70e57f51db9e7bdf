use super::*;
use crate::id::Generation;

fn gpu(index: u32, held_s: u64, busy_s: Option<u64>) -> GpuUsage {
    let mut utilization = Histogram::default();
    if let Some(busy) = busy_s {
        utilization.add(0, (held_s - busy) * 1000);
        utilization.add(1000, busy * 1000);
    }
    GpuUsage {
        index,
        uuid: format!("GPU-{index}"),
        model: "h200".into(),
        held_us: held_s * 1_000_000,
        busy: busy_s.map(|busy| Busy {
            us: busy * 1_000_000,
            source: Source::Nvml,
            quality: Quality::Sampled,
        }),
        utilization,
        opened: Some(busy_s.is_some()),
        first_busy_us: None,
        longest_idle_us: busy_s.map(|busy| (held_s - busy) * 1_000_000),
        trailing_idle_us: None,
        memory_peak: None,
        memory_total: None,
        energy_mj: None,
        sm_active: None,
        throttle_thermal_us: None,
        throttle_power_us: None,
        errors: Vec::new(),
        ecc_corrected: None,
        ecc_uncorrected: None,
    }
}

fn node(name: &str, gpus: Vec<GpuUsage>) -> JobUsage {
    JobUsage {
        job: JobId(7),
        generation: Generation(1),
        node: NodeName::new(name).unwrap(),
        started: Millis(1_000),
        ended: Millis(101_000),
        cpus: 4,
        memory_mib: 1024,
        used: Processes {
            cpu_us: 100_000_000,
            memory_peak: Some(512 << 20),
            ..Processes::default()
        },
        gpus,
        coverage: 990,
    }
}

#[test]
fn cpus_are_not_held_while_a_job_stands_still() {
    let mut world = crate::fixture::World::new(1, 4);
    let id = world.start(crate::fixture::batch());
    let mut job = crate::view::job_view(&world.cluster, world.job(id));
    (job.started, job.ended) = (Some(Millis(1_000)), Some(Millis(101_000)));
    job.suspended_ms = 60_000;
    let run = AccountedJob {
        job: std::sync::Arc::new(job),
        requeued: None,
        nodes: vec![node("n1", Vec::new())],
        steps: Vec::new(),
        live: false,
    };
    let totals = JobTotals::of_run(&run);
    assert_eq!(totals.cpu_held_us, 4 * 40 * 1_000_000);
    assert_eq!(totals.cpu_permille(), Some(625));
}

#[test]
fn one_of_four_gpus_used_is_a_quarter() {
    let job = node(
        "n1",
        vec![
            gpu(0, 100, Some(100)),
            gpu(1, 100, Some(0)),
            gpu(2, 100, Some(0)),
            gpu(3, 100, Some(0)),
        ],
    );
    let totals = JobTotals::of([&job]);
    assert_eq!((totals.gpus, totals.gpus_used), (4, Some(1)));
    assert_eq!(totals.gpu_permille(), Some(250));
    assert_eq!(totals.cpu_permille(), Some(250));
    assert_eq!(totals.memory_permille(), Some(500));
    assert_eq!(totals.utilization.quantile(50), Some(0));
    assert_eq!(totals.utilization.quantile(95), Some(1000));
    assert_eq!(totals.longest_idle_us, Some(100_000_000));
}

#[test]
fn time_in_which_nobody_looked_is_not_idle() {
    let mut seen = gpu(0, 30, Some(30));
    (seen.utilization, seen.busy.as_mut().unwrap().us) = (Histogram::default(), 10_000_000);
    seen.utilization.add(1000, 10_000);
    assert_eq!(
        seen.busy_permille(),
        Some(1000),
        "of the ten seconds that were looked at"
    );
    let totals = JobTotals::of([&node("n1", vec![seen.clone()])]);
    assert_eq!(
        (totals.gpu_permille(), totals.gpu_told_us),
        (Some(1000), 10_000_000)
    );
    seen.busy.as_mut().unwrap().quality = Quality::Exact;
    assert_eq!(
        seen.busy_permille(),
        Some(333),
        "what counts events misses nothing"
    );
}

#[test]
fn what_nothing_tells_is_absent_and_no_zero() {
    let totals = JobTotals::of([&node("n1", vec![gpu(0, 100, None), gpu(1, 100, Some(50))])]);
    assert_eq!(totals.gpu_permille(), Some(500), "of the GPU that tells");
    let nothing = JobTotals::of([&node("n1", vec![gpu(0, 100, None)])]);
    assert_eq!((nothing.gpu_permille(), nothing.gpus_used), (None, None));
    assert_eq!(JobTotals::of([]).cpu_permille(), None);
    assert_eq!(JobTotals::of([]).coverage, 0);
}

#[test]
fn nodes_add_up() {
    let (a, b) = (
        node("n1", vec![gpu(0, 100, Some(100))]),
        node("n2", vec![gpu(0, 100, Some(0))]),
    );
    let totals = JobTotals::of([&a, &b]);
    assert_eq!(
        (totals.nodes, totals.gpus, totals.gpus_used),
        (2, 2, Some(1))
    );
    assert_eq!(totals.cpu_held_us, 800_000_000);
    assert_eq!(totals.used.memory_peak, Some(512 << 20));
    assert_eq!(
        totals.memory_permille(),
        Some(500),
        "of what one node gave, not of the sum"
    );
    let mut tight = b.clone();
    tight.used.memory_peak = Some(900 << 20);
    let tightest = JobTotals::of([&a, &tight, &b]).tightest.unwrap();
    assert_eq!(tightest.node, tight.node);
    assert_eq!(tightest.permille(), Some(879));
}
