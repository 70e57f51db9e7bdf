//! One piece of work: what is submitted, and what must have come of it.

use crate::cluster::Cluster;
use crate::user::{NOBODY, Output};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Child;

/// What must have come of a job or of a task of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expect {
    /// The task's index.
    pub(super) task: Option<u32>,
    /// State in the accounting record.
    pub(super) state: &'static str,
    /// Exit code of a job that ended by itself.
    pub(super) code: Option<u8>,
    /// Lines of its standard output, sorted; none if it never ran or was cut short.
    pub(super) lines: Option<Vec<String>>,
    /// How often its script began.
    pub(super) runs: usize,
}

/// Something that is done to a job once it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Cancel,
    Requeue,
}

impl Act {
    /// Whether its script has begun.
    pub(super) fn ready(self, cluster: &Cluster, id: &str) -> bool {
        cluster.home(NOBODY).join(format!("{id}.begun")).exists()
    }

    pub(super) fn start(self, cluster: &Cluster, id: &str) -> Child {
        match self {
            Self::Cancel => cluster.spawn(NOBODY, &["scancel", id]),
            // Again if the answer got lost: what was requeued once is not requeued a second time.
            Self::Requeue => {
                let once = format!(
                    "shown=$(scontrol show job {id}) || exit 1; case $shown in *Restarts=0*) scontrol requeue {id} ;; esac"
                );
                cluster.spawn(NOBODY, &["sh", "-c", &once])
            }
        }
    }
}

/// What is submitted.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) name: String,
    /// `sbatch`, or `srun` from outside.
    command: &'static str,
    options: Vec<String>,
    script: String,
    pub(super) act: Option<Act>,
    pub(super) expect: Vec<Expect>,
}

/// What was acknowledged, or may have been.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) work: Work,
    /// Its number; empty if that is not known.
    pub(super) id: String,
    /// The submission was answered, or `srun` ended as it must.
    pub(super) heard: bool,
    /// It was seen to have left the queue.
    pub(super) seen_ended: bool,
}

/// How a submission was answered.
pub(super) enum Submission {
    Acknowledged(Box<Made>),
    Unknown(Box<Made>),
    Wrong(String),
}

/// What a script begins with: a line for each time that it runs.
const BEGIN: &str =
    r#"echo run >> "$SLURM_JOB_NAME.$SLURM_ARRAY_TASK_ID.runs"; : > "$SLURM_JOB_ID.begun""#;

impl Work {
    /// Any piece of work; dependencies are on what was acknowledged before.
    pub(super) fn any(rng: &mut Rng, name: String, before: &[Made]) -> Self {
        let before: Vec<&Made> = before.iter().filter(|made| !made.id.is_empty()).collect();
        match rng.u32(0..10) {
            0 | 1 => Self::plain(rng, name),
            2 | 3 => Self::array(rng, name),
            4 | 5 => Self::steps(rng, name),
            6 if !before.is_empty() => {
                let on = before[rng.usize(0..before.len())].clone();
                Self::dependent(rng, name, &on)
            }
            7 => Self::outside(rng, name),
            8 => Self::acted(name, Act::Cancel),
            9 => Self::acted(name, Act::Requeue),
            _ => Self::plain(rng, name),
        }
    }

    fn batch(name: String, body: &str, expect: Vec<Expect>) -> Self {
        let script = format!("#!/bin/sh\n{BEGIN}\n{body}\n");
        let options = ["-o", "%x.%a.out"].map(str::to_owned).to_vec();
        Self {
            name,
            command: "sbatch",
            options,
            script,
            act: None,
            expect,
        }
    }

    /// Says something, works a while, says more, and ends with a code.
    fn plain(rng: &mut Rng, name: String) -> Self {
        let (lines, code) = (rng.u32(1..30), code(rng));
        let body = format!(
            "for i in $(seq {lines}); do echo line $i; sleep 0.0{}; done; exit {code}",
            rng.u32(1..9)
        );
        let lines = (1..=lines).map(|i| format!("line {i}")).collect();
        let mut work = Self::batch(name, &body, vec![ended(None, code, lines)]);
        if rng.bool() {
            work.options.push(format!("--gres=gpu:{}", rng.u32(1..3)));
        }
        work
    }

    /// Every task ends in its own way.
    fn array(rng: &mut Rng, name: String) -> Self {
        let (last, at_once) = (rng.u32(1..6), rng.u32(1..4));
        let body = "echo task $SLURM_ARRAY_TASK_ID; sleep 0.3; exit $((SLURM_ARRAY_TASK_ID % 3))";
        let task = |index: u32| {
            let code = u8::try_from(index % 3).unwrap_or(0);
            ended(Some(index), code, vec![format!("task {index}")])
        };
        let mut work = Self::batch(name, body, (0..=last).map(task).collect());
        work.options.push(format!("--array=0-{last}%{at_once}"));
        work
    }

