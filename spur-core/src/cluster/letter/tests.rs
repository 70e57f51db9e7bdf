use crate::effect::{Effect, Effects, Letter};
use crate::event::Event;
use crate::fixture::{OK, World, batch, gang};
use crate::id::{JobId, StepKind, Uid};
use crate::job::spec::JobSpec;
use crate::job::state::ExitStatus;
use crate::time::TimeLimit;

fn mailed(mut spec: JobSpec, types: &str) -> JobSpec {
    spec.name = "x".to_owned();
    spec.extras_mut().mail_type = types.to_owned();
    spec
}

const ALL: &str = "INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT";

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "mails are picked out of all effects"
)]
fn letters(fx: &Effects) -> Vec<Letter> {
    let letter = |effect: &Effect| match effect {
        Effect::Mail(letter) => Some(letter.as_ref().clone()),
        _ => None,
    };
    fx.effects.iter().filter_map(letter).collect()
}

fn subjects(fx: &Effects) -> Vec<String> {
    letters(fx)
        .into_iter()
        .map(|letter| letter.subject)
        .collect()
}

fn value<'a>(letter: &'a Letter, name: &str) -> Option<&'a str> {
    let mut found = letter.env.iter().filter(|(known, _)| *known == name);
    found.next().map(|(_, value)| value.as_str())
}

/// A planning pass; the effects of all that it does.
fn planned(world: &mut World) -> Effects {
    let mut all = Effects::default();
    for event in world.cluster.plan_events(world.plan_only()) {
        all.effects.extend(world.does(event).effects);
    }
    all
}

fn exit(code: u8, signal: u8) -> ExitStatus {
    ExitStatus { code, signal }
}

fn ends(world: &mut World, job: JobId, exit: ExitStatus) -> Effects {
    let node = world.job(job).allocation[0].node.0;
    world.step_ended(job, StepKind::Batch, node, exit)
}

#[test]
fn a_job_is_told_of_in_slurms_words() {
    let mut world = World::new(1, 8);
    let job = world.submit(mailed(batch(), ALL));
    world.now = world.now.plus_secs(59);
    let begun = planned(&mut world);
    assert_eq!(
        subjects(&begun),
        ["Slurm Job_id=1 Name=x Began, Queued time 00:01:00"]
    );
    let letter = &letters(&begun)[0];
    assert_eq!(
        (letter.job, letter.to.as_str(), letter.local),
        (job, "alice", true)
    );
    assert_eq!(value(letter, "SLURM_JOB_QUEUED_TIME"), Some("00:01:00"));
    assert_eq!(value(letter, "SLURM_JOB_MAIL_TYPE"), Some("Began"));
    assert_eq!(value(letter, "SLURM_JOB_STATE"), Some("RUNNING"));
    assert_eq!(value(letter, "SLURM_JOB_NODELIST"), Some("n1"));
    assert_eq!(value(letter, "SLURM_JOB_EXIT_CODE"), None);
    world.now = world.now.plus_secs(93_783);
    let ended = ends(&mut world, job, OK);
    assert_eq!(
        subjects(&ended),
        ["Slurm Job_id=1 Name=x Ended, Run time 1-02:03:04, COMPLETED, ExitCode 0"]
    );
    let letter = &letters(&ended)[0];
    assert_eq!(value(letter, "SLURM_JOB_EXIT_CODE2"), Some("0:0"));
    assert_eq!(value(letter, "SLURM_JOB_RUN_TIME"), Some("1-02:03:04"));
    let cleaned = world.clean(job, 0);
    assert_eq!(subjects(&cleaned), [""; 0], "once");
}

#[test]
fn what_is_not_asked_for_is_not_told() {
    let mut world = World::new(1, 8);
    let job = world.submit(batch());
    assert_eq!(letters(&planned(&mut world)), []);
    assert_eq!(letters(&ends(&mut world, job, exit(1, 0))), []);
    world.clean(job, 0);
    let job = world.submit(mailed(batch(), "FAIL"));
    assert_eq!(letters(&planned(&mut world)), []);
    assert_eq!(letters(&ends(&mut world, job, OK)), []);
}

