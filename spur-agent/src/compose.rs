//! From orders to what a supervisor is told. Pure.

use crate::launch::{
    AgentWatch, Hooks, Input, Mpi, Output, PMI_FD, Pmix, PmixNode, Rlimit, StdinTo, Stdio,
    StepLaunch, TaskLaunch, Told, Window,
};
use serde_bytes::ByteBuf;
use spur_core::agent::order::{BatchOrder, JobOrder, StepOrder};
use spur_core::id::StepId;
use spur_core::resources::{Gpu, IdSet};
use spur_core::slurm::bind::{self, CpuBind};
use spur_core::slurm::{environ, raw};
use spur_proto::wire::{Open, PmixStep, WindowSize, open};
use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// What brings the command.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A batch script from the controller.
    Batch(&'a BatchOrder),
    /// A client (`srun`).
    Client(&'a Open),
}

/// What a step needs to know of its node.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The node's name.
    pub node: &'a str,
    /// The step's cgroup.
    pub cgroup: PathBuf,
    /// The canary; `None` only where the operator requires no fence.
    pub canary: Option<PathBuf>,
    /// GPUs of the node.
    pub gpus: &'a [Gpu],
    /// The kernel's numbers of the node's CPUs; empty when CPUs are declared.
    pub host_cpus: &'a [u32],
    /// Seconds between TERM and KILL.
    pub kill_wait: u64,
    /// The file that this agent holds locked.
    pub agent_lock: PathBuf,
    /// Fenced devices, see [`StepLaunch::fenced`].
    pub fenced: Vec<(u32, Option<u32>)>,
    /// The configuration that jobs are told of.
    pub conf: &'a str,
}

/// Everything that the supervisor of this step is told.
pub fn step(job: &JobOrder, step: &StepOrder, source: Source<'_>, place: &Place<'_>) -> StepLaunch {
    let (base, umask, rlimits): (Vec<Cow<'_, [u8]>>, u32, Vec<Rlimit>) = match source {
        Source::Batch(BatchOrder { payload, .. }) => (
            payload.env.iter().map(|entry| raw::bytes(entry)).collect(),
            payload.umask,
            payload
                .rlimits
                .iter()
                .map(|(resource, soft)| Rlimit {
                    resource: *resource,
                    soft: *soft,
                })
                .collect(),
        ),
        Source::Client(open) => (
            open.env.iter().map(Cow::from).collect(),
            open.umask,
            open.rlimits
                .iter()
                .map(|limit| Rlimit {
                    resource: limit.resource,
                    soft: limit.soft,
                })
                .collect(),
        ),
    };
    let (script, argv) = command(source);
    let mpi = mpi(source);
    let base = without_pmi(base, mpi.is_some());
    let (mut env, mut tasks) = tasks((job, step, source), &base, &argv, place);
    if let Some(mpi) = &mpi {
        announce(mpi, &mut env, &mut tasks);
    }
    StepLaunch {
        step: StepId {
            job: job.job,
            step: step.step,
        },
        node: place.node.to_owned(),
        node_index: step.index,
        job_name: job.name.clone(),
        cgroup: place.cgroup.clone(),
        canary: place.canary.clone(),
        owner: job.owner.clone(),
        umask: umask & 0o777,
        rlimits,
        work_dir: work_dir(job, source),
        stdio: stdio(source),
        script,
        env,
        tasks,
        kill_on_bad_exit: matches!(source, Source::Client(open) if open.kill_on_bad_exit),
        time_limit: match source {
            Source::Client(open) => open.time_limit,
            Source::Batch(_) => 0,
        },
        kill_wait: u32::try_from(place.kill_wait).unwrap_or(u32::MAX),
        client_early: ByteBuf::new(),
        fenced: place.fenced.clone(),
        terminal: terminal(source),
        hooks: hooks(source),
        agent: watch(job, place),
        array: job.array.map(|array| (array.job.0, array.task)),
        mpi,
    }
}

fn watch(job: &JobOrder, place: &Place<'_>) -> Option<AgentWatch> {
    (job.node_timeout > 0).then(|| AgentWatch {
        lock: place.agent_lock.clone(),
        node_timeout: job.node_timeout,
    })
}

