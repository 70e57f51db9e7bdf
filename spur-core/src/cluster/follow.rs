//! What an event means to jobs that it does not name: those that wait for others, and tasks of an array of which only so many may run
//! at once. It follows from the state alone, so nothing of it is logged.

use super::Cluster;
use super::end::Ending;
use crate::effect::{Effect, Effects};
use crate::id::{JobId, Uid};
use crate::job::Job;
use crate::job::array::TaskSet;
use crate::job::spec::JobSpec;
use crate::job::state::{Cause, ExitStatus, JobState, Reason};
use crate::slurm::dependency::{self, After, Dependency, Of, Term};
use crate::slurm::mail::Occasion;
use crate::time::Millis;
use std::collections::BTreeSet;

/// How far what a job waits for has come.
enum Fate {
    Waits,
    /// It has started, or ended and is not cleaned up, since then.
    Started(Millis),
    /// It is over; whether it completed with success, and when it started.
    Over(bool, Millis),
    /// It is forgotten: it was seen to end before, or was long over when it was named.
    Gone,
}

/// What that means to a term.
enum Verdict {
    /// Fulfilled; the job may start from then on.
    Met(Millis),
    Waits,
    Failed,
}

/// What a waiting job still waits for.
struct Waiting {
    depends: Dependency,
    ready: Option<TaskSet>,
    from: Millis,
    full: bool,
}

impl Cluster {
    /// Brings all jobs up to date that have to do with those an event touched. Ends, because each round goes on from what changed in
    /// the one before, and nothing changes back.
    pub(super) fn follow(&mut self, at: Millis, fx: &mut Effects) {
        let mut fresh = fx.touched_jobs.clone();
        self.begin_without(&fresh, fx);
        while !fresh.is_empty() {
            let mut followers = BTreeSet::new();
            for id in &fresh {
                self.note_task(*id, fx);
                self.followers(*id, &mut followers);
            }
            let mut changed = BTreeSet::new();
            for id in followers {
                if self.refresh(at, id, fx) {
                    // Its other components may have ended with it.
                    changed.extend(self.together(id));
                }
            }
            fx.touched_jobs.extend(&changed);
            self.reindex_jobs(&changed);
            fresh = changed;
        }
    }

    /// Notes in its array what became of a task.
    fn note_task(&mut self, id: JobId, fx: &mut Effects) {
        let Some((job, part)) = self
            .jobs
            .get(&id)
            .and_then(|job| Some((job, job.array.as_ref()?)))
        else {
            return;
        };
        let Some(array) = self.arrays.get_mut(&part.view.job) else {
            return;
        };
        let over = is_over(job);
        let (ok, all) = (job.state == JobState::Completed, &part.view);
        let (before, was_over) = (array.ended.len(), array.is_over());
        let mark = |set: &mut TaskSet, on: bool| match (all.task, on) {
            (Some(task), true) => set.insert(task),
            (Some(task), false) => set.remove(task),
            (None, true) => set.extend(&all.tasks),
            (None, false) if set.intersects(&all.tasks) => *set = set.without(&all.tasks),
            (None, false) => {}
        };
        mark(&mut array.ended, over);
        mark(&mut array.failed, over && !ok);
        if over && array.ended.len() != before {
            if !job.spec.extras().mail_type.is_empty() {
                let raw = job.exit.raw();
                let (least, most) = array.exits.unwrap_or((raw, raw));
                array.exits = Some((least.min(raw), most.max(raw)));
            }
            array.worst = array.worst.worse(job.exit);
            fx.effects.push(Effect::Notify { job: all.job });
            if array.is_over() && !was_over {
                self.tell_array_over(id, fx);
            }
        }
    }

    /// Waiting jobs to which it may matter what became of this one.
    fn followers(&self, id: JobId, who: &mut BTreeSet<JobId>) {
        let ties = &self.index.ties;
        who.extend(ties.dependents(id));
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let waits = job.array.is_some() || !job.depends.is_met() || for_others(job.reason);
        if job.state == JobState::Pending && waits {
            who.insert(id);
        }
        if let Some(array) = &job.array {
            who.extend(ties.dependents(array.view.job));
            let family = ties.family(array.view.job);
            let waiting = family.map(|family| &family.waiting);
            let first = waiting.and_then(|waiting| self.jobs.get(waiting.first()?));
            let stale = |first: &Job| {
                let flag = first.array.as_ref().is_some_and(|array| array.full);
                flag != self.is_full(first)
            };
            // All that wait carry the same flag.
            if first.is_some_and(stale) {
                who.extend(waiting.into_iter().flatten());
            }
        }
        if ties.has_singles() {
            who.extend(ties.first_single(job.spec.owner.uid, &job.spec.name));
        }
    }

