//! Who may do what: the kernel says who calls, whatever the client writes.

use crate::admin::manage;
use crate::agent::Agent;
use crate::process::{Asker, Controller, spec, step};
use rustix::process::{Gid, Uid};
use spur_core::api::{JobFilter, Refusal, RefusalKind, Reply, Request};
use spur_core::cluster::Cluster;
use spur_core::id::{JobId, StepKind};
use spur_core::job::array::JobTarget;
use spur_core::job::change::JobChange;
use spur_core::job::spec::JobKind;
use spur_core::job::state::{ExitStatus, JobState, Reason};
use spur_core::manage::{Entity, Verb};
use spur_core::node::AdminState;
use spur_core::partition::PartitionState;
use spur_core::time::{Millis, TimeLimit};
use spur_proto::client::Client;
use std::future::Future;

/// An operator by configuration.
pub(crate) const OPERATOR: u32 = 1;
pub(crate) const ALICE: u32 = 60_001;
const BOB: u32 = 60_002;

/// Runs something as another user: on a thread of its own, whose identity is given up before it connects.
pub(crate) fn as_user<T, F>(
    controller: &Controller,
    uid: u32,
    act: impl FnOnce(Asker) -> F + Send,
) -> T
where
    T: Send,
    F: Future<Output = T>,
{
    let address = controller.address();
    let run = move || {
        rustix::thread::set_thread_gid(Gid::from_raw(uid)).unwrap();
        let uid = Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { act(Asker(Client::connect(&address).await.unwrap())).await })
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

fn submit(controller: &Controller, uid: u32) -> JobId {
    as_user(controller, uid, |client| async move {
        client.submit(spec(JobKind::Batch, 1)).await.unwrap()
    })
}

fn ask(controller: &Controller, uid: u32, request: Request) -> Result<Reply, Refusal> {
    as_user(controller, uid, |client| async move {
        client.ask(&request).await
    })
}

fn kind(outcome: Result<Reply, Refusal>) -> Option<RefusalKind> {
    match outcome {
        Ok(Reply::PerJob(mut outcomes)) => outcomes.remove(0).1.map(|refusal| refusal.kind),
        Ok(_) => None,
        Err(refusal) => Some(refusal.kind),
    }
}

/// Everything that touches one job.
fn on_job(job: JobId) -> Vec<Request> {
    let filter = JobFilter {
        ids: vec![job],
        ..JobFilter::default()
    };
    let cancel = |signal| Request::Cancel {
        filter: filter.clone(),
        signal,
        batch_only: false,
        step: None,
        children: false,
    };
    let update = |time_limit, comment: Option<&str>| Request::UpdateJob {
        job,
        time_limit,
        name: None,
        comment: comment.map(str::to_owned),
        partition: None,
        priority: None,
    };
    vec![
        Request::Script { job },
        Request::Denials {
            job: Some(job),
            limit: 1,
            after: 0,
            alarms: false,
            wait: false,
        },
        Request::DenialRows { job },
        Request::Hold { jobs: vec![job] },
        Request::Release { jobs: vec![job] },
        update(None, Some("mine")),
        update(Some(TimeLimit::Secs(60)), None),
        Request::AwaitAllocation { job },
        Request::AwaitEnd { job },
        Request::Step { job, step: step() },
        Request::Attach {
            job,
            step: StepKind::Numbered(0),
        },
        Request::Requeue { job },
        Request::Finish {
            job,
            exit: ExitStatus::default(),
        },
        cancel(Some(10)),
        cancel(None),
    ]
}

#[test]
fn a_user_can_do_nothing_to_another_users_job_but_see_it() {
    let controller = Controller::start();
    let job = submit(&controller, ALICE);
    for request in on_job(job) {
        let what = format!("{request:?}");
        assert_eq!(
            kind(ask(&controller, BOB, request)),
            Some(RefusalKind::AccessDenied),
            "{what}"
        );
    }
    let by_user = JobFilter {
        partitions: vec!["gpu".into()],
        ..JobFilter::default()
    };
    let cancel = Request::Cancel {
        filter: by_user,
        signal: None,
        batch_only: false,
        step: None,
        children: false,
    };
    let answer = ask(&controller, BOB, cancel);
    assert_eq!(
        kind(answer),
        Some(RefusalKind::AccessDenied),
        "what a filter finds and is another's is refused, not passed over"
    );
    let all = Request::Jobs {
        filter: JobFilter::default(),
    };
    let Reply::Jobs(jobs) = ask(&controller, BOB, all).unwrap() else {
        panic!("no jobs")
    };
    assert_eq!(
        (jobs[0].state, jobs[0].spec.owner.uid.0),
        (JobState::Pending, ALICE),
        "the owner is who called"
    );
    assert_eq!(jobs[0].spec.owner.user, ALICE.to_string());
}

#[test]
fn only_operators_touch_nodes_partitions_and_the_controller() {
    let controller = Controller::start();
    let node = Request::UpdateNode {
        nodes: vec![],
        admin: Some(AdminState::Down),
        reason: Some("x".into()),
    };
    let partition = Request::UpdatePartition {
        name: "gpu".into(),
        state: PartitionState::Down,
    };
    let manage = Request::Manage(Box::new(spur_core::manage::Manage {
        entity: Entity::Account,
        verb: Verb::Create,
        names: vec!["own".to_owned()],
        scope: Vec::new(),
        settings: Vec::new(),
    }));
    let all = [
        &node,
        &partition,
        &manage,
        &Request::Reconfigure,
        &Request::ResetStats,
        &Request::Shutdown,
    ];
    for request in all {
        assert_eq!(
            kind(ask(&controller, ALICE, request.clone())),
            Some(RefusalKind::AccessDenied),
            "{request:?}"
        );
    }
    for request in [node, partition] {
        assert_eq!(kind(ask(&controller, OPERATOR, request)), None);
    }
    let job = submit(&controller, ALICE);
    let Reply::Jobs(jobs) = ask(
        &controller,
        ALICE,
        Request::Jobs {
            filter: JobFilter::default(),
        },
    )
    .unwrap() else {
        panic!("no jobs")
    };
    assert_eq!((jobs[0].id, jobs[0].state), (job, JobState::Pending));
}

#[test]
fn an_operators_hold_is_not_released_by_the_owner_and_limits_are_raised_only_by_operators() {
    let controller = Controller::start();
    let job = submit(&controller, ALICE);
    let reason = || {
        let filter = JobFilter {
            ids: vec![job],
            ..JobFilter::default()
        };
        let Ok(Reply::Jobs(jobs)) = ask(&controller, ALICE, Request::Jobs { filter }) else {
            panic!("no jobs")
        };
        jobs[0].reason
    };
    let (hold, release) = (
        Request::Hold { jobs: vec![job] },
        Request::Release { jobs: vec![job] },
    );
    assert_eq!(kind(ask(&controller, ALICE, hold.clone())), None);
    assert_eq!(reason(), Reason::JobHeldUser);
    assert_eq!(kind(ask(&controller, ALICE, release.clone())), None);
    assert_eq!(kind(ask(&controller, OPERATOR, hold)), None);
    assert_eq!(reason(), Reason::JobHeldAdmin);
    assert_eq!(
        kind(ask(&controller, ALICE, release.clone())),
        Some(RefusalKind::AccessDenied)
    );
    assert_eq!(kind(ask(&controller, OPERATOR, release)), None);

    let limit = |secs| Request::UpdateJob {
        job,
        time_limit: Some(TimeLimit::Secs(secs)),
        name: None,
        comment: None,
        partition: None,
        priority: None,
    };
    // While it waits, its owner might as well submit another one.
    assert_eq!(kind(ask(&controller, ALICE, limit(60))), None);
    assert_eq!(kind(ask(&controller, ALICE, limit(120))), None);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _agent = runtime.block_on(Agent::connect(&controller, "n1"));
    let state = || {
        let filter = JobFilter {
            ids: vec![job],
            ..JobFilter::default()
        };
        match ask(&controller, ALICE, Request::Jobs { filter }) {
            Ok(Reply::Jobs(jobs)) => jobs[0].state,
            other => panic!("no jobs: {other:?}"),
        }
    };
    while state() != JobState::Running {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(
        kind(ask(&controller, ALICE, limit(300))),
        Some(RefusalKind::AccessDenied)
    );
    assert_eq!(kind(ask(&controller, OPERATOR, limit(300))), None);
}

#[test]
fn nobody_starts_a_step_as_somebody_else_not_even_an_operator() {
    let controller = Controller::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _agent = runtime.block_on(Agent::connect(&controller, "n1"));
    let job = submit(&controller, ALICE);
    let asked = Request::Step { job, step: step() };
    assert_eq!(
        kind(ask(&controller, OPERATOR, asked.clone())),
        Some(RefusalKind::AccessDenied)
    );
    assert_eq!(
        kind(ask(&controller, 0, asked.clone())),
        Some(RefusalKind::AccessDenied)
    );
    assert_eq!(kind(ask(&controller, ALICE, asked)), None);
}

#[test]
fn what_is_too_large_or_makes_no_sense_is_refused_and_nothing_is_half_done() {
    let controller = Controller::start();
    let refused = |change: &dyn Fn(
        &mut spur_core::job::spec::JobSpec,
        &mut spur_core::job::spec::Payload,
    )| {
        let (mut spec, mut payload) = (spec(JobKind::Batch, 1), crate::process::script());
        change(&mut spec, &mut payload);
        let submit = Request::Submit {
            spec: Box::new(spec),
            payload: Some(payload),
        };
        ask(&controller, ALICE, submit).unwrap_err()
    };
    let kind = |refusal: Refusal| (refusal.kind, refusal.text);
    let (invalid, text) = kind(refused(&|_, payload| {
        payload.script = vec![b'#'; (4 << 20) + 1]
    }));
    assert_eq!(
        (invalid, text.as_str()),
        (
            RefusalKind::Invalid,
            "script of 4194305 is too large: at most 4194304"
        )
    );
    assert_eq!(
        kind(refused(
            &|_, payload| payload.env = vec!["A=".to_owned() + &"x".repeat(2 << 20)]
        ))
        .0,
        RefusalKind::Invalid
    );
    assert_eq!(
        kind(refused(&|_, payload| payload.env = vec!["A=\0".into()])).0,
        RefusalKind::Invalid
    );
    assert_eq!(
        kind(refused(&|_, payload| payload.script.clear())).0,
        RefusalKind::Invalid
    );
    assert_eq!(
        kind(refused(&|spec, _| spec.partition = "nope".into())).0,
        RefusalKind::InvalidPartition
    );
    assert_eq!(
        kind(refused(&|spec, _| spec.nice = -5)).0,
        RefusalKind::AccessDenied
    );
    assert_eq!(
        kind(refused(&|spec, _| spec.kind = JobKind::Run)).0,
        RefusalKind::Invalid
    );
    let Reply::Jobs(jobs) = ask(
        &controller,
        ALICE,
        Request::Jobs {
            filter: JobFilter::default(),
        },
    )
    .unwrap() else {
        panic!("no jobs")
    };
    assert_eq!(jobs, []);
    assert_eq!(
        submit(&controller, ALICE),
        JobId(1),
        "no number was used up"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_read_the_whole_state_and_nobody_else_does() {
    let controller = Controller::start();
    let (_agent, _) = Agent::connect(&controller, "n1").await;
    let job = submit(&controller, ALICE);
    let denied = Some(RefusalKind::AccessDenied);
    assert_eq!(kind(ask(&controller, ALICE, Request::State)), denied);
    let Ok(Reply::State(bytes)) = ask(&controller, OPERATOR, Request::State) else {
        panic!("no state for an operator");
    };
    let (at, cluster): (Millis, Cluster) = rmp_serde::from_slice(&bytes).unwrap();
    assert_eq!(cluster.jobs[&job].spec.owner.uid.0, ALICE);
    assert_eq!(cluster.nodes.len(), 1);
    assert!(at >= cluster.jobs[&job].submitted);
    spur_core::check::check(&cluster).unwrap();
}

#[test]
fn a_change_takes_no_job_where_its_owner_could_not_submit_it() {
    let folder = tempfile::tempdir().unwrap();
    let more = "accounting_enforce = [\"associations\", \"qos\"]\n[[partition]]\nname = \"closed\"\nallow_groups = [\"root\"]\n";
    let mut controller = Controller::prepare(folder.path(), &folder.path().join("state"), more);
    controller.run();
    let alice = format!("{ALICE}");
    for (entity, name, words) in [
        (Entity::Account, "good", vec![]),
        (Entity::Account, "bad", vec![]),
        (Entity::User, alice.as_str(), vec![("account", "good")]),
    ] {
        let request = manage(entity, Verb::Create, &[name], &words);
        assert_eq!(kind(ask(&controller, OPERATOR, request)), None, "{name}");
    }
    let job = as_user(&controller, ALICE, |client| async move {
        let mut job = spec(JobKind::Batch, 1);
        (job.account, job.hold) = ("good".to_owned(), true);
        client.submit(job).await.unwrap()
    });
    let jobs = vec![JobTarget {
        job,
        tasks: None,
        offset: None,
    }];
    let change = |change| {
        let change = Box::new(change);
        let jobs = jobs.clone();
        kind(ask(
            &controller,
            ALICE,
            Request::ChangeJobs { jobs, change },
        ))
    };
    let to = |word: &str| Some(word.to_owned());
    let moved = JobChange {
        partition: to("closed"),
        ..JobChange::default()
    };
    assert_eq!(change(moved), Some(RefusalKind::GroupNotPermitted));
    for account in ["bad", "nope"] {
        let charged = JobChange {
            account: to(account),
            ..JobChange::default()
        };
        assert_eq!(change(charged), Some(RefusalKind::InvalidAccount));
    }
    let better = JobChange {
        qos: to("nope"),
        ..JobChange::default()
    };
    assert_eq!(change(better), Some(RefusalKind::InvalidQos));
    let kept = JobChange {
        account: to("good"),
        partition: to("other"),
        ..JobChange::default()
    };
    assert_eq!(change(kept), None);
}

/// Jobs of hidden partitions are listed to operators, and to those who ask for all.
#[test]
fn jobs_in_hidden_partitions_are_listed_to_who_asks_for_all() {
    let dir = tempfile::tempdir().unwrap();
    let hidden = "\n[[partition]]\nname = \"dark\"\nhidden = true\n";
    let mut controller = Controller::prepare(dir.path(), &dir.path().join("state"), hidden);
    controller.run();
    let job = as_user(&controller, ALICE, |client| async move {
        let mut dark = spec(JobKind::Batch, 0);
        dark.partition = "dark".to_owned();
        client.submit(dark).await.unwrap()
    });
    let listed = |uid, visible, lines| -> Vec<JobId> {
        let filter = JobFilter {
            visible,
            ..JobFilter::default()
        };
        let request = match lines {
            true => Request::JobLines {
                filter,
                folded: true,
            },
            false => Request::Jobs { filter },
        };
        match ask(&controller, uid, request) {
            Ok(Reply::Jobs(jobs)) => jobs.iter().map(|job| job.id).collect(),
            Ok(Reply::JobLines(lines)) => lines.ids.iter().copied().map(JobId).collect(),
            other => panic!("{other:?}"),
        }
    };
    let nothing: Vec<JobId> = Vec::new();
    for lines in [false, true] {
        assert_eq!(listed(ALICE, true, lines), nothing);
        assert_eq!(listed(ALICE, false, lines), [job]);
        assert_eq!(listed(OPERATOR, true, lines), [job]);
    }
}

#[test]
fn operators_change_the_mesh_and_others_only_see_who_is_in_it() {
    use spur_core::mesh::{MeshAsk, MeshKey, MeshPrefix, NewToken, Newcomer, Role};
    let controller = Controller::start();
    let mesh = |uid, wish: MeshAsk| ask(&controller, uid, Request::Mesh(Box::new(wish)));
    let name = spur_core::id::NodeName::new("ctl").unwrap();
    let wishes = [
        MeshAsk::Found {
            prefix: MeshPrefix(0xfd00_0000_0000_0001),
            first: Newcomer {
                name: name.clone(),
                key: MeshKey([1; 32]),
                endpoints: Vec::new(),
            },
        },
        MeshAsk::Token(NewToken {
            key: MeshKey([2; 32]),
            role: Role::Controller,
            name: None,
            secs: 60,
        }),
        MeshAsk::Withdraw {
            token: spur_core::id::TokenId(1),
        },
    ];
    for wish in wishes {
        let denied = mesh(ALICE, wish.clone());
        assert_eq!(kind(denied), Some(RefusalKind::AccessDenied), "{wish:?}");
        assert_eq!(kind(mesh(OPERATOR, wish.clone())), None, "{wish:?}");
    }
    let remove = MeshAsk::Remove { name };
    let denied = kind(mesh(ALICE, remove.clone()));
    assert_eq!(denied, Some(RefusalKind::AccessDenied));
    assert_eq!(kind(mesh(OPERATOR, remove)), Some(RefusalKind::Invalid));
    let Ok(Reply::Mesh(book)) = mesh(ALICE, MeshAsk::List) else {
        panic!("everybody may see who is in the mesh");
    };
    assert_eq!(book.members.len(), 1);
}
