//! What the tasks of one node are answered. Time and sockets are the caller's.

mod lengths;
mod lines;

use super::wire::{Broken, Decoder, Dialect, Message};
use super::{Entry, KEY_MAX, NameRequest, STORE_MAX, VALUE_MAX, weight};
use std::collections::BTreeMap;

/// Bytes of keys and values that go to srun as one message.
const CHUNK: usize = 64 << 10;

/// Most requests of one node that may wait for something: each is of a task that has nothing else to do, or of one of its threads.
const WAITING_MAX: usize = 4096;

/// What a node's tasks are told of their step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The step's name, which is also that of its keys and values.
    pub job: String,
    /// Tasks of the step.
    pub size: u32,
    /// How many tasks could run (`MPI_UNIVERSE_SIZE`).
    pub universe: u32,
    /// Which of several programs this is (`MPI_APPNUM`).
    pub program: u32,
    /// See [`super::mapping`]; empty if it cannot be said.
    pub mapping: String,
}

/// What is to be done for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send it these bytes.
    Send {
        /// Its number in the step.
        task: u32,
        /// What it is sent.
        bytes: Vec<u8>,
    },
    /// Every task of the node is at the barrier: tell the others what it brings.
    Exchange {
        /// Keys and values.
        entries: Vec<Entry>,
        /// That was all of it.
        last: bool,
    },
    /// Ask for something about names.
    Ask {
        /// To be given back with the answer.
        id: u32,
        /// The name.
        name: Vec<u8>,
        /// What about it.
        request: NameRequest,
    },
    /// Others of the node wait for a task that has ended, and so for ever.
    Stuck {
        /// Which has ended.
        task: u32,
    },
    /// A task ends the whole step (`MPI_Abort`).
    Abort {
        /// Which.
        task: u32,
        /// With this exit code.
        code: u8,
        /// What it says.
        text: String,
    },
}

/// How far a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// It has not begun with MPI, or is done with it.
    #[default]
    Outside,
    /// Between its beginning and its end.
    Inside,
    /// It has ended.
    Ended,
}

/// A task.
#[derive(Debug, Default)]
struct Peer {
    stage: Stage,
    decoder: Decoder,
    /// It waits at the barrier: the thread's mark that belongs on the answer.
    barrier: Option<Thread>,
}

/// How a request of PMI-2 names the thread that waits for its answer (`thrid`).
type Thread = Option<Vec<u8>>;

/// A request whose answer is not there yet.
#[derive(Debug)]
struct Waiting {
    task: u32,
    /// The answer as far as it is known.
    answer: Message,
}

/// Answers the tasks of one node.
#[derive(Debug)]
pub struct Server {
    layout: Layout,
    peers: BTreeMap<u32, Peer>,
    store: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Put since the last barrier.
    fresh: Vec<Entry>,
    held: usize,
    /// Attributes of the node, and who waits for one.
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    wanted: Vec<(Vec<u8>, Waiting)>,
    asked: BTreeMap<u32, (NameRequest, Waiting)>,
    asks: u32,
    /// What the node brought to the barrier is under way.
    exchanging: bool,
    effects: Vec<Effect>,
}

impl Server {
    /// For these tasks of a step.
    pub fn new(layout: Layout, tasks: impl IntoIterator<Item = u32>) -> Self {
        let peers = tasks.into_iter().map(|task| (task, Peer::default()));
        Self {
            layout,
            peers: peers.collect(),
            store: BTreeMap::new(),
            fresh: Vec::new(),
            held: 0,
            attributes: BTreeMap::new(),
            wanted: Vec::new(),
            asked: BTreeMap::new(),
            asks: 0,
            exchanging: false,
            effects: Vec::new(),
        }
    }

    /// Takes what a task says.
    ///
    /// # Errors
    /// It speaks no PMI: it is to hear nothing more.
    pub fn hear(&mut self, task: u32, bytes: &[u8]) -> Result<Vec<Effect>, Broken> {
        if let Some(peer) = self.peers.get_mut(&task) {
            peer.decoder.push(bytes);
        }
        while let Some((dialect, message)) = self.next(task)? {
            match dialect {
                Dialect::Lines => self.line(task, &message),
                Dialect::Lengths => self.counted(task, &message),
            }
        }
        Ok(std::mem::take(&mut self.effects))
    }

    fn next(&mut self, task: u32) -> Result<Option<(Dialect, Message)>, Broken> {
        let Some(peer) = self.peers.get_mut(&task) else {
            return Ok(None);
        };
        let dialect = peer.decoder.dialect();
        Ok(peer.decoder.take()?.map(|message| (dialect, message)))
    }

