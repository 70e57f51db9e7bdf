//! MPI: srun stands between the nodes of a step, whose tasks it lets wait for each other.

use super::super::err;
use super::super::wire::Link;
use super::{END_WAIT, Session};
use crate::cli::failure::Failure;
use crate::cli::flags::Command;
use crate::cli::flags::getopt::Options;
use crate::cli::resolve::values::pmix_version;
use spur_core::api::Grant;
use spur_core::pmi::mapping::mapping;
use spur_core::pmi::step::{Stuck, left_alone};
use spur_core::pmi::{Entry, NameRequest};
use spur_core::pmix::Message;
use spur_core::pmix::layout::{Layout, Node};
use spur_core::pmix::step::Delivery;
use spur_proto::wire::{
    Abort, Exchange, KvsEntry, Mpi, NameAnswer, NameAsk, Pmix, PmixStep, name_ask, to_step,
};
use std::sync::Arc;

/// Entries that go to a node as one message: with the longest keys and values, 80 KiB.
const CHUNK: usize = 64;

/// What the tasks of one part of the command line are told; `None` if they are to hear of no MPI.
/// By PMIx every node is told of every part.
pub(super) fn told(
    options: &Options,
    (grant, parts): (&Grant, &[usize]),
    program: usize,
) -> Result<Option<Mpi>, Failure> {
    // Who works at a terminal starts programs of their own there, unless it was said.
    let wanted = match options.value("mpi") {
        None => !options.on("pty"),
        Some(kind) => kind == "pmi2" || pmix_version(kind).is_some(),
    };
    if !wanted {
        return Ok(None);
    }
    let version = options.value("mpi").and_then(pmix_version);
    let pmix = version.map(|version| pmix(grant, parts, version));
    let tasks: Vec<&[u32]> = grant.nodes.iter().map(|n| n.task_ids.as_slice()).collect();
    let size = tasks.iter().map(|ids| ids.len()).sum::<usize>();
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    Ok(Some(Mpi {
        job: grant.step.to_string(),
        size,
        universe: size,
        program: u32::try_from(program).unwrap_or_default(),
        mapping: mapping(&tasks).unwrap_or_default(),
        pmix: pmix.transpose()?,
    }))
}

fn pmix(grant: &Grant, parts: &[usize], version: u32) -> Result<PmixStep, Failure> {
    let nodes = grant.nodes.iter().enumerate().map(|(at, node)| {
        let program = parts.get(at).copied().unwrap_or_default();
        Node {
            name: node.name.to_string(),
            ranks: node.task_ids.clone(),
            program: u32::try_from(program).unwrap_or_default(),
        }
    });
    let layout = Layout::new(nodes.collect()).map_err(|why| {
        let why = format!("PMIx cannot describe this step: {why}");
        Failure::error(Command::Srun, why)
    })?;
    Ok(PmixStep {
        version,
        ..PmixStep::from(&layout)
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
        let stuck = self.mpi.ended(task).and(self.pmix.ended(task));
        if let Err(Stuck(why)) = stuck {
            self.stuck(&why);
        }
    }

    /// The PMIx server of a node says something to those of others.
    pub(super) fn pmix(&mut self, at: usize, message: Pmix) {
        let heard = match Message::try_from(message) {
            Ok(message) => self.pmix.hear(at, message),
            Err(bad) => Err(Stuck(format!("{}: {bad}", self.host(at)))),
        };
        match heard {
            Ok(None) => {}
            Ok(Some(Delivery { nodes, messages })) => {
                let messages: Arc<Vec<Pmix>> =
                    Arc::new(messages.into_iter().map(Pmix::from).collect());
                for link in nodes.into_iter().filter_map(|node| self.links.get(node)) {
                    // Bounded by what the tasks may have under way: pieces of one thing keep their order, and that is enough.
                    tokio::spawn(deliver(link.clone(), Arc::clone(&messages)));
                }
            }
            Err(Stuck(why)) => self.stuck(&why),
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
        if abort.server {
            err(format_args!("{host}: the node's PMIx server has ended"));
        } else if abort.stuck {
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

async fn deliver(link: Link, messages: Arc<Vec<Pmix>>) {
    for message in messages.iter() {
        link.tell(to_step::Kind::Pmix(message.clone())).await;
    }
}

async fn spread(link: Link, all: Arc<Vec<Exchange>>) {
    for piece in all.iter() {
        link.tell(to_step::Kind::Exchange(piece.clone())).await;
    }
}
