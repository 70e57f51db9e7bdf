//! Steps that wait for others of their job. The clock stands still: nothing here may come by trying again later.

use super::*;
use spur_core::agent::order::Report;
use spur_core::id::{Generation, NodeId};
use spur_core::job::change::JobAct;
use spur_core::job::state::ExitStatus;
use spur_core::job::step::Sharing;

/// A running allocation of all four CPUs of a node; steps in it, each with so many CPUs of its own.
struct Allocation {
    bench: Bench,
    job: JobId,
    node: NodeId,
    generation: Generation,
    reports: AtomicU64,
    begun: Instant,
    _orders: mpsc::Receiver<ToAgent>,
    _client: oneshot::Receiver<Answer>,
}

type Waiting = oneshot::Receiver<Answer>;

impl Allocation {
    async fn start(dir: &Path) -> Self {
        let bench = Bench::start(dir);
        let mut orders = bench.connect("n1").await;
        let Some(ToAgent::Welcome { node, .. }) = orders.recv().await else {
            panic!("no welcome")
        };
        let job = bench.submit(JobKind::Alloc, 4).await.unwrap();
        let (_, client) = bench.ask(Await::End(job)).await;
        let allocated = bench.answer(Await::Allocation(job)).await;
        assert!(matches!(allocated, Ok(Reply::Allocated { .. })));
        let Some(ToAgent::Assign(order)) = orders.recv().await else {
            panic!("not assigned")
        };
        Self {
            begun: Instant::now(),
            bench,
            job,
            node,
            generation: order.generation,
            reports: AtomicU64::new(1),
            _orders: orders,
            _client: client,
        }
    }

    fn asked(&self, tasks: u32, patient: bool) -> Asked {
        let spec = StepSpec {
            tasks,
            cpus_per_task: 1,
            sharing: Sharing::Nothing,
            patient,
            ..step()
        };
        Asked::One(self.job, Box::new(spec))
    }

    /// Asks for a step that is to wait, and makes sure that it does.
    async fn waits(&self, tasks: u32) -> Waiting {
        self.call(tasks).await.1
    }

    /// The same, with the number of the call.
    async fn call(&self, tasks: u32) -> (u64, Waiting) {
        let (call, mut answer) = self.bench.ask(Await::Step(self.asked(tasks, true))).await;
        self.bench.flush().await;
        assert!(answer.try_recv().is_err(), "answered at once");
        (call, answer)
    }

    async fn at_once(&self, tasks: u32) -> Result<u32, RefusalKind> {
        number(self.bench.answer(Act::Step(self.asked(tasks, false))).await)
    }

    /// The node says that a step has ended; returns before that is taken.
    async fn ends(&self, step: u32) {
        let report = Report::StepEnded {
            job: self.job,
            step: StepKind::Numbered(step),
            generation: self.generation,
            exit: ExitStatus::default(),
            oom: false,
        };
        let said = AgentInput::Said {
            node: self.node,
            session: 1,
            word: AgentWord::Report {
                number: self.reports.fetch_add(1, Ordering::SeqCst),
                report,
            },
        };
        self.bench.inbox.send(Input::Agent(said)).await.unwrap();
    }

    async fn done(self) {
        assert_eq!(self.begun.elapsed(), Duration::ZERO, "time went by");
        self.bench.stop().await;
    }
}

fn number(answer: Answer) -> Result<u32, RefusalKind> {
    match answer {
        Ok(Reply::Granted(grant)) => match grant.step.step {
            StepKind::Numbered(number) => Ok(number),
            StepKind::Batch => panic!("{grant:?}"),
        },
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal.kind),
    }
}

#[tokio::test(start_paused = true)]
async fn steps_that_wait_start_when_another_ends_in_the_order_in_which_they_came() {
    let dir = tempfile::tempdir().unwrap();
    let at = Allocation::start(dir.path()).await;
    assert_eq!(at.at_once(4).await, Ok(0));
    let (first, mut all, second) = (at.waits(2).await, at.waits(4).await, at.waits(2).await);
    assert_eq!(at.at_once(1).await, Err(RefusalKind::NodesBusy));
    at.ends(0).await;
    assert_eq!(number(first.await.unwrap()), Ok(1));
    assert_eq!(
        number(second.await.unwrap()),
        Ok(2),
        "there is room for it besides"
    );
    at.ends(1).await;
    at.bench.flush().await;
    assert!(
        all.try_recv().is_err(),
        "there is room for a part of it only"
    );
    // The end of the other and one that asks now, in one turn: who waited comes first.
    at.ends(2).await;
    let (_, late) = at.bench.ask(Act::Step(at.asked(4, false))).await;
    assert_eq!(number(late.await.unwrap()), Err(RefusalKind::NodesBusy));
    assert_eq!(number(all.await.unwrap()), Ok(3));
    // One end for each: whoever waits longest.
    let mut queue = Vec::new();
    for _ in 0..5 {
        queue.push(at.waits(4).await);
    }
    for (before, waiting) in (3..).zip(queue) {
        at.ends(before).await;
        assert_eq!(number(waiting.await.unwrap()), Ok(before + 1));
    }
    at.done().await;
}

#[tokio::test(start_paused = true)]
async fn a_step_that_waits_hears_of_the_end_of_its_job_and_waits_while_that_is_suspended() {
    let dir = tempfile::tempdir().unwrap();
    let at = Allocation::start(dir.path()).await;
    assert_eq!(at.at_once(4).await, Ok(0));
    let (call, gone) = at.call(4).await;
    let (stays, last) = (at.waits(4).await, at.waits(4).await);
    let targets = spur_core::slurm::array::targets(&at.job.to_string()).unwrap();
    let control = async |act| {
        let act = Act::Control(targets.clone(), act);
        at.bench.ask_as(act, true).await.1.await.unwrap().unwrap();
    };
    control(JobAct::Suspend).await;
    at.ends(0).await;
    at.bench.flush().await;
    // Whoever goes away is not waited for, and takes nothing.
    drop(gone);
    let away = Input::CallGone { call };
    at.bench.inbox.send(away).await.unwrap();
    control(JobAct::Resume).await;
    assert_eq!(number(stays.await.unwrap()), Ok(1));
    let end = Act::Finish(at.job, ExitStatus::default());
    at.bench.answer(end).await.unwrap();
    assert_eq!(number(last.await.unwrap()), Err(RefusalKind::AlreadyDone));
    at.done().await;
}
