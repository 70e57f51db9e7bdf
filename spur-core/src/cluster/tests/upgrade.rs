//! Logs and snapshots that were written by earlier versions must be read for ever. `tests/upgrade/` holds one pair of files
//! for each time that the persisted types grew; they are never changed. When they grow, add a pair:
//!
//! ```text
//! cargo nextest run -p spur-core --run-ignored only write_the_next_pair
//! ```

use super::super::hooks::Hooks;
use super::usage::idle;
use crate::check::check;
use crate::cluster::Cluster;
use crate::denial::DenialCount;
use crate::event::Event;
use crate::fixture::{OK, batch, gang, gpus, hello, inventory, partition, spec};
use crate::id::{Generation, JobId, MemberId, NodeId, NodeName, StepKind, TokenId, Uid};
use crate::job::admit::admit;
use crate::job::extras::{Cron, Warning};
use crate::job::spec::{GresFlags, JobKind, JobSpec, Switches};
use crate::job::step::StepShare;
use crate::manage::Change;
use crate::manage::reservation::Reservation;
use crate::mesh::{MeshEvent, MeshKey, MeshPrefix, NewToken, Newcomer, Role};
use crate::node::{AdminState, FenceState, NodeConfig};
use crate::partition::PartitionState;
use crate::plan::{Budget, plan};
use crate::resources::MemoryRequest;
use crate::time::{Millis, TimeLimit};
use crate::topology::{Switch, Topology, TopologyPlugin};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

type Log = Vec<(Millis, Event)>;

/// Every variant by name. Exhaustive, so that a new one is noticed here.
fn kind(event: &Event) -> &'static str {
    match event {
        Event::Configured { .. } => "Configured",
        Event::NodeConnected(_) => "NodeConnected",
        Event::NodeDisconnected { .. } => "NodeDisconnected",
        Event::NodeLost { .. } => "NodeLost",
        Event::NodeUpdated { .. } => "NodeUpdated",
        Event::PartitionUpdated { .. } => "PartitionUpdated",
        Event::Submitted { .. } => "Submitted",
        Event::Placed { .. } => "Placed",
        Event::Explained { .. } => "Explained",
        Event::StepGranted { .. } => "StepGranted",
        Event::StepEnded { .. } => "StepEnded",
        Event::LaunchFailed { .. } => "LaunchFailed",
        Event::Cleaned { .. } => "Cleaned",
        Event::Cancelled { .. } => "Cancelled",
        Event::Finished { .. } => "Finished",
        Event::TimedOut { .. } => "TimedOut",
        Event::Held { .. } => "Held",
        Event::Released { .. } => "Released",
        Event::Requeued { .. } => "Requeued",
        Event::JobUpdated { .. } => "JobUpdated",
        Event::Denials { .. } => "Denials",
        Event::FenceChanged { .. } => "FenceChanged",
        Event::Purged { .. } => "Purged",
        Event::GpuIdle { .. } => "GpuIdle",
        Event::Utilization { .. } => "Utilization",
        Event::NodeRested { .. } => "NodeRested",
        Event::TaskSplit { .. } => "TaskSplit",
        Event::ArraySplit { .. } => "ArraySplit",
        Event::JobChanged { .. } => "JobChanged",
        Event::Suspended { .. } => "Suspended",
        Event::Resumed { .. } => "Resumed",
        Event::Managed(_) => "Managed",
        Event::Warned { .. } => "Warned",
        Event::HetSubmitted { .. } => "HetSubmitted",
        Event::HetPlaced { .. } => "HetPlaced",
        Event::CrontabSet { .. } => "CrontabSet",
        Event::CronAgain { .. } => "CronAgain",
        Event::ProgramFailed { .. } => "ProgramFailed",
        Event::LimitNears { .. } => "LimitNears",
        Event::DeadlineMissed { .. } => "DeadlineMissed",
        Event::HooksConfigured { .. } => "HooksConfigured",
        Event::HookEnded { .. } => "HookEnded",
        Event::Mesh(event) => match event {
            MeshEvent::Founded { .. } => "MeshFounded",
            MeshEvent::TokenMade(_) => "MeshTokenMade",
            MeshEvent::TokenWithdrawn { .. } => "MeshTokenWithdrawn",
            MeshEvent::Joined { .. } => "MeshJoined",
            MeshEvent::Moved { .. } => "MeshMoved",
            MeshEvent::Rotated { .. } => "MeshRotated",
            MeshEvent::Removed { .. } => "MeshRemoved",
        },
    }
}

const KINDS: usize = 49;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade")
}