fn hooks(source: Source<'_>) -> Hooks {
    let Source::Client(open) = source else {
        return Hooks::default();
    };
    Hooks {
        prolog: ByteBuf::from(open.task_prolog.as_slice()),
        epilog: ByteBuf::from(open.task_epilog.as_slice()),
    }
}

/// The terminal that the client wants for the first task.
fn terminal(source: Source<'_>) -> Option<Window> {
    let Source::Client(open) = source else {
        return None;
    };
    open.terminal.as_ref().map(window)
}

/// A size as the kernel takes it: what does not fit is unknown.
pub fn window(size: &WindowSize) -> Window {
    let number = |n: u32| u16::try_from(n).unwrap_or_default();
    Window {
        rows: number(size.rows),
        columns: number(size.columns),
    }
}

/// The batch script, if it is one, and the words of the command.
fn command(source: Source<'_>) -> (Option<ByteBuf>, Vec<ByteBuf>) {
    match source {
        Source::Batch(order) => {
            let args = order
                .payload
                .args
                .iter()
                .map(|arg| ByteBuf::from(raw::bytes(arg).into_owned()))
                .collect();
            (Some(ByteBuf::from(order.payload.script.as_slice())), args)
        }
        Source::Client(open) => (
            None,
            open.argv
                .iter()
                .map(|arg| ByteBuf::from(arg.as_slice()))
                .collect::<Vec<_>>(),
        ),
    }
}

fn mpi(source: Source<'_>) -> Option<Mpi> {
    let Source::Client(open) = source else {
        return None;
    };
    open.mpi.clone().map(|mpi| Mpi {
        job: mpi.job,
        size: mpi.size,
        universe: mpi.universe,
        program: mpi.program,
        mapping: mpi.mapping,
        pmix: mpi.pmix.map(pmix),
    })
}

fn pmix(step: PmixStep) -> Pmix {
    let node = |node: spur_proto::wire::PmixNode| PmixNode {
        name: node.name,
        tasks: node.ranks,
        program: node.program,
    };
    Pmix {
        version: step.version,
        nodes: step.nodes.into_iter().map(node).collect(),
    }
}

/// Beginnings of what the tasks of another step were told, by PMI and by PMIx.
const OF_OTHERS: [&[u8]; 6] = [
    b"PMI_PORT=",
    b"PMI_ID=",
    b"PMI_SPAWNED=",
    b"PMIX_NAMESPACE=",
    b"PMIX_RANK=",
    b"PMIX_SERVER_",
];

/// The environment without what another step's tasks were told of MPI: a descriptor does not travel with its number. What names a
/// port stays unless these tasks are told something of their own.
fn without_pmi(base: Vec<Cow<'_, [u8]>>, own: bool) -> Vec<Cow<'_, [u8]>> {
    let stale = |entry: &Cow<'_, [u8]>| {
        entry.starts_with(b"PMI_FD=") || own && OF_OTHERS.iter().any(|name| entry.starts_with(name))
    };
    base.into_iter().filter(|entry| !stale(entry)).collect()
}

/// Tells tasks how to reach their process management interface; by PMIx, the server of their node says that.
fn announce(mpi: &Mpi, env: &mut Vec<ByteBuf>, tasks: &mut [TaskLaunch]) {
    if mpi.pmix.is_some() {
        return;
    }
    let entry = |text: String| ByteBuf::from(text.into_bytes());
    env.push(entry(format!("PMI_FD={PMI_FD}")));
    env.push(entry(format!("PMI_JOBID={}", mpi.job)));
    env.push(entry(format!("PMI_SIZE={}", mpi.size)));
    for task in tasks {
        task.env.push(entry(format!("PMI_RANK={}", task.id)));
    }
}

