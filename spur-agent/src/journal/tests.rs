use super::*;
use spur_core::job::state::ExitStatus;

fn order(job: u32, generation: u64) -> Arc<JobOrder> {
    Arc::new(crate::testing::job_order(job, generation, &[0, 1]))
}

fn ended(job: u32) -> Report {
    let (job, step, generation) = (JobId(job), StepKind::Batch, Generation(5));
    Report::StepEnded {
        job,
        step,
        generation,
        exit: ExitStatus::default(),
        oom: false,
    }
}

fn filled(dir: &Path) -> Journal {
    let mut journal = Journal::open(dir, "boot-a").unwrap();
    journal.begin_job(&order(1, 5)).unwrap();
    journal.job_phase(JobId(1), Phase::Ready).unwrap();
    journal
        .step(
            JobId(1),
            StepKind::Batch,
            Step {
                tasks: 2,
                narrow: false,
                ended: false,
            },
        )
        .unwrap();
    journal.begin_job(&order(2, 6)).unwrap();
    assert_eq!(journal.report(ended(1)).unwrap(), 1);
    let cleaned = Report::Cleaned {
        job: JobId(2),
        generation: Generation(6),
    };
    assert_eq!(journal.report(cleaned).unwrap(), 2);
    journal
}

#[test]
fn what_was_written_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    let mut after = Journal::open(dir.path(), "boot-a").unwrap();
    assert_eq!(after.jobs(), before.jobs());
    assert_eq!(after.reports(), before.reports());
    assert!(after.jobs()[&JobId(1)].steps[&StepKind::Batch].ended);
    assert!(!after.jobs().contains_key(&JobId(2)));
    after.acked(1).unwrap();
    let mut last = Journal::open(dir.path(), "boot-a").unwrap();
    assert_eq!(last.reports().keys().copied().collect::<Vec<_>>(), [2]);
    assert_eq!(last.report(ended(1)).unwrap(), 3, "numbers go on");
    last.acked(3).unwrap();
    assert_eq!(
        Journal::open(dir.path(), "boot-a")
            .unwrap()
            .report(ended(1))
            .unwrap(),
        4,
        "also when none is left"
    );
}

#[test]
fn a_reboot_ends_jobs_but_not_reports() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path()));
    let after = Journal::open(dir.path(), "boot-b").unwrap();
    assert!(after.jobs().is_empty());
    assert_eq!(after.lost(), [(JobId(1), Generation(5))]);
    assert_eq!(after.reports().len(), 2);
    assert!(
        Journal::open(dir.path(), "boot-b")
            .unwrap()
            .lost()
            .is_empty(),
        "only once"
    );
}

#[test]
fn a_tail_cut_at_any_byte_never_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path()));
    let whole = std::fs::read(dir.path().join("journal")).unwrap();
    let mut jobs_before = 0;
    for len in 0..=whole.len() {
        let cut = tempfile::tempdir().unwrap();
        std::fs::write(cut.path().join("journal"), &whole[..len]).unwrap();
        let journal = Journal::open(cut.path(), "boot-a").unwrap();
        jobs_before = jobs_before.max(journal.jobs().len());
        drop(journal);
        Journal::open(cut.path(), "boot-a").unwrap();
    }
    assert_eq!(jobs_before, 2);
    let mut flipped = whole.clone();
    let at = whole.len() - 3;
    flipped[at] ^= 1;
    std::fs::write(dir.path().join("journal"), &flipped).unwrap();
    assert_eq!(
        Journal::open(dir.path(), "boot-a").unwrap().reports().len(),
        1,
        "the damaged record is dropped"
    );
    std::fs::write(dir.path().join("journal"), "something else entirely").unwrap();
    assert!(matches!(
        Journal::open(dir.path(), "boot-a"),
        Err(JournalError::Foreign { .. })
    ));
}

#[test]
fn the_file_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(dir.path(), "boot-a").unwrap();
    for job in 1..6000 {
        journal.begin_job(&order(job, 5)).unwrap();
        journal.forget(JobId(job)).unwrap();
    }
    let number = journal.report(ended(1)).unwrap();
    journal.acked(number).unwrap();
    assert!(std::fs::metadata(dir.path().join("journal")).unwrap().len() < 1000);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(dir.path().join("journal"))
            .unwrap()
            .permissions(),
    );
    assert_eq!(mode & 0o077, 0, "for root alone, also when rewritten");
}

#[test]
fn started_tasks_are_counted_through_rewrites_and_acknowledgements() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = filled(dir.path());
    let state = Step {
        tasks: 3,
        narrow: false,
        ended: false,
    };
    journal
        .step(JobId(1), StepKind::Numbered(0), state)
        .unwrap();
    journal
        .step(JobId(1), StepKind::Numbered(1), state)
        .unwrap();
    journal
        .step_undone(JobId(1), StepKind::Numbered(1))
        .unwrap();
    journal.acked(1).unwrap();
    for _ in 0..2 {
        let after = Journal::open(dir.path(), "boot-a").unwrap();
        let job = &after.jobs()[&JobId(1)];
        assert_eq!(job.canaries, 5);
        assert_eq!(
            job.steps.keys().copied().collect::<Vec<_>>(),
            [StepKind::Numbered(0)]
        );
    }
}

#[test]
fn a_report_of_an_older_placement_does_not_touch_a_newer_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(dir.path(), "boot-a").unwrap();
    journal.begin_job(&order(1, 9)).unwrap();
    journal
        .report(Report::Cleaned {
            job: JobId(1),
            generation: Generation(5),
        })
        .unwrap();
    assert!(
        Journal::open(dir.path(), "boot-a")
            .unwrap()
            .jobs()
            .contains_key(&JobId(1))
    );
}

#[test]
fn whether_a_job_was_fenced_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(dir.path(), "boot-a").unwrap();
    for job in 1..=3 {
        journal.begin_job(&order(job, 5)).unwrap();
    }
    journal.job_ready(JobId(1), true).unwrap();
    journal.job_ready(JobId(2), false).unwrap();
    journal.job_phase(JobId(3), Phase::Ready).unwrap();
    for job in 1..=2 {
        journal.job_phase(JobId(job), Phase::Ending).unwrap();
    }
    for _ in 0..2 {
        let after = Journal::open(dir.path(), "boot-a").unwrap();
        let said: Vec<_> = after.jobs().values().map(|job| job.fenced).collect();
        assert_eq!(said, [Some(true), Some(false), None]);
    }
}

#[test]
fn a_job_that_is_set_up_is_not_ready_before_its_prolog_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(dir.path(), "boot-a").unwrap();
    for job in 1..=3 {
        journal.begin_job(&order(job, 5)).unwrap();
    }
    journal.job_prepared(JobId(2), true).unwrap();
    journal.job_prepared(JobId(3), true).unwrap();
    journal.job_phase(JobId(3), Phase::Ready).unwrap();
    for _ in 0..2 {
        let after = Journal::open(dir.path(), "boot-a").unwrap();
        let said: Vec<_> = after
            .jobs()
            .values()
            .map(|job| (job.phase, job.fenced))
            .collect();
        let phases = [
            (Phase::Preparing, None),
            (Phase::Preparing, Some(true)),
            (Phase::Ready, Some(true)),
        ];
        assert_eq!(said, phases);
    }
}
