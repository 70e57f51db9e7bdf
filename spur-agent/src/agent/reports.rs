//! What the controller is told: reports, until it has them; refusals, the fence's condition, signs of life.

use super::Agent;
use crate::discover::{memory, tree::Tree};
use crate::journal::{self, Journal};
use spur_core::agent::order::{FromAgent, Report};
use spur_core::event::NodeHello;
use tokio::sync::mpsc;

/// Sentences in a node's note, and characters; the log has all. The controller takes no Hello with more than 4096 bytes of it.
const NOTES_MAX: usize = 12;
const NOTE_CHARS_MAX: usize = 1000;

impl Agent {
    pub(super) fn link_up(&mut self, link: mpsc::Sender<FromAgent>) {
        self.link = Some(link);
        self.sent = 0;
        let hello = self.hello();
        let token = String::from_utf8_lossy(self.keys.token()).into_owned();
        self.send(FromAgent::Hello { token, hello });
        self.send_reports();
        self.refusals.say_again();
    }

    fn hello(&self) -> NodeHello {
        let uname = rustix::system::uname();
        let gpu_notes = self.gpus_out();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        NodeHello {
            name: self.node.config.node.clone(),
            inventory: self.node.machine.inventory.clone(),
            boot_id: self.node.boot_id.clone(),
            boot_time: self.node.boot_time,
            agent_start: self.node.started,
            fence: self.condition.state,
            fence_note: self.note(),
            version: env!("CARGO_PKG_VERSION").into(),
            os: format!(
                "{} {} {}",
                text(uname.sysname()),
                text(uname.release()),
                text(uname.version())
            ),
            hostname: text(uname.nodename()),
            address: self.node.config.address(),
            jobs: self
                .observed
                .jobs
                .iter()
                .map(|(job, (generation, _))| (*job, *generation))
                .collect(),
            fence_suffices: Some(self.takes_jobs()),
            gpus_sick: Some(super::fences::sick(&gpu_notes)),
            gpu_notes,
            keeps_gpus: Some(true),
            stuck: self.stuck_jobs(),
        }
    }

    /// Everything that people should know of this node's condition.
    pub(super) fn note(&self) -> String {
        let fence = Some(self.condition.note.clone()).filter(|note| !note.is_empty());
        let limits = Some(self.node.unenforced()).filter(|text| !text.is_empty());
        let stuck = self.stuck.values().cloned();
        let gone = self
            .node
            .fence()
            .map(crate::fence::node::NodeFence::ungrantable)
            .unwrap_or_default();
        self.full
            .clone()
            .into_iter()
            .chain(fence)
            .chain(self.last_loss.clone())
            .chain(limits)
            .chain(stuck)
            .chain(self.cut_off.values().cloned())
            .chain(gone.into_iter().map(|(_, why)| why))
            .chain(self.appeared.iter().cloned())
            .take(NOTES_MAX)
            .collect::<Vec<_>>()
            .join("; ")
            .chars()
            .take(NOTE_CHARS_MAX)
            .collect()
    }

    /// Hands a message to the link. One that does not take it is behind by its whole queue: it is given up, and everything that
    /// must not be lost is said again over the next one.
    pub(super) fn send(&mut self, message: FromAgent) -> bool {
        let sent = self
            .link
            .as_ref()
            .is_some_and(|link| link.try_send(message).is_ok());
        if !sent {
            self.link = None;
        }
        sent
    }

    /// Journals a report and sends it. One that cannot be journalled is tried again with every beat.
    pub(super) fn report(&mut self, report: Report) {
        tracing::debug!(?report, "report");
        self.unwritten.push_back(report);
        self.write_reports();
    }

    fn write_reports(&mut self) {
        while let Some(report) = self.unwritten.pop_front() {
            if let Err(error) = self.journal.report(report.clone()) {
                tracing::error!(%error, waiting = self.unwritten.len() + 1, "a report cannot be written; it is tried again");
                self.unwritten.push_front(report);
                break;
            }
        }
        self.send_reports();
    }

    /// Sends reports that this link has not carried, as far as it takes them.
    fn send_reports(&mut self) {
        let next: Vec<(u64, Report)> = self
            .journal
            .reports()
            .range(self.sent + 1..)
            .map(|(number, report)| (*number, report.clone()))
            .collect();
        for (number, report) in next {
            // Leaves room for what is said once; the rest follows with acknowledgements.
            if self.link.as_ref().is_none_or(|link| link.capacity() < 16)
                || !self.send(FromAgent::Report { number, report })
            {
                return;
            }
            self.sent = number;
        }
    }

    pub(super) fn acked(&mut self, number: u64) {
        self.journalled(|journal| journal.acked(number));
        self.send_reports();
    }

    /// Does something with the journal whose failure is noted only: a restarted agent would find out for itself.
    pub(super) fn journalled(
        &mut self,
        what: impl FnOnce(&mut Journal) -> Result<(), journal::JournalError>,
    ) {
        if let Err(error) = what(&mut self.journal) {
            tracing::error!(%error, "the journal is behind");
        }
    }

    pub(super) fn beat(&mut self) {
        self.write_reports();
        self.look_at_room();
        self.look_after_fence();
        let tree = Tree::new(std::path::Path::new("/"));
        let load = tree
            .read("proc/loadavg")
            .ok()
            .and_then(|text| hundredths(text.split(' ').next()?));
        let free_mib = memory::free_mib(&tree);
        if self.link.is_some() {
            self.send(FromAgent::Heartbeat {
                load_x100: load.unwrap_or(0),
                free_mib,
            });
        }
    }
}

/// `0.42` as 42.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.')?;
    whole
        .parse::<u32>()
        .ok()?
        .checked_mul(100)?
        .checked_add(part.get(..2)?.parse().ok()?)
}