/// The environment that all tasks share, and each task with what differs from it.
fn tasks(
    (job, step, source): (&JobOrder, &StepOrder, Source<'_>),
    base: &[Cow<'_, [u8]>],
    argv: &[ByteBuf],
    place: &Place<'_>,
) -> (Vec<ByteBuf>, Vec<TaskLaunch>) {
    let env_of = |local: u32| {
        environ::task(
            &environ::Task {
                job,
                step,
                local,
                pid: None,
                gpus: place.gpus,
                conf: place.conf,
                preserve: matches!(source, Source::Client(open) if open.preserve_env),
            },
            base,
        )
    };
    let shared = env_of(0);
    let cpus = host_cpus(&step.share.cpus, place.host_cpus);
    let bind = match source {
        Source::Client(open) => CpuBind::parse(&open.cpu_bind),
        Source::Batch(_) => CpuBind::All,
    };
    let argv = |id: u32| match source {
        Source::Client(open) if !open.programs.is_empty() => {
            let own = open.programs.iter().find(|own| own.task == id);
            let own = own.map(|own| own.argv.iter().map(|arg| ByteBuf::from(arg.as_slice())));
            own.into_iter().flatten().collect()
        }
        Source::Client(_) | Source::Batch(_) => argv.to_vec(),
    };
    let tasks = (0u32..).zip(&step.task_ids).map(|(local, id)| {
        let own = if local == 0 {
            Vec::new()
        } else {
            env_of(local)
        };
        let differs = own
            .iter()
            .filter(|entry| shared.binary_search(entry).is_err());
        TaskLaunch {
            id: *id,
            argv: argv(*id),
            env: differs
                .map(|entry| ByteBuf::from(entry.as_slice()))
                .collect(),
            cpus: bind.of(local as usize, step.task_ids.len(), &cpus),
            told: told(step, source, local, if local == 0 { &shared } else { &own }),
        }
    });
    let tasks = tasks.collect();
    (shared.into_iter().map(ByteBuf::from).collect(), tasks)
}

/// What a task hears of its binding, by `--cpu-bind=verbose` and `--gpu-bind=verbose`.
fn told(step: &StepOrder, source: Source<'_>, local: u32, env: &[Vec<u8>]) -> Told {
    let Source::Client(open) = source else {
        return Told::default();
    };
    let entry = env
        .iter()
        .find_map(|entry| entry.strip_prefix(b"SLURM_TRES_BIND="));
    let of = entry.map(String::from_utf8_lossy).unwrap_or_default();
    let all = &step.share.gpus;
    let own = bind::gpus(&of, local as usize, all);
    Told {
        cpus: CpuBind::told(&open.cpu_bind).unwrap_or_default(),
        gpus: bind::gpus_told(&of, own.as_ref().unwrap_or(all), all).unwrap_or_default(),
    }
}

/// The kernel's numbers for CPUs of the inventory; empty when CPUs are declared.
pub fn host_cpus(cpus: &IdSet, host: &[u32]) -> Vec<u32> {
    let mut list: Vec<u32> = cpus
        .iter()
        .filter_map(|cpu| host.get(cpu as usize).copied())
        .collect();
    list.sort_unstable();
    list
}

fn work_dir(job: &JobOrder, source: Source<'_>) -> PathBuf {
    match source {
        Source::Client(open) if !open.work_dir.is_empty() => {
            OsString::from_vec(open.work_dir.clone()).into()
        }
        Source::Client(_) | Source::Batch(_) => {
            OsString::from_vec(raw::bytes(&job.work_dir).into_owned()).into()
        }
    }
}

fn stdio(source: Source<'_>) -> Stdio {
    match source {
        Source::Batch(order) => {
            let file = |name: &str| Output::File {
                path: literal(name),
                append: order.append,
            };
            let stdin = if order.stdin.is_empty() {
                Input::Null
            } else {
                Input::File(literal(&order.stdin))
            };
            Stdio {
                stdin,
                stdout: file(&order.stdout),
                stderr: file(&order.stderr),
            }
        }
        Source::Client(open) => {
            let output = |path: &[u8]| match path {
                [] => Output::Stream,
                path => Output::File {
                    path: ByteBuf::from(path),
                    append: open.append,
                },
            };
            let stdin = match (open.stdin_path.as_slice(), open.stdin_to) {
                ([], None | Some(open::StdinTo::StdinAll(_))) => Input::Stream(StdinTo::All),
                ([], Some(open::StdinTo::StdinTask(task))) => Input::Stream(StdinTo::Task(task)),
                ([], Some(open::StdinTo::StdinNone(_))) => Input::Null,
                (path, _) => Input::File(ByteBuf::from(path)),
            };
            Stdio {
                stdin,
                stdout: output(&open.stdout_path),
                stderr: output(&open.stderr_path),
            }
        }
    }
}

/// A file name whose symbols the controller replaced already.
fn literal(name: &str) -> ByteBuf {
    ByteBuf::from(raw::bytes(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job_order, step_order};
    use spur_core::id::StepKind;
    use spur_core::job::spec::Payload;
    use spur_proto::wire::TaskArgv;

    fn place() -> Place<'static> {
        Place {
            node: "n1",
            cgroup: "/cg".into(),
            canary: None,
            gpus: &[],
            host_cpus: &[4, 6, 8],
            kill_wait: 30,
            agent_lock: "/lock".into(),
            fenced: vec![(195, None)],
            conf: "/etc/spur/spurd.toml",
        }
    }

    #[test]
    fn a_batch_script_gets_its_files_as_named() {
        let job = job_order(7, 1, &[]);
        let order = BatchOrder {
            payload: Payload {
                script: b"#!/bin/sh\n".to_vec(),
                args: vec!["a".into()],
                env: vec!["A=1".into()],
                umask: 0o22,
                rlimits: vec![(7, 64)],
            },
            stdin: String::new(),
            stdout: "/o/50%j\\x".into(),
            stderr: "/o/e".into(),
            append: true,
        };
        let launch = step(
            &job,
            &step_order(&job, StepKind::Batch),
            Source::Batch(&order),
            &place(),
        );
        assert_eq!(launch.stdio.stdin, Input::Null);
        assert_eq!(launch.fenced, [(195, None)]);
        let Output::File { path, append: true } = &launch.stdio.stdout else {
            panic!("{:?}", launch.stdio)
        };
        assert_eq!(
            *path,
            ByteBuf::from(*b"/o/50%j\\x"),
            "nothing is expanded twice"
        );
        assert_eq!(launch.tasks[0].argv, [ByteBuf::from(*b"a")]);
        assert_eq!(launch.tasks[0].cpus, [4]);
        assert!(
            launch.env.contains(&ByteBuf::from(*b"A=1"))
                && launch.env.contains(&ByteBuf::from(*b"SLURM_JOB_ID=7"))
        );
    }

    #[test]
    fn tasks_are_told_of_their_own_mpi_and_of_no_other() {
        let job = job_order(7, 1, &[]);
        let mut order = step_order(&job, StepKind::Numbered(0));
        order.task_ids = vec![4];
        let inherited = ["PMI_FD=9", "PMI_RANK=3", "PMI_PORT=h:1", "PMI_SPAWNED=1"];
        let mut open = Open {
            argv: vec![b"hostname".to_vec()],
            env: inherited.map(|entry| entry.as_bytes().to_vec()).to_vec(),
            ..Open::default()
        };
        // Of entries with one name the last counts.
        let told = |open: &Open| {
            let launch = step(&job, &order, Source::Client(open), &place());
            let all = launch.env.iter().chain(&launch.tasks[0].env);
            let pairs = all.filter_map(|entry| str::from_utf8(entry).ok()?.split_once('='));
            let of_mpi = pairs.filter(|(name, _)| name.starts_with("PMI_"));
            let of_mpi = of_mpi.map(|(name, value)| (name.to_owned(), value.to_owned()));
            of_mpi.collect::<std::collections::BTreeMap<_, _>>()
        };
        let map = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
            pairs.collect::<std::collections::BTreeMap<_, _>>()
        };
        let rest = [("PMI_RANK", "3"), ("PMI_PORT", "h:1"), ("PMI_SPAWNED", "1")];
        assert_eq!(told(&open), map(&rest));
        open.mpi = Some(spur_proto::wire::Mpi {
            job: "7.0".into(),
            size: 8,
            ..Default::default()
        });
        let own = [
            ("PMI_FD", "5"),
            ("PMI_JOBID", "7.0"),
            ("PMI_RANK", "4"),
            ("PMI_SIZE", "8"),
        ];
        assert_eq!(told(&open), map(&own));
    }

    #[test]
    fn by_pmix_tasks_are_told_by_their_server_and_of_no_other() {
        let job = job_order(7, 1, &[]);
        let order = step_order(&job, StepKind::Numbered(0));
        let inherited = [
            "PMIX_RANK=3",
            "PMIX_SERVER_URI4=x",
            "PMI_FD=5",
            "PMIX_MCA_gds=hash",
        ];
        let node = spur_proto::wire::PmixNode {
            name: "n1".into(),
            ranks: vec![0, 1],
            program: 2,
        };
        let open = Open {
            argv: vec![b"hostname".to_vec()],
            env: inherited.map(|entry| entry.as_bytes().to_vec()).to_vec(),
            mpi: Some(spur_proto::wire::Mpi {
                job: "7.0".into(),
                pmix: Some(PmixStep {
                    version: 4,
                    nodes: vec![node],
                }),
                ..Default::default()
            }),
            ..Open::default()
        };
        let launch = step(&job, &order, Source::Client(&open), &place());
        let all = launch.env.iter().chain(&launch.tasks[0].env);
        let of_mpi: Vec<&[u8]> = all
            .map(|entry| entry.as_slice())
            .filter(|entry| entry.starts_with(b"PMI"))
            .collect();
        assert_eq!(
            of_mpi,
            [b"PMIX_MCA_gds=hash".as_slice()],
            "what a user sets stays"
        );
        let due = Pmix {
            version: 4,
            nodes: vec![PmixNode {
                name: "n1".into(),
                tasks: vec![0, 1],
                program: 2,
            }],
        };
        assert_eq!(launch.mpi.and_then(|mpi| mpi.pmix), Some(due));
    }

    #[test]
    fn tasks_carry_only_what_is_their_own() {
        let job = job_order(7, 1, &[]);
        let mut order = step_order(&job, StepKind::Numbered(0));
        let name = order.nodes[0].0.clone();
        (order.task_ids, order.tasks, order.nodes) = (vec![4, 5], 2, vec![(name, 2)].into());
        let open = Open {
            argv: vec![b"hostname".to_vec()],
            work_dir: b"/w".to_vec(),
            ..Open::default()
        };
        let launch = step(&job, &order, Source::Client(&open), &place());
        assert_eq!(launch.work_dir, PathBuf::from("/w"));
        assert_eq!(launch.stdio.stdout, Output::Stream);
        assert!(launch.env.contains(&ByteBuf::from(*b"SLURM_PROCID=4")));
        let own: Vec<&[u8]> = launch.tasks[1]
            .env
            .iter()
            .map(|entry| entry.as_slice())
            .collect();
        assert_eq!(own, [b"SLURM_LOCALID=1".as_slice(), b"SLURM_PROCID=5"]);
        assert_eq!((launch.tasks[1].id, launch.tasks[0].env.len()), (5, 0));
        let argv = |task, word: &[u8]| TaskArgv {
            task,
            argv: vec![word.to_vec()],
        };
        let open = Open {
            programs: vec![argv(5, b"b"), argv(4, b"a")],
            cpu_bind: "map_cpu:6,4".into(),
            terminal: Some(WindowSize {
                rows: 70_000,
                columns: 80,
            }),
            ..open
        };
        let launch = step(&job, &order, Source::Client(&open), &place());
        let argv: Vec<_> = launch.tasks.iter().map(|task| task.argv.clone()).collect();
        assert_eq!(argv, [[ByteBuf::from(*b"a")], [ByteBuf::from(*b"b")]]);
        order.share.cpus = IdSet::first(3);
        let launch = step(&job, &order, Source::Client(&open), &place());
        let cpus: Vec<_> = launch.tasks.iter().map(|task| &task.cpus[..]).collect();
        assert_eq!(cpus, [[6], [4]]);
        let window = Window {
            rows: 0,
            columns: 80,
        };
        assert_eq!(launch.terminal, Some(window));
    }
}
