//! Heterogeneous jobs in a pass: every component gets a place now or none does, and what is kept for one of them is kept for all from
//! the same moment on.

use super::{Pass, Verdict};
use crate::id::JobId;
use crate::job::licenses::Licenses;
use crate::job::state::Reason;
use crate::plan::Placement;
use crate::plan::bits::Bits;
use crate::plan::class::ClassId;
use crate::plan::kind::Kind;
use crate::plan::licenses::Free;
use crate::plan::outlook::Reserved;
use crate::plan::policy::{self, Claim, Key};
use crate::plan::reserve::{Wanted, end_of};
use crate::plan::timeline::Booked;
use crate::plan::wait::Wait;
use crate::resources::NodeShare;
use crate::time::{Millis, TimeLimit};

/// A component.
#[derive(Clone, Copy)]
struct Member {
    job: JobId,
    class: ClassId,
    limit: TimeLimit,
}

/// What is kept for a component.
struct Kept {
    member: Member,
    partition: usize,
    start: Millis,
    shares: Vec<NodeShare>,
}

impl<'a> Pass<'a> {
    /// Looks at a heterogeneous job when its leader's turn comes.
    pub(super) fn consider_all(&mut self, key: Key) -> Verdict {
        let members = self.components(key.job);
        let members = members.and_then(|members| self.unbarred(&members).map(|()| members));
        let members = match members {
            Ok(members) => members,
            Err(wait) => return self.all_wait(key, wait),
        };
        if let Some(placed) = self.place_all(&members) {
            return Verdict::Starts(placed);
        }
        let wait = self.room_for(&members);
        self.keep_all(key, &members);
        self.all_wait(key, wait)
    }

    /// Nothing bars a component, however much is free. What is asked before any has a place says the same in every pass.
    fn unbarred(&mut self, members: &[Member]) -> Result<(), Wait> {
        for member in members {
            let prepared = self.with_kind(member.class, |pass, kind| {
                let waiting = pass.cluster.jobs.get(&member.job);
                pass.licenses
                    .check(&kind.class.licenses, waiting, pass.at)?;
                pass.prepared(kind, member.limit).map(drop)
            });
            prepared??;
        }
        Ok(())
    }

    /// What the first job of its partition says for which there is no room, and what the others say.
    fn room_for(&mut self, members: &[Member]) -> Wait {
        let leader = members.first();
        let partition =
            leader.and_then(|leader| self.with_kind(leader.class, |_, kind| kind.partition).ok());
        let queueing = partition.and_then(|at| self.partitions.get_mut(at));
        let first = queueing.is_some_and(|queueing| !std::mem::replace(&mut queueing.headed, true));
        if !first {
            return Wait::bare(Reason::Priority);
        }
        let count = members.len();
        Wait {
            reason: Reason::Resources,
            text: format!("waits for room for its {count} components at once").into(),
        }
    }

    fn all_wait(&mut self, key: Key, wait: Wait) -> Verdict {
        self.tell_others(key.job, &wait);
        Verdict::Waits(Some(wait), false)
    }

    /// The components, unless something other than room keeps one of them waiting.
    fn components(&self, leader: JobId) -> Result<Vec<Member>, Wait> {
        let queue = self.cluster.queue();
        let mut members = Vec::new();
        for id in self.cluster.together(leader) {
            let begun = |id| {
                let job = self.cluster.jobs.get(&id);
                job.is_some_and(|job| job.eligible <= self.at)
            };
            let Some(bucket) = queue.bucket_of(id) else {
                return Err(Wait {
                    reason: Reason::Priority,
                    text: format!("its component {id} is held or waits for other jobs").into(),
                });
            };
            if !begun(id) {
                return Err(Wait::bare(Reason::BeginTime));
            }
            members.push(Member {
                job: id,
                class: bucket.class,
                limit: bucket.limit,
            });
        }
        Ok(members)
    }

    /// Places for all, taken out of what is free; or nothing is taken.
    fn place_all(&mut self, members: &[Member]) -> Option<Vec<Placement>> {
        let mut placed: Vec<Placement> = Vec::new();
        let mut undo = Vec::new();
        let mut used = Bits::none(self.rooms.len());
        for member in members {
            let found = self.with_kind(member.class, |pass, kind| {
                pass.place_one(*member, kind, &used)
            });
            match found.ok().flatten() {
                Some((partition, until, shares)) => {
                    let before = shares
                        .iter()
                        .filter_map(|share| self.rooms.before(share.node));
                    let before: Vec<_> = before.collect();
                    let nodes = shares.iter().map(|share| share.node);
                    nodes
                        .filter_map(|node| self.rooms.position(node))
                        .for_each(|at| used.set(at));
                    self.take((partition, until), &shares);
                    self.license(member, Free::take);
                    undo.push((partition, before));
                    let job = member.job;
                    let backfilled = self.is_headed(partition);
                    placed.push(Placement {
                        job,
                        shares,
                        backfilled,
                        time_limit: None,
                    });
                }
                None => {
                    for member in members.iter().take(placed.len()) {
                        self.license(member, Free::give_back);
                    }
                    for ((partition, before), one) in undo.into_iter().zip(placed).rev() {
                        self.uncount(partition, &one.shares);
                        before
                            .into_iter()
                            .rev()
                            .for_each(|node| self.rooms.put_back(node));
                    }
                    return None;
                }
            }
        }
        Some(placed)
    }