    /// Steps one after the other, or two at once, over one or two nodes.
    fn steps(rng: &mut Rng, name: String) -> Self {
        let (nodes, tasks, steps) = (rng.u32(1..3), rng.u32(2..5), rng.u32(1..4));
        let (code, both) = (code(rng), rng.bool());
        let step = |step: u32| {
            format!(
                "srun -N{nodes} -n{tasks} --overlap sh -c 'echo step {step} $SLURM_PROCID; sleep 0.2; echo end {step} $SLURM_PROCID'"
            )
        };
        let mut body: Vec<String> = (0..steps).map(step).collect();
        if both {
            body = vec![format!("{} & wait", body.join(" & "))];
        }
        body.push(format!("srun -n1 -N1 sh -c 'exit {code}'"));
        let mut lines: Vec<String> = (0..steps)
            .flat_map(|step| (0..tasks).map(move |task| (step, task)))
            .flat_map(|(step, task)| [format!("step {step} {task}"), format!("end {step} {task}")])
            .collect();
        lines.sort();
        let expect = vec![ended(None, code, lines)];
        let mut work = Self::batch(name, &body.join("\n"), expect);
        // What srun says of its step's exit code goes elsewhere.
        work.options.extend(["-e", "%x.err"].map(str::to_owned));
        work.options
            .extend([format!("-N{nodes}"), format!("-n{tasks}")]);
        work
    }

    /// Runs, or is cancelled, by how another job ends.
    fn dependent(rng: &mut Rng, name: String, on: &Made) -> Self {
        let kind = ["afterok", "afternotok", "afterany"][rng.usize(0..3)];
        let well = on.work.expect.iter().all(|one| one.state == "COMPLETED");
        let runs = match kind {
            "afterok" => well,
            "afternotok" => !well,
            _ => true,
        };
        let expect = if runs {
            ended(None, 0, vec!["freed".to_owned()])
        } else {
            cancelled(0)
        };
        let mut work = Self::batch(name, "echo freed", vec![expect]);
        work.options.push(format!("--dependency={kind}:{}", on.id));
        work.options.push("--kill-on-invalid-dep=yes".to_owned());
        work
    }

    /// `srun` by itself: its output comes to the one who called it.
    fn outside(rng: &mut Rng, name: String) -> Self {
        let (tasks, code) = (rng.u32(1..5), code(rng));
        let script = format!(
            "{BEGIN}; echo told $SLURM_PROCID; sleep 0.{}; exit {code}",
            rng.u32(1..9)
        );
        let lines = (0..tasks).map(|task| format!("told {task}")).collect();
        let expect = Expect {
            runs: usize::try_from(tasks).unwrap_or(0),
            ..ended(None, code, lines)
        };
        Self {
            name,
            command: "srun",
            options: vec![format!("-n{tasks}")],
            script,
            act: None,
            expect: vec![expect],
        }
    }

    /// Runs for ever, until something is done to it.
    fn acted(name: String, act: Act) -> Self {
        let (body, expect) = match act {
            Act::Cancel => ("sleep 600", cancelled(1)),
            Act::Requeue => (
                "if test \"${SLURM_RESTART_COUNT:-0}\" = 0; then sleep 600; fi; : > $SLURM_JOB_ID.again; echo again; exit 3",
                Expect {
                    runs: 2,
                    ..ended(None, 3, vec!["again".to_owned()])
                },
            ),
        };
        let mut work = Self::batch(name, body, vec![expect]);
        work.act = Some(act);
        if act == Act::Requeue {
            work.options.push("--requeue".to_owned());
        }
        work
    }

    /// Gives it to the cluster, without waiting for the answer.
    pub(super) fn submit(&self, cluster: &Cluster) -> Child {
        let mut args = vec![self.command.to_owned(), format!("--job-name={}", self.name)];
        args.extend(self.options.iter().cloned());
        if self.command == "srun" {
            args.extend(["sh", "-c", &self.script].map(str::to_owned));
        } else {
            let file = cluster.home(NOBODY).join(format!("{}.sh", self.name));
            fs::write(&file, &self.script).expect("a script can be written");
            args.extend(["--parsable".to_owned(), format!("{}.sh", self.name)]);
        }
        cluster.spawn(NOBODY, &args)
    }

    /// What the answer means.
    pub(super) fn answered(self, output: Output) -> Submission {
        if self.command == "srun" {
            return self.ran(&output);
        }
        let id = output.out.trim().to_owned();
        let made = |id: String| {
            Box::new(Made {
                work: self.clone(),
                heard: !id.is_empty(),
                id,
                seen_ended: false,
            })
        };
        match output.code {
            0 if id.parse::<u32>().is_ok() => Submission::Acknowledged(made(id)),
            0 => Submission::Wrong(format!("{}: sbatch said {id:?}", self.name)),
            _ if unheard(&output) => Submission::Unknown(made(String::new())),
            _ => Submission::Wrong(format!("{}: sbatch came to {output:?}", self.name)),
        }
    }

