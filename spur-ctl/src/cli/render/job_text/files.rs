//! Where a job's streams go.

use super::batch_host;
use crate::cli::render::View;
use crate::cli::render::job_row::JobRow;
use spur_core::api::JobView;
use spur_core::job::spec::JobKind;
use spur_core::slurm::filename;

/// Which of the job's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard input.
    In,
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Where the batch script's stream goes: absolute, with the symbols replaced. A record that stands for several tasks has the
/// number that Slurm has for "none" in place of `%a`.
pub fn file(job: &JobView, stream: Stream) -> String {
    let mut text = String::new();
    write_file(job, stream, &mut text);
    text
}

/// Adds the same.
pub fn write_file(job: &JobView, stream: Stream, out: &mut String) {
    let array = job.array.as_ref();
    let array = array.map(|array| (array.job.0, array.task.unwrap_or(NO_TASK)));
    write_file_of(job, array, stream, out);
}

/// What Slurm shows for the index of a record that has none.
const NO_TASK: u32 = 0xffff_fffe;

fn write_file_of(job: &JobView, array: Option<(u32, u32)>, stream: Stream, out: &mut String) {
    let spec = &job.spec;
    let names = filename::Names {
        job: job.id.0,
        array,
        step: spur_core::id::StepKind::Batch,
        task: 0,
        node: 0,
        host: batch_host(job).unwrap_or("n/a"),
        name: &spec.name,
        user: &spec.owner.user,
    };
    let start = out.len();
    filename::write(asked(job, stream), &names, out);
    if !out[start..].starts_with('/') {
        out.insert(start, '/');
        out.insert_str(start, &spec.work_dir);
    }
}

/// Where the batch script's stream goes: absolute, with its symbols as they are.
pub fn pattern(job: &JobView, stream: Stream) -> String {
    match asked(job, stream) {
        path if path.starts_with('/') => path.to_owned(),
        path => format!("{}/{path}", job.spec.work_dir),
    }
}

fn asked(job: &JobView, stream: Stream) -> &str {
    let spec = &job.spec;
    let output = match (spec.stdout.as_str(), &job.array) {
        ("", None) => filename::DEFAULT_OUTPUT,
        ("", Some(_)) => filename::DEFAULT_ARRAY_OUTPUT,
        (stdout, _) => stdout,
    };
    match stream {
        Stream::In if spec.stdin.is_empty() => "/dev/null",
        Stream::In => &spec.stdin,
        Stream::Err if !spec.stderr.is_empty() => &spec.stderr,
        Stream::Out | Stream::Err => output,
    }
}

/// What `-O StdOut` and the like show: as the job has it, and with the symbols replaced under `--expand-patterns`.
pub fn stream(view: &View, row: &JobRow, stream: Stream) -> String {
    let job = &row.job;
    let own = match stream {
        Stream::In => &job.spec.stdin,
        Stream::Out => &job.spec.stdout,
        Stream::Err => &job.spec.stderr,
    };
    let batch = job.spec.kind == JobKind::Batch;
    if own.is_empty() && (!batch || stream == Stream::Err) {
        return "(null)".to_owned();
    }
    if view.expand_patterns {
        let index = row.index().unwrap_or(NO_TASK);
        let array = job.array.as_ref().map(|array| (array.job.0, index));
        let mut text = String::new();
        write_file_of(job, array, stream, &mut text);
        return text;
    }
    pattern(job, stream)
}