    /// Takes what the other nodes brought to the barrier; `last` opens it.
    pub fn exchanged(&mut self, entries: Vec<Entry>, last: bool) -> Vec<Effect> {
        for (key, value) in entries {
            self.keep(key, value);
        }
        if last && std::mem::take(&mut self.exchanging) {
            let tasks: Vec<u32> = self.peers.keys().copied().collect();
            for task in tasks {
                let peer = self.peers.get_mut(&task);
                if let Some(thread) = peer.and_then(|peer| peer.barrier.take()) {
                    self.barrier_is_over(task, thread);
                }
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// Takes the answer to [`Effect::Ask`].
    pub fn answered(&mut self, id: u32, found: Option<Vec<u8>>) -> Vec<Effect> {
        if let Some((request, waiting)) = self.asked.remove(&id) {
            self.name_answer(&request, waiting, found);
        }
        std::mem::take(&mut self.effects)
    }

    /// A task has ended. Gives whether it was still within MPI.
    pub fn ended(&mut self, task: u32) -> (bool, Vec<Effect>) {
        let inside = self.peers.get_mut(&task).is_some_and(|peer| {
            peer.barrier = None;
            std::mem::replace(&mut peer.stage, Stage::Ended) == Stage::Inside
        });
        self.meet();
        (inside, std::mem::take(&mut self.effects))
    }

    /// Tells the others once every task is at the barrier.
    fn meet(&mut self) {
        let waits = |peer: &Peer| peer.barrier.is_some();
        if self.exchanging || !self.peers.values().any(waits) {
            return;
        }
        let mut ended = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.stage == Stage::Ended);
        if let Some((task, _)) = ended.next() {
            self.effects.push(Effect::Stuck { task: *task });
            return;
        }
        if !self.peers.values().all(waits) {
            return;
        }
        self.exchanging = true;
        let mut chunk = Vec::new();
        for entry in std::mem::take(&mut self.fresh) {
            chunk.push(entry);
            if weight(&chunk) >= CHUNK {
                let entries = std::mem::take(&mut chunk);
                let last = false;
                self.effects.push(Effect::Exchange { entries, last });
            }
        }
        self.effects.push(Effect::Exchange {
            entries: chunk,
            last: true,
        });
    }

    /// Comes to the barrier; `false` if it is there already.
    fn arrive(&mut self, task: u32, thread: Thread) -> bool {
        let Some(peer) = self.peers.get_mut(&task) else {
            return false;
        };
        if peer.barrier.is_some() {
            return false;
        }
        peer.barrier = Some(thread);
        self.meet();
        true
    }

    /// Puts a key, for all after the next barrier and for this node at once; `false` if there is no room.
    fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        let fits = self.held + key.len() + value.len() <= STORE_MAX;
        if !fits || key.is_empty() || key.len() >= KEY_MAX || value.len() >= VALUE_MAX {
            return false;
        }
        self.keep(key.to_vec(), value.to_vec());
        self.fresh.push((key.to_vec(), value.to_vec()));
        true
    }

    fn keep(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.held += value.len();
        let length = key.len();
        match self.store.insert(key, value) {
            Some(old) => self.held -= old.len(),
            None => self.held += length,
        }
    }

    /// What a key of the step holds; the placement of tasks is one.
    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        match key {
            b"PMI_process_mapping" => {
                Some(self.layout.mapping.as_bytes()).filter(|text| !text.is_empty())
            }
            key => self.store.get(key).map(Vec::as_slice),
        }
    }

    fn enter(&mut self, task: u32, stage: Stage) {
        if let Some(peer) = self.peers.get_mut(&task) {
            peer.stage = stage;
        }
    }

    /// Asks srun about a name; `answer` is what the task will be told, as far as it is known.
    fn ask(&mut self, task: u32, name: Vec<u8>, request: NameRequest, answer: Message) {
        let waiting = Waiting { task, answer };
        if self.asked.len() >= WAITING_MAX || name.is_empty() || name.len() >= VALUE_MAX {
            return self.name_answer(&request, waiting, None);
        }
        let id = self.asks;
        self.asks = self.asks.wrapping_add(1);
        self.asked.insert(id, (request.clone(), waiting));
        self.effects.push(Effect::Ask { id, name, request });
    }

    fn name_answer(&mut self, request: &NameRequest, waiting: Waiting, found: Option<Vec<u8>>) {
        let Waiting { task, answer } = waiting;
        let answer = match (self.dialect(task), found) {
            (Dialect::Lines, found) => lines::name_answer(request, answer, found),
            (Dialect::Lengths, found) => lengths::name_answer(request, answer, found),
        };
        self.send(task, &answer);
    }

    fn barrier_is_over(&mut self, task: u32, thread: Thread) {
        let answer = match self.dialect(task) {
            Dialect::Lines => lines::barrier_is_over(),
            Dialect::Lengths => lengths::barrier_is_over(thread),
        };
        self.send(task, &answer);
    }

    fn dialect(&self, task: u32) -> Dialect {
        let peer = self.peers.get(&task);
        peer.map(|peer| peer.decoder.dialect()).unwrap_or_default()
    }

    fn send(&mut self, task: u32, message: &Message) {
        let bytes = message.encode(self.dialect(task));
        self.effects.push(Effect::Send { task, bytes });
    }

    fn abort(&mut self, task: u32, code: i64, text: &[u8]) {
        self.effects.push(Effect::Abort {
            task,
            code: super::abort_code(code),
            text: String::from_utf8_lossy(text).into_owned(),
        });
    }
}
