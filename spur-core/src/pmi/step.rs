//! srun's half: brings together what the nodes of a step put, round by round, and keeps the names that its tasks publish.

use super::{Entry, NAMES_MAX, NameRequest, STORE_MAX, weight};
use std::collections::BTreeMap;

/// What the nodes of a step have in common.
#[derive(Debug)]
pub struct Exchange {
    /// By node: whether all that it has to say in this round was said.
    said: Vec<bool>,
    entries: Vec<Entry>,
    /// Bytes of all rounds.
    held: usize,
    /// A task that has ended: it comes to no barrier any more.
    ended: Option<u32>,
    names: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Why a step cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck(pub String);

/// What is said when tasks wait for one that has ended.
pub fn left_alone(task: u32) -> String {
    format!("task {task} ended while others wait for it in MPI")
}

impl Exchange {
    /// For a step of so many nodes.
    pub fn new(nodes: usize) -> Self {
        Self {
            said: vec![false; nodes],
            entries: Vec::new(),
            held: 0,
            ended: None,
            names: BTreeMap::new(),
        }
    }

    /// A node's tasks are all at the barrier, and put this; `last` ends what the node has to say. When every node has said all, gives what
    /// each is to be told.
    ///
    /// # Errors
    /// There is no room for it, or some task will never come to the barrier.
    pub fn hear(
        &mut self,
        node: usize,
        entries: Vec<Entry>,
        last: bool,
    ) -> Result<Option<Vec<Entry>>, Stuck> {
        self.held += weight(&entries);
        if self.held > STORE_MAX {
            return Err(Stuck(format!(
                "the tasks put more than {STORE_MAX} bytes of keys and values"
            )));
        }
        self.entries.extend(entries);
        if let Some(said) = self.said.get_mut(node).filter(|_| last) {
            *said = true;
        }
        self.stuck()?;
        if !self.said.iter().all(|said| *said) {
            return Ok(None);
        }
        self.said.fill(false);
        Ok(Some(std::mem::take(&mut self.entries)))
    }

    /// A task has ended. Before the others' barrier was over it cannot have ended as it should: nobody leaves MPI alone.
    ///
    /// # Errors
    /// Others wait for it.
    pub fn ended(&mut self, task: u32) -> Result<(), Stuck> {
        self.ended.get_or_insert(task);
        self.stuck()
    }

    fn stuck(&self) -> Result<(), Stuck> {
        match self.ended {
            Some(task) if self.said.iter().any(|said| *said) => Err(Stuck(left_alone(task))),
            Some(_) | None => Ok(()),
        }
    }

    /// Does what a task asks of the names: the port, which is empty where none is asked for; `None` if it cannot be done.
    pub fn name(&mut self, name: Vec<u8>, request: NameRequest) -> Option<Vec<u8>> {
        match request {
            NameRequest::Publish { port } => {
                let room = self.names.len() < NAMES_MAX && !self.names.contains_key(&name);
                room.then(|| {
                    self.names.insert(name, port);
                    Vec::new()
                })
            }
            NameRequest::Unpublish => self.names.remove(&name).map(|_| Vec::new()),
            NameRequest::Lookup => self.names.get(&name).cloned(),
        }
    }
}
