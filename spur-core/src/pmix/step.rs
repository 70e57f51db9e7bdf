//! srun's half: brings together what the nodes of a step say, and carries questions to the node that knows.

use super::{GATHERED_MAX, Meeting, Message, pieces, status};
use crate::pmi::step::{Stuck, left_alone};
use std::collections::{BTreeMap, BTreeSet};

/// Most questions of a step that may wait for their answers.
const ASKED_MAX: usize = 1 << 16;

/// Most bytes that say which ranks take part in meetings that are not over.
pub(super) const NAMED_MAX: usize = 16 << 20;

/// Something to be told to nodes, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// To which.
    pub nodes: Vec<usize>,
    /// What.
    pub messages: Vec<Message>,
}

/// What one node brought to a meeting so far.
#[derive(Debug, Default)]
struct Brought {
    data: Vec<u8>,
    all: bool,
}

/// A question under way.
#[derive(Debug)]
struct Asked {
    /// Who asked.
    node: usize,
    /// The question's number there.
    id: u32,
    /// Who is to answer.
    knows: usize,
    /// What has come of the answer.
    data: Vec<u8>,
}

/// What the nodes of a step have in common.
#[derive(Debug)]
pub struct Hub {
    /// By node: its ranks.
    nodes: Vec<Vec<u32>>,
    meetings: BTreeMap<Meeting, BTreeMap<usize, Brought>>,
    /// Bytes in `meetings` and `asked`.
    held: usize,
    /// Bytes of the meetings' own descriptions.
    named: usize,
    /// Ranks that have ended: they come to no meeting any more.
    ended: BTreeSet<u32>,
    asked: BTreeMap<u32, Asked>,
    asks: u32,
}

impl Hub {
    /// For a step with these ranks on its nodes.
    pub fn new(nodes: Vec<Vec<u32>>) -> Self {
        Self {
            nodes,
            meetings: BTreeMap::new(),
            held: 0,
            named: 0,
            ended: BTreeSet::new(),
            asked: BTreeMap::new(),
            asks: 0,
        }
    }

    /// A node says this. Gives what is to be told to nodes then.
    ///
    /// # Errors
    /// There is no room for it, or some rank will never come to the meeting.
    pub fn hear(&mut self, node: usize, message: Message) -> Result<Option<Delivery>, Stuck> {
        match message {
            Message::Meet {
                meeting,
                data,
                last,
            } => self.meet(node, meeting, data, last),
            Message::Ask { id, rank } => Ok(Some(self.ask(node, id, rank))),
            Message::Told {
                id,
                status,
                data,
                last,
            } => self.told(node, id, (status, data, last)),
        }
    }

    fn meet(
        &mut self,
        node: usize,
        meeting: Meeting,
        data: Vec<u8>,
        last: bool,
    ) -> Result<Option<Delivery>, Stuck> {
        self.hold(data.len())?;
        self.name(&meeting)?;
        let there = self.meetings.entry(meeting.clone()).or_default();
        let brought = there.entry(node).or_default();
        brought.data.extend(data);
        brought.all |= last;
        self.stuck(&meeting)?;
        let due = self.nodes_of(&meeting);
        let there = &self.meetings[&meeting];
        if !due
            .iter()
            .all(|node| there.get(node).is_some_and(|b| b.all))
        {
            return Ok(None);
        }
        let brought = self.meetings.remove(&meeting).unwrap_or_default();
        let all: Vec<u8> = brought.into_values().flat_map(|b| b.data).collect();
        self.held -= all.len();
        self.named -= weight(&meeting);
        let messages = pieces(&all, |data, last| Message::Meet {
            meeting: meeting.clone(),
            data,
            last,
        });
        Ok(Some(Delivery {
            nodes: due,
            messages,
        }))
    }