#[expect(clippy::disallowed_methods, reason = "a test reads its fixtures")]
fn read(number: u32) -> Option<(Log, Cluster)> {
    let file = |what: &str| std::fs::read(folder().join(format!("{number:03}-{what}.bin"))).ok();
    let log = rmp_serde::from_slice(&file("log")?).expect("an old log is read");
    let cluster = rmp_serde::from_slice(&file("cluster")?).expect("an old snapshot is read");
    Some((log, cluster))
}

#[test]
fn old_logs_and_snapshots_are_read() {
    let mut seen = BTreeSet::new();
    let mut pairs = 0;
    while let Some((log, snapshot)) = read(pairs + 1) {
        pairs += 1;
        let mut cluster = Cluster::default();
        for (at, event) in &log {
            seen.insert(kind(event));
            assert_eq!(cluster.apply(*at, event).ignored, None, "{event:?}");
        }
        assert_eq!(check(&cluster), Ok(()));
        assert_eq!(check(&snapshot), Ok(()));
        // Snapshots older than what is learned of jobs hold none of it.
        if snapshot.history == Default::default() {
            cluster.history = Default::default();
        }
        if snapshot.mix == Default::default() {
            cluster.mix = Default::default();
        }
        // Nor those that are older than what is told of stops.
        if snapshot.jobs.values().all(|job| job.turned.is_none()) {
            for job in cluster.jobs.values_mut() {
                (job.turned, job.ran_before_ms) = (None, 0);
                let steps = job.steps.values_mut();
                steps.for_each(|step| step.suspended_ms = 0);
            }
        }
        assert_eq!(
            cluster, snapshot,
            "an old log gives what it gave when it was written"
        );
    }
    assert!(pairs > 0, "no pair in {}", folder().display());
    assert_eq!(
        seen.len(),
        KINDS,
        "the pairs lack a kind of event: write a new pair; they have {seen:?}"
    );
}

#[test]
#[ignore = "writes a pair of files into the source tree"]
#[expect(
    clippy::disallowed_methods,
    reason = "the fixtures are written on demand"
)]
fn write_the_next_pair() {
    let (log, cluster) = history();
    let number = (1..).find(|number| read(*number).is_none()).unwrap_or(1);
    let write = |what: &str, bytes: Vec<u8>| {
        std::fs::write(folder().join(format!("{number:03}-{what}.bin")), bytes).unwrap();
    };
    std::fs::create_dir_all(folder()).unwrap();
    write("log", rmp_serde::to_vec_named(&log).unwrap());
    write("cluster", rmp_serde::to_vec_named(&cluster).unwrap());
}

#[test]
fn the_history_that_would_be_written_has_every_kind_of_event() {
    let (log, cluster) = history();
    let kinds: BTreeSet<&str> = log.iter().map(|(_, event)| kind(event)).collect();
    assert_eq!(kinds.len(), KINDS, "{kinds:?}");
    assert_eq!(check(&cluster), Ok(()));
}

struct Writer {
    cluster: Cluster,
    now: Millis,
    log: Log,
}

impl Writer {
    fn does(&mut self, event: Event) {
        self.now = self.now.plus_secs(1);
        assert_eq!(
            self.cluster.apply(self.now, &event).ignored,
            None,
            "{event:?}"
        );
        self.log.push((self.now, event));
    }

    fn submit(&mut self, mut spec: JobSpec) -> JobId {
        let priority = admit(&self.cluster, &mut spec, self.now).unwrap().priority;
        let job = self.cluster.next_job_id().unwrap();
        self.does(Event::Submitted {
            job,
            spec: Arc::new(spec),
            priority,
        });
        job
    }

    fn plan(&mut self) {
        let found = plan(&self.cluster, self.now, Budget::default());
        self.cluster
            .plan_events(found)
            .into_iter()
            .for_each(|event| self.does(event));
    }

    fn start(&mut self, spec: JobSpec) -> JobId {
        let job = self.submit(spec);
        self.plan();
        job
    }

    fn cleaned(&mut self, job: JobId, node: u32) {
        let generation = self.cluster.jobs[&job].generation;
        self.does(Event::Cleaned {
            job,
            node: NodeId(node),
            generation,
        });
    }

