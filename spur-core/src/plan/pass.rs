//! One pass: every job that is worth a look, in order; what starts, what devices are kept for, and why the others wait.

mod gang;
mod kinds;
mod limits;
mod tell;

use super::ask::Ask;
use super::bars;
use super::bits::Bits;
use super::caps::Cap;
use super::class::ClassId;
use super::filter::Features;
use super::fit;
use super::guards::Guards;
use super::kind::{Kind, Set};
use super::licenses::Free;
use super::order::{Line, Lines};
use super::outlook::{Amount, Outlook, Pool, Reserved};
use super::policy::{self, Claim, Key};
use super::reserve::{Reserving, Wanted, end_of};
use super::rooms::Rooms;
use super::search::{self, Choice, Holes, Judge, Sought};
use super::tasks::Tasks;
use super::wait::Wait;
use super::{Budget, Placement, Plan};
use crate::cluster::{Cluster, MOST_PARTITIONS};
use crate::id::JobId;
use crate::job::state::Reason;

use crate::resources::NodeShare;
use crate::time::{Millis, TimeLimit};
use limits::Tried;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// What is known of a partition in this pass.
#[derive(Default)]
struct Queueing {
    members: Option<Rc<Bits>>,
    /// What its jobs may have of a node together, if that is bounded.
    cap: Option<Cap>,
    /// Whether a job waits for resources at its head.
    headed: bool,
    reserved: policy::Reserved,
}

/// What comes of looking at a job.
enum Verdict {
    /// It starts; a heterogeneous job with each of its components.
    Starts(Vec<Placement>),
    /// As many tasks of its array run now as may.
    Passed,
    /// It waits, and says so; whether the next job of its bucket is worth a look.
    Waits(Option<Wait>, bool),
    /// All jobs of its bucket wait for this reason.
    Barred(Wait),
}

/// What became of a job that wants devices kept.
enum Kept {
    Nothing,
    Later,
    Now(Vec<NodeShare>),
}

/// See the module.
pub(super) struct Pass<'a> {
    cluster: &'a Cluster,
    at: Millis,
    budget: Budget,
    rooms: Rooms<'a>,
    judge: Judge,
    reserving: Reserving,
    guards: Guards<'a>,
    /// By class, once it was looked at; the error is why all its jobs wait.
    kinds: Vec<Option<Result<Kind<'a>, Wait>>>,
    /// By position.
    partitions: Vec<Queueing>,
    /// By line, then by set of nodes.
    holes: Vec<Vec<Holes>>,
    features: Option<Features<'a>>,
    reserved: BTreeMap<JobId, Reserved>,
    licenses: Free,
    tasks: Tasks,
    plan: Plan,
}

/// A bucket that a pass has come to, for what its jobs say.
#[derive(Clone, Default)]
struct Spoken {
    /// The first job that waits.
    from: Option<Key>,
    /// A job that says something of its own.
    apart: Option<JobId>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(cluster: &'a Cluster, at: Millis, budget: Budget) -> Self {
        let rooms = Rooms::now(cluster, at);
        let classes = cluster.queue().classes.table_len();
        Self {
            cluster,
            at,
            budget,
            judge: Judge::of(cluster, &rooms),
            reserving: Reserving::new(rooms.len(), classes),
            guards: Guards::of(cluster, &rooms, at),
            rooms,
            kinds: std::iter::repeat_with(|| None).take(classes).collect(),
            partitions: cluster
                .partitions
                .iter()
                .map(|_| Queueing::default())
                .collect(),
            holes: Vec::new(),
            features: None,
            reserved: BTreeMap::new(),
            licenses: Free::of(cluster),
            tasks: Tasks::default(),
            plan: Plan::default(),
        }
    }

