//! One turn of the writer: from inputs to answers, with one durable append between.

use super::agents::Admission;
use super::waits::{Answered, Wait};
use super::{Answer, Input, LETTERS_MAX, Writer};
use crate::store::Batch;
use spur_core::agent::order::ToAgent;
use spur_core::api::{Refusal, RefusalKind};
use spur_core::cluster::orders::Rolls;
use spur_core::effect::{Effect, Letter};
use spur_core::event::Event;
use spur_core::id::{JobId, NodeId, Uid};
use spur_core::job::spec::Payload;
use spur_core::manage::Change;
use spur_core::time::Millis;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// What a turn has decided and not yet told.
pub(super) struct Turn {
    /// Time of every event in it.
    pub(super) at: Millis,
    /// What must become durable.
    pub(super) batch: Batch,
    /// What the core wants done.
    pub(super) effects: Vec<Effect>,
    /// Jobs whose waiting calls may have an answer.
    pub(super) notified: BTreeSet<JobId>,
    /// Stale rows.
    pub(super) touched_jobs: BTreeSet<JobId>,
    /// Stale rows.
    pub(super) touched_nodes: BTreeSet<NodeId>,
    /// Partitions changed.
    pub(super) partitions_touched: bool,
    /// Reservations or accounts may have changed.
    pub(super) managed_touched: bool,
    /// Users whose crontab may have changed.
    pub(super) crontabs_touched: BTreeSet<Uid>,
    /// Answers to this turn's requests.
    pub(super) answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    /// Answers to calls that waited.
    pub(super) answered: Vec<Answered>,
    /// Highest report of each node in this turn.
    pub(super) acks: BTreeMap<NodeId, u64>,
    /// Signals and the like: to be sent, not logged.
    pub(super) direct: Vec<(NodeId, ToAgent)>,
    /// Agents that connected.
    pub(super) admissions: Vec<Admission>,
    /// Payloads that came in this turn, so that they need not be read back.
    pub(super) payloads: BTreeMap<JobId, Payload>,
    /// Meters that wait until their verdicts are durable.
    pub(super) verdicts: Vec<oneshot::Sender<()>>,
    /// What the orders of the turn share.
    pub(super) rolls: Rolls,
    /// Mails to send.
    pub(super) letters: Vec<Letter>,
    /// Jobs for which a program of the operator is due here.
    pub(super) hooks: Vec<JobId>,
}

impl Turn {
    fn new(at: Millis) -> Self {
        Self {
            at,
            batch: Batch::default(),
            effects: Vec::new(),
            notified: BTreeSet::new(),
            touched_jobs: BTreeSet::new(),
            touched_nodes: BTreeSet::new(),
            partitions_touched: false,
            managed_touched: false,
            crontabs_touched: BTreeSet::new(),
            answers: Vec::new(),
            answered: Vec::new(),
            acks: BTreeMap::new(),
            direct: Vec::new(),
            admissions: Vec::new(),
            payloads: BTreeMap::new(),
            verdicts: Vec::new(),
            rolls: Rolls::default(),
            letters: Vec::new(),
            hooks: Vec::new(),
        }
    }
}

impl Writer {
    /// Takes inputs, decides, makes it durable, tells.
    pub(super) fn turn(&mut self, inputs: impl Iterator<Item = Input>) {
        if !self.store_works() {
            self.refuse_all(inputs);
            return;
        }
        self.turn += 1;
        let mut turn = Turn::new(super::now().max(self.last_at));
        self.mark_lost_links(&mut turn);
        let mut busy = false;
        for input in inputs {
            busy = true;
            self.take(&mut turn, input);
        }
        self.take_due(&mut turn);
        self.plan_if_due(&mut turn, busy);
        self.settle(&mut turn);
        match self.append(&turn) {
            Ok(()) => self.tell(turn),
            Err(reason) => self.roll_back(turn, &reason),
        }
    }

    fn take(&mut self, turn: &mut Turn, input: Input) {
        match input {
            Input::Ask(ask) => self.ask(turn, *ask),
            Input::CallGone { call } => self.call_gone(turn, call),
            Input::Agent(agent) => self.agent(turn, agent),
            Input::Usage(word) => self.used(turn, word),
            Input::Hook(ended) => self.hook_ended(turn, ended),
            Input::Stop => {}
        }
    }

