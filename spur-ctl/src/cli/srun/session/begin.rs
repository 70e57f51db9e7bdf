//! What is read and opened before a step is started.

use super::super::files::{self, Feed, Streams};
use super::super::signals;
use super::super::terminal::{self, Terminal};
use super::{job, open, wait};
use crate::cli::failure::Failure;
use crate::cli::flags::Command;
use crate::cli::flags::getopt::{Options, Source};
use crate::cli::resolve::input::Surroundings;
use spur_core::api::Grant;
use spur_proto::wire::Open;
use tokio::sync::mpsc::Receiver;

/// Reads what is needed once something runs, before anything is asked for.
pub fn check(parts: &[Options], here: &Surroundings) -> Result<(), Failure> {
    wait(&parts[0])?;
    terminal::check(&parts[0])?;
    parts
        .iter()
        .try_for_each(|part| job::limits(part, here).map(drop))
}

/// What the nodes are told, and where streams go.
pub(super) struct Begun {
    pub(super) streams: Vec<Streams>,
    /// By part of the command line: which of the streams are its.
    pub(super) outlet: Vec<usize>,
    pub(super) signals: Receiver<u8>,
    pub(super) opens: Vec<Open>,
    pub(super) terminal: Option<Terminal>,
}

/// Opens files and begins to listen, before anything is started.
pub(super) fn begin(
    parts: &[Options],
    here: &Surroundings,
    grant: &Grant,
    own_job: bool,
) -> Result<Begun, Failure> {
    let (mut streams, outlet) = prepare(parts, here, grant)?;
    let terminal = Terminal::of(&parts[0]);
    if let Some(file) = terminal.as_ref().and_then(|own| own.input(&parts[0])) {
        streams[0].stdin = Feed::File(file);
    }
    let signals = signals::listen().map_err(|why| Failure::error(Command::Srun, why))?;
    let opens = parts.iter().zip(&outlet);
    let opens = opens.map(|(part, outlet)| open(part, here, grant, own_job, &streams[*outlet]));
    let mut opens = opens.collect::<Result<Vec<_>, _>>()?;
    if let (Some(terminal), Some(first)) = (&terminal, opens.first_mut()) {
        let size = terminal.size();
        for (name, number) in [("COL", size.columns), ("ROW", size.rows)] {
            let entry = format!("SLURM_PTY_WIN_{name}={number}");
            first.env.push(entry.into_bytes());
        }
        first.terminal = Some(size);
    }
    Ok(Begun {
        streams,
        outlet,
        signals,
        opens,
        terminal,
    })
}

/// Opens files.
/// A part of the command line that says where its streams go has an outlet of its own; others share that of the part before.
fn prepare(
    parts: &[Options],
    here: &Surroundings,
    grant: &Grant,
) -> Result<(Vec<Streams>, Vec<usize>), Failure> {
    let (mut streams, mut outlet) = (Vec::new(), Vec::new());
    for part in parts {
        let own = |long: &&str| {
            let given = part.last(long);
            given.is_some_and(|given| given.source != Source::Component)
        };
        if streams.is_empty() || ["output", "error", "input"].iter().any(own) {
            streams.push(files::open(part, here, grant)?);
        }
        outlet.push(streams.len() - 1);
    }
    Ok((streams, outlet))
}