#[test]
fn an_address_is_taken_as_it_is() {
    let mut world = World::new(1, 8);
    let mut spec = mailed(batch(), "BEGIN");
    spec.extras_mut().mail_user = "bob@example.org".to_owned();
    world.submit(spec);
    let letter = letters(&planned(&mut world)).remove(0);
    assert_eq!(
        (letter.to.as_str(), letter.local),
        ("bob@example.org", false)
    );
}

#[test]
fn a_failure_is_one_to_those_who_ask_for_it_and_an_end_to_the_others() {
    for (types, words) in [
        ("FAIL", Some("Failed")),
        ("END", Some("Ended")),
        ("END,FAIL", Some("Failed")),
        ("BEGIN", None),
    ] {
        let mut world = World::new(1, 8);
        let job = world.submit(mailed(batch(), types));
        planned(&mut world);
        let told = subjects(&ends(&mut world, job, exit(3, 0)));
        let line =
            |words| format!("Slurm Job_id=1 Name=x {words}, Run time 00:00:01, FAILED, ExitCode 3");
        assert_eq!(told, Vec::from_iter(words.map(line)), "{types}");
    }
    let mut world = World::new(1, 8);
    let job = world.submit(mailed(batch(), ALL));
    let by = Uid(1000);
    assert_eq!(
        subjects(&world.does(Event::Cancelled { job, by })),
        ["Slurm Job_id=1 Name=x Ended, Run time 00:00:00, CANCELLED, ExitCode 0"],
        "a cancelled job has not failed"
    );
}

#[test]
fn a_signal_is_no_exit_code() {
    let mut world = World::new(1, 8);
    let job = world.submit(mailed(batch(), "FAIL"));
    planned(&mut world);
    assert_eq!(
        subjects(&ends(&mut world, job, exit(0, 9))),
        ["Slurm Job_id=1 Name=x Failed, Run time 00:00:01, FAILED"]
    );
}

#[test]
fn a_job_that_goes_back_is_told_of_as_that_and_starts_anew() {
    let mut world = World::new(2, 8);
    let job = world.submit(mailed(
        JobSpec {
            requeue: true,
            ..batch()
        },
        "REQUEUE,BEGIN",
    ));
    planned(&mut world);
    let told = world.does(Event::Requeued { job });
    assert_eq!(
        subjects(&told),
        ["Slurm Job_id=1 Name=x Requeued, Run time 00:00:01"]
    );
    world.clean_all(job);
    assert_eq!(subjects(&planned(&mut world)).len(), 1);
    ends(&mut world, job, OK);
    assert_eq!(
        letters(&world.does(Event::Requeued { job })),
        [],
        "it did not run"
    );
}

#[test]
fn each_share_of_a_limit_is_told_once_in_a_run() {
    let mut world = World::new(1, 8);
    let spec = JobSpec {
        time_limit: Some(TimeLimit::Secs(1_000)),
        requeue: true,
        ..batch()
    };
    let types = "TIME_LIMIT_50,TIME_LIMIT_80,TIME_LIMIT_90,TIME_LIMIT";
    let job = world.submit(mailed(spec, types));
    planned(&mut world);
    let started = world.job(job).started.unwrap();
    let mut told = Vec::new();
    for _ in 0..3 {
        let (due, _) = world.cluster.next_deadline(world.now).unwrap();
        let events = world.cluster.expired(due);
        world.now = crate::time::Millis(due.0 - 1_000);
        for event in events {
            told.extend(subjects(&world.does(event)));
        }
    }
    let line = |share, time| {
        format!("Slurm Job_id=1 Name=x Reached {share}% of time limit, Run time {time}")
    };
    assert_eq!(
        told,
        [
            line(50, "00:08:20"),
            line(80, "00:13:20"),
            line(90, "00:15:00")
        ]
    );
    world.ignores(Event::LimitNears { job, percent: 90 });
    world.now = started.plus_secs(999);
    assert_eq!(
        world.cluster.expired(started.plus_secs(1_000)),
        [Event::TimedOut { job }]
    );
    let over = world.does(Event::TimedOut { job });
    assert_eq!(
        subjects(&over),
        ["Slurm Job_id=1 Name=x Reached time limit, Run time 00:16:40"]
    );
    assert_eq!(world.job(job).told_percent, 90);
    world.clean_all(job);
    world.does(Event::Requeued { job });
    assert_eq!(world.job(job).told_percent, 0);
}