    /// Brings a waiting job up to date; says whether anything of it changed.
    fn refresh(&mut self, at: Millis, id: JobId, fx: &mut Effects) -> bool {
        let job = self.jobs.get(&id);
        let Some(job) = job.filter(|job| job.state == JobState::Pending) else {
            return false;
        };
        let now = self.waiting(job, at);
        let Some(job) = self.jobs.get_mut(&id) else {
            return false;
        };
        let (was_kept, was_hopeless) = (job.kept(), job.depends.is_hopeless());
        let mut changed = job.depends != now.depends;
        job.depends = now.depends;
        if let Some(array) = &mut job.array {
            changed |= array.full != now.full || array.ready != now.ready;
            (array.full, array.ready) = (now.full, now.ready);
        }
        let kept = job.kept();
        if job.depends.is_hopeless() && !was_hopeless {
            self.tell(at, id, Occasion::InvalidDepend, fx);
        }
        let Some(job) = self.jobs.get_mut(&id) else {
            return false;
        };
        if job.depends.is_hopeless() && job.spec.kill_on_invalid_dep == Some(true) {
            return self.give_up(at, id, fx);
        }
        let reason = match kept {
            Some(reason) => reason,
            None if for_others(job.reason) => Reason::None,
            None => job.reason,
        };
        if reason != job.reason {
            job.reason = reason;
            job.reason_text.clear();
            changed = true;
        }
        if was_kept.is_some() && kept.is_none() {
            fx.replan = true;
        }
        if changed && job.depends.is_met() && now.from > job.eligible {
            job.eligible = now.from;
        }
        changed
    }

    /// A job that waits in vain, and whose owner wants it gone then.
    fn give_up(&mut self, at: Millis, id: JobId, fx: &mut Effects) -> bool {
        let ending = Ending {
            cause: Cause::Cancelled,
            reason: Reason::DependencyNeverSatisfied,
            text: String::new(),
            exit: ExitStatus::default(),
        };
        let before = self.alive_together(id);
        let ended = self.end_together(at, id, &ending, None, fx).is_ok();
        self.cancelled_by(&before, Uid(0));
        ended
    }

