//! MPI: srun stands between the nodes of a step, whose tasks it lets wait for each other.

use super::super::err;
use super::super::wire::Link;
use super::{END_WAIT, Session};
use crate::cli::flags::getopt::Options;
use spur_core::api::Grant;
use spur_core::pmi::mapping::mapping;
use spur_core::pmi::step::{Stuck, left_alone};
use spur_core::pmi::{Entry, NameRequest};
use spur_proto::wire::{Abort, Exchange, KvsEntry, Mpi, NameAnswer, NameAsk, name_ask, to_step};
use std::sync::Arc;

/// Entries that go to a node as one message: with the longest keys and values, 80 KiB.
const CHUNK: usize = 64;

/// What the tasks of one part of the command line are told; `None` if they are to hear of no MPI.
pub(super) fn told(options: &Options, grant: &Grant, program: usize) -> Option<Mpi> {
    // Who works at a terminal starts programs of their own there, unless it was said.
    let wanted = match options.value("mpi") {
        None => !options.on("pty"),
        Some(kind) => kind == "pmi2",
    };
    if !wanted {
        return None;
    }
    let tasks: Vec<&[u32]> = grant.nodes.iter().map(|n| n.task_ids.as_slice()).collect();
    let size = tasks.iter().map(|ids| ids.len()).sum::<usize>();
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    Some(Mpi {
        job: grant.step.to_string(),
        size,
        universe: size,
        program: u32::try_from(program).unwrap_or_default(),
        mapping: mapping(&tasks).unwrap_or_default(),
    })
}

impl Session<'_> {
    /// A node's tasks are at the barrier.
    pub(super) fn exchange(&mut self, at: usize, exchange: Exchange) {
        let entry = |entry: KvsEntry| -> Entry { (entry.key, entry.value) };
        let entries = exchange.entries.into_iter().map(entry).collect();
        match self.mpi.hear(at, entries, exchange.last) {
            Ok(None) => {}
            Ok(Some(all)) => {
                let all = Arc::new(pieces(all));
                for link in &self.links {
                    // A node says nothing more before it has heard all of this, so there is one of these for each at most.
                    tokio::spawn(spread(link.clone(), Arc::clone(&all)));
                }
            }
            Err(Stuck(why)) => self.stuck(&why),
        }
    }

    /// A task has ended; the others may wait for it.
    pub(super) fn left(&mut self, task: u32) {
        if let Err(Stuck(why)) = self.mpi.ended(task) {
            self.stuck(&why);
        }
    }

    /// The tasks wait for what will never come.
    fn stuck(&mut self, why: &str) {
        if !self.ending {
            err(why);
            self.failed = true;
            let code = self.tasks.exit_code().max(1);
            self.abort_others(None, code.into());
        }
    }

    /// A task ended the step.
    pub(super) fn aborted_by(&mut self, at: usize, abort: &Abort) {
        let Abort {
            task, code, text, ..
        } = abort;
        let host = self.host(at);
        if abort.stuck {
            err(left_alone(*task));
        } else {
            let said = if text.is_empty() { "" } else { ": " };
            err(format_args!(
                "{host}: task {task} aborted the step (MPI_Abort) with code {code}{said}{}",
                text.trim_end()
            ));
        }
        self.abort_others(Some(at), *code);
    }

    /// Ends the step with this code on all nodes but the one that knows.
    fn abort_others(&mut self, knows: Option<usize>, code: u32) {
        self.tasks.abort(u8::try_from(code).unwrap_or(1).max(1));
        self.due.give_up = Some(std::time::Instant::now() + END_WAIT);
        self.ending = true;
        for (at, link) in self.links.iter().enumerate() {
            if Some(at) != knows {
                let link = link.clone();
                let abort = Abort {
                    code,
                    ..Abort::default()
                };
                tokio::spawn(async move { link.tell(to_step::Kind::Abort(abort)).await });
            }
        }
    }

    /// A task asks about a name.
    pub(super) fn name(&mut self, at: usize, ask: NameAsk) {
        let NameAsk { id, name, what } = ask;
        let request = match what {
            Some(name_ask::What::Publish(port)) => NameRequest::Publish { port },
            Some(name_ask::What::Unpublish(_)) => NameRequest::Unpublish,
            Some(name_ask::What::Lookup(_)) | None => NameRequest::Lookup,
        };
        let port = self.mpi.name(name, request);
        let answer = NameAnswer {
            id,
            done: port.is_some(),
            port: port.unwrap_or_default(),
        };
        if let Some(link) = self.links.get(at).cloned() {
            tokio::spawn(async move { link.tell(to_step::Kind::Name(answer)).await });
        }
    }
}

/// What all nodes brought, in messages.
fn pieces(all: Vec<Entry>) -> Vec<Exchange> {
    let mut entries = all
        .into_iter()
        .map(|(key, value)| KvsEntry { key, value })
        .peekable();
    let mut pieces = Vec::new();
    loop {
        let piece = entries.by_ref().take(CHUNK).collect();
        let last = entries.peek().is_none();
        pieces.push(Exchange {
            entries: piece,
            last,
        });
        if last {
            return pieces;
        }
    }
}

async fn spread(link: Link, all: Arc<Vec<Exchange>>) {
    for piece in all.iter() {
        link.tell(to_step::Kind::Exchange(piece.clone())).await;
    }
}
