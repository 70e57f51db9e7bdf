//! `spur fence log`.

use super::{failed, line, report, troubled, view};
use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::link::{self, Trouble};
use crate::cli::output;
use crate::cli::render::show_job;
use spur_core::api::{Reply, Request};
use spur_core::denial::Denial;
use spur_core::id::JobId;
use std::time::Duration;

/// The most lines that are asked for at once.
const LIMIT: u32 = 10_000;
/// How often a controller that went away is looked for while the log is followed, one second apart.
const TRIES: u32 = 600;

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
    let mut missing = 0;
    loop {
        let denials = match link::run(link::ask(&request)) {
            Ok(Reply::Denials(denials)) => denials,
            Ok(_) => return Err(troubled(&link::unexpected())),
            // A controller that is being restarted goes on where it was.
            Err(Trouble::Contact(_)) if is_waiting(&request) && missing < TRIES => {
                missing += 1;
                std::thread::sleep(Duration::from_secs(1));
                continue;
            }
            Err(trouble) => return Err(troubled(&trouble)),
        };
        missing = 0;
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
