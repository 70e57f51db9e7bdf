//! The environment that a command hands over with a job or a step: the user's, cut down by `--export`, and what only the
//! submitting command knows. `spur_core::slurm::environ` lists what is left to whom.

use super::super::flags::getopt::{Options, Source};
use super::combined;
use super::input::Surroundings;
use spur_core::slurm::distribution::canonical;
use spur_core::slurm::export::{self, set};
use spur_core::slurm::{environ, gres, tres};

/// The environment of a batch script.
pub fn of_batch(options: &Options, here: &Surroundings) -> Vec<String> {
    let wanted = options.value("export").unwrap_or_default();
    let exported = export::apply(wanted, &environ::without_job(&here.env));
    let mut env = exported.env;
    told(&mut env, options, here);
    files(&mut env, options);
    // What is exported to the script is all that it hands on to its steps, unless it says otherwise.
    if !wanted.is_empty() && !wanted.eq_ignore_ascii_case("ALL") {
        set(&mut env, &format!("SLURM_EXPORT_ENV={wanted}"));
    }
    if exported.login || options.on("get-user-env") {
        set(&mut env, "SLURM_GET_USER_ENV=1");
    }
    env
}

/// The environment of a batch script with `--export-file`: what the file has.
pub fn of_file(options: &Options, here: &Surroundings, mut env: Vec<String>) -> Vec<String> {
    told(&mut env, options, here);
    files(&mut env, options);
    env
}

/// How the script's file is opened, which its steps' files follow: what a requeued job wrote before stays in both.
fn files(env: &mut Vec<String>, options: &Options) {
    let mode = options
        .value("open-mode")
        .and_then(|mode| mode.chars().next());
    if let Some(mode) = mode {
        set(
            env,
            &format!("SLURM_OPEN_MODE={}", mode.to_ascii_lowercase()),
        );
    }
}

/// The environment of a shell that `salloc` starts; the allocation's own variables come on top.
pub fn of_allocation(options: &Options, here: &Surroundings) -> Vec<String> {
    let mut env = environ::without_job(&here.env);
    told(&mut env, options, here);
    memory(&mut env, options);
    env
}

/// The memory that was asked for.
fn memory(env: &mut Vec<String>, options: &Options) {
    for (long, name) in [
        ("mem", "SLURM_MEM_PER_NODE"),
        ("mem-per-cpu", "SLURM_MEM_PER_CPU"),
    ] {
        let mib = options
            .value(long)
            .and_then(|text| spur_core::slurm::size::parse_mib(text).ok());
        if let Some(mib) = mib {
            set(env, &format!("{name}={mib}"));
        }
    }
}

/// The entries that `srun` adds to its environment, which is cut down apart from this. A step of a job that is there already
/// keeps what the job's submission said, unless it says itself which GPUs each task gets.
pub fn of_step(options: &Options, here: &Surroundings, new_job: bool) -> Vec<String> {
    let mut env = Vec::new();
    if new_job {
        told(&mut env, options, here);
        memory(&mut env, options);
    } else {
        let said = |long: &&str| {
            options
                .last(long)
                .is_some_and(|given| given.source == Source::CommandLine)
        };
        if ["gpu-bind", "tres-bind"].iter().any(said) {
            binding(&mut env, options);
        }
        if said(&"distribution") {
            distribution(&mut env, options);
        }
        if ["gpus-per-task", "tres-per-task"].iter().any(said) {
            per_task(&mut env, options);
        } else if said(&"ntasks-per-gpu") {
            binding(&mut env, options);
        }
    }
    set(&mut env, &format!("SLURM_UMASK={:04o}", here.umask));
    set(&mut env, "SLURM_LAUNCH_NODE_IPADDR=127.0.0.1");
    if options.on("label") {
        set(&mut env, "SLURM_LABELIO=1");
    }
    env
}

