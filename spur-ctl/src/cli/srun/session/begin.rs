//! What is read and opened before a step is started.

use super::super::files::{self, Streams};
use super::super::signals;
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
    parts
        .iter()
        .try_for_each(|part| job::limits(part, here).map(drop))
}

/// What the nodes are told, and where streams go.
pub(super) type Begun = (Vec<Streams>, Vec<usize>, Receiver<u8>, Vec<Open>);

/// Opens files and begins to listen, before anything is started.
pub(super) fn begin(
    parts: &[Options],
    here: &Surroundings,
    grant: &Grant,
    own_job: bool,
) -> Result<Begun, Failure> {
    let (streams, outlet) = prepare(parts, here, grant)?;
    let signals = signals::listen().map_err(|why| Failure::error(Command::Srun, why))?;
    let opens = parts.iter().zip(&outlet);
    let opens = opens.map(|(part, outlet)| open(part, here, grant, own_job, &streams[*outlet]));
    let opens = opens.collect::<Result<Vec<_>, _>>()?;
    Ok((streams, outlet, signals, opens))
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
