//! `spur fence log`.

use super::{failed, line, report, troubled, view};
use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::link;
use crate::cli::output;
use crate::cli::render::show_job;
use spur_core::api::{Reply, Request};
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
    loop {
        // A wait outlives the controller's restart, and goes on where it was.
        let answer = if is_waiting(&request) {
            link::run(link::wait_for(&request))
        } else {
            link::question(&request)
        };
        let denials = match answer {
            Ok(Reply::Denials(denials)) => denials,
            Ok(_) => return Err(troubled(&link::unexpected())),
            Err(trouble) => return Err(troubled(&trouble)),
        };
        output::print(&text(json, &denials));
        if !follow || output::is_over() {
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