    fn nodes(&mut self) {
        let cluster = "old".to_owned();
        let mut gpu = partition("gpu");
        (gpu.max_nodes, gpu.def_cpu_per_gpu) = (4, 1);
        let features = vec!["a100".to_owned(), "ib".to_owned()];
        let first = NodeName::new("n1").unwrap();
        let leaf = Switch {
            name: "s1".to_owned(),
            nodes: ["n1", "n2", "n3"]
                .map(|name| NodeName::new(name).unwrap())
                .to_vec(),
            switches: Vec::new(),
        };
        let config = NodeConfig {
            features,
            weight: 1,
        };
        self.does(Event::Configured {
            max_array_size: 0,
            licenses: [("matlab".to_owned(), 5)].into_iter().collect(),
            default_memory: MemoryRequest::PerCpu(512),
            cluster,
            partitions: vec![gpu],
            min_job_age: 300,
            node_timeout: 60,
            node_config: [(first, config)].into(),
            topology: Topology {
                plugin: TopologyPlugin::Tree,
                switches: vec![leaf],
                block_sizes: Vec::new(),
            },
        });
        for name in ["n1", "n2", "n3"] {
            self.does(Event::NodeConnected(hello(name, inventory(8, 16_384, 8))));
        }
        let (fence, note) = (FenceState::Fenced, "no LSM".to_owned());
        self.does(Event::FenceChanged {
            node: NodeId(0),
            fence,
            note,
            suffices: Some(true),
            gpus_sick: Some([7].into_iter().collect()),
            gpu_notes: Vec::new(),
            stuck: Vec::new(),
        });
        let (admin, reason) = (AdminState::Drain, "disk".to_owned());
        self.does(Event::NodeUpdated {
            node: NodeId(2),
            admin,
            reason,
            by: Uid(0),
        });
        let (name, state) = ("gpu".to_owned(), PartitionState::Up);
        self.does(Event::PartitionUpdated { name, state });
    }

    #[expect(clippy::too_many_lines, reason = "one event after another")]
    fn lives(&mut self) {
        let node = NodeId(0);
        let done = self.start(JobSpec {
            memory: MemoryRequest::PerGpu(100),
            ..gang(1, 2)
        });
        let generation = self.cluster.jobs[&done].generation;
        let count = DenialCount {
            total: 7,
            suppressed: 1,
        };
        self.does(Event::Denials {
            job: done,
            node,
            count,
        });
        for idle in [Some(idle()), None] {
            self.does(Event::GpuIdle {
                node,
                job: done,
                gpu: 1,
                idle,
            });
        }
        let step = StepKind::Batch;
        self.does(Event::StepEnded {
            job: done,
            step,
            node,
            generation,
            exit: OK,
            oom: false,
        });
        self.cleaned(done, 0);
        let alloc = self.start(JobSpec {
            gpus_total: gpus(3),
            ..spec(JobKind::Alloc)
        });
        let share = self.cluster.jobs[&alloc].allocation[0].clone();
        self.does(Event::StepGranted {
            job: alloc,
            step: StepKind::Numbered(0),
            name: "true".to_owned(),
            uid: Uid(1000),
            shares: vec![StepShare {
                share,
                task_ids: vec![0],
            }],
            cpus_per_task: 1,
            with: Vec::new(),
            request_id: 77,
            sharing: crate::job::step::Sharing::Nothing,
        });
        self.does(Event::Finished {
            job: alloc,
            exit: OK,
        });
        let late = self.start(batch());
        self.does(Event::TimedOut { job: late });
        let bad = self.start(batch());
        let generation = self.cluster.jobs[&bad].generation;
        let why = "no space left on device".to_owned();
        self.does(Event::LaunchFailed {
            job: bad,
            node,
            generation,
            why,
            node_fault: true,
            rests: true,
        });
        self.does(Event::NodeRested { node });
        self.does(Event::NodeUpdated {
            node,
            admin: AdminState::Up,
            reason: String::new(),
            by: Uid(0),
        });
        self.does(Event::Released { job: bad });
        self.does(Event::Held {
            job: bad,
            by_admin: true,
        });
        self.does(Event::JobUpdated {
            job: bad,
            time_limit: Some(TimeLimit::Secs(60)),
            name: Some("new".to_owned()),
            comment: Some("why".to_owned()),
            partition: Some("gpu".to_owned()),
            priority: Some(0),
        });
        let again = self.start(gang(1, 1));
        self.does(Event::Requeued { job: again });
        let gone = self.submit(batch());
        self.does(Event::Cancelled {
            job: gone,
            by: Uid(1000),
        });
        self.does(Event::Purged {
            jobs: vec![done, gone],
        });
    }
}