    /// What a new or changed request waits for.
    pub(super) fn new_dependency(&self, spec: &JobSpec) -> Result<Dependency, &'static str> {
        let mut depends = dependency::parse(&spec.dependency).map_err(|_| "no dependency")?;
        for term in &mut depends.terms {
            if term.of == Of::Job && self.arrays.contains_key(&term.job) {
                term.of = Of::Array;
            }
        }
        Ok(depends)
    }

    /// Whether as many tasks of the job's array run as may.
    pub(crate) fn is_full(&self, job: &Job) -> bool {
        job.array.as_ref().is_some_and(|array| {
            let most = array.view.throttle;
            most > 0 && self.running_tasks(array.view.job) >= most
        })
    }

    fn waiting(&self, job: &Job, at: Millis) -> Waiting {
        let (mut left, mut from, mut met) = (Vec::new(), Millis(0), false);
        let mut ready: Option<TaskSet> = None;
        for term in &job.depends.terms {
            let verdict = match self.corresponding(job, term) {
                Some((verdict, tasks)) => {
                    ready = Some(ready.map_or(tasks.clone(), |ready| ready.common(&tasks)));
                    verdict
                }
                None => self.verdict(job, term, at),
            };
            match verdict {
                Verdict::Met(since) => {
                    met = true;
                    from = from.max(since).max(at);
                }
                Verdict::Waits => left.push(Term {
                    failed: false,
                    ..*term
                }),
                Verdict::Failed => left.push(Term {
                    failed: true,
                    ..*term
                }),
            }
        }
        if left.is_empty() || (job.depends.any && met) {
            (left, ready) = (Vec::new(), None);
        }
        Waiting {
            depends: Dependency {
                any: job.depends.any && !left.is_empty(),
                terms: left,
            },
            ready,
            from,
            full: self.is_full(job),
        }
    }

    /// For a record of several tasks that wait for corresponding ones: which of them may start.
    fn corresponding(&self, job: &Job, term: &Term) -> Option<(Verdict, TaskSet)> {
        let part = job.array.as_ref()?;
        if term.after != After::Corr || term.of != Of::Array || part.view.task.is_some() {
            return None;
        }
        let tasks = &part.view.tasks;
        let Some(array) = self.arrays.get(&term.job) else {
            // Forgotten: as it was seen last.
            let ready = part.ready.clone().filter(|_| term.failed);
            let verdict = if term.failed {
                Verdict::Failed
            } else {
                Verdict::Met(Millis(0))
            };
            return Some((verdict, ready.unwrap_or_else(|| tasks.clone())));
        };
        let ready = tasks.common(&array.ended.without(&array.failed));
        let verdict = if ready == *tasks {
            Verdict::Met(Millis(0))
        } else if tasks.is_subset(&array.failed) {
            Verdict::Failed
        } else {
            Verdict::Waits
        };
        Some((verdict, ready))
    }

    fn verdict(&self, job: &Job, term: &Term, at: Millis) -> Verdict {
        if term.after == After::Singleton {
            return if self.has_elder(job) {
                Verdict::Waits
            } else {
                Verdict::Met(at)
            };
        }
        let own_task = job.array.as_ref().and_then(|array| array.view.task);
        let of = match (term.after, term.of, own_task) {
            (After::Corr, Of::Array, Some(task)) => Of::Task(task),
            (_, of, _) => of,
        };
        let fate = self.fate(term.job, of, at);
        let when = |fulfilled: bool| {
            if fulfilled {
                Verdict::Met(at)
            } else {
                Verdict::Failed
            }
        };
        match (term.after, fate) {
            (_, Fate::Waits) => Verdict::Waits,
            (_, Fate::Gone) => when(!term.failed),
            (After::Start, Fate::Started(since) | Fate::Over(_, since)) => {
                Verdict::Met(since.plus_secs(u64::from(term.minutes) * 60))
            }
            (_, Fate::Started(_)) => Verdict::Waits,
            (After::Any | After::BurstBuffer | After::Singleton, Fate::Over(..)) => when(true),
            (After::Ok | After::Corr, Fate::Over(ok, _)) => when(ok),
            (After::NotOk, Fate::Over(ok, _)) => when(!ok),
        }
    }

    /// What became of a job, an array or a task.
    fn fate(&self, id: JobId, of: Of, at: Millis) -> Fate {
        match of {
            Of::Job => self.jobs.get(&id).map_or(Fate::Gone, fate_of),
            Of::Array => {
                let Some(array) = self.arrays.get(&id) else {
                    return Fate::Gone;
                };
                if array.is_over() {
                    return Fate::Over(array.failed.is_empty(), at);
                }
                let family = self.index.ties.family(id);
                let all_started = family.is_some_and(|family| family.waiting.is_empty());
                if all_started {
                    Fate::Started(at)
                } else {
                    Fate::Waits
                }
            }
            Of::Task(task) => {
                let Some(array) = self.arrays.get(&id) else {
                    return Fate::Gone;
                };
                if array.ended.contains(task) {
                    return Fate::Over(!array.failed.contains(task), at);
                }
                let record = |id| self.jobs.get(&id);
                let mut records = self.members(id).filter_map(record);
                let is_it = |job: &&Job| {
                    let part = job.array.as_ref();
                    part.is_some_and(|part| part.view.task == Some(task))
                };
                records.find(is_it).map_or(Fate::Waits, fate_of)
            }
        }
    }

    /// Whether an earlier job of the same user and name is left, apart from tasks of the same array.
    fn has_elder(&self, job: &Job) -> bool {
        let array = |job: &Job| job.array.as_ref().map(|array| array.view.job);
        let own = array(job);
        let elder = |other: &Job| {
            other.id < job.id
                && other.spec.owner.uid == job.spec.owner.uid
                && other.spec.name == job.spec.name
                && (own.is_none() || array(other) != own)
        };
        self.pending().any(elder) || self.running().any(elder)
    }

    /// A waiting job whose dependency is hopeless, or which is as ready as it says: what [`crate::check`] asks.
    pub(crate) fn follows_truly(&self, job: &Job) -> bool {
        let full = job.array.as_ref().is_some_and(|array| array.full);
        job.state != JobState::Pending || full == self.is_full(job)
    }
}

/// Whether that means waiting for other jobs.
fn for_others(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Dependency | Reason::DependencyNeverSatisfied | Reason::JobArrayTaskLimit
    )
}

fn is_over(job: &Job) -> bool {
    job.state.is_terminal() && job.leftovers.is_empty()
}

fn fate_of(job: &Job) -> Fate {
    let since = job.started.or(job.ended);
    match since {
        Some(since) if is_over(job) => Fate::Over(job.state == JobState::Completed, since),
        Some(since) => Fate::Started(since),
        None => Fate::Waits,
    }
}