    /// Looks at jobs in order until none is worth a look.
    pub(super) fn run(mut self) -> Plan {
        let mut lines = Lines::of(self.cluster, self.at);
        let mut spoken = vec![Spoken::default(); lines.all().len()];
        self.holes = std::iter::repeat_with(Vec::new)
            .take(spoken.len())
            .collect();
        let mut looked_at = 0;
        while let Some((key, number)) = lines.pop() {
            let placed = u32::try_from(self.plan.placements.len()).unwrap_or(u32::MAX);
            if looked_at >= self.budget.jobs || placed >= self.budget.placements {
                self.plan.cut_short = true;
                break;
            }
            looked_at += 1;
            let Some(line) = lines.all().get(number) else {
                continue;
            };
            let mut wait = Wait::bare(Reason::Priority);
            let mut more = match self.consider(key, (number, line)) {
                Verdict::Starts(placed) => {
                    self.plan.placements.extend(placed);
                    if self.tasks.may_go_on(self.cluster, key.job) {
                        lines.again(key, number);
                        continue;
                    }
                    true
                }
                Verdict::Passed => true,
                Verdict::Waits(own, more) => {
                    let here = &mut spoken[number];
                    here.from.get_or_insert(key);
                    if let Some(own) = own {
                        here.apart = Some(key.job);
                        self.tell_one(key.job, &own);
                    }
                    more
                }
                Verdict::Barred(why) => {
                    spoken[number].from.get_or_insert(key);
                    wait = why;
                    false
                }
            };
            more = more && lines.go_on(number);
            if let (false, Some(line)) = (more, lines.all().get(number)) {
                self.tell(line, &spoken[number], &wait);
            }
        }
        if !self.plan.cut_short {
            self.tell_dated(lines.all());
        }
        self.plan.outlook = Arc::new(Outlook {
            at: self.at,
            pools: self.pools(),
            reserved: self.reserved,
        });
        self.plan
    }

    /// Partitions in which jobs wait, summed up.
    fn pools(&self) -> BTreeMap<String, (Pool, u32)> {
        let mut pools = BTreeMap::new();
        for (partition, at) in self.cluster.partitions.iter().zip(0..) {
            let members = self
                .partitions
                .get(at)
                .and_then(|queueing| queueing.members.as_ref());
            let (Some(flow), Some(members)) = (self.cluster.flow(at), members) else {
                continue;
            };
            let (mut capacity, mut free) = (Amount::default(), Amount::default());
            for slot in members.iter().filter_map(|at| self.rooms.slots.get(at)) {
                capacity.add(Amount {
                    gpus: u64::from(slot.shape.all_gpus().count_ones()),
                    cpus: u64::from(slot.shape.cpus),
                });
                free.add(Amount {
                    gpus: u64::from(slot.free.gpus.count_ones()),
                    cpus: u64::from(slot.cpus()),
                });
            }
            let pool = Pool::of((self.at, capacity, free), flow.ends(), flow.waiting());
            pools.insert(partition.name.clone(), (pool, partition.priority_tier));
        }
        pools
    }