#[test]
fn who_waits_in_vain_is_told_once() {
    let mut world = World::new(1, 8);
    let first = world.start(gang(1, 1));
    let job = world.submit(mailed(
        JobSpec {
            dependency: format!("afterok:{first}"),
            ..batch()
        },
        ALL,
    ));
    ends(&mut world, first, exit(1, 0));
    let told = world.clean(first, 0);
    assert_eq!(
        subjects(&told),
        [format!("Slurm Job_id={job} Name=x Invalid dependency")]
    );
    let other = world.start(gang(1, 1));
    assert_eq!(letters(&ends(&mut world, other, OK)), []);
}

fn array(types: &str) -> (World, Vec<JobId>, Effects) {
    let mut world = World::new(1, 8);
    let spec = JobSpec {
        array: "1-3".to_owned(),
        ..batch()
    };
    world.submit(mailed(spec, types));
    let begun = planned(&mut world);
    let tasks = world.cluster.running().map(|job| job.id).collect();
    (world, tasks, begun)
}

/// Ends each task with its status; what is told of it.
fn over(world: &mut World, tasks: &[JobId], exits: [ExitStatus; 3]) -> Vec<String> {
    let mut told = Vec::new();
    for (job, exit) in tasks.iter().zip(exits) {
        told.extend(subjects(&ends(world, *job, exit)));
        told.extend(subjects(&world.clean(*job, 0)));
    }
    told
}

#[test]
fn an_array_is_told_of_as_one() {
    let (mut world, tasks, begun) = array(ALL);
    assert_eq!(tasks.len(), 3);
    assert_eq!(
        subjects(&begun),
        ["Slurm Array Summary Job_id=1_* (1) Name=x Began"]
    );
    let told = over(&mut world, &tasks, [OK; 3]);
    assert_eq!(
        told,
        ["Slurm Array Summary Job_id=1_* (1) Name=x Ended, COMPLETED, ExitCode [0-0]"]
    );
    for (exits, end) in [
        (
            [OK, exit(3, 0), exit(1, 0)],
            "Failed, Mixed, ExitCode [0-3]",
        ),
        (
            [exit(2, 0), exit(3, 0), exit(1, 0)],
            "Failed, FAILED, ExitCode [1-3]",
        ),
        ([OK, exit(0, 9), OK], "Ended, Mixed, MaxSignal [9]"),
        (
            [exit(0, 9), exit(4, 0), exit(0, 9)],
            "Failed, Mixed, MaxExitCode [4]",
        ),
    ] {
        let (mut world, tasks, _) = array(ALL);
        let told = over(&mut world, &tasks, exits);
        assert_eq!(
            told,
            [format!("Slurm Array Summary Job_id=1_* (1) Name=x {end}")]
        );
    }
}

#[test]
fn tasks_are_told_of_one_by_one_if_that_is_wanted() {
    let (mut world, tasks, begun) = array("ARRAY_TASKS,BEGIN,END");
    let line = |nth: usize, end: &str| {
        let job = tasks[nth];
        let task = world.job(job).array.as_ref().unwrap().view.task.unwrap();
        format!("Slurm Array Task Job_id=1_{task} ({job}) Name=x {end}")
    };
    let mut begun = subjects(&begun);
    let mut expected: Vec<String> = (0..3)
        .map(|nth| {
            let job = world.job(tasks[nth]);
            let waited = job.started.unwrap().secs_since(job.submitted);
            line(nth, &format!("Began, Queued time 00:00:0{waited}"))
        })
        .collect();
    begun.sort();
    expected.sort();
    assert_eq!(begun, expected);
    let told = over(&mut world, &tasks, [OK, exit(3, 0), OK]);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.iter().any(|told| told.ends_with("FAILED, ExitCode 3")));
}

#[test]
fn of_a_heterogeneous_job_only_the_leader_is_told_of() {
    let mut world = World::new(2, 8);
    let leader = world.submit_het(vec![mailed(batch(), ALL), mailed(batch(), ALL)]);
    let begun = planned(&mut world);
    assert_eq!(letters(&begun).len(), 1);
    let by = Uid(0);
    let told = world.does(Event::Cancelled { job: leader, by });
    assert_eq!(letters(&told).len(), 1);
    assert_eq!(value(&letters(&told)[0], "SLURM_HET_JOB_OFFSET"), Some("0"));
}
