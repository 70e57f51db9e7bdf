//! PMI-2: what is asked by messages with a length. An answer is named as the request, and carries the mark of the thread that waits.

use super::{HELD_MAX, Server, Stage, Thread, WAITING_MAX, Waiting, replace};
use crate::pmi::wire::Message;
use crate::pmi::{KEY_MAX, NameRequest, VALUE_MAX};

/// `rc` of a request that cannot be carried out (PMI2_FAIL).
const FAIL: &str = "1";

impl Server {
    /// Does what a message asks for.
    pub(super) fn counted(&mut self, task: u32, message: &Message) {
        let answer = start(message);
        let answer = match message.command.as_str() {
            "fullinit" => self.full_init(task, answer),
            "finalize" => {
                self.enter(task, Stage::Outside);
                good(answer)
            }
            "abort" => {
                let text = message.get("msg").unwrap_or_default().to_vec();
                return self.abort(task, message.number("exitcode").unwrap_or(1), &text);
            }
            "job-getid" => good(answer).with("jobid", &self.layout.job),
            "kvs-fence" => {
                if self.arrive(task, thread(message)) {
                    return;
                }
                failed(answer, "it waits at the fence already")
            }
            "kvs-put" => self.put_message(message, answer),
            "kvs-get" => found(answer, self.get(message.get("key").unwrap_or_default())),
            "info-getjobattr" => self.job_attribute(message, answer),
            "info-putnodeattr" => self.put_attribute(message, answer),
            "info-getnodeattr" => return self.node_attribute(task, message, answer),
            "name-publish" | "name-unpublish" | "name-lookup" => {
                return self.name_message(task, message, answer);
            }
            "spawn" => failed(answer, "spur starts no processes in a running step"),
            "job-connect" | "job-disconnect" => {
                failed(answer, "steps are not connected to each other")
            }
            _ => failed(answer, "unknown command"),
        };
        self.send(task, &answer);
    }

    fn full_init(&mut self, task: u32, answer: Message) -> Message {
        self.enter(task, Stage::Inside);
        good(answer)
            .with("pmi-version", "2")
            .with("pmi-subversion", "0")
            .with("rank", task.to_string())
            .with("size", self.layout.size.to_string())
            .with("appnum", self.layout.program.to_string())
            .with("debugged", "FALSE")
            .with("pmiverbose", "FALSE")
    }

    fn put_message(&mut self, message: &Message, answer: Message) -> Message {
        let key = message.get("key").unwrap_or_default();
        let value = message.get("value").unwrap_or_default();
        if self.put(key, value) {
            good(answer)
        } else {
            failed(answer, "there is no room for this key and value")
        }
    }

    fn job_attribute(&self, message: &Message, answer: Message) -> Message {
        match message.get("key").unwrap_or_default() {
            b"universeSize" => found(answer, Some(self.layout.universe.to_string().as_bytes())),
            b"hasNameServ" => found(answer, Some(b"TRUE")),
            key => found(answer, self.get(key)),
        }
    }

    fn put_attribute(&mut self, message: &Message, answer: Message) -> Message {
        let key = message.get("key").unwrap_or_default().to_vec();
        let value = message.get("value").unwrap_or_default().to_vec();
        let fits = !key.is_empty() && key.len() < KEY_MAX && value.len() < VALUE_MAX;
        let Self {
            attributes, held, ..
        } = self;
        if !fits || !replace(attributes, held, key.clone(), value.clone()) {
            return failed(answer, "there is no room for this attribute");
        }
        let (now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.wanted)
            .into_iter()
            .partition(|(wanted, _)| *wanted == key);
        self.wanted = later;
        for (_, waiting) in now {
            self.held -= key.len() + waiting.cost();
            self.send(waiting.task, &found(waiting.answer, Some(&value)));
        }
        good(answer)
    }

    fn node_attribute(&mut self, task: u32, message: &Message, answer: Message) {
        let key = message.get("key").unwrap_or_default().to_vec();
        let value = self.attributes.get(&key).cloned();
        let waiting = Waiting { task, answer };
        let held = self.held + key.len() + waiting.cost();
        let room = self.wanted.len() < WAITING_MAX && held <= HELD_MAX;
        if value.is_none() && room && message.get("wait") == Some(b"TRUE") {
            self.held = held;
            self.wanted.push((key, waiting));
        } else {
            self.send(task, &found(waiting.answer, value.as_deref()));
        }
    }

    fn name_message(&mut self, task: u32, message: &Message, answer: Message) {
        let name = message.get("name").unwrap_or_default().to_vec();
        let request = match message.command.as_str() {
            "name-publish" => NameRequest::Publish {
                port: message.get("port").unwrap_or_default().to_vec(),
            },
            "name-unpublish" => NameRequest::Unpublish,
            _ => NameRequest::Lookup,
        };
        self.ask(task, name, request, answer);
    }
}

/// The beginning of an answer.
fn start(message: &Message) -> Message {
    let answer = Message::new(&format!("{}-response", message.command));
    match thread(message) {
        Some(thread) => answer.with("thrid", thread),
        None => answer,
    }
}

fn thread(message: &Message) -> Thread {
    message.get("thrid").map(<[u8]>::to_vec)
}

pub(super) fn barrier_is_over(thread: Thread) -> Message {
    let answer = Message::new("kvs-fence-response");
    good(match thread {
        Some(thread) => answer.with("thrid", thread),
        None => answer,
    })
}

/// The rest of the answer about a name.
pub(super) fn name_answer(
    request: &NameRequest,
    answer: Message,
    found: Option<Vec<u8>>,
) -> Message {
    match (found, request) {
        (Some(port), NameRequest::Lookup) => {
            // Clients look for the one or for the other.
            good(answer).with("value", &port).with("port", &port)
        }
        (Some(_), NameRequest::Publish { .. } | NameRequest::Unpublish) => good(answer),
        (None, NameRequest::Publish { .. }) => failed(answer, "it is published already"),
        (None, NameRequest::Unpublish | NameRequest::Lookup) => {
            failed(answer, "nobody has published it")
        }
    }
}

fn found(answer: Message, value: Option<&[u8]>) -> Message {
    match value {
        Some(value) => good(answer).with("found", "TRUE").with("value", value),
        None => good(answer).with("found", "FALSE"),
    }
}

fn good(answer: Message) -> Message {
    answer.with("rc", "0")
}

fn failed(answer: Message, why: &str) -> Message {
    answer.with("rc", FAIL).with("errmsg", why)
}
