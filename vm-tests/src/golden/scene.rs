//! The situations of the recordings. A scene begins with nothing in the queue; its steps are in the order in which they were
//! recorded, for what a command shows depends on those before it. Recorded commands name jobs by number, so a scene says which
//! number its first job has.

mod ends;
mod env;
mod idle;
mod input;
mod queue;
mod records;
mod run;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The command of this recording, now.
    Play(&'static str),
    /// The command of this recording, begun now and awaited at the end of its scene.
    Begin(&'static str),
    /// The command of this recording, or where it is not at hand this one, for what it changes.
    PlayOr(&'static str, &'static str),
    /// A command of the user's that has no recording here; it counts only for what it changes.
    Do(&'static str),
    /// The same as root.
    Root(&'static str),
    /// Wait until a line of shell prints this (as root); a system that never gets there goes on all the same.
    Until(&'static str, &'static str),
    /// The next job gets this number.
    Next(u32),
    /// Wait so many milliseconds, where the recording did and time itself is what a view shows.
    Pause(u64),
}

/// A situation.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Its name.
    pub name: &'static str,
    /// Number of its first job.
    pub first: u32,
    /// What it needs to have happened before: all earlier scenes.
    pub needs_all: bool,
    /// Its jobs are still there when the next scene begins.
    pub leaves: bool,
    /// What happens.
    pub steps: &'static [Step],
}

/// Every scene in order.
pub const SCENES: [Scene; 7] = [
    idle::SCENE,
    queue::SCENE,
    input::SCENE,
    run::SCENE,
    env::SCENE,
    ends::SCENE,
    records::SCENE,
];

/// Scripts of the user's: name and text.
pub const SCRIPTS: [(&str, &str); 10] = [
    (
        "env.sh",
        "#!/bin/bash\nenv | grep -E \"^(SLURM|CUDA|GPU|ROCR|ZE_|TMPDIR|HOME|USER|PWD|SHELL)\" | sort\n",
    ),
    (
        "envsrun.sh",
        "#!/bin/bash\nsrun sh -c 'env | grep -E \"^(SLURM|CUDA|GPU|ROCR|ZE_)\" | sort'\n",
    ),
    (
        "sleep.sh",
        "#!/bin/bash\n#SBATCH --job-name=sleeper\nsleep 300\n",
    ),
    ("nosheb.sh", "echo hi\n"),
    ("crlf.sh", "#!/bin/bash\r\ntrue\r\n"),
    ("empty.sh", ""),
    ("fail.sh", "#!/bin/bash\nexit 3\n"),
    ("sig.sh", "#!/bin/bash\nkill -9 $$\n"),
    ("badopt.sh", "#!/bin/bash\n#SBATCH --no-such-option\ntrue\n"),
    (
        "arr.sh",
        "#!/bin/bash\nenv | grep -E \"^SLURM_(ARRAY|JOB)\" | sort\n",
    ),
];

/// The script that the recording itself shows: its name, and whose output its text is.
pub const SHOWN_SCRIPT: (&str, &str) = ("dir.sh", "scontrol-write-batch-script");

/// Names of the recordings that some step plays.
pub fn played() -> impl Iterator<Item = &'static str> {
    SCENES
        .iter()
        .flat_map(|scene| scene.steps)
        .filter_map(|step| match step {
            Step::Play(name) | Step::Begin(name) | Step::PlayOr(name, _) => Some(*name),
            Step::Do(_) | Step::Root(_) | Step::Until(..) | Step::Next(_) | Step::Pause(_) => None,
        })
}
