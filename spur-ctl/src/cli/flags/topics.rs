//! Grammars that several options share, written once for all man pages: times, arrays, dependencies, names of files.

use super::Command;

/// A section of man pages: title, what leads in, and forms with what they mean.
pub(super) struct Topic {
    pub(super) title: &'static str,
    pub(super) lead: &'static str,
    pub(super) forms: &'static [(&'static str, &'static str)],
}

const LIMITS: Topic = Topic {
    title: "TIME LIMITS",
    lead: "--time, --time-min and others take a span of time in one of these forms.",
    forms: &[
        ("30", "minutes"),
        ("30:15", "minutes and seconds"),
        ("2:30:15", "hours, minutes and seconds"),
        ("1-12", "days and hours"),
        ("1-12:30", "days, hours and minutes"),
        ("1-12:30:15", "days, hours, minutes and seconds"),
        ("UNLIMITED", "no limit (also INFINITE and -1)"),
    ],
};

const MOMENTS: Topic = Topic {
    title: "MOMENTS",
    lead: "--begin, --deadline, --starttime, --endtime and others take a moment in one of these forms.",
    forms: &[
        ("now", "this moment"),
        (
            "now+1hour",
            "later or, with -, earlier: seconds, minutes, hours, days, weeks",
        ),
        (
            "16:00",
            "the next time that it is so late; with AM or PM too",
        ),
        ("midnight, noon, teatime, fika", "0:00, 12:00, 16:00, 15:00"),
        ("today, tomorrow", "that day, at 0:00"),
        ("2027-01-31", "that day, at 0:00; also 01/31/27 and 013127"),
        (
            "2027-01-31T12:34:56",
            "that day and time; seconds may be left out",
        ),
    ],
};

const ARRAYS: Topic = Topic {
    title: "JOB ARRAYS",
    lead: "--array makes many jobs of one script; each has its index as SLURM_ARRAY_TASK_ID. Commands name them 42_7, 42_[1-5], or 42 for all.",
    forms: &[
        ("1,3,7", "these indices"),
        ("0-15", "from 0 to 15"),
        ("0-15:4", "every fourth: 0, 4, 8, 12"),
        ("0-15%4", "at most four of them run at a time"),
    ],
};

const DEPENDENCIES: Topic = Topic {
    title: "DEPENDENCIES",
    lead: "--dependency takes TYPE:JOB[:JOB...] with ',' between them where all are needed, or '?' where one is enough. \
           JOB may be a task of an array, 42_7.",
    forms: &[
        (
            "after:JOB[+MINUTES]",
            "the job has started, or was cancelled, so many minutes ago",
        ),
        ("afterany:JOB", "it has ended in whatever way"),
        ("afterok:JOB", "it has ended with exit code 0"),
        ("afternotok:JOB", "it has not ended well"),
        (
            "aftercorr:JOB",
            "each task waits for the task of that array with its index to end well",
        ),
        (
            "afterburstbuffer:JOB",
            "it has ended, and what it staged out is there",
        ),
        (
            "singleton",
            "no other job of the same user and name came before and has not ended",
        ),
    ],
};

const FILES: Topic = Topic {
    title: "NAMES OF FILES",
    lead: "--input, --output and --error replace these symbols; a number after % pads with zeros (%5a). A backslash in the name \
           switches that off.",
    forms: &[
        ("%%", "a percent sign"),
        ("%A", "the number of the array"),
        ("%a", "the index in it"),
        ("%b", "the index modulo ten"),
        ("%j", "the number of the job"),
        ("%J", "job and step (42.0)"),
        ("%N", "the node; one file for each"),
        ("%n", "the node's number within the job; one file for each"),
        ("%s", "the number of the step"),
        ("%t", "the number of the task; one file for each"),
        ("%u", "the user"),
        ("%x", "the name of the job"),
    ],
};

const ALL: [(Command, &[Topic]); 6] = [
    (
        Command::Sbatch,
        &[LIMITS, MOMENTS, ARRAYS, DEPENDENCIES, FILES],
    ),
    (
        Command::Srun,
        &[LIMITS, MOMENTS, ARRAYS, DEPENDENCIES, FILES],
    ),
    (Command::Salloc, &[LIMITS, MOMENTS, DEPENDENCIES]),
    (Command::Sacct, &[MOMENTS]),
    (Command::Sreport, &[MOMENTS]),
    (Command::Scontrol, &[LIMITS, MOMENTS, DEPENDENCIES]),
];

/// The sections of a command's page.
pub(super) fn of(command: Command) -> &'static [Topic] {
    let mut all = ALL.into_iter();
    let own = all.find(|(of, _)| *of == command);
    own.map_or(&[], |(_, topics)| topics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_core::id::StepKind;
    use spur_core::slurm::filename::{self, Names};
    use spur_core::slurm::{array, dependency, timespec};
    use spur_core::time::Millis;

    /// What a page says must be so.
    #[test]
    fn every_form_is_one_that_is_read() {
        for (form, _) in LIMITS.forms {
            assert!(timespec::parse_limit(form).is_ok(), "{form}");
        }
        for form in MOMENTS.forms.iter().flat_map(|(form, _)| form.split(", ")) {
            let read = timespec::begin::parse_past(form, Millis(1_796_002_864_000), 0);
            assert!(read.is_ok(), "{form}");
        }
        for (form, _) in ARRAYS.forms {
            assert!(array::parse(form, 1000).is_ok(), "{form}");
        }
        for (form, _) in DEPENDENCIES.forms {
            let form = form.replace("JOB", "42").replace("[+MINUTES]", "+5");
            assert!(dependency::parse(&form).is_ok(), "{form}");
        }
    }

    #[test]
    fn every_symbol_is_one_that_is_replaced() {
        let names = Names {
            job: 42,
            array: Some((40, 17)),
            step: StepKind::Numbered(3),
            task: 5,
            node: 6,
            host: "n1",
            name: "train",
            user: "alice",
        };
        let listed: Vec<char> = FILES
            .forms
            .iter()
            .filter_map(|(form, _)| form.chars().nth(1))
            .collect();
        for letter in ('A'..='Z').chain('a'..='z').chain(['%']) {
            let pattern = format!("%{letter}");
            let replaced = filename::expand(&pattern, &names) != pattern;
            assert_eq!(replaced, listed.contains(&letter), "{pattern}");
        }
    }
}
