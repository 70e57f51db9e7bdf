//! What comes through the mesh: this host's agent says from which member and who it is, and nobody else is believed.

use crate::agent::{Agent, dial, hello};
use crate::process::{Asker, Controller, PATIENCE, spec};
use crate::rights::{ALICE, OPERATOR, as_user};
use spur_core::agent::order::ToAgent;
use spur_core::api::{Refusal, RefusalKind, Reply, Request};
use spur_core::id::{Gid, JobId, NodeName, Uid};
use spur_core::job::spec::JobKind;
use spur_core::job::state::JobState;
use spur_core::mesh::Role;
use spur_proto::client::{CallError, ask_over};
use spur_proto::door::{LocalUser, Member, Preface, Want};
use std::io::Read as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

const NO_TOKEN: &str = "an agent in the mesh needs no token";

struct Cluster {
    _folder: tempfile::TempDir,
    controller: Controller,
}

fn cluster() -> Cluster {
    let folder = tempfile::tempdir().unwrap();
    let door = format!("door_socket = {:?}", folder.path().join("door.sock"));
    let mut controller = Controller::prepare(folder.path(), &folder.path().join("state"), &door);
    controller.run();
    Cluster {
        _folder: folder,
        controller,
    }
}

fn member(name: &str, role: Role) -> Option<Member> {
    let name = NodeName::new(name).unwrap();
    Some(Member { name, role })
}

fn user(uid: u32) -> LocalUser {
    LocalUser {
        uid: Uid(uid),
        gid: Gid(uid),
        pid: 7,
    }
}

impl Cluster {
    async fn through(&self, preface: &Preface) -> UnixStream {
        let mut stream = dial(&self.controller.dir.join("door.sock")).await;
        preface.write(&mut stream).await.unwrap();
        stream
    }

    /// A question of a user of a member's host.
    async fn ask(
        &self,
        member: Option<Member>,
        uid: u32,
        request: &Request,
    ) -> Result<Reply, Refusal> {
        let want = Want::Controller(user(uid));
        let stream = self.through(&Preface { member, want }).await;
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        let request = request.clone();
        let asked = tokio::task::spawn_blocking(move || ask_over(stream.into(), &request));
        match asked.await.unwrap() {
            Ok(reply) => Ok(reply),
            Err(CallError::Refused(refusal)) => Err(refusal),
            Err(broken) => panic!("{broken}"),
        }
    }

    async fn submit(&self, member: Option<Member>, uid: u32) -> Result<JobId, Refusal> {
        let mut spec = spec(JobKind::Alloc, 1);
        spec.name = "through".into();
        let submit = Request::Submit {
            spec: Box::new(spec),
            payload: None,
        };
        match self.ask(member, uid, &submit).await? {
            Reply::Submitted { job, .. } => Ok(job),
            other => panic!("{other:?}"),
        }
    }

    /// An agent's stream from a member's host.
    async fn agent(&self, member: Option<Member>, name: &str) -> Result<Agent, tonic::Status> {
        let preface = Preface {
            member,
            want: Want::Agent,
        };
        let stream = self.through(&preface).await;
        let connected = Agent::connect_over(stream, NO_TOKEN, hello(name)).await;
        connected.map(|(agent, _)| agent)
    }

    async fn root(&self) -> Asker {
        self.controller.client().await
    }
}

/// What only operators may.
fn operators_wish() -> Request {
    Request::Reconfigure
}