    /// The nodes of those who take part.
    fn nodes_of(&self, (_, ranks): &Meeting) -> Vec<usize> {
        let takes_part = |of_node: &Vec<u32>| {
            ranks.is_empty() || of_node.iter().any(|rank| ranks.binary_search(rank).is_ok())
        };
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.filter(|(_, of_node)| !of_node.is_empty() && takes_part(of_node));
        nodes.map(|(at, _)| at).collect()
    }

    /// A rank has ended. At a meeting that is not over it cannot have ended as it should.
    ///
    /// # Errors
    /// Others wait for it.
    pub fn ended(&mut self, rank: u32) -> Result<(), Stuck> {
        self.ended.insert(rank);
        let meetings = self.meetings.keys();
        let mut meetings = meetings.filter(|(_, ranks)| takes_part(ranks, rank));
        match meetings.next() {
            Some(_) => Err(Stuck(left_alone(rank))),
            None => Ok(()),
        }
    }

    fn stuck(&self, (_, ranks): &Meeting) -> Result<(), Stuck> {
        let mut missing = self.ended.iter().filter(|rank| takes_part(ranks, **rank));
        match missing.next() {
            Some(rank) => Err(Stuck(left_alone(*rank))),
            None => Ok(()),
        }
    }

    fn ask(&mut self, node: usize, id: u32, rank: u32) -> Delivery {
        let mut nodes = self.nodes.iter();
        let knows = nodes.position(|ranks| ranks.contains(&rank));
        let refuse = |status| Delivery {
            nodes: vec![node],
            messages: vec![Message::Told {
                id,
                status,
                data: Vec::new(),
                last: true,
            }],
        };
        let Some(knows) = knows else {
            return refuse(status::NOT_FOUND);
        };
        if self.asked.len() >= ASKED_MAX {
            return refuse(status::OUT_OF_RESOURCE);
        }
        let own = self.asks;
        self.asks = self.asks.wrapping_add(1);
        let data = Vec::new();
        let asked = Asked {
            node,
            id,
            knows,
            data,
        };
        self.asked.insert(own, asked);
        Delivery {
            nodes: vec![knows],
            messages: vec![Message::Ask { id: own, rank }],
        }
    }

    /// Answers are given whole, so that no piece overtakes another.
    fn told(
        &mut self,
        node: usize,
        own: u32,
        (status, data, last): (i32, Vec<u8>, bool),
    ) -> Result<Option<Delivery>, Stuck> {
        let Some(asked) = self.asked.get_mut(&own).filter(|asked| asked.knows == node) else {
            return Ok(None);
        };
        let more = data.len();
        asked.data.extend(data);
        self.hold(more)?;
        let asked = if last { self.asked.remove(&own) } else { None };
        Ok(asked.map(|Asked { node, id, data, .. }| {
            self.held -= data.len();
            let messages = pieces(&data, |data, last| Message::Told {
                id,
                status,
                data,
                last,
            });
            Delivery {
                nodes: vec![node],
                messages,
            }
        }))
    }

    /// Counts a meeting that is new.
    fn name(&mut self, meeting: &Meeting) -> Result<(), Stuck> {
        if self.meetings.contains_key(meeting) {
            return Ok(());
        }
        self.named += weight(meeting);
        if self.named > NAMED_MAX {
            return Err(Stuck(format!(
                "the tasks name more than {NAMED_MAX} bytes of ranks for meetings that are not over"
            )));
        }
        Ok(())
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Stuck> {
        self.held += bytes;
        if self.held > GATHERED_MAX {
            return Err(Stuck(format!(
                "the tasks put more than {GATHERED_MAX} bytes at once by PMIx"
            )));
        }
        Ok(())
    }
}

/// What a meeting counts towards [`NAMED_MAX`].
fn weight((_, ranks): &Meeting) -> usize {
    size_of::<Meeting>() + size_of_val(ranks.as_slice())
}

fn takes_part(ranks: &[u32], rank: u32) -> bool {
    ranks.is_empty() || ranks.binary_search(&rank).is_ok()
}
