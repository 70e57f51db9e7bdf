//! What was decided, line by line, and a hash over it: the same input gives the same bytes.

use spur_core::event::Event;
use spur_core::id::NodeId;
use spur_core::time::Millis;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

/// The log of a replay. Every line is `SECONDS.MILLIS WHAT…`, counted from the first moment.
pub(super) struct Log<'w> {
    out: Option<&'w mut dyn Write>,
    /// The first error of `out`; nothing is written after it.
    failed: Option<std::io::Error>,
    hash: u64,
    start: Millis,
    line: String,
    names: BTreeMap<NodeId, String>,
}

impl<'w> Log<'w> {
    /// A log that begins at `start` and is written to `out` if there is one.
    pub(super) fn new(start: Millis, out: Option<&'w mut dyn Write>) -> Self {
        Self {
            out,
            failed: None,
            hash: 0xcbf2_9ce4_8422_2325,
            start,
            line: String::new(),
            names: BTreeMap::new(),
        }
    }

    /// How a node is called.
    pub(super) fn name(&mut self, node: NodeId, name: &str) {
        self.names.insert(node, name.to_owned());
    }

    /// Writes down an event that matters; readings and explanations do not.
    pub(super) fn event(&mut self, at: Millis, event: &Event) {
        let since = at.0.saturating_sub(self.start.0);
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let written = write!(line, "{}.{:03} ", since / 1000, since % 1000)
            .and_then(|()| self.describe(&mut line, event));
        if matches!(written, Ok(true)) {
            line.push('\n');
            self.put(&line);
        }
        self.line = line;
    }

    /// Whether the event is written down at all.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a log of what decides waits; new kinds of events are added when they do"
    )]
    fn describe(&self, line: &mut String, event: &Event) -> Result<bool, std::fmt::Error> {
        let node = |node: &NodeId| self.names.get(node).map_or("?", String::as_str);
        match event {
            Event::Submitted { job, spec, .. } => {
                write!(line, "submit {job} {}", spec.owner.user)?;
            }
            Event::Placed { job, shares, .. } => {
                write!(line, "start {job}")?;
                for share in shares {
                    write!(line, " {}:{}", node(&share.node), share.gpus)?;
                }
            }
            Event::HetPlaced { parts, .. } => {
                write!(line, "start together")?;
                for (job, shares) in parts {
                    for share in shares {
                        write!(line, " {job}:{}:{}", node(&share.node), share.gpus)?;
                    }
                }
            }
            Event::StepEnded { job, .. } => write!(line, "end {job}")?,
            Event::TimedOut { job } => write!(line, "timeout {job}")?,
            Event::LaunchFailed { job, node: at, .. } => {
                write!(line, "launch-failed {job} {}", node(at))?;
            }
            Event::Released { job } => write!(line, "release {job}")?,
            Event::Cleaned { job, node: at, .. } => write!(line, "clean {job} {}", node(at))?,
            Event::NodeConnected(hello) => write!(line, "node {} up", hello.name)?,
            Event::NodeDisconnected { node: at } => write!(line, "node {} silent", node(at))?,
            Event::NodeLost { node: at } => write!(line, "node {} lost", node(at))?,
            Event::NodeUpdated {
                node: at, admin, ..
            } => {
                write!(line, "node {} {admin:?}", node(at))?;
            }
            Event::FenceChanged {
                node: at,
                gpus_sick: Some(sick),
                ..
            } => {
                write!(line, "node {} sick:{sick}", node(at))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn put(&mut self, line: &str) {
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.failed.is_none()
            && let Some(out) = &mut self.out
            && let Err(error) = out.write_all(line.as_bytes())
        {
            self.failed = Some(error);
        }
    }

    /// The hash over all lines (64-bit FNV-1a), and what went wrong with writing them.
    pub(super) fn finish(self) -> (u64, Option<std::io::Error>) {
        let flushed = self.out.map(|out| out.flush());
        let failed = self.failed.or_else(|| flushed.and_then(Result::err));
        (self.hash, failed)
    }
}