    /// `srun` has ended: with its tasks' code and all that they said, or without a job because nobody answered.
    fn ran(self, output: &Output) -> Submission {
        let expect = self.expect.first().cloned();
        let mut lines: Vec<String> = output.out.lines().map(str::to_owned).collect();
        lines.sort();
        let same = expect.is_some_and(|expect| {
            expect.code.map(i32::from) == Some(output.code) && expect.lines == Some(lines)
        });
        let name = self.name.clone();
        let made = Box::new(Made {
            work: self,
            id: String::new(),
            heard: same,
            seen_ended: true,
        });
        if same {
            Submission::Acknowledged(made)
        } else if output.out.is_empty() && unheard(output) {
            Submission::Unknown(made)
        } else {
            Submission::Wrong(format!("{name}: srun came to {output:?}"))
        }
    }
}

/// Whether a command gave up because nobody answered it.
fn unheard(output: &Output) -> bool {
    ["Unable to contact", "Zero Bytes were transmitted"]
        .iter()
        .any(|words| output.err.contains(words))
}

/// By its own exit code.
fn ended(task: Option<u32>, code: u8, lines: Vec<String>) -> Expect {
    Expect {
        task,
        state: if code == 0 { "COMPLETED" } else { "FAILED" },
        code: Some(code),
        lines: Some(lines),
        runs: 1,
    }
}

fn cancelled(runs: usize) -> Expect {
    Expect {
        task: None,
        state: "CANCELLED",
        code: None,
        lines: None,
        runs,
    }
}

fn code(rng: &mut Rng) -> u8 {
    if rng.bool() { 0 } else { rng.u8(1..100) }
}

/// State and exit code, by job or task, and numbers of jobs by name.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) jobs: BTreeMap<String, (String, String)>,
    pub(super) names: BTreeMap<String, String>,
}

impl Made {
    /// What differs from what must have come of it.
    pub(super) fn judge(&self, home: &Path, record: &Record) -> Vec<String> {
        let each = self.work.expect.iter();
        each.filter_map(|expect| self.judge_one(home, record, expect))
            .map(|why| {
                format!(
                    "{} (job {}): {why}{}",
                    self.work.name,
                    self.id,
                    self.told(home)
                )
            })
            .collect()
    }

    /// What helps to see why: how it was submitted, and what `srun` said in it.
    fn told(&self, home: &Path) -> String {
        let err = fs::read_to_string(home.join(format!("{}.err", self.work.name)));
        let err = err.unwrap_or_default();
        format!(
            "\n    {:?}\n    {}",
            self.work.options,
            err.trim().replace('\n', "\n    ")
        )
    }

    fn judge_one(&self, home: &Path, record: &Record, expect: &Expect) -> Option<String> {
        let task = expect.task.map(|task| task.to_string());
        let name = &self.work.name;
        let of = |task: &str, ending: &str| home.join(format!("{name}.{task}.{ending}"));
        let own = task.clone().unwrap_or_default();
        let runs = fs::read_to_string(of(&own, "runs")).unwrap_or_default();
        let runs = runs.lines().count();
        // Of a job whose number nobody heard the record has the name, if it was taken. `srun`'s own was: it ended with the right code.
        let found = record
            .names
            .get(name)
            .map(|id| id.split('_').next().unwrap_or(id));
        let id = match (self.id.as_str(), found) {
            ("", Some(id)) => id,
            ("", None) if self.heard => {
                return Some("the accounting record does not know it".to_owned());
            }
            ("", None) => {
                return (runs > 0).then(|| format!("began {runs} times, and is not on record"));
            }
            (id, _) => id,
        };
        if runs != expect.runs {
            return Some(format!("began {runs} times, not {}", expect.runs));
        }
        let key = match &task {
            Some(task) => format!("{id}_{task}"),
            None => id.to_owned(),
        };
        let Some((state, code)) = record.jobs.get(&key) else {
            // As Slurm's, the record begins when a job may start.
            if expect.runs == 0 {
                return None;
            }
            return Some(format!("the accounting record does not know {key}"));
        };
        if !state.starts_with(expect.state) {
            return Some(format!("{key} is {state}, not {}", expect.state));
        }
        if let Some(wanted) = expect.code.filter(|wanted| *code != format!("{wanted}:0")) {
            return Some(format!("{key} has the exit code {code}, not {wanted}:0"));
        }
        // What srun's own job said was looked at where it came.
        if self.work.command == "srun" {
            return None;
        }
        // Slurm's %a of a job that is no array.
        let file = of(task.as_deref().unwrap_or("4294967294"), "out");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        let wanted = expect.lines.clone().map(|mut wanted| {
            wanted.sort();
            wanted
        });
        match wanted {
            Some(wanted) if wanted != lines => {
                Some(format!("{} has {text:?}, not {wanted:?}", file.display()))
            }
            _ => None,
        }
    }
}
