//! Which nodes: the smallest domain that holds the job, in it as few leaves as possible, and of those that would do the ones
//! where least stays behind.

use super::Fabric;
use std::cmp::Reverse;

/// A node that would do, by what its source calls it, and the domain that it hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) position: usize,
    pub(crate) leaf: Option<usize>,
    /// The job must get it.
    pub(crate) required: bool,
}

/// What the job wants of its nodes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) nodes: usize,
    /// Most leaves; 0: no matter.
    pub(crate) switches: usize,
    /// Nodes that must be in one block, group after group; 0: no matter.
    pub(crate) segment: usize,
}

/// So many of the candidates, earlier ones of a leaf first; `None` if no domain holds them. Nodes that hang on no common domain
/// do not go together, as in Slurm.
pub(crate) fn choose(fabric: &Fabric, candidates: &[Candidate], wish: Wish) -> Option<Vec<usize>> {
    let unit = match wish.segment {
        segment if segment > 1 && fabric.is_block() => segment.min(wish.nodes),
        _ => 1,
    };
    if !wish.nodes.is_multiple_of(unit) {
        return None;
    }
    let hung = Hung::new(fabric, candidates, unit)?;
    let units = wish.nodes / unit;
    let must = hung.total(|leaf| leaf.must);
    for domain in hung.holding(units, must) {
        let takes = hung.fill(domain, units - must);
        let leaves = takes.iter().filter(|units| **units > 0).count();
        if wish.switches == 0 || leaves <= wish.switches {
            return Some(hung.nodes(&takes));
        }
    }
    None
}

/// Domains that hold all candidates that are required and, after a measure of each candidate, in all at least as much as is
/// asked for; the smallest first.
pub(crate) fn domains_that_hold(
    fabric: &Fabric,
    candidates: &[(Candidate, [u64; 3])],
    least: [u64; 3],
) -> Vec<usize> {
    let mut sums = vec![([0u64; 3], 0usize); fabric.domains.len()];
    let mut required = 0;
    for (candidate, measure) in candidates {
        required += usize::from(candidate.required);
        for domain in fabric.above(candidate.leaf) {
            let (sum, must) = &mut sums[domain];
            for (sum, more) in sum.iter_mut().zip(measure) {
                *sum = sum.saturating_add(*more);
            }
            *must += usize::from(candidate.required);
        }
    }
    let holds = |(sum, must): &([u64; 3], usize)| {
        *must == required && sum.iter().zip(least).all(|(sum, least)| *sum >= least)
    };
    let holding = sums.iter().enumerate().filter(|(_, sums)| holds(sums));
    let mut holding: Vec<_> = holding
        .map(|(at, (sum, _))| (fabric.domains[at].level, sum[0], at))
        .collect();
    holding.sort_unstable();
    holding.into_iter().map(|(.., at)| at).collect()
}

impl Fabric {
    /// Whether a leaf is a domain or below it.
    pub(crate) fn is_below(&self, leaf: Option<usize>, domain: usize) -> bool {
        self.above(leaf).any(|above| above == domain)
    }

    /// A leaf and all domains above it, each with its level.
    pub(crate) fn levels_above(
        &self,
        leaf: Option<usize>,
    ) -> impl Iterator<Item = (u32, usize)> + '_ {
        let level = |at: usize| Some((self.domains.get(at)?.level, at));
        self.above(leaf).filter_map(level)
    }

    /// A domain and all above it.
    fn above(&self, leaf: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(leaf, |at| self.domains.get(*at)?.parent)
            .filter(|at| *at < self.domains.len())
    }
}

/// Candidates of one leaf: a switch or a block. A segment is within one, so a block smaller than that serves none.
#[derive(Clone, Debug, Default)]
struct Leaf {
    /// Required ones first.
    positions: Vec<usize>,
    required: usize,
    /// Units that it must give, and can.
    must: usize,
    can: usize,
}

/// Candidates by leaf.
struct Hung<'f> {
    fabric: &'f Fabric,
    unit: usize,
    /// By domain.
    leaves: Vec<Leaf>,
}

