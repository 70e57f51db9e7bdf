//! What the tasks of one node are answered. Time and sockets are the caller's.

mod lengths;
mod lines;

use super::wire::{Broken, Decoder, Dialect, Message};
use super::{Entry, KEY_MAX, NameRequest, STORE_MAX, VALUE_MAX};
use std::collections::BTreeMap;

/// Bytes of keys and values that go to srun as one message.
const CHUNK: usize = 64 << 10;

/// Most bytes that a node holds for its tasks and has heard from other nodes, with what it costs to keep them: what is put is held twice
/// until the next barrier.
pub const HELD_MAX: usize = 2 * STORE_MAX;

/// What it costs at most to keep an entry besides its bytes.
const ENTRY_COST: usize = 128;

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

/// Why what other nodes are said to have brought is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No task waits at a barrier.
    NotAwaited,
    /// A key or a value is longer than any task may put.
    TooLong,
    /// There is no room for it.
    Full,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAwaited => to.write_str("keys and values came for no barrier"),
            Self::TooLong => write!(
                to,
                "a key or value came that is longer than {KEY_MAX} or {VALUE_MAX} bytes"
            ),
            Self::Full => write!(
                to,
                "the tasks put more keys and values than fit into {HELD_MAX} bytes on a node: put fewer, or larger ones"
            ),
        }
    }
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
    fresh: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What all that is kept here costs; see [`HELD_MAX`].
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
            fresh: BTreeMap::new(),
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
    ///
    /// # Errors
    /// Nobody waits for it, or there is no room.
    pub fn exchanged(&mut self, entries: Vec<Entry>, last: bool) -> Result<Vec<Effect>, Refused> {
        if !self.exchanging {
            return Err(Refused::NotAwaited);
        }
        for (key, value) in entries {
            if key.len() >= KEY_MAX || value.len() >= VALUE_MAX {
                return Err(Refused::TooLong);
            }
            if !replace(&mut self.store, &mut self.held, key, value) {
                return Err(Refused::Full);
            }
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
        Ok(std::mem::take(&mut self.effects))
    }

    /// Takes the answer to [`Effect::Ask`]. A port that nobody can have published is none.
    pub fn answered(&mut self, id: u32, found: Option<Vec<u8>>) -> Vec<Effect> {
        if let Some((request, waiting)) = self.asked.remove(&id) {
            self.held -= cost_of_ask(&request, &waiting);
            let found = found.filter(|port| port.len() < VALUE_MAX);
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
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        for (key, value) in std::mem::take(&mut self.fresh) {
            self.held -= cost(&key, &value);
            bytes += key.len() + value.len();
            chunk.push((key, value));
            if bytes >= CHUNK {
                let entries = std::mem::take(&mut chunk);
                let last = false;
                bytes = 0;
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
        if key.is_empty() || key.len() >= KEY_MAX || value.len() >= VALUE_MAX {
            return false;
        }
        let more = growth(&self.store, key, value) + growth(&self.fresh, key, value);
        if self.held.saturating_add_signed(more) > HELD_MAX {
            return false;
        }
        let Self {
            store, fresh, held, ..
        } = self;
        [store, fresh]
            .into_iter()
            .all(|of| replace(of, held, key.to_vec(), value.to_vec()))
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
        let held = self.held + cost_of_ask(&request, &waiting);
        let room = self.asked.len() < WAITING_MAX && held <= HELD_MAX;
        let fits = name.len() < VALUE_MAX && port_of(&request).len() < VALUE_MAX;
        if !room || !fits || name.is_empty() {
            return self.name_answer(&request, waiting, None);
        }
        self.held = held;
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

/// What an entry costs while it is kept.
fn cost(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + ENTRY_COST
}

/// By how much more costs if the key gets this value.
fn growth(of: &BTreeMap<Vec<u8>, Vec<u8>>, key: &[u8], value: &[u8]) -> isize {
    let old = of.get(key).map_or(0, |old| cost(key, old));
    cost(key, value).cast_signed() - old.cast_signed()
}

/// Gives a key this value; `false`, and nothing happens, if there is no room for it.
fn replace(
    of: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    held: &mut usize,
    key: Vec<u8>,
    value: Vec<u8>,
) -> bool {
    let more = held.saturating_add_signed(growth(of, &key, &value));
    if more > HELD_MAX {
        return false;
    }
    *held = more;
    of.insert(key, value);
    true
}

/// What a question about a name costs until its answer comes.
fn cost_of_ask(request: &NameRequest, waiting: &Waiting) -> usize {
    port_of(request).len() + waiting.cost()
}

fn port_of(request: &NameRequest) -> &[u8] {
    match request {
        NameRequest::Publish { port } => port,
        NameRequest::Unpublish | NameRequest::Lookup => &[],
    }
}

impl Waiting {
    /// What it costs to keep it.
    fn cost(&self) -> usize {
        let pairs = self.answer.pairs.iter();
        pairs.fold(ENTRY_COST, |all, (key, value)| {
            all + cost(key.as_bytes(), value)
        })
    }
}
