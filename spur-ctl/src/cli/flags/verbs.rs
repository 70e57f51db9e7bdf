//! First words of the commands that have such: help and man pages list them, tests hold them against what the commands take.

use super::Command;

/// What is written, and what it does.
pub(super) type Verb = (&'static str, &'static str);

const SCONTROL: &[Verb] = &[
    (
        "show ENTITY [NAME]",
        "job, step, node, partition, reservation, config, topology, hostnames, hostlist",
    ),
    (
        "update KEY=VALUE...",
        "change a job, node, partition or reservation",
    ),
    ("create KEY=VALUE...", "make a partition or a reservation"),
    ("delete KEY=VALUE", "delete a partition or a reservation"),
    ("hold JOB...", "keep waiting jobs from starting"),
    (
        "uhold JOB...",
        "the same, so that their owners may release them",
    ),
    ("release JOB...", "let held jobs start"),
    (
        "requeue JOB...",
        "put running or ended jobs back into the queue",
    ),
    ("requeuehold JOB...", "the same, held"),
    ("suspend JOB...", "stop the processes of running jobs"),
    ("resume JOB...", "let them go on"),
    ("top JOB...", "put a job before its owner's others"),
    ("wait_job JOB", "wait until a job has its nodes"),
    (
        "write batch_script JOB [FILE]",
        "write a job's script to a file; -: to standard output",
    ),
    ("listjobs [NODE]", "jobs that run"),
    ("liststeps [NODE]", "steps that run"),
    (
        "listpids [JOB[.STEP]] [NODE]",
        "processes of this host that are in jobs",
    ),
    (
        "pidinfo PID",
        "the job that a process of this host is in, and when it ends",
    ),
    ("completing", "jobs whose nodes are being cleaned up"),
    ("ping", "whether the controller answers"),
    ("reconfigure", "read the configuration again"),
    ("shutdown", "stop the controller"),
    ("errnumstr NUMBER", "what an error's number means"),
    ("all", "in a session: also hidden partitions"),
    ("oneliner", "in a session: one line for each record"),
    ("quiet", "in a session: print no warnings"),
    ("version", "the version"),
    ("help", "this list"),
];

const SACCTMGR: &[Verb] = &[
    (
        "show ENTITY [where ...]",
        "account, qos, user, association, cluster, configuration, runawayjobs, tres",
    ),
    ("list ENTITY [where ...]", "the same"),
    (
        "add ENTITY NAME [KEY=VALUE...]",
        "a new account, qos or user",
    ),
    ("create ENTITY NAME [KEY=VALUE...]", "the same"),
    (
        "modify ENTITY where ... set ...",
        "change accounts, qualities of service or users",
    ),
    ("update ENTITY where ... set ...", "the same"),
    ("delete ENTITY where ...", "delete them"),
    ("ping", "whether the record answers"),
    ("reconfigure", "read the configuration again"),
    ("version", "the version"),
    ("help", "this list"),
];

const SREPORT: &[Verb] = &[
    ("cluster Utilization", "how much of the cluster was used"),
    (
        "cluster AccountUtilizationByUser",
        "use of each account, by user",
    ),
    (
        "cluster UserUtilizationByAccount",
        "use of each user, by account",
    ),
    ("user TopUsage", "the users who used most"),
    ("version", "the version"),
];

const ALL: [(Command, &[Verb]); 3] = [
    (Command::Scontrol, SCONTROL),
    (Command::Sacctmgr, SACCTMGR),
    (Command::Sreport, SREPORT),
];

/// Of a command; none for most.
pub(super) fn of(command: Command) -> &'static [Verb] {
    let mut all = ALL.into_iter();
    let own = all.find(|(of, _)| *of == command);
    own.map_or(&[], |(_, verbs)| verbs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::flags::{help, man};
    use crate::cli::{sacctmgr, scontrol, sreport};

    fn first(verb: &Verb) -> &'static str {
        verb.0.split(' ').next().unwrap()
    }

    #[test]
    fn every_word_that_a_command_takes_is_listed_and_no_other() {
        let of = |command| {
            let mut words: Vec<&str> = of(command).iter().map(first).collect();
            words.sort_unstable();
            words
        };
        let mut known = scontrol::WORDS.to_vec();
        known.push("write");
        known.sort_unstable();
        assert_eq!(of(Command::Scontrol), known);
        let mut known = sacctmgr::WORDS.to_vec();
        known.sort_unstable();
        assert_eq!(of(Command::Sacctmgr), known);
        for report in sreport::CLUSTER_REPORTS {
            let usage = format!("cluster {report}");
            assert!(SREPORT.iter().any(|verb| verb.0 == usage), "{usage}");
        }
        for entity in sacctmgr::ENTITIES {
            assert!(SACCTMGR[0].1.contains(entity), "{entity}");
        }
    }

    #[test]
    fn help_and_man_pages_have_them() {
        for command in [Command::Scontrol, Command::Sacctmgr, Command::Sreport] {
            let (help, page) = (help::help(command), man::page(command));
            for (usage, what) in of(command) {
                assert!(
                    help.contains(usage) && help.contains(what),
                    "{usage}\n{help}"
                );
                let word = usage.split(' ').next().unwrap();
                assert!(page.contains(&format!(".B {word}")), "{usage}\n{page}");
            }
        }
        assert!(!help::help(Command::Squeue).contains("Commands:"));
    }
}
