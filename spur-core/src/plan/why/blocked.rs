//! What must change before a job can start, where it is not the end of jobs that have one; and what the job still wants of the
//! network.

use super::Known;
use super::amount::{Want, listed};
use super::holders::Returns;
use crate::api::{JobView, NodeView, Stop};
use crate::job::state::Reason;
use crate::plan::ask::Ask;
use crate::plan::class::switch_wait;
use crate::slurm::hostlist;
use crate::time::Millis;

/// Names that are written out one by one.
const FEW: usize = 3;

/// A clause; `None` where ends that are known make enough room, as far as amounts tell.
pub(super) fn of(
    want: &Want<'_>,
    found: &[(&NodeView, Stop, String)],
    back: &Returns,
) -> Option<String> {
    let wanted = want.nodes_min as usize;
    let able = |stop: Stop| {
        matches!(
            stop,
            Stop::Nothing | Stop::Shape | Stop::Busy | Stop::Resting
        )
    };
    let able = found.iter().filter(|(_, stop, _)| able(*stop)).count();
    let out = found.iter().filter(|(_, stop, _)| is_out(*stop));
    let out: Vec<&str> = out.map(|(view, ..)| view.node.name.as_str()).collect();
    if able < wanted && !out.is_empty() {
        let missing = wanted - able;
        let some = match (missing, out.len()) {
            (missing, there) if missing >= there => String::new(),
            (missing, _) => format!("{missing} of "),
        };
        let who = if out.len() <= FEW {
            listed(&out)
        } else {
            hostlist::compress(&out)
        };
        return Some(format!(
            "it cannot start before {some}{who} can serve again"
        ));
    }
    let endless = back.releases.iter();
    let endless = endless.filter(|release| release.until.is_none() && !release.cleaning);
    let mut endless: Vec<String> = endless.map(|release| release.job.to_string()).collect();
    endless.dedup();
    if back.enough.is_some() || endless.is_empty() {
        return None;
    }
    let (jobs, have) = match endless.as_slice() {
        [_] => ("job", "has"),
        _ => ("jobs", "have"),
    };
    Some(format!(
        "no start can be told, since {jobs} {} {have} no time limit",
        listed(&endless)
    ))
}

/// Whether a node could serve and does not, until somebody or something puts it in order.
fn is_out(stop: Stop) -> bool {
    matches!(
        stop,
        Stop::LaunchFailed
            | Stop::Unclean
            | Stop::Down
            | Stop::Silent
            | Stop::Drained
            | Stop::Unfenced
            | Stop::Changing
            | Stop::SickGpus
    )
}

/// The number of switches that a job still waits for, and until when.
pub(super) fn network(job: &JobView, ask: &Ask<'_>, known: &Known<'_>) -> Option<(String, Millis)> {
    let wait = switch_wait(job.spec.switches.as_ref()?);
    let until = job.eligible.plus_secs(wait);
    let waits = known.network && ask.nodes_min > 1 && ask.switches > 0 && until > known.at;
    let plural = if ask.switches == 1 { "" } else { "es" };
    waits.then(|| {
        let text = format!("nodes on at most {} switch{plural}", ask.switches);
        (text, until)
    })
}

/// Of a job that the planner found no place for, although as many nodes have room as it wants: they do not lie as it wants them.
pub(super) fn apart(
    job: &JobView,
    (ask, want): (&Ask<'_>, &Want<'_>),
    switches: bool,
    found: &mut [(&NodeView, Stop, String)],
) {
    let why = if switches {
        "on too many switches"
    } else if ask.contiguous {
        "not next to one another"
    } else if ask.segment > 1 {
        "not in blocks as it wants them"
    } else {
        return;
    };
    let ready = found.iter().filter(|(_, stop, _)| *stop == Stop::Nothing);
    if job.reason != Reason::Resources || ready.count() < want.nodes_min as usize {
        return;
    }
    for (_, stop, detail) in found {
        if *stop == Stop::Nothing {
            (*stop, *detail) = (Stop::Shape, why.to_owned());
        }
    }
}
