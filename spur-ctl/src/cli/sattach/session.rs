//! The time that sattach is attached.

use super::Filters;
use crate::cli::failure::Failure;
use crate::cli::flags::Command;
use crate::cli::flags::getopt::Options;
use crate::cli::srun::files::{Feed, Sink};
use crate::cli::srun::label::Labels;
use crate::cli::srun::printer::{self, Piece, Printer};
use crate::cli::srun::terminal::Terminal;
use crate::cli::srun::wire::{self, Link, News};
use crate::cli::srun::{signals, stdin, words};
use spur_core::api::Grant;
use spur_proto::wire::{Open, TaskExit, from_step};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Asked,
    Attached,
    Done,
}

struct Session<'a> {
    options: &'a Options,
    grant: &'a Grant,
    filters: Filters,
    nodes: Vec<Node>,
    labels: Option<Labels>,
    /// One.
    printers: [Printer; 1],
    terminal: Option<Terminal>,
    /// The highest code of a task.
    code: u8,
}

/// Attaches, until the step has ended or the user wants no more. The answer is the exit code.
pub(super) async fn run(options: &Options, grant: &Grant, filters: Filters) -> Result<u8, Failure> {
    let cannot = |why: std::io::Error| Failure::error(Command::Sattach, why);
    let mut signals = signals::listen().map_err(cannot)?;
    words::start();
    let gone = Arc::new(Notify::new());
    let printer = Printer::new(&Sink::Own, &Sink::Own, &gone).map_err(cannot)?;
    let tasks: usize = grant.nodes.iter().map(|node| node.task_ids.len()).sum();
    let labels = options.on("label");
    let labels = labels.then(|| Labels::new(u32::try_from(tasks).unwrap_or(u32::MAX)));
    let mut session = Session {
        options,
        grant,
        filters,
        nodes: vec![Node::Asked; grant.nodes.len()],
        labels,
        printers: [printer],
        terminal: options.on("pty").then(|| Terminal::open("")).flatten(),
        code: 0,
    };
    let parts = vec![0; grant.nodes.len()];
    let (links, mut inbox) = wire::connect(grant, (&[Open::default()], &[]), &parts);
    stdin::pump(Feed::All, fed(grant, &links, filters.input), filters.input);
    if let Some(terminal) = &mut session.terminal {
        terminal.make_raw();
    }
    let mut leaving = false;
    while !leaving && session.nodes.iter().any(|node| *node != Node::Done) {
        let full = printer::any_holds(&session.printers);
        tokio::select! {
            biased;
            // The step is left as it is.
            Some(signal) = signals.recv() => leaving = signals::ENDING.contains(&signal),
            () = gone.notified() => leaving = true,
            () = printer::room(&mut session.printers), if full => {}
            Some((at, news)) = inbox.recv(), if !full => session.hear(at, news),
        }
    }
    Ok(session.finish(&mut signals, leaving).await)
}

/// The nodes that get input: all, or that of the task that alone gets it.
fn fed(grant: &Grant, links: &[Link], only: Option<u32>) -> Vec<Link> {
    let nodes = grant.nodes.iter().zip(links);
    let wanted = nodes.filter(|(node, _)| only.is_none_or(|task| node.task_ids.contains(&task)));
    wanted.map(|(_, link)| link.clone()).collect()
}

impl Session<'_> {
    fn hear(&mut self, at: usize, news: News) {
        match news {
            News::Message(from_step::Kind::Started(_)) => self.nodes[at] = Node::Attached,
            News::Message(from_step::Kind::Output(output)) => {
                let only = self.filters.output[usize::from(output.stderr)];
                if only.is_none_or(|only| only == output.task) {
                    let (task, stderr) = (output.task, output.stderr);
                    let data = match &mut self.labels {
                        Some(labels) => labels.push(task, stderr, &output.data),
                        None => output.data,
                    };
                    self.print(Piece { stderr, data });
                }
            }
            News::Message(from_step::Kind::Exit(exit)) => self.exited(exit),
            News::Message(from_step::Kind::Error(error)) => {
                self.fail(at, error.text.trim_start_matches("error: "));
            }
            News::Message(from_step::Kind::Ended(_)) => self.nodes[at] = Node::Done,
            News::Message(from_step::Kind::Skipped(skipped)) => self.say(format_args!(
                "warning: {} bytes of output were not shown: they came faster than they could be",
                skipped.bytes
            )),
            // Between the step's own tasks and its srun.
            News::Message(
                from_step::Kind::Exchange(_)
                | from_step::Kind::Abort(_)
                | from_step::Kind::Name(_)
                | from_step::Kind::Taken(_)
                | from_step::Kind::Pmix(_),
            ) => {}
            News::Gone(why) => {
                if self.nodes[at] != Node::Done {
                    self.fail(at, &why);
                }
            }
        }
    }

    /// A node cannot be heard.
    fn fail(&mut self, at: usize, why: &str) {
        let node = self
            .grant
            .nodes
            .get(at)
            .map_or("?", |node| node.name.as_str());
        let step = self.grant.step;
        let why = format!("Unable to attach to StepId={step} on node {node}: {why}");
        words::say(format!("sattach: error: {why}"));
        self.nodes[at] = Node::Done;
        self.code = self.code.max(1);
    }

    fn exited(&mut self, exit: TaskExit) {
        for stderr in [false, true] {
            let rest = self.labels.as_mut();
            let data = rest.map(|labels| labels.flush(exit.task, stderr));
            let data = data.unwrap_or_default();
            self.print(Piece { stderr, data });
        }
        let TaskExit {
            task, code, signal, ..
        } = exit;
        if code > 0 {
            let line = format!("sattach: error: task {task} exited with exit code {code}");
            words::say(line);
        } else if signal > 0 && self.options.on("verbose") {
            self.say(format_args!("task {task} killed by signal {signal}"));
        }
        self.code = self.code.max(u8::try_from(code).unwrap_or(u8::MAX));
    }

    fn say(&self, text: std::fmt::Arguments<'_>) {
        if !self.options.on("quiet") {
            words::say(format!("sattach: {text}"));
        }
    }

    fn print(&mut self, piece: Piece) {
        let [printer] = &mut self.printers;
        printer.print(piece);
    }

    async fn finish(mut self, signals: &mut mpsc::Receiver<u8>, leaving: bool) -> u8 {
        drop(self.terminal.take());
        printer::finish(self.printers.into(), signals, leaving).await;
        self.code
    }
}
