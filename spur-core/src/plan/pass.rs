//! One pass: every job that is worth a look, in order; what starts, what devices are kept for, and why the others wait.

mod tell;

use super::ask::Ask;
use super::bars;
use super::bits::Bits;
use super::caps::Cap;
use super::class::{Class, ClassId};
use super::filter::{self, Features};
use super::fit;
use super::guards::Guards;
use super::kind::{Kind, Set};
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
use crate::id::{JobId, NodeId, NodeName};
use crate::job::state::Reason;

use crate::resources::NodeShare;
use crate::time::{Millis, TimeLimit};
use std::collections::{BTreeMap, BTreeSet};
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
    Starts(Vec<NodeShare>),
    /// As many tasks of its array run now as may.
    Passed,
    /// It waits, and says so; whether the next job of its bucket is worth a look.
    Waits(Option<Wait>, bool),
    /// All jobs of its bucket wait for this reason.
    Barred(Wait),
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
                Verdict::Starts(shares) => {
                    let job = key.job;
                    self.plan.placements.push(Placement { job, shares });
                    if self.tasks.may_go_on(self.cluster, job) {
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
        let position = class.position();
        if self.kinds.get(position).is_some_and(Option::is_none) {
            self.kinds[position] = Some(self.kind(class));
        }
        let Some(Some(kind)) = self.kinds.get_mut(position).map(Option::take) else {
            return Verdict::Barred(Wait::bare(Reason::None));
        };
        let (verdict, kind) = match kind {
            Err(wait) => (Verdict::Barred(wait.clone()), Err(wait)),
            Ok(mut kind) => {
                let verdict = self.decide(key, number, (&mut kind, position, limit));
                (verdict, Ok(kind))
            }
        };
        self.kinds[position] = Some(kind);
        verdict
    }

    fn decide(
        &mut self,
        key: Key,
        number: usize,
        (kind, position, limit): (&mut Kind<'a>, usize, TimeLimit),
    ) -> Verdict {
        let cluster = self.cluster;
        let Some(partition) = cluster.partitions.get(kind.partition) else {
            return Verdict::Barred(Wait::bare(Reason::None));
        };
        if let Err(wait) = bars::of_job(limit, kind.class.size, partition) {
            return Verdict::Barred(wait);
        }
        let mut ask = kind.class.ask().within(partition);
        let until = self.until(limit);
        let barred = self.guards.barred(&kind.class.reservation, until);
        if let Some(barred) = &barred
            && kind.is_barred(barred, ask.nodes_min)
        {
            return Verdict::Barred(self.guards.wait(until));
        }
        if kind.has_too_few(ask.nodes_min) {
            let ready = self.members_len(kind.partition);
            return Verdict::Barred(Wait::for_room(&ask, ready));
        }
        let failed = kind.failed_for(&mut ask, (key.job, self.at), cluster);
        if failed.is_none_or(|failed| limit < failed) {
            if let Some(shares) = self.place(number, kind, (&ask, until), barred.as_ref()) {
                return Verdict::Starts(shares);
            }
            kind.fails(&ask, limit);
        }
        let Some(queueing) = self.partitions.get_mut(kind.partition) else {
            return Verdict::Barred(Wait::bare(Reason::None));
        };
        let first = !std::mem::replace(&mut queueing.headed, true);
        let own = first.then(|| {
            let ready = queueing.members.as_ref().map_or(0, |members| members.len());
            Wait::for_room(&ask, ready)
        });
        let kept = self.keep(key, (kind, position, limit), (ask, barred.as_ref()));
        Verdict::Waits(own, kept)
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

    /// Keeps devices for a job that cannot start now, if the policy grants it and there are such; whether that is so.
    fn keep(
        &mut self,
        key: Key,
        (kind, position, limit): (&mut Kind<'a>, usize, TimeLimit),
        (ask, barred): (Ask<'_>, Option<&Bits>),
    ) -> bool {
        let Some(queueing) = self.partitions.get_mut(kind.partition) else {
            return false;
        };
        let claim = Claim {
            nodes: ask.nodes_min,
            due: key.due,
        };
        let before = queueing.reserved;
        let granted = self.reserved.len() < self.budget.reservations as usize
            && match self.budget.depth {
                Some(depth) => self.reserved.len() < depth as usize,
                None => !queueing.reserved.is_full() && queueing.reserved.grants(claim, self.at),
            };
        if !granted {
            return false;
        }
        let cap = queueing.cap.as_ref();
        let place = kind.place_for_later((&self.rooms, cap), &ask, barred);
        let Some((allowed, required)) = place else {
            queueing.reserved = before;
            return false;
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
            return false;
        };
        if let Some(cap) = &mut queueing.cap {
            cap.count(&self.rooms, &shares, (start, end_of(start, limit)));
        }
        self.reserved.insert(key.job, Reserved { start, shares });
        true
    }

    /// A job's shares, taken out of what is free, from the first set of nodes that holds it.
    fn place(
        &mut self,
        number: usize,
        kind: &mut Kind<'a>,
        (ask, until): (&Ask<'_>, Millis),
        barred: Option<&Bits>,
    ) -> Option<Vec<NodeShare>> {
        let holes = self.holes.get_mut(number)?;
        holes.resize_with(kind.sets.len(), Holes::default);
        let partition = if kind.partition < MOST_PARTITIONS {
            1 << kind.partition
        } else {
            u128::MAX
        };
        let (rooms, judge) = (&self.rooms, &self.judge);
        let queueing = self.partitions.get_mut(kind.partition)?;
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
        let shares = self.rooms.shares(&parts, ask, until);
        if let Some(cap) = &mut queueing.cap {
            cap.count(&self.rooms, &shares, (self.at, until));
        }
        for share in &shares {
            self.rooms.take(share, until);
        }
        Some(shares)
    }

    /// When a job that starts now reaches its limit.
    fn until(&self, limit: TimeLimit) -> Millis {
        end_of(self.at, limit)
    }

    /// What a class may use, or why all its jobs wait.
    fn kind(&mut self, class: ClassId) -> Result<Kind<'a>, Wait> {
        let cluster = self.cluster;
        let class = cluster.queue().classes.get(class);
        let class = class.ok_or_else(|| Wait::bare(Reason::None))?;
        let mut partitions = cluster.partitions.iter().zip(0..);
        let found = partitions.find(|(partition, _)| partition.name == class.partition);
        let Some((partition, at)) = found else {
            let text = format!("partition {} is not configured", class.partition);
            return Err(Wait {
                reason: Reason::PartitionInactive,
                text: text.into(),
            });
        };
        let required = self.required(class)?;
        if let Some((reason, text)) = bars::of_class(cluster, partition, class) {
            let text = text.into();
            return Err(Wait { reason, text });
        }
        let rooms = &self.rooms;
        let members = self.partitions.get_mut(at).map(|queueing| {
            if queueing.members.is_none() {
                queueing.cap = Cap::of(rooms, partition);
            }
            let fresh = || Rc::new(rooms.of_partition(cluster, partition));
            Rc::clone(queueing.members.get_or_insert_with(fresh))
        });
        let members = members.ok_or_else(|| Wait::bare(Reason::None))?;
        let members = match class.reservation.as_str() {
            "" => members,
            named => self.guards.within(named, &members)?,
        };
        let allowed = filter::allowed(cluster, &members, class, |id| rooms.position(id));
        let wishes = (class.constraint.as_str(), class.prefer.as_str());
        let mut kind = Kind::of(class, at, required);
        if wishes == ("", "") {
            kind.add_set(allowed, rooms.len());
            return Ok(kind);
        }
        let features = self
            .features
            .get_or_insert_with(|| Features::of(cluster, rooms.nodes()));
        let (sets, preferred) = filter::choices(features, allowed, wishes);
        sets.into_iter()
            .for_each(|set| kind.add_set(set, rooms.len()));
        kind.preferred = preferred;
        let wanted = features.read(wishes.0);
        kind.counts = features.counts(&wanted);
        Ok(kind)
    }

    /// Positions of the nodes of `-w`.
    fn required(&self, class: &Class) -> Result<Vec<usize>, Wait> {
        let mut positions = BTreeSet::new();
        for name in &class.nodelist {
            match node(self.cluster, name).and_then(|id| self.rooms.position(id)) {
                Some(at) => drop(positions.insert(at)),
                None => {
                    let text = format!("node {name} takes no jobs now");
                    return Err(Wait {
                        reason: Reason::ReqNodeNotAvail,
                        text: text.into(),
                    });
                }
            }
        }
        Ok(positions.into_iter().collect())
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

fn node(cluster: &Cluster, name: &str) -> Option<NodeId> {
    cluster.node_ids.get(&NodeName::new(name).ok()?).copied()
}
