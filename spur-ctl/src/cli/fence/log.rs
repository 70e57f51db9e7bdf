//! `spur fence log`.

use super::{failed, line, report, troubled, view};
use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::link::{self, Trouble};
use crate::cli::output;
use crate::cli::render::show_job;
use spur_core::api::{JobFilter, RefusalKind, Reply, Request};
use spur_core::denial::Denial;
use spur_core::id::JobId;

/// The most lines that are asked for at once.
const LIMIT: u32 = 10_000;

/// Prints what there is and, with `--follow`, what comes, until the reader or the job is gone.
pub(super) fn log(options: &Options, job: Option<JobId>) -> Result<u8, Failure> {
    let (json, follow) = (options.on("json"), options.on("follow"));
    let mut request = Request::Denials {
        job,
        limit: LIMIT,
        after: 0,
        alarms: options.on("alarms"),
        wait: false,
    };
    let mut known = false;
    loop {
        let last = follow && job.is_some_and(is_over);
        if let Request::Denials { wait, .. } = &mut request {
            *wait &= !last;
        }
        let Some(answer) = answer(&request) else {
            return Ok(0);
        };
        let denials = match answer {
            Ok(Reply::Denials(denials)) => denials,
            Ok(_) => return Err(troubled(&link::unexpected())),
            // It was there before: it is forgotten by now.
            Err(trouble) if known && trouble.kind() == Some(RefusalKind::InvalidJobId) => {
                return Ok(0);
            }
            Err(trouble) => return Err(troubled(&trouble)),
        };
        known = true;
        output::print(&text(json, &denials));
        if !follow || last || output::is_over() {
            return Ok(0);
        }
        let newest = denials.last().map(|denial| denial.seq);
        let Request::Denials { after, wait, .. } = &mut request else {
            return Err(failed("this is no request for refusals"));
        };
        *after = newest.unwrap_or(*after);
        *wait = true;
    }
}

/// The answer; nothing if the reader went away meanwhile. A wait outlives the controller's restart, and goes on where it was.
fn answer(request: &Request) -> Option<Result<Reply, Trouble>> {
    if !is_waiting(request) {
        return Some(link::question(request));
    }
    link::run(async {
        tokio::select! {
            answer = link::wait_for(request) => Some(answer),
            () = output::unread() => None,
        }
    })
}

/// Whether nothing more can come of a job: it holds nothing any more, or is forgotten.
fn is_over(job: JobId) -> bool {
    let filter = JobFilter {
        ids: vec![job],
        all_states: true,
        ..JobFilter::default()
    };
    match link::question(&Request::Jobs { filter }) {
        Ok(Reply::Jobs(jobs)) => jobs
            .first()
            .is_some_and(|job| job.state.is_terminal() && !job.completing),
        Ok(_) => false,
        Err(trouble) => trouble.kind() == Some(RefusalKind::InvalidJobId),
    }
}

fn is_waiting(request: &Request) -> bool {
    matches!(request, Request::Denials { wait: true, .. })
}

fn text(json: bool, denials: &[Denial]) -> String {
    if json {
        return denials
            .iter()
            .map(|denial| line(&report::line(denial)))
            .collect();
    }
    let view = view(denials);
    let lines = denials
        .iter()
        .map(|denial| show_job::denied(&view, denial) + "\n");
    lines.collect()
}
