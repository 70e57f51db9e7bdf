//! What man pages say beyond options: a few paragraphs and examples for each command.

use super::Command;

/// One page's own words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prose {
    /// Paragraphs.
    pub(super) text: &'static [&'static str],
    /// A command line, and what it does.
    pub(super) examples: &'static [(&'static str, &'static str)],
    /// Exit codes, if there is more to say than 0 and 1.
    pub(super) exit: &'static str,
}

const fn prose(
    text: &'static [&'static str],
    examples: &'static [(&'static str, &'static str)],
) -> Prose {
    Prose {
        text,
        examples,
        exit: "0 if all went well, 1 if something was refused or the controller could not be reached.",
    }
}

const SUBMIT_EXIT: &str =
    "255 for an option that cannot be understood, 1 if the request was refused.";

/// The page's own words.
#[expect(clippy::too_many_lines, reason = "one arm for each command")]
pub(super) fn of(command: Command) -> Prose {
    match command {
        Command::Srun => Prose {
            exit: "The highest exit code of the tasks; 128 and the signal's number for a task that a signal ended. 255 for an \
                   option that cannot be understood, 1 if the request was refused.",
            ..prose(
                &[
                    "Inside a job (SLURM_JOB_ID is set, or --jobid is given) srun starts a step: tasks on nodes that the job \
                     has. Outside of one it first asks for a job, waits for it, and gives it back at the end.",
                    "The output of the tasks comes straight from their nodes. Signals that srun receives go to the tasks; \
                     Ctrl-C once shows where they are, twice within a second passes it on, three times ends the step.",
                    "Every task can open only the GPUs that its job was given; `spur fence show` says which.",
                ],
                &[
                    (
                        "srun --gres=gpu:2 nvidia-smi -L",
                        "run on two GPUs of any node",
                    ),
                    (
                        "srun -N2 --ntasks-per-node=4 -l hostname",
                        "eight tasks on two nodes, each line with its task",
                    ),
                ],
            )
        },
        Command::Sbatch => Prose {
            exit: SUBMIT_EXIT,
            ..prose(
                &[
                    "The script is a file, standard input, or one line given with --wrap. It runs on the first node of its job, \
                     and starts tasks on all of them with srun. Its output goes to slurm-%j.out in the folder where it was \
                     submitted.",
                    "Options may stand in the script: on lines that begin with #SBATCH, before the first command. Several may \
                     stand on one line; quotes keep blanks together. The command line wins over SBATCH_* variables, which win \
                     over the script.",
                    "In file names %j is the job, %x its name, %u the user, %N the first node, %A and %a the array and the \
                     index; a number between them pads with zeros.",
                ],
                &[
                    (
                        "sbatch --gres=gpu:4 -t 2:00:00 train.sh",
                        "four GPUs of one node for two hours",
                    ),
                    ("sbatch --wrap 'python eval.py'", "no script needed"),
                    (
                        "sbatch --array=0-15%4 sweep.sh",
                        "sixteen tasks, four at a time",
                    ),
                ],
            )
        },
        Command::Salloc => Prose {
            exit: "That of the command. 255 for an option that cannot be understood, 1 if the request was refused.",
            ..prose(
                &[
                    "The command, or a shell if none is given, runs here, on this machine; srun inside of it starts tasks on the \
                     nodes of the allocation. When the command ends the allocation is given back.",
                ],
                &[(
                    "salloc -N2 --gpus-per-node=8 -t 1:00:00",
                    "a shell with two nodes to start steps on",
                )],
            )
        },
        Command::Squeue => prose(
            &[
                "Without options: jobs that wait or run, pending ones by priority. The last column says where a job runs, or \
                 in parentheses why it waits; `spur why JOB` says more.",
                "Columns are chosen with --format, by letters, or --Format, by names; --helpformat and --helpFormat list them.",
            ],
            &[
                ("squeue --me", "my jobs"),
                (
                    "squeue -t all -o '%i %T %r'",
                    "every job that is remembered, with state and reason",
                ),
            ],
        ),
        Command::Sinfo => prose(
            &["Without options: one line for each partition and state of its nodes."],
            &[
                ("sinfo -N -l", "one line for each node"),
                (
                    "sinfo -o '%P %G %F'",
                    "partitions with GPUs and nodes (allocated/idle/other/total)",
                ),
            ],
        ),
        Command::Scancel => prose(
            &[
                "Jobs are named by number, tasks of arrays as JOB_INDEX or JOB_[RANGE], steps as JOB.STEP, or by filters, which \
                 all must match. A job is sent SIGTERM, and what is left after the kill wait is killed; with --signal it only \
                 gets that signal.",
            ],
            &[
                ("scancel 42", "end a job"),
                ("scancel --me -t PENDING", "take back all that waits"),
                ("scancel -s USR1 -b 42", "signal the batch script"),
            ],
        ),
        Command::Scontrol => prose(
            &[
                "The first word says what to do: show, update, hold, release, requeue, suspend, resume, create, delete, \
                 reconfigure, ping, write and others. Words may be shortened. Without a word, or with --interactive, commands \
                 are read from standard input.",
            ],
            &[
                ("scontrol show job 42", "everything about a job"),
                ("scontrol update JobId=42 TimeLimit=2:00:00", "a new limit"),
                ("scontrol show hostnames n[1-3]", "one name a line"),
            ],
        ),
        Command::Sacct => prose(
            &[
                "Without options: one's own jobs since midnight, with their steps. --helpformat lists the columns.",
            ],
            &[
                ("sacct -j 42 -o JobID,State,ExitCode,MaxRSS", "one job"),
                (
                    "sacct -X -P -S now-1day",
                    "yesterday's and today's jobs for a program to read",
                ),
            ],
        ),
        Command::Sattach => prose(
            &["Shows what a running step writes, beside the srun that started it."],
            &[],
        ),
        Command::Sbcast => prose(
            &[
                "Copies a file from here to the same path on every node of the job, as the job's user.",
            ],
            &[("sbcast data.tar /tmp/data.tar", "inside a batch script")],
        ),
        Command::Sstat => prose(
            &[
                "Like sacct, for steps that run now: what their processes use, as measured a moment ago.",
            ],
            &[("sstat -j 42 -o JobID,MaxRSS,AveCPU", "one job")],
        ),
        Command::Sdiag => prose(
            &["Counters since the controller started or they were last set to zero."],
            &[],
        ),
        Command::Sprio => prose(&["Pending jobs with the factors of their priority."], &[]),
        Command::Sshare => prose(
            &["Accounts and users with their shares and what they used."],
            &[],
        ),
        Command::Sreport => prose(
            &[
                "The first words say what to report, as in `cluster utilization`; start= and end= bound the time.",
            ],
            &[("sreport cluster utilization start=2026-11-01", "one month")],
        ),
        Command::Sacctmgr => prose(
            &[
                "The first word says what to do: show, list, add, modify, delete; the second with what: account, user, \
                 association, cluster, qos. Conditions are written as NAME=VALUE, new values after the word set.",
            ],
            &[
                ("sacctmgr show assoc format=account,user", "who is where"),
                ("sacctmgr -i add account research", "a new account"),
            ],
        ),
        Command::Scrontab => prose(
            &["The table has crontab's form; lines #SCRON give options to the entry that follows."],
            &[],
        ),
        Command::Strigger => prose(
            &["Triggers belong to their user; they go off once unless --flags=PERM is given."],
            &[],
        ),
        Command::Seff => prose(
            &["Shares of what was held, not of what was asked for."],
            &[("seff 42", "one job")],
        ),
        Command::Fence => prose(
            &["Refusals are what the kernel answered, with the reason."],
            &[],
        ),
        Command::Usage => prose(
            &["Says of each number how it is known."],
            &[("spur usage --idle", "GPUs that nobody uses")],
        ),
    }
}