impl Writer {
    /// Arrays, jobs that wait for others, a job that is stopped.
    fn related(&mut self) {
        let array = self.submit(JobSpec {
            array: "1,3-9:2%1".to_owned(),
            ..gang(1, 1)
        });
        let next = |writer: &Self| writer.cluster.next_job_id().unwrap();
        let new = next(self);
        self.does(Event::TaskSplit {
            job: array,
            task: 3,
            new,
        });
        let (new, tasks) = (next(self), [5, 7].into_iter().collect());
        self.does(Event::ArraySplit {
            job: array,
            tasks,
            new,
        });
        self.does(Event::Cancelled {
            job: new,
            by: Uid(0),
        });
        let waits = self.submit(JobSpec {
            dependency: format!("afterok:{array}?after:{new}+5"),
            kill_on_invalid_dep: Some(false),
            ..gang(1, 1)
        });
        let mut spec = JobSpec::clone(&self.cluster.jobs[&waits].spec);
        spec.nice = 3;
        self.does(Event::JobChanged {
            job: waits,
            spec: Arc::new(spec),
            priority: Some(7),
            throttle: None,
        });
        let mut warned = gang(1, 1);
        warned.extras_mut().signal = Some(Warning {
            signal: 10,
            before: 60,
            batch: true,
            reservation: false,
        });
        warned.extras_mut().licenses = "matlab:2".to_owned();
        let job = self.start(warned);
        self.does(Event::Warned { job });
        let mut told = gang(1, 1);
        told.extras_mut().mail_type = "TIME_LIMIT_80".to_owned();
        told.time_limit = Some(TimeLimit::Secs(100));
        let near = self.start(told);
        self.now = self.now.plus_secs(80);
        self.does(Event::LimitNears {
            job: near,
            percent: 80,
        });
        self.does(Event::Suspended { job });
        self.does(Event::Resumed { job });
        self.does(Event::Suspended { job });
    }
}

impl Writer {
    /// A heterogeneous job with a step over both components.
    fn together(&mut self) {
        let job = self.cluster.next_job_id().unwrap();
        let part = |mut spec: JobSpec| {
            let priority = admit(&self.cluster, &mut spec, self.now).unwrap().priority;
            (Arc::new(spec), priority)
        };
        let parts = vec![part(gang(1, 1)), part(batch())];
        self.does(Event::HetSubmitted { job, parts });
        self.plan();
        let both = self.cluster.together(job);
        assert_eq!(both.len(), 2);
        for (job, task) in both.iter().zip(0..) {
            let share = self.cluster.jobs[job].allocation[0].clone();
            self.does(Event::StepGranted {
                job: *job,
                step: StepKind::Numbered(0),
                name: "true".to_owned(),
                uid: Uid(1000),
                shares: vec![StepShare {
                    share,
                    task_ids: vec![task],
                }],
                cpus_per_task: 1,
                with: both.clone(),
                request_id: 77,
                sharing: Default::default(),
            });
        }
    }
}

impl Writer {
    /// A crontab whose entry runs and waits for its next time.
    fn crontab(&mut self) {
        let mut entry = batch();
        entry.extras_mut().cron = Some(Cron {
            times: "* * * * *".to_owned(),
            utc_offset: 3_600,
            first_line: 0,
            last_line: 0,
        });
        let priority = admit(&self.cluster, &mut entry, self.now).unwrap().priority;
        let job = self.cluster.next_job_id().unwrap();
        self.does(Event::CrontabSet {
            uid: Uid(1000),
            table: Some("* * * * * true\n".to_owned()),
            jobs: vec![(job, Arc::new(entry), priority)],
        });
        self.plan();
        let known = &self.cluster.jobs[&job];
        let (node, generation) = (known.allocation[0].node, known.generation);
        self.does(Event::StepEnded {
            job,
            step: StepKind::Batch,
            node,
            generation,
            exit: OK,
            oom: false,
        });
        self.cleaned(job, node.0);
        self.does(Event::CronAgain {
            job,
            next: Some(self.now),
        });
    }

    /// A node whose epilog fails.
    fn epilog(&mut self) {
        let job = self.start(gang(1, 1));
        let known = &self.cluster.jobs[&job];
        let (node, generation) = (known.allocation[0].node, known.generation);
        self.does(Event::ProgramFailed {
            job,
            node,
            generation,
            epilog: true,
            why: "exit status: 1".to_owned(),
        });
        self.does(Event::NodeUpdated {
            node,
            admin: AdminState::Up,
            reason: String::new(),
            by: Uid(0),
        });
    }

    /// Programs around allocations: one that ended, and one that is due.
    fn hooks(&mut self) {
        let hooks = |prolog, epilog| Event::HooksConfigured {
            hooks: Hooks { prolog, epilog },
        };
        self.does(hooks(true, true));
        let job = self.start(gang(1, 1));
        let hook = self
            .cluster
            .hook_of(job)
            .expect("its prolog is due")
            .clone();
        self.does(Event::HookEnded {
            job,
            generation: hook.generation,
            kind: hook.kind,
            trouble: None,
        });
        let node = self.cluster.jobs[&job].allocation[0].node;
        self.does(Event::Cancelled { job, by: Uid(0) });
        self.cleaned(job, node.0);
        self.does(hooks(false, false));
    }

