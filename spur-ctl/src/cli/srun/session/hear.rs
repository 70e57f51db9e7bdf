//! What the nodes say.

use super::super::printer::Piece;
use super::super::tasks::End;
use super::super::wire::News;
use super::super::{err, verbose, words};
use super::{Node, Session};
use spur_core::job::state::ExitStatus;
use spur_proto::wire::{Ended, Output, StepError, TaskExit, from_step};

impl Session<'_> {
    /// Takes one piece of news from a node.
    pub(super) async fn hear(&mut self, at: usize, news: News) {
        match news {
            News::Message(from_step::Kind::Started(_)) => self.started(at),
            News::Message(from_step::Kind::Output(output)) => self.output(at, output),
            News::Message(from_step::Kind::Exit(exit)) => self.exited(at, exit).await,
            News::Message(from_step::Kind::Error(error)) => self.not_started(at, &error),
            News::Message(from_step::Kind::Ended(ended)) => self.ended(at, ended),
            // Said only to those who attached.
            News::Message(from_step::Kind::Skipped(_)) => {}
            News::Message(from_step::Kind::Exchange(exchange)) => self.exchange(at, exchange),
            News::Message(from_step::Kind::Abort(abort)) => self.aborted_by(at, &abort),
            News::Message(from_step::Kind::Name(ask)) => self.name(at, ask),
            News::Message(from_step::Kind::Pmix(message)) => self.pmix(at, message),
            News::Message(from_step::Kind::Taken(taken)) => self.links[at].taken(taken.bytes),
            News::Gone(why) => self.gone(at, &why).await,
        }
    }

    pub(super) fn host(&self, at: usize) -> &str {
        self.grant
            .nodes
            .get(at)
            .map_or("?", |node| node.name.as_str())
    }

    fn started(&mut self, at: usize) {
        self.nodes[at] = Node::Running;
        if self.first_node() == Some(at) {
            self.on_terminal();
        }
        let count = self.tasks.started(at);
        verbose(
            self.options,
            format_args!("Node {}, {count} tasks started", self.host(at)),
        );
    }

    /// Prints what a task on that node said.
    fn print(&mut self, at: usize, piece: Piece) {
        let outlet = self.outlets.get(at).copied().unwrap_or_default();
        if let Some(printer) = self.printers.get_mut(outlet) {
            printer.print(piece);
        }
    }

    fn output(&mut self, at: usize, output: Output) {
        let Output { task, stderr, data } = output;
        let outlet = self.outlets.get(at).copied().unwrap_or_default();
        let only = self
            .only
            .get(outlet)
            .and_then(|only| only[usize::from(stderr)]);
        if only.is_some_and(|only| only != task) {
            return;
        }
        let data = match &mut self.labels {
            Some(labels) => labels.push(task, stderr, &data),
            None => data,
        };
        self.print(at, Piece { stderr, data });
    }

    async fn exited(&mut self, at: usize, exit: TaskExit) {
        let number = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
        let status = ExitStatus {
            code: number(exit.code),
            signal: number(exit.signal),
        };
        for stderr in [false, true] {
            let rest = self
                .labels
                .as_mut()
                .map(|labels| labels.flush(exit.task, stderr));
            let data = rest.unwrap_or_default();
            self.print(at, Piece { stderr, data });
        }
        let wait = u16::from(status.code) << 8 | u16::from(status.signal);
        verbose(
            self.options,
            format_args!(
                "Received task exit notification for 1 task of StepId={} (status=0x{wait:04x}).",
                self.grant.step
            ),
        );
        self.tasks.ended(
            exit.task,
            End {
                status,
                core: exit.core_dumped,
            },
        );
        self.gather();
        self.left(exit.task);
        if (self.kill_on_bad_exit || exit.in_mpi) && status != ExitStatus::default() && !self.ending
        {
            self.end().await;
        }
    }

    fn not_started(&mut self, at: usize, error: &StepError) {
        words::say(error.text.trim_end().to_owned());
        self.failed = true;
        if self.nodes[at] == Node::Starting {
            self.unlaunched = true;
            // Tasks of other nodes that wait for these in MPI wait for ever.
            let ranks = self.grant.nodes.get(at).map(|node| node.task_ids.clone());
            ranks.into_iter().flatten().for_each(|rank| self.left(rank));
        }
    }

    fn ended(&mut self, at: usize, ended: Ended) {
        self.nodes[at] = Node::Done;
        self.cancelled |= ended.cancelled;
        if ended.oom {
            self.tasks.out_of_memory(at);
        }
    }

    /// The connection to a node ended. After its last word that is as it should be.
    async fn gone(&mut self, at: usize, why: &str) {
        let before = std::mem::replace(&mut self.nodes[at], Node::Done);
        match before {
            Node::Done => return,
            Node::Starting if self.failed => {}
            Node::Starting => {
                let (step, host) = (self.grant.step, self.host(at));
                err(format_args!(
                    "Task launch for StepId={step} failed on node {host}: {why}"
                ));
                err(format_args!("Application launch failed: {why}"));
                self.unlaunched = true;
            }
            Node::Running => err(format_args!("Node failure on {}", self.host(at))),
        }
        self.failed = true;
        if !self.over() && !self.ending {
            self.end().await;
        }
    }
}