    fn consider(&mut self, key: Key, (number, line): (usize, &Line<'a>)) -> Verdict {
        if self.tasks.is_full(self.cluster, key.job) {
            return Verdict::Passed;
        }
        let (class, limit) = (line.at.class, line.at.limit);
        let leads = self.cluster.queue().classes.get(class);
        if leads.is_some_and(|class| class.leads.is_some()) {
            return self.consider_all(key);
        }
        let verdict = self.with_kind(class, |pass, kind| {
            pass.decide(key, number, (kind, class.position(), limit))
        });
        verdict.unwrap_or_else(Verdict::Barred)
    }

    /// Does something with what is known of a class, or says why all its jobs wait.
    fn with_kind<T>(
        &mut self,
        class: ClassId,
        act: impl FnOnce(&mut Self, &mut Kind<'a>) -> T,
    ) -> Result<T, Wait> {
        let position = class.position();
        if self.kinds.get(position).is_some_and(Option::is_none) {
            self.kinds[position] = Some(self.kind(class));
        }
        let Some(Some(kind)) = self.kinds.get_mut(position).map(Option::take) else {
            return Err(Wait::bare(Reason::None));
        };
        let (done, kind) = match kind {
            Err(wait) => (Err(wait.clone()), Err(wait)),
            Ok(mut kind) => (Ok(act(self, &mut kind)), Ok(kind)),
        };
        self.kinds[position] = Some(kind);
        done
    }

    /// What a job of a class asks for, until when it would run, and the nodes that reservations keep from it; or what bars it.
    fn prepared(
        &self,
        kind: &Kind<'a>,
        limit: TimeLimit,
    ) -> Result<(Ask<'a>, Millis, Option<Bits>), Wait> {
        let partition = self.cluster.partitions.get(kind.partition);
        let partition = partition.ok_or_else(|| Wait::bare(Reason::None))?;
        bars::of_job(limit, kind.class.size, partition)?;
        let ask = kind.class.ask().within(partition);
        let until = self.until(limit);
        let barred = self.guards.barred(&kind.class.reservation, until);
        if let Some(barred) = &barred
            && kind.is_barred(barred, ask.nodes_min)
        {
            return Err(self.guards.wait(until));
        }
        if kind.has_too_few(ask.nodes_min) {
            let ready = self.members_len(kind.partition);
            return Err(Wait::for_room(&ask, ready));
        }
        Ok((ask, until, barred))
    }

    fn decide(
        &mut self,
        key: Key,
        number: usize,
        (kind, position, limit): (&mut Kind<'a>, usize, TimeLimit),
    ) -> Verdict {
        let job = key.job;
        let waiting = self.cluster.jobs.get(&job);
        let licensed = self.licenses.check(&kind.class.licenses, waiting, self.at);
        if let Err(wait) = licensed {
            return Verdict::Barred(wait);
        }
        let (longest, least) = self.limits(kind, limit);
        let starts = |pass: &mut Self, kind: &Kind<'_>, with, shares| {
            pass.licenses.take(&kind.class.licenses);
            Verdict::Starts(vec![Placement {
                job,
                shares,
                backfilled: pass.is_headed(kind.partition),
                time_limit: (with != limit).then_some(with),
            }])
        };
        let first = self.try_limit((job, Some(number)), kind, longest);
        let tried = match first {
            Ok(Tried::Fits(_)) => first,
            Ok(Tried::Full(..)) | Err(_) if least < longest => {
                self.try_limit((job, None), kind, least)
            }
            Ok(Tried::Full(..)) | Err(_) => first,
        };
        let (ask, barred) = match tried {
            Err(wait) => return Verdict::Barred(wait),
            Ok(Tried::Full(ask, barred)) => (ask, barred),
            Ok(Tried::Fits(found)) => {
                let (with, shares) = self.stretch(job, kind, (found, longest));
                self.take((kind.partition, self.until(with)), &shares);
                return starts(self, kind, with, shares);
            }
        };
        let kept = self.keep(key, (kind, position, least), (ask, barred.as_ref()));
        if let Kept::Now(shares) = kept {
            return starts(self, kind, least, shares);
        }
        let own = self.heads(kind.partition, &ask);
        Verdict::Waits(own, matches!(kept, Kept::Later))
    }

    /// Why the first job of its partition waits for which there is no room; `None` for those behind it.
    fn heads(&mut self, partition: usize, ask: &Ask<'_>) -> Option<Wait> {
        let queueing = self.partitions.get_mut(partition)?;
        let first = !std::mem::replace(&mut queueing.headed, true);
        let ready = queueing.members.as_ref().map_or(0, |members| members.len());
        first.then(|| Wait::for_room(ask, ready))
    }

    /// Whether the policy lets devices be kept for a job; then what it had granted in the partition before.
    fn granted(&mut self, partition: usize, claim: Claim) -> Option<policy::Reserved> {
        let reserved = self.reserved.len();
        let queueing = self.partitions.get_mut(partition)?;
        let before = queueing.reserved;
        let granted = reserved < self.budget.reservations as usize
            && match self.budget.depth {
                Some(depth) => reserved < depth as usize,
                None => !queueing.reserved.is_full() && queueing.reserved.grants(claim, self.at),
            };
        granted.then_some(before)
    }

    /// Whether a job waits for resources at the head of a partition.
    fn is_headed(&self, partition: usize) -> bool {
        let queueing = self.partitions.get(partition);
        queueing.is_some_and(|queueing| queueing.headed)
    }

    /// How many nodes of a partition take jobs.
    fn members_len(&self, partition: usize) -> usize {
        let members = self
            .partitions
            .get(partition)
            .map(|queueing| &queueing.members);
        members
            .and_then(Option::as_ref)
            .map_or(0, |members| members.len())
    }

    /// Keeps devices for a job for which no place was found, if the policy grants it and there are such. If that is so from now on,
    /// it has them: a promise whose time has come is kept.
    fn keep(
        &mut self,
        key: Key,
        (kind, position, limit): (&mut Kind<'a>, usize, TimeLimit),
        (ask, barred): (Ask<'_>, Option<&Bits>),
    ) -> Kept {
        let claim = Claim {
            nodes: ask.nodes_min,
            due: key.due,
        };
        let Some(before) = self.granted(kind.partition, claim) else {
            return Kept::Nothing;
        };
        let Some(queueing) = self.partitions.get_mut(kind.partition) else {
            return Kept::Nothing;
        };
        let cap = queueing.cap.as_ref();
        let place = kind.place_for_later((&self.rooms, cap), &ask, barred);
        let Some((allowed, required)) = place else {
            queueing.reserved = before;
            return Kept::Nothing;
        };
        let wanted = Wanted {
            class: position,
            partition: kind.partition,
            ask,
            allowed: &allowed,
            required: &required,
            limit,
            patient: policy::is_aged(self.cluster.jobs.get(&key.job), self.at),
            cap,
        };
        let Some((start, shares)) = self.reserving.reserve(&mut self.rooms, &wanted) else {
            queueing.reserved.fails(before);
            return Kept::Nothing;
        };
        let until = end_of(start, limit);
        if start <= self.at {
            queueing.reserved = before;
            for share in &shares {
                self.rooms.unbook(start, share);
            }
            self.take((kind.partition, until), &shares);
            return Kept::Now(shares);
        }
        if let Some(cap) = &mut queueing.cap {
            cap.count(&self.rooms, &shares, (start, until));
        }
        self.reserved.insert(key.job, Reserved { start, shares });
        Kept::Later
    }

    /// Takes a job's shares out of what is free, until it ends by its limit.
    fn take(&mut self, (partition, until): (usize, Millis), shares: &[NodeShare]) {
        let queueing = self.partitions.get_mut(partition);
        if let Some(cap) = queueing.and_then(|queueing| queueing.cap.as_mut()) {
            cap.count(&self.rooms, shares, (self.at, until));
        }
        for share in shares {
            self.rooms.take(share, until);
        }
    }

    /// A job's shares, from the first set of nodes that holds it.
    fn place(
        &self,
        holes: &mut Vec<Holes>,
        kind: &mut Kind<'a>,
        (ask, until): (&Ask<'_>, Millis),
        barred: Option<&Bits>,
    ) -> Option<Vec<NodeShare>> {
        holes.resize_with(kind.sets.len(), Holes::default);
        let partition = if kind.partition < MOST_PARTITIONS {
            1 << kind.partition
        } else {
            u128::MAX
        };
        let (rooms, judge) = (&self.rooms, &self.judge);
        let queueing = self.partitions.get(kind.partition)?;
        let cap = queueing.cap.as_ref();
        let (named, counts) = (&kind.required, &kind.counts);
        let mut sets = kind.sets.iter_mut().zip(holes);
        let parts = sets.find_map(|(set, holes)| {
            let whole = set.without(barred);
            let required = set.required((rooms, cap), (named, counts), (ask, until));
            let parts = required.and_then(|required| {
                let place = (partition, until, required.as_slice());
                pick((rooms, judge, cap), (set, holes), ask, place)
            });
            set.restore(whole);
            parts
        })?;
        Some(self.rooms.shares(&parts, ask, until))
    }

    /// When a job that starts now reaches its limit.
    fn until(&self, limit: TimeLimit) -> Millis {
        end_of(self.at, limit)
    }
}

/// The parts of a job on nodes of a set, some of which it must get.
fn pick(
    (rooms, judge, cap): (&Rooms<'_>, &Judge, Option<&Cap>),
    (set, holes): (&mut Set, &mut Holes),
    ask: &Ask<'_>,
    (partition, until, required): (u128, Millis, &[usize]),
) -> Option<Vec<fit::Part>> {
    let nodes = ask.nodes_min.max(u32::try_from(required.len()).ok()?);
    let sought = Sought {
        ask,
        need: ask.even_part(nodes),
        allowed: &set.allowed,
        all: set.all,
        partition,
        until,
        cap,
    };
    if nodes == 1 && required.is_empty() && !ask.widen {
        let need = sought.need;
        let found = search::best(rooms, judge, (&mut set.known, holes), sought);
        if let Some(slot) = found {
            return Some(vec![fit::Part { slot, need }]);
        }
        if ask.nodes_max == 1 {
            return None;
        }
    }
    let choice = Choice::new(rooms, judge, (&mut set.known, holes), (sought, required));
    fit::pick(&choice, ask)
}