/// What every submission says of itself.
fn told(env: &mut Vec<String>, options: &Options, here: &Surroundings) {
    set(env, &format!("SLURM_SUBMIT_DIR={}", here.cwd));
    set(env, &format!("SLURM_SUBMIT_HOST={}", here.host));
    set(env, &format!("SLURM_PRIO_PROCESS={}", here.niceness));
    for (long, name) in [
        ("gpus", "SLURM_GPUS"),
        ("gpus-per-node", "SLURM_GPUS_PER_NODE"),
        ("gpus-per-socket", "SLURM_GPUS_PER_SOCKET"),
        ("cpus-per-gpu", "SLURM_CPUS_PER_GPU"),
        ("ntasks-per-gpu", "SLURM_NTASKS_PER_GPU"),
        ("ntasks-per-socket", "SLURM_NTASKS_PER_SOCKET"),
    ] {
        if let Some(text) = options.value(long) {
            set(env, &format!("{name}={text}"));
        }
    }
    binding(env, options);
    if options.on("overcommit") {
        set(env, "SLURM_OVERCOMMIT=1");
    }
    distribution(env, options);
    let mib = options.value("mem-per-gpu");
    if let Some(mib) = mib.and_then(|text| spur_core::slurm::size::parse_mib(text).ok()) {
        set(env, &format!("SLURM_MEM_PER_GPU={mib}"));
    }
    per_task(env, options);
}

/// How tasks are spread over nodes; the size of planes has a variable of its own.
fn distribution(env: &mut Vec<String>, options: &Options) {
    let Some(kind) = options.value("distribution") else {
        return;
    };
    let Some((word, size)) = kind.split_once('=') else {
        let word = canonical(kind).unwrap_or_else(|| kind.to_owned());
        return set(env, &format!("SLURM_DISTRIBUTION={word}"));
    };
    set(env, &format!("SLURM_DISTRIBUTION={word}"));
    let size = size.split(',').next().unwrap_or(size);
    set(env, &format!("SLURM_DIST_PLANESIZE={size}"));
}

/// Which of its step's GPUs each task gets.
fn binding(env: &mut Vec<String>, options: &Options) {
    if let Some(kind) = options.value("gpu-bind") {
        set(env, &format!("SLURM_TRES_BIND=gres/gpu:{kind}"));
    } else if let Some(bind) = options.value("tres-bind") {
        set(env, &format!("SLURM_TRES_BIND={bind}"));
    } else if let Some(tasks) = per_gpu(options) {
        set(env, &format!("SLURM_TRES_BIND=gres/gpu:single:{tasks}"));
    }
}

/// How many tasks see the same GPU, by `--ntasks-per-gpu` and its like.
pub(super) fn per_gpu(options: &Options) -> Option<u32> {
    let tasks = combined::tasks_per_gpu(options).unwrap_or_default();
    (tasks > 0).then_some(tasks)
}

/// What `--cpus-per-task` and `--gpus-per-task` say, and that each task gets its own GPUs.
fn per_task(env: &mut Vec<String>, options: &Options) {
    let mut per_task = Vec::new();
    let said = options.value("tres-per-task").unwrap_or_default();
    let said = tres::parse_per_task(said).unwrap_or_default();
    let cpus = options.value("cpus-per-task").map(str::to_owned);
    if let Some(cpus) = cpus.or(said.cpus.map(|cpus| cpus.to_string())) {
        per_task.push(format!("cpu={cpus}"));
    }
    let gpus = options
        .value("gpus-per-task")
        .and_then(|text| gres::parse_gpus(text).ok())
        .or(said.gpus);
    if let Some(gpus) = gpus {
        let model = if gpus.model.is_empty() {
            String::new()
        } else {
            format!(":{}", gpus.model)
        };
        per_task.push(format!("gres/gpu{model}={}", gpus.count));
        if !options.on("gpu-bind") && !options.on("tres-bind") {
            let bind = format!("SLURM_TRES_BIND=gres/gpu:per_task:{}", gpus.count);
            set(env, &bind);
        }
    }
    if !per_task.is_empty() {
        set(env, &format!("SLURM_TRES_PER_TASK={}", per_task.join(",")));
    }
}
