//! Between the library, whose threads ask, and the supervisor, from whom the answers come.

use crate::sys::pmix::{Host, Server, Waiting};
use spur_core::pmi;
use spur_core::pmix::{Meeting, Message, pieces, status};
use spur_proto::frame::write_frame;
use spur_proto::wire::{Abort, FromPmix, from_pmix};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who waits, and what has come for it.
#[derive(Debug)]
struct Answer {
    waiting: Waiting,
    data: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    meetings: BTreeMap<Meeting, Answer>,
    asked: BTreeMap<u32, Answer>,
    asks: u32,
    /// Questions of other nodes that the library has not answered: whom they are about.
    questions: BTreeMap<u32, u32>,
}

/// What is under way.
pub(super) struct Relay {
    /// Messages are written whole, by whichever thread.
    out: Mutex<UnixStream>,
    state: Mutex<State>,
}

impl Relay {
    pub(super) fn new(out: UnixStream) -> Arc<Self> {
        Arc::new(Self {
            out: Mutex::new(out),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something to the supervisor. One that is gone takes this process with it.
    pub(super) fn say(&self, kind: from_pmix::Kind) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        drop(write_frame(&mut *out, &FromPmix { kind: Some(kind) }));
    }

    fn send(&self, messages: Vec<Message>) {
        for message in messages {
            self.say(from_pmix::Kind::Pmix(message.into()));
        }
    }

    /// What comes from other nodes.
    pub(super) fn hear(&self, server: &Server, message: Message) {
        match message {
            Message::Meet {
                meeting,
                data,
                last,
            } => {
                let whole = take(&mut self.state().meetings, &meeting, data, last);
                if let Some(Answer { waiting, data }) = whole {
                    waiting.answer(status::SUCCESS, data);
                }
            }
            Message::Ask { id, rank } => {
                self.state().questions.insert(id, rank);
                server.ask(rank, id);
            }
            Message::Told {
                id,
                status,
                data,
                last,
            } => {
                let whole = take(&mut self.state().asked, &id, data, last);
                if let Some(Answer { waiting, data }) = whole {
                    waiting.answer(status, data);
                }
            }
        }
    }

    /// A rank of this node has ended: it puts nothing more.
    pub(super) fn ended(&self, rank: u32) {
        let mut about = Vec::new();
        self.state().questions.retain(|id, of| {
            if *of == rank {
                about.push(*id);
            }
            *of != rank
        });
        for id in about {
            self.send(told(id, status::NOT_FOUND, &[]));
        }
    }
}

/// Adds a piece; gives the whole after the last.
fn take<K: Ord>(
    of: &mut BTreeMap<K, Answer>,
    key: &K,
    data: Vec<u8>,
    last: bool,
) -> Option<Answer> {
    of.get_mut(key)?.data.extend(data);
    if last { of.remove(key) } else { None }
}

fn told(id: u32, status: i32, data: &[u8]) -> Vec<Message> {
    pieces(data, |data, last| Message::Told {
        id,
        status,
        data,
        last,
    })
}

impl Host for Arc<Relay> {
    fn connected(&self, rank: u32) {
        self.say(from_pmix::Kind::Connected(rank));
    }

    fn finalized(&self, rank: u32) {
        self.say(from_pmix::Kind::Finalized(rank));
    }

    fn aborts(&self, rank: u32, code: i32, text: &str) {
        // What Open MPI says if the program says nothing.
        let text = if text == "N/A" { "" } else { text };
        self.say(from_pmix::Kind::Abort(Abort {
            task: rank,
            code: pmi::abort_code(code.into()).into(),
            text: text.to_owned(),
            ..Abort::default()
        }));
    }

    fn meet(&self, meeting: Meeting, data: Vec<u8>, waiting: Waiting) {
        let brought = pieces(&data, |data, last| Message::Meet {
            meeting: meeting.clone(),
            data,
            last,
        });
        let answer = Answer {
            waiting,
            data: Vec::new(),
        };
        // Before anything is said: the answer may come at once.
        self.state().meetings.insert(meeting, answer);
        self.send(brought);
    }

    fn ask(&self, rank: u32, waiting: Waiting) {
        let mut state = self.state();
        let id = state.asks;
        state.asks = id.wrapping_add(1);
        let answer = Answer {
            waiting,
            data: Vec::new(),
        };
        state.asked.insert(id, answer);
        drop(state);
        self.send(vec![Message::Ask { id, rank }]);
    }

    fn told(&self, id: u32, status: i32, data: Vec<u8>) {
        if self.state().questions.remove(&id).is_some() {
            self.send(told(id, status, &data));
        }
    }
}