    /// Takes a component's licenses out of what is free, or gives them back.
    fn license(&mut self, member: &Member, act: fn(&mut Free, &Licenses)) {
        if let Some(class) = self.cluster.queue().classes.get(member.class) {
            act(&mut self.licenses, &class.licenses);
        }
    }

    /// A place for one component beside those that were taken, as in Slurm on nodes of its own if it can be; its partition, and when its
    /// limit ends it.
    fn place_one(
        &mut self,
        member: Member,
        kind: &mut Kind<'a>,
        used: &Bits,
    ) -> Option<(usize, Millis, Vec<NodeShare>)> {
        if !self.licenses.has(&kind.class.licenses) {
            return None;
        }
        let (mut ask, until, barred) = self.prepared(kind, member.limit).ok()?;
        // What was found before the first component was taken holds after it as well; what fails after it is not to be remembered.
        let failed = kind.failed_for(&mut ask, (member.job, self.at), self.cluster);
        let may = failed.is_none_or(|failed| member.limit < failed);
        if !may {
            return None;
        }
        let mut apart = used.clone();
        if let Some(barred) = &barred {
            apart.unite(barred);
        }
        let mut place = |barred| self.place(&mut Vec::new(), kind, (&ask, until), barred);
        let shares = place(Some(&apart)).or_else(|| place(barred.as_ref()))?;
        Some((kind.partition, until, shares))
    }

    fn uncount(&mut self, partition: usize, shares: &[NodeShare]) {
        let queueing = self.partitions.get_mut(partition);
        if let Some(cap) = queueing.and_then(|queueing| queueing.cap.as_mut()) {
            cap.uncount(&self.rooms, shares);
        }
    }

    fn count(&mut self, kept: &Kept) {
        let end = end_of(kept.start, kept.member.limit);
        let queueing = self.partitions.get_mut(kept.partition);
        if let Some(cap) = queueing.and_then(|queueing| queueing.cap.as_mut()) {
            cap.count(&self.rooms, &kept.shares, (kept.start, end));
        }
    }

    /// Keeps devices for all components from the first moment on at which all can start, if the policy grants it and there is one.
    fn keep_all(&mut self, key: Key, members: &[Member]) {
        let Some(leader) = members.first() else {
            return;
        };
        let nodes = members.iter().filter_map(|member| {
            let class = self.cluster.queue().classes.get(member.class)?;
            Some(class.ask().nodes_min)
        });
        let claim = Claim {
            nodes: nodes.sum(),
            due: key.due,
        };
        let Ok(partition) = self.with_kind(leader.class, |_, kind| kind.partition) else {
            return;
        };
        let Some(before) = self.granted(partition, claim) else {
            return;
        };
        let mut kept: Vec<Kept> = Vec::new();
        for member in members {
            let found = self.with_kind(member.class, |pass, kind| pass.keep_one(*member, kind));
            let Ok(Some(one)) = found else {
                for one in kept.iter().rev() {
                    self.uncount(one.partition, &one.shares);
                    self.unbook(one);
                }
                if let Some(queueing) = self.partitions.get_mut(partition) {
                    queueing.reserved.fails(before);
                }
                return;
            };
            self.count(&one);
            kept.push(one);
        }
        self.align(kept);
    }

    /// What is kept for one component beside the others.
    fn keep_one(&mut self, member: Member, kind: &mut Kind<'a>) -> Option<Kept> {
        let (mut ask, _, barred) = self.prepared(kind, member.limit).ok()?;
        // One that waited long enough for few switches takes any number.
        kind.failed_for(&mut ask, (member.job, self.at), self.cluster);
        let cap = self.partitions.get(kind.partition)?.cap.as_ref();
        let (allowed, required) =
            kind.place_for_later((&self.rooms, cap), &ask, barred.as_ref())?;
        let wanted = Wanted {
            class: member.class.position(),
            partition: kind.partition,
            ask,
            allowed: &allowed,
            required: &required,
            limit: member.limit,
            patient: policy::is_aged(self.cluster.jobs.get(&member.job), self.at),
            cap,
        };
        let (start, shares) = self.reserving.reserve(&mut self.rooms, &wanted)?;
        Some(Kept {
            member,
            partition: kind.partition,
            start,
            shares,
        })
    }

    fn unbook(&mut self, kept: &Kept) {
        self.reserving.forget(kept.member.class.position());
        for share in &kept.shares {
            self.rooms.unbook(kept.start, share);
        }
    }

    /// Has all that is kept begin when the last of it does: what is free by then only grows.
    fn align(&mut self, mut kept: Vec<Kept>) {
        let start = kept.iter().map(|one| one.start).max();
        for one in kept.iter().rev() {
            self.uncount(one.partition, &one.shares);
            self.unbook(one);
        }
        for one in &mut kept {
            one.start = start.unwrap_or(one.start);
            let end = end_of(one.start, one.member.limit);
            for share in &one.shares {
                self.rooms.book(Booked {
                    start: one.start,
                    end,
                    share: share.clone(),
                });
            }
            self.count(one);
        }
        for one in kept {
            let (start, shares) = (one.start, one.shares);
            self.reserved
                .insert(one.member.job, Reserved { start, shares });
        }
    }
}
