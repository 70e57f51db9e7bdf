//! PMI-1: what MPICH's processes ask by lines.

use super::{Server, Stage};
use crate::pmi::wire::{Dialect, Message};
use crate::pmi::{KEY_MAX, NameRequest, VALUE_MAX};

/// Versions of the two protocols that are spoken.
const ONE: (i64, &str) = (1, "1");
const TWO: (i64, &str) = (2, "0");

impl Server {
    /// Does what a line asks for.
    pub(super) fn line(&mut self, task: u32, message: &Message) {
        let layout = &self.layout;
        let answer = match message.command.as_str() {
            "init" => return self.begin(task, message),
            "finalize" => {
                self.enter(task, Stage::Outside);
                Message::new("finalize_ack").with("rc", "0")
            }
            "abort" => {
                return self.abort(task, message.number("exitcode").unwrap_or(1), b"");
            }
            "barrier_in" => {
                if self.arrive(task, None) {
                    return;
                }
                refusal("barrier_out", "it_waits_at_the_barrier_already")
            }
            "get_maxes" => Message::new("maxes")
                .with("rc", "0")
                .with("kvsname_max", KEY_MAX.to_string())
                .with("keylen_max", KEY_MAX.to_string())
                .with("vallen_max", VALUE_MAX.to_string()),
            "get_appnum" => good("appnum").with("appnum", layout.program.to_string()),
            "get_universe_size" => good("universe_size").with("size", layout.universe.to_string()),
            "get_my_kvsname" => good("my_kvsname").with("kvsname", &layout.job),
            "get_ranks2hosts" => refusal("put_ranks2hosts", "not_known"),
            "put" => self.put_line(message),
            "get" => self.get_line(message),
            "getbyidx" => self.nth(message),
            "publish_name" | "unpublish_name" | "lookup_name" => {
                return self.name_line(task, message);
            }
            "spawn" => refusal("spawn_result", "spur_starts_no_processes_in_a_running_step"),
            other => refusal(&format!("{other}_result"), "unknown_command"),
        };
        self.send(task, &answer);
    }

    fn begin(&mut self, task: u32, message: &Message) {
        let asked = message.number("pmi_version").unwrap_or_default();
        let Some((_, minor)) = [ONE, TWO].into_iter().find(|(major, _)| *major == asked) else {
            let answer = refusal("response_to_init", "versions_are_1_and_2");
            return self.send(
                task,
                &answer.with("pmi_version", "1").with("pmi_subversion", "1"),
            );
        };
        self.enter(task, Stage::Inside);
        let answer = Message::new("response_to_init")
            .with("pmi_version", asked.to_string())
            .with("pmi_subversion", minor)
            .with("rc", "0");
        self.send(task, &answer);
        if let Some(peer) = self.peers.get_mut(&task).filter(|_| asked == TWO.0) {
            peer.decoder.speak(Dialect::Lengths);
        }
    }

    fn is_ours(&self, message: &Message) -> bool {
        let name = message.get("kvsname");
        name.is_none_or(|name| name == self.layout.job.as_bytes())
    }

    fn put_line(&mut self, message: &Message) -> Message {
        let pair = (message.get("key"), message.get("value"));
        let (Some(key), Some(value)) = pair else {
            return refusal("put_result", "key_or_value_is_missing");
        };
        if !self.is_ours(message) {
            return refusal("put_result", "unknown_kvsname");
        }
        if self.put(key, value) {
            good("put_result").with("msg", "success")
        } else {
            refusal("put_result", "no_room_for_this")
        }
    }

    fn get_line(&self, message: &Message) -> Message {
        let found = message.get("key").filter(|_| self.is_ours(message));
        match found.and_then(|key| self.get(key)) {
            Some(value) => good("get_result")
                .with("msg", "success")
                .with("value", value),
            None => refusal("get_result", "key_not_found").with("value", "unknown"),
        }
    }

    fn nth(&self, message: &Message) -> Message {
        let index = message.number("idx").unwrap_or(-1);
        let found = usize::try_from(index)
            .ok()
            .filter(|_| self.is_ours(message));
        match found.and_then(|index| self.store.iter().nth(index)) {
            Some((key, value)) => good("getbyidx_results")
                .with("nextidx", (index + 1).to_string())
                .with("key", key)
                .with("val", value),
            None => Message::new("getbyidx_results")
                .with("rc", "-2")
                .with("reason", "no_more_keyvals"),
        }
    }

    fn name_line(&mut self, task: u32, message: &Message) {
        let name = message.get("service").unwrap_or_default().to_vec();
        let (request, answer) = match message.command.as_str() {
            "publish_name" => {
                let port = message.get("port").unwrap_or_default().to_vec();
                (NameRequest::Publish { port }, "publish_result")
            }
            "unpublish_name" => (NameRequest::Unpublish, "unpublish_result"),
            _ => (NameRequest::Lookup, "lookup_result"),
        };
        self.ask(task, name, request, Message::new(answer));
    }
}

pub(super) fn barrier_is_over() -> Message {
    good("barrier_out")
}

/// The rest of the answer about a name.
pub(super) fn name_answer(
    request: &NameRequest,
    answer: Message,
    found: Option<Vec<u8>>,
) -> Message {
    match (found, request) {
        (Some(port), NameRequest::Lookup) => answer
            .with("rc", "0")
            .with("msg", "success")
            .with("info", "ok")
            .with("port", port),
        (Some(_), NameRequest::Publish { .. } | NameRequest::Unpublish) => answer
            .with("rc", "0")
            .with("msg", "success")
            .with("info", "ok"),
        (None, NameRequest::Publish { .. }) => failed(answer, "it_is_published_already"),
        (None, NameRequest::Unpublish | NameRequest::Lookup) => failed(answer, "service_not_found"),
    }
}

fn good(command: &str) -> Message {
    Message::new(command).with("rc", "0")
}

/// A line's values hold no blanks.
fn refusal(command: &str, why: &str) -> Message {
    failed(Message::new(command), why)
}

fn failed(answer: Message, why: &str) -> Message {
    answer.with("rc", "-1").with("msg", why).with("info", why)
}
