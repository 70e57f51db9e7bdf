//! The cluster while it fills: which node is in which state, and what is known of states.
//!
//! Nodes that are alike share a state, and a class of tasks is scored once against each state that occurs; what was found
//! stays until the learned mix that the scores come from is renewed.

use super::Point;
use super::lists::{Lists, Task};
use spur_core::plan::frag::{Devices, Scorer, State};
use spur_core::plan::mix::Mix;
use spur_core::time::Millis;
use std::collections::BTreeMap;

/// Score of a task on a state, and the state that follows; `None` if it does not fit.
type Found = Option<(i64, usize)>;

pub(super) struct Board<'a> {
    lists: &'a Lists,
    mix: Mix,
    scorer: Scorer,
    version: u64,
    /// By node: position of its state.
    at: Vec<usize>,
    states: Vec<State>,
    positions: BTreeMap<State, usize>,
    /// By state.
    losses: Vec<Option<i64>>,
    /// By class of task, by state.
    found: Vec<Vec<Option<Found>>>,
    allocated: u64,
    hash: u64,
}

impl<'a> Board<'a> {
    pub(super) fn new(lists: &'a Lists) -> Self {
        let mix = Mix::default();
        let mut board = Self {
            lists,
            scorer: Scorer::new(&mix, lists.models()),
            version: mix.version(),
            mix,
            at: Vec::new(),
            states: Vec::new(),
            positions: BTreeMap::new(),
            losses: Vec::new(),
            found: vec![Vec::new(); lists.classes()],
            allocated: 0,
            hash: 0xcbf2_9ce4_8422_2325,
        };
        for node in lists.nodes() {
            let state = board.intern(node.state.clone());
            board.at.push(state);
        }
        board
    }

    /// A task comes; whether it found a place.
    pub(super) fn arrive(&mut self, position: usize) -> bool {
        let Some(task) = self.lists.tasks().get(position) else {
            return false;
        };
        self.renew();
        let node = self.choose(task);
        self.learn(task);
        if let Some((node, after)) = node {
            self.write_down(task, node);
            if let Some(at) = self.at.get_mut(node) {
                *at = after;
            }
            self.allocated += u64::from(task.part.gpus) * u64::from(task.part.milli);
        } else {
            self.digest(&task.name, "-");
        }
        node.is_some()
    }

    /// The node with the lowest score, the first of equals; and its state afterwards.
    fn choose(&mut self, task: &Task) -> Option<(usize, usize)> {
        let mut best: Option<(i64, usize, usize)> = None;
        for node in 0..self.at.len() {
            let state = *self.at.get(node)?;
            if let Some((score, after)) = self.found(task, state)
                && best.is_none_or(|(least, ..)| score < least)
            {
                best = Some((score, node, after));
            }
        }
        best.map(|(_, node, after)| (node, after))
    }

    fn found(&mut self, task: &Task, state: usize) -> Found {
        let known = self.found.get(task.class);
        if let Some(Some(found)) = known.and_then(|known| known.get(state)) {
            return *found;
        }
        let found = self.score(task, state);
        if let Some(known) = self.found.get_mut(task.class) {
            if known.len() <= state {
                known.resize(state + 1, None);
            }
            known[state] = Some(found);
        }
        found
    }

    fn score(&mut self, task: &Task, at: usize) -> Found {
        let state = self.states.get(at)?;
        if !state.fits(&task.part) {
            return None;
        }
        let known = self.losses.get(at).copied().flatten();
        let loss = known.unwrap_or_else(|| self.scorer.loss(state));
        let best = self.scorer.best_from(loss, state, &task.part)?;
        self.losses[at] = Some(loss);
        Some((best.score, self.intern(best.after)))
    }

    fn intern(&mut self, state: State) -> usize {
        if let Some(at) = self.positions.get(&state) {
            return *at;
        }
        let at = self.states.len();
        self.states.push(state.clone());
        self.losses.push(None);
        self.positions.insert(state, at);
        at
    }

    fn learn(&mut self, task: &Task) {
        let class = self.lists.class_of(task);
        self.mix.observe(Millis(0), class, 1);
    }

    /// Begins anew with what is typical now, and drops what is known of states that no node is in any more.
    fn renew(&mut self) {
        if self.mix.version() == self.version {
            return;
        }
        self.version = self.mix.version();
        self.scorer = Scorer::new(&self.mix, self.lists.models());
        let states = std::mem::take(&mut self.states);
        self.positions.clear();
        self.losses.clear();
        self.found.iter_mut().for_each(Vec::clear);
        for node in 0..self.at.len() {
            if let Some(state) = self.at.get(node).and_then(|at| states.get(*at)) {
                let state = self.intern(state.clone());
                self.at[node] = state;
            }
        }
    }

    /// What is allocated and fragmented now.
    pub(super) fn point(&self, fragmentation: bool) -> Point {
        let mut fragmented = 0;
        if fragmentation {
            let mut nodes = vec![0u64; self.states.len()];
            self.at.iter().for_each(|at| nodes[*at] += 1);
            for (state, nodes) in self
                .states
                .iter()
                .zip(nodes)
                .filter(|(_, nodes)| *nodes > 0)
            {
                let useless = self.scorer.unusable_milli(state);
                fragmented += nodes * u64::try_from(useless).unwrap_or(0);
            }
        }
        Point {
            allocated: self.allocated,
            fragmented,
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Puts a placement into the hash: task, node, devices. The node still is as it was.
    fn write_down(&mut self, task: &Task, node: usize) {
        let state = self.at.get(node).and_then(|at| self.states.get(*at));
        let best = state.and_then(|state| self.scorer.best(state, &task.part));
        let devices = best.map_or_else(Vec::new, |best| best.devices);
        let words: Vec<String> = devices.iter().map(word).collect();
        let name = self.lists.nodes().get(node).map_or("", |node| &node.name);
        self.digest(&task.name, &format!("{name} {}", words.join(",")));
    }

    fn digest(&mut self, task: &str, place: &str) {
        for byte in task
            .bytes()
            .chain([b' '])
            .chain(place.bytes())
            .chain([b'\n'])
        {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn word(devices: &Devices) -> String {
    format!("{}x{}@{}", devices.count, devices.free, devices.socket)
}