    /// A mesh of a controller and a node with keys of three ages; one host left, one token is open.
    fn mesh(&mut self) {
        let who = |name: &str, key| Newcomer {
            name: NodeName::new(name).unwrap(),
            key: MeshKey([key; 32]),
            endpoints: vec![([192, 0, 2, key], 51820).into()],
        };
        let token = |key, role, name: Option<&str>| NewToken {
            key: MeshKey([key; 32]),
            role,
            name: name.map(|name| NodeName::new(name).unwrap()),
            secs: 3_600,
        };
        let does = |writer: &mut Self, event| writer.does(Event::Mesh(event));
        let now = self.now;
        let founded =
            self.cluster
                .mesh
                .found(now, MeshPrefix(0xfd00_0102_0304_0000), who("ctl", 1));
        does(self, founded.unwrap());
        let joining = [(11, Role::Node, "n1"), (12, Role::Login, "login")];
        for (key, role, name) in joining {
            let made = self
                .cluster
                .mesh
                .make_token(now, token(key, role, Some(name)));
            does(self, made.unwrap());
            let joined = self
                .cluster
                .mesh
                .join(now, MeshKey([key; 32]), who(name, key + 10));
            does(self, joined.unwrap());
        }
        let node = MemberId(2);
        for (key, overlap) in [(31, 0), (32, 60)] {
            let rotated = self
                .cluster
                .mesh
                .rotate(now, node, MeshKey([key; 32]), overlap);
            does(self, rotated.unwrap());
        }
        let places = vec!["[2001:db8::1]:51820".parse().unwrap()];
        let moved = self.cluster.mesh.move_to(now, node, places);
        does(self, moved.unwrap().unwrap());
        let removed = self.cluster.mesh.remove(now, MemberId(3));
        does(self, removed.unwrap());
        for key in [13, 14] {
            let made = self
                .cluster
                .mesh
                .make_token(now, token(key, Role::Controller, None));
            does(self, made.unwrap());
        }
        let withdrawn = self.cluster.mesh.withdraw(now, TokenId(3));
        does(self, withdrawn.unwrap());
    }

    /// A job that is dropped at its deadline.
    fn too_late(&mut self) {
        let mut late = gang(2, 8);
        late.extras_mut().deadline = Some(self.now.plus_secs(3_610));
        late.extras_mut().time_min = Some(TimeLimit::Secs(3_600));
        let job = self.submit(late);
        self.now = self.now.plus_secs(20);
        self.does(Event::DeadlineMissed { job });
    }
}

/// A history in which every kind of event happens once at least and makes sense.
fn history() -> (Log, Cluster) {
    let now = Millis(1_000_000);
    let mut writer = Writer {
        cluster: Cluster::default(),
        now,
        log: Vec::new(),
    };
    writer.nodes();
    writer.lives();
    writer.related();
    writer.together();
    writer.submit(gang(2, 8));
    writer.too_late();
    writer.epilog();
    writer.hooks();
    writer.mesh();
    writer.crontab();
    writer.submit(JobSpec {
        tasks_per_gpu: 2,
        switches: Some(Switches {
            count: 1,
            max_wait_secs: Some(60),
        }),
        gres_flags: GresFlags {
            enforce_binding: true,
            ..GresFlags::default()
        },
        constraint: "a100&ib".to_owned(),
        prefer: "ib".to_owned(),
        hold: true,
        ..gang(1, 2)
    });
    writer.plan();
    let wide = writer.start(gang(1, 1));
    let held = writer.cluster.jobs[&wide].allocation[0].clone();
    let gpu = held.gpus.iter().next().unwrap();
    writer.does(Event::GpuIdle {
        node: held.node,
        job: wide,
        gpu,
        idle: Some(idle()),
    });
    writer.does(Event::Utilization {
        node: held.node,
        gpus: vec![(gpu, 0), (6, 990)],
    });
    writer.does(Event::Managed(Change::Reservation(Box::new(Reservation {
        name: "r".to_owned(),
        start: now.plus_secs(900_000),
        end: now.plus_secs(990_000),
        users: vec!["alice".to_owned()],
        ..Reservation::default()
    }))));
    writer.does(Event::NodeDisconnected { node: NodeId(1) });
    writer.does(Event::NodeLost { node: NodeId(1) });
    assert!(writer.cluster.generation > Generation(0));
    (writer.log, writer.cluster)
}
