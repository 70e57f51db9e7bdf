//! Between the library, whose threads ask, and the supervisor, from whom the answers come.

use crate::sys::pmix::{Host, Server, Waiting};
use spur_core::pmi;
use spur_core::pmix::{Meeting, Message, pieces, status};
use spur_proto::frame::write_frame;
use spur_proto::wire::{Abort, FromPmix, from_pmix};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the library may take to answer for a rank that has ended. What the rank had put is there, and given at once; for what it never
/// put the library would wait for ever.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

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
    /// Ranks of this node that have ended.
    ended: BTreeSet<u32>,
    /// Questions about those, and when each is answered without the library: the first one first.
    late: VecDeque<(Instant, u32)>,
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
                self.question(id, rank, Instant::now());
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

    /// Another node asks about a rank of this one.
    fn question(&self, id: u32, rank: u32, now: Instant) {
        let mut state = self.state();
        state.questions.insert(id, rank);
        if state.ended.contains(&rank) {
            state.late.push_back((now + ANSWER_WITHIN, id));
        }
    }

    /// When the next question is to be answered without the library.
    pub(super) fn due(&self) -> Option<Instant> {
        self.state().late.front().map(|(at, _)| *at)
    }

    /// Answers the questions whose time has come: nothing was put.
    pub(super) fn give_up(&self, now: Instant) {
        let mut about = Vec::new();
        let mut state = self.state();
        while let Some((_, id)) = state.late.pop_front_if(|(at, _)| *at <= now) {
            if state.questions.remove(&id).is_some() {
                about.push(id);
            }
        }
        drop(state);
        self.nothing_of(about);
    }

    fn nothing_of(&self, about: Vec<u32>) {
        for id in about {
            self.send(told(id, status::NOT_FOUND, &[]));
        }
    }

    /// A rank of this node has ended: it puts nothing more.
    pub(super) fn ended(&self, rank: u32) {
        let mut about = Vec::new();
        let mut state = self.state();
        state.ended.insert(rank);
        state.questions.retain(|id, of| {
            if *of == rank {
                about.push(*id);
            }
            *of != rank
        });
        drop(state);
        self.nothing_of(about);
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

#[cfg(test)]
mod tests {
    use super::*;
    use spur_proto::frame::read_frame;

    /// What the supervisor hears next, if anything.
    fn heard(from: &UnixStream) -> Option<Message> {
        from.set_nonblocking(true).ok()?;
        let mut reader = from;
        let message = read_frame::<FromPmix>(&mut reader).ok().flatten()?;
        let Some(from_pmix::Kind::Pmix(message)) = message.kind else {
            panic!("it says something else");
        };
        message.try_into().ok()
    }

    fn nothing_of(id: u32) -> Option<Message> {
        told(id, status::NOT_FOUND, &[]).pop()
    }

    #[test]
    fn a_question_about_a_rank_that_has_ended_is_answered() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let relay = Relay::new(ours);
        let start = Instant::now();
        // Before its end, and after it.
        relay.question(1, 4, start);
        assert_eq!((relay.due(), heard(&theirs)), (None, None));
        relay.ended(4);
        assert_eq!(heard(&theirs), nothing_of(1));
        relay.question(2, 4, start);
        relay.question(3, 5, start);
        let due = relay.due().unwrap();
        relay.give_up(start);
        assert_eq!(heard(&theirs), None);
        relay.give_up(due);
        assert_eq!(heard(&theirs), nothing_of(2));
        assert_eq!((relay.due(), heard(&theirs)), (None, None), "5 may come");
        // What it had put is there.
        relay.question(6, 4, start);
        Host::told(&relay, 6, status::SUCCESS, b"put".to_vec());
        assert_eq!(heard(&theirs), told(6, status::SUCCESS, b"put").pop());
        relay.give_up(due);
        assert_eq!((relay.due(), heard(&theirs)), (None, None));
    }
}