fn refusal<T>(outcome: Result<T, Refusal>) -> Option<RefusalKind> {
    outcome.err().map(|refusal| refusal.kind)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_host_speaks_for_its_users_and_operators() {
    let cluster = cluster();
    let login = || member("login1", Role::Login);
    let job = cluster.submit(login(), ALICE).await.unwrap();
    let root = cluster.root().await;
    let view = root.job(job).await;
    assert_eq!(
        (view.spec.owner.uid, view.spec.owner.gid),
        (Uid(ALICE), Gid(ALICE)),
        "whatever the submission says"
    );
    assert!(
        cluster
            .ask(login(), OPERATOR, &operators_wish())
            .await
            .is_ok()
    );
    let not_alice = cluster.ask(login(), ALICE, &operators_wish()).await;
    assert_eq!(refusal(not_alice), Some(RefusalKind::AccessDenied));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_speaks_for_owners_of_its_jobs_and_for_no_operator() {
    let cluster = cluster();
    let root = cluster.root().await;
    let mut agent = cluster.agent(member("n1", Role::Node), "n1").await.unwrap();
    let (n1, n2) = (|| member("n1", Role::Node), || member("n2", Role::Node));
    let stranger = cluster.submit(n1(), ALICE).await;
    let said = stranger.clone().unwrap_err().text;
    assert_eq!(
        said,
        format!(
            "user {ALICE} has no job on node n1, and a node speaks for owners of its jobs only"
        )
    );
    let mut jobs = Vec::new();
    for uid in [ALICE, OPERATOR, 0] {
        let job = cluster
            .submit(member("login1", Role::Login), uid)
            .await
            .unwrap();
        root.state_until(job, JobState::Running).await;
        jobs.push(job);
    }
    assert!(matches!(agent.order().await, ToAgent::Assign { .. }));
    let second = cluster.submit(n1(), ALICE).await.unwrap();
    assert_eq!(
        refusal(cluster.submit(n2(), ALICE).await),
        Some(RefusalKind::AccessDenied),
        "another node"
    );
    assert_eq!(
        refusal(cluster.submit(n1(), 0).await),
        Some(RefusalKind::AccessDenied),
        "root, who has a job there too"
    );
    let wish = cluster.ask(n1(), OPERATOR, &operators_wish()).await;
    assert_eq!(
        refusal(wish),
        Some(RefusalKind::AccessDenied),
        "an operator, who has one"
    );
    for job in [jobs[0], second] {
        assert_eq!(root.cancel(job).await, None);
        root.state_until(job, JobState::Cancelled).await;
    }
    assert_eq!(
        refusal(cluster.submit(n1(), ALICE).await),
        Some(RefusalKind::AccessDenied),
        "it is over"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_greets_as_the_member_that_its_key_says() {
    let cluster = cluster();
    assert!(cluster.agent(member("n1", Role::Node), "n1").await.is_ok());
    for (from, role) in [
        ("n2", Role::Node),
        ("n1", Role::Login),
        ("n1", Role::Controller),
    ] {
        let status = cluster.agent(member(from, role), "n1").await.err().unwrap();
        assert_eq!(
            status.code(),
            tonic::Code::Unauthenticated,
            "{from} {role:?}"
        );
        assert_eq!(
            status.message(),
            format!("member {from} of the mesh is not node n1")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_say_who_it_is_is_closed() {
    let cluster = cluster();
    let socket = cluster.controller.dir.join("door.sock");
    let mut closed = vec![
        cluster
            .through(&Preface {
                member: None,
                want: Want::Agent,
            })
            .await,
        cluster
            .through(&Preface {
                member: None,
                want: Want::Controller(user(0)),
            })
            .await,
        cluster
            .through(&Preface {
                member: member("n1", Role::Node),
                want: Want::Step(user(ALICE)),
            })
            .await,
    ];
    let mut garbage = dial(&socket).await;
    garbage.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    closed.push(garbage);
    for stream in closed {
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let end = tokio::task::spawn_blocking(move || (&stream).read(&mut [0; 16]));
        // It may be reset: what was written was not read to its end.
        assert!(matches!(end.await.unwrap(), Ok(0) | Err(_)));
    }
    as_user(&cluster.controller, ALICE, |_| async {
        let denied = UnixStream::connect(&socket).await.unwrap_err();
        assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
    });
}