    /// Applies an event and keeps it for the log. An event that the core ignores is not logged; the answer says why.
    pub(super) fn propose(&mut self, turn: &mut Turn, event: Event) -> Result<(), &'static str> {
        let effects = self.cluster.apply(turn.at, &event);
        if let Some(why) = effects.ignored {
            self.counters.ignored += 1;
            tracing::debug!(why, ?event, "event ignored");
            return Err(why);
        }
        turn.partitions_touched |= matches!(
            event,
            Event::Configured { .. }
                | Event::PartitionUpdated { .. }
                | Event::Managed(Change::Partition(_) | Change::PartitionGone(_) | Change::Reset)
        );
        turn.managed_touched |= matches!(event, Event::Managed(_));
        if let Event::CrontabSet { uid, .. } = &event {
            turn.crontabs_touched.insert(*uid);
        }
        // An entry that is cancelled is taken out of its table, and its job is none of a crontab from then on.
        let touched = effects.touched_jobs.iter();
        let touched = touched.filter_map(|job| self.cluster.jobs.get(job));
        let owners = touched.map(|job| job.spec.owner.uid);
        let with_table = owners.filter(|uid| self.cluster.crontabs.contains_key(uid));
        turn.crontabs_touched.extend(with_table);
        self.counters.submitted += u64::from(matches!(event, Event::Submitted { .. }));
        self.counters.jobs_started += u64::from(matches!(event, Event::Placed { .. }));
        turn.batch.events.push((turn.at, event));
        if effects.replan {
            self.pace.want();
        }
        turn.touched_jobs.extend(effects.touched_jobs);
        turn.touched_nodes.extend(effects.touched_nodes);
        for effect in effects.effects {
            match effect {
                Effect::Notify { job } => drop(turn.notified.insert(job)),
                Effect::DropPayload { job } => turn.batch.dropped.push(job),
                Effect::Mail(letter) => turn.letters.push(*letter),
                Effect::Hook { job } => turn.hooks.push(job),
                Effect::Assign { .. }
                | Effect::Launch { .. }
                | Effect::Signal { .. }
                | Effect::Revoke { .. } => turn.effects.push(effect),
            }
        }
        Ok(())
    }

    /// [`Self::propose`] for events that the core may find stale, which is no news to anybody.
    pub(super) fn propose_quietly(&mut self, turn: &mut Turn, event: Event) {
        self.propose(turn, event).ok();
    }

    /// What time alone makes due.
    fn take_due(&mut self, turn: &mut Turn) {
        for event in self.cluster.expired(turn.at) {
            let event = self.dated(turn, event);
            self.propose_quietly(turn, event);
        }
        let now = Instant::now();
        self.end_leases(turn, now);
        self.end_immediates(turn, now);
        if self.denials_due.is_some_and(|due| due <= now) {
            self.log_denials(turn);
        }
        if self.cluster.begins_within(self.looked_at, turn.at) {
            self.pace.want();
        }
        self.looked_at = self.looked_at.max(turn.at);
    }

    fn append(&mut self, turn: &Turn) -> Result<(), String> {
        if turn.batch.is_empty() {
            return Ok(());
        }
        self.store.append(&turn.batch).map_err(|e| e.to_string())?;
        self.counters.batches += 1;
        self.counters.entries += turn.batch.events.len() as u64;
        self.last_at = turn.at;
        Ok(())
    }

    /// The turn is durable: everybody may know.
    fn tell(&mut self, mut turn: Turn) {
        self.admit(&mut turn);
        self.publish(&turn);
        self.send_effects(&mut turn);
        for (reply, answer) in turn.answers {
            drop(reply.send(answer));
        }
        for Answered { wait, answer, .. } in turn.answered {
            drop(wait.reply.send(answer));
        }
        for (node, report) in turn.acks {
            self.send(node, ToAgent::Ack { report });
        }
        for letter in turn.letters {
            self.mail(letter);
        }
        self.run_hooks(turn.hooks);
        for done in turn.verdicts {
            done.send(()).ok();
        }
    }

    /// Hands a mail over to be sent. Nobody waits for that: if too many wait already, it is dropped, with a line in the log.
    fn mail(&self, letter: Letter) {
        if let Some(letters) = &self.letters
            && let Err(TrySendError::Full(letter)) = letters.try_send(letter)
        {
            tracing::warn!(job = %letter.job, to = letter.to, "a mail is dropped: {LETTERS_MAX} wait already");
        }
    }

    /// The turn is not durable: it never was.
    fn roll_back(&mut self, turn: Turn, reason: &str) {
        tracing::error!(requests = turn.answers.len(), "turn refused: {reason}");
        self.store_failed = Some(reason.to_owned());
        match self.store.load() {
            Ok(loaded) => (self.cluster, self.last_at) = loaded.replay(),
            Err(e) => {
                self.broken = Some(format!("cannot go back to the last durable state: {e}"));
                return;
            }
        }
        self.publish_all();
        self.pace.want();
        self.look_for_hooks();
        for (reply, _) in turn.answers {
            drop(reply.send(Err(not_durable(reason))));
        }
        for Answered { job, wait, .. } in turn.answered {
            self.waits.put_back(job, wait);
        }
        for Wait { reply, .. } in self.waits.roll_back(self.turn, &self.cluster) {
            drop(reply.send(Err(not_durable(reason))));
        }
        for admission in turn.admissions {
            admission.refuse(reason);
        }
        // What these agents reported is not kept: they keep it, and say it again when they return.
        for node in turn.acks.into_keys() {
            self.links.cut(node);
        }
    }

    /// Whether the store can be written to, as far as is known; tries it if it failed before.
    fn store_works(&mut self) -> bool {
        if self.store_failed.is_none() {
            return true;
        }
        match self.store.probe() {
            Ok(()) => {
                tracing::info!("the database can be written to again");
                self.store_failed = None;
                true
            }
            Err(e) => {
                self.store_failed = Some(e.to_string());
                false
            }
        }
    }

    /// While the store fails, nothing can be promised.
    fn refuse_all(&mut self, inputs: impl Iterator<Item = Input>) {
        let reason = self.store_failed.clone().unwrap_or_default();
        for input in inputs {
            match input {
                Input::Ask(ask) => drop(ask.reply.send(Err(not_durable(&reason)))),
                Input::CallGone { call } => self.waits.remember_gone(call),
                Input::Agent(agent) => self.refuse_agent(agent, &reason),
                Input::Hook(ended) => self.run_hook_again(ended.job),
                // Dropped: the meter hears that it could not be kept, and says it again.
                Input::Usage(_) | Input::Stop => {}
            }
        }
    }
}

fn not_durable(reason: &str) -> Refusal {
    Refusal {
        kind: RefusalKind::NotDurable,
        text: reason.to_owned(),
    }
}
