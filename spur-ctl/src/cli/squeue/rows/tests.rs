use super::*;
use crate::cli::render::format::Layout;
use crate::cli::render::job_columns;
use crate::cli::render::tests::samples::{at, big, held, job, spec, train, view, wrapped};
use crate::cli::squeue::order;
use spur_core::api::LinesMaker;
use spur_core::id::JobId;
use spur_core::job::array::{ArrayView, TaskSet};

/// What an array has left, and tasks of it that are on their own.
fn array() -> Vec<JobView> {
    let part = |id: u32, task: Option<u32>| {
        let mut job = job(id, spec("array"));
        let tasks = match task {
            None => (2..6).collect(),
            Some(_) => TaskSet::new(),
        };
        job.array = Some(ArrayView {
            job: JobId(20),
            task,
            tasks,
            throttle: 2,
        });
        job
    };
    let mut runs = part(22, Some(1));
    runs.state = JobState::Running;
    runs.started = Some(at(3));
    vec![part(20, None), part(21, Some(9)), runs]
}

fn jobs() -> Vec<Arc<JobView>> {
    let few = [big(), held(), wrapped(), train()];
    few.into_iter().chain(array()).map(Arc::new).collect()
}

fn as_lines(jobs: &[Arc<JobView>]) -> Came {
    let mut maker = LinesMaker::new();
    jobs.iter().for_each(|job| maker.push(job, None));
    let mut lines = maker.done();
    lines.fold();
    Came::Lines(Box::new(lines))
}

const FORMAT: &str = "%i|%A|%F|%K|%P|%j|%u|%U|%a|%q|%t|%T|%M|%l|%L|%D|%R|%r|%N|%Q|%p|%V";

fn shown(came: Came, order: &Order, each_task: bool) -> Vec<String> {
    let view = view(at(7));
    let shape = Shape {
        view: &view,
        order,
        each_task,
        boundless: false,
        tasks_shown: None,
    };
    let layout = Layout::letters(FORMAT, &job_columns::TABLE);
    let mut rows = Vec::new();
    let write = |row: &JobRow| {
        rows.push(layout.row(&view, row));
        true
    };
    shape.for_each(came, |_| true, write);
    rows
}

#[test]
fn lines_show_the_same_rows_as_whole_jobs() {
    let jobs = jobs();
    for sort in [order::DEFAULT, "S", "-j,i", "N,-V", "L,u"] {
        let order = order::read(sort).unwrap();
        for each_task in [false, true] {
            let whole = shown(Came::Jobs(jobs.clone()), &order, each_task);
            assert_eq!(shown(as_lines(&jobs), &order, each_task), whole, "{sort}");
            assert_eq!(whole.len(), if each_task { 10 } else { 6 });
        }
    }
}

#[test]
fn a_task_on_its_own_that_waits_is_shown_with_its_array() {
    let order = order::read("i").unwrap();
    let jobs: Vec<Arc<JobView>> = array().into_iter().map(Arc::new).collect();
    let ids = |each_task| -> Vec<String> {
        let rows = shown(as_lines(&jobs), &order, each_task);
        let first = |row: &String| row.split('|').next().unwrap_or_default().to_owned();
        rows.iter().map(first).collect()
    };
    assert_eq!(ids(false), ["20_1", "20_[2-5,9]"]);
    assert_eq!(ids(true), ["20_1", "20_9", "20_2", "20_3", "20_4", "20_5"]);
}

#[test]
fn only_lines_that_pass_are_rows_and_writing_stops_when_it_is_enough() {
    let view = view(at(7));
    let order = order::read("i").unwrap();
    let shape = Shape {
        view: &view,
        order: &order,
        each_task: false,
        boundless: false,
        tasks_shown: None,
    };
    let mut seen = Vec::new();
    let passes = |job: &JobView| job.array.is_none();
    let write = |row: &JobRow| {
        seen.push(row.job.id);
        seen.len() < 3
    };
    shape.for_each(as_lines(&jobs()), passes, write);
    let mut all: Vec<JobId> = jobs().iter().map(|job| job.id).collect();
    all.truncate(4);
    all.sort_unstable();
    all.truncate(3);
    assert_eq!(seen, all);
    shape.for_each(as_lines(&[]), |_| true, |_| panic!("there is no row"));
}
