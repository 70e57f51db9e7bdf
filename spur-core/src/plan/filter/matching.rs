//! So many nodes of each of several kinds, which may overlap.
//!
//! Nodes of a kind are alike, so what is searched for is a chain of kinds, not of nodes: one that lacks a node takes it from
//! another, which takes one from a third, until one finds a free node. A node that has a place keeps having one, so no kind
//! looks at a node twice to see whether it is free: the whole takes steps in the number of nodes, besides a search among the
//! kinds for each node that has to be moved.

use crate::plan::bits::Bits;
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// For each number of nodes of a kind so many that `fits` accepts, each for one number only, rising; `None` if there are not
/// enough. Each node is tried once at most, and none if there are too few whatever fits: a count is never more than a number.
pub(crate) fn of_each_kind(
    counts: &[(Bits, usize)],
    fits: impl FnMut(usize) -> bool,
) -> Option<Vec<usize>> {
    let Some((first, _)) = counts.first() else {
        return Some(Vec::new());
    };
    let mut any = first.clone();
    let mut wanted = 0usize;
    for (nodes, count) in counts {
        any.unite(nodes);
        wanted = wanted.saturating_add(*count);
        if *count > nodes.len() {
            return None;
        }
    }
    if wanted > any.len() {
        return None;
    }
    Matching::new(counts, fits, any.emptied()).all().0
}

struct Matching<'a, F> {
    counts: &'a [(Bits, usize)],
    fits: F,
    /// Nodes that have a place, and those that do not fit.
    spent: Bits,
    /// Nodes that have a place, by the kind for which they have it.
    placed: Vec<Bits>,
    /// How many of the nodes placed for a first kind a second may have too: by first, then second.
    shared: Vec<Vec<usize>>,
    /// From where each kind goes on to look for a free node.
    next: Vec<usize>,
    /// Nodes and kinds looked at: what all of this takes.
    steps: usize,
}

impl<'a, F: FnMut(usize) -> bool> Matching<'a, F> {
    fn new(counts: &'a [(Bits, usize)], fits: F, none: Bits) -> Self {
        let kinds = counts.len();
        Self {
            counts,
            fits,
            placed: vec![none.clone(); kinds],
            spent: none,
            shared: vec![vec![0; kinds]; kinds],
            next: vec![0; kinds],
            steps: 0,
        }
    }

    /// The nodes if every number can be met, and the steps that it took.
    fn all(mut self) -> (Option<Vec<usize>>, usize) {
        let mut wanted = self.counts.iter().zip(0..);
        let met = wanted.all(|((_, count), kind)| (0..*count).all(|_| self.one(kind)));
        let steps = self.steps;
        (met.then(|| self.nodes()), steps)
    }

    /// Places one more node for a kind, moving others from kind to kind if need be.
    fn one(&mut self, kind: usize) -> bool {
        // For each kind that was reached, the one that would take a node from it.
        let mut takers: Vec<Option<usize>> = vec![None; self.counts.len()];
        let mut queue = VecDeque::from([kind]);
        while let Some(giver) = queue.pop_front() {
            if let Some(node) = self.free(giver) {
                self.place(node, giver);
                self.pass_on(giver, &takers);
                return true;
            }
            for (other, taker) in takers.iter_mut().enumerate() {
                let may_give = other != kind && self.shared[other][giver] > 0;
                if may_give && taker.is_none() {
                    *taker = Some(giver);
                    queue.push_back(other);
                }
            }
            self.steps += self.counts.len();
        }
        false
    }

    /// The next node of a kind that has no place and fits.
    fn free(&mut self, kind: usize) -> Option<usize> {
        let (nodes, _) = &self.counts[kind];
        loop {
            let node = nodes.first_from(self.next[kind])?;
            self.next[kind] = node + 1;
            self.steps += 1;
            if self.spent.contains(node) {
                continue;
            }
            self.spent.set(node);
            if (self.fits)(node) {
                return Some(node);
            }
        }
    }

    fn place(&mut self, node: usize, kind: usize) {
        self.placed[kind].set(node);
        for (other, (nodes, _)) in self.counts.iter().enumerate() {
            self.shared[kind][other] += usize::from(nodes.contains(node));
        }
        self.steps += self.counts.len();
    }

    /// Has a kind that got a node too many give one to the one that would take it, and so on.
    fn pass_on(&mut self, mut giver: usize, takers: &[Option<usize>]) {
        while let Some(taker) = takers[giver] {
            let both = self.placed[giver].first_of_both(&self.counts[taker].0);
            let Some(node) = both else {
                debug_assert!(false, "kind {giver} has none for kind {taker}");
                return;
            };
            self.placed[giver].clear(node);
            for (other, (nodes, _)) in self.counts.iter().enumerate() {
                self.shared[giver][other] -= usize::from(nodes.contains(node));
            }
            self.place(node, taker);
            giver = taker;
        }
    }

    /// The nodes that have a place, rising.
    fn nodes(self) -> Vec<usize> {
        let mut placed = self.placed.into_iter();
        let mut all = placed.next().unwrap_or(self.spent.emptied());
        placed.for_each(|nodes| all.unite(&nodes));
        all.iter().collect()
    }
}