impl<'f> Hung<'f> {
    /// `None` if a required node cannot be part of a job on several nodes.
    fn new(fabric: &'f Fabric, candidates: &[Candidate], unit: usize) -> Option<Self> {
        let mut leaves = vec![Leaf::default(); fabric.domains.len()];
        let by_requirement = |required: bool| {
            let all = candidates.iter();
            all.filter(move |candidate| candidate.required == required)
        };
        for candidate in by_requirement(true).chain(by_requirement(false)) {
            let Some(leaf) = candidate.leaf.and_then(|at| leaves.get_mut(at)) else {
                if candidate.required {
                    return None;
                }
                continue;
            };
            leaf.positions.push(candidate.position);
            leaf.required += usize::from(candidate.required);
        }
        for leaf in &mut leaves {
            leaf.must = leaf.required.div_ceil(unit);
            leaf.can = leaf.positions.len() / unit;
            if leaf.must > leaf.can {
                return None;
            }
        }
        Some(Self {
            fabric,
            unit,
            leaves,
        })
    }

    fn total(&self, of: impl Fn(&Leaf) -> usize) -> usize {
        self.leaves.iter().map(of).sum()
    }

    /// Sums for each domain over the leaves below it.
    fn sums(&self, of: impl Fn(&Leaf) -> usize) -> Vec<usize> {
        let mut sums: Vec<usize> = self.leaves.iter().map(of).collect();
        for at in 0..sums.len() {
            if let Some(parent) = self.fabric.domains[at].parent {
                sums[parent] += sums[at];
            }
        }
        sums
    }

    /// Domains that hold so many units, with all that are required: lowest level first, then those with least room.
    fn holding(&self, units: usize, must: usize) -> impl Iterator<Item = usize> + use<> {
        let (can, musts) = (self.sums(|leaf| leaf.can), self.sums(|leaf| leaf.must));
        let holds = |at: &usize| can[*at] >= units && musts[*at] == must && units >= must;
        let mut holding: Vec<_> = (0..can.len())
            .filter(holds)
            .map(|at| (self.fabric.domains[at].level, can[at], at))
            .collect();
        holding.sort_unstable();
        holding.into_iter().map(|(.., at)| at)
    }

    /// How many units of each leaf: what it must give, `more` besides, first from leaves that are used anyway.
    fn fill(&self, domain: usize, more: usize) -> Vec<usize> {
        let mut takes: Vec<usize> = self.leaves.iter().map(|leaf| leaf.must).collect();
        let mut left = more;
        while left > 0 {
            let spare = |at: usize| self.leaves[at].can - takes[at];
            let used = (0..takes.len()).filter(|at| takes[*at] > 0);
            let used = used
                .map(|at| (spare(at), at))
                .filter(|(spare, _)| *spare > 0);
            let Some((spare, at)) = best_fit(used, left) else {
                break;
            };
            let taken = spare.min(left);
            takes[at] += taken;
            left -= taken;
        }
        let mut spare = self.sums(|leaf| leaf.can);
        for (spare, used) in spare.iter_mut().zip(self.sums_of(&takes)) {
            *spare -= used;
        }
        self.descend(domain, left, &mut spare, &mut takes);
        takes
    }

    fn sums_of(&self, takes: &[usize]) -> Vec<usize> {
        let mut sums = takes.to_vec();
        for at in 0..sums.len() {
            if let Some(parent) = self.fabric.domains[at].parent {
                sums[parent] += sums[at];
            }
        }
        sums
    }

    /// From below a domain: the smallest child that holds the rest, or the largest one whole and again.
    fn descend(&self, domain: usize, units: usize, spare: &mut [usize], takes: &mut [usize]) {
        let own = self.leaves[domain].can - takes[domain];
        let here = own.min(units);
        takes[domain] += here;
        let mut left = units - here;
        while left > 0 {
            let children = self.fabric.domains[domain].children.iter();
            let open = children.map(|at| (spare[*at], *at));
            let Some((room, child)) = best_fit(open.filter(|(room, _)| *room > 0), left) else {
                break;
            };
            let taken = room.min(left);
            self.descend(child, taken, spare, takes);
            spare[child] -= taken;
            left -= taken;
        }
    }

    fn nodes(&self, takes: &[usize]) -> Vec<usize> {
        let leaves = self.leaves.iter().zip(takes);
        let nodes = leaves.flat_map(|(leaf, units)| leaf.positions.iter().take(units * self.unit));
        nodes.copied().collect()
    }
}

/// Of (room, which): the least room that suffices, else the most.
fn best_fit(open: impl Iterator<Item = (usize, usize)>, wanted: usize) -> Option<(usize, usize)> {
    open.min_by_key(|(room, at)| match room {
        room if *room >= wanted => (false, *room, Reverse(0), *at),
        room => (true, 0, Reverse(*room), *at),
    })
}
