use super::*;
use crate::api::RefusalKind;
use crate::event::Event;
use crate::fixture::{World, batch, gang, gpus, spec};
use crate::id::{JobId, StepId};
use crate::job::spec::{JobKind, JobSpec};

fn step() -> StepSpec {
    StepSpec {
        name: "true".to_owned(),
        tasks: 0,
        nodes: 0,
        cpus_per_task: 0,
        tasks_per_node: 0,
        gpus_per_node: None,
        gpus_per_task: None,
        nodelist: Vec::new(),
        ..StepSpec::default()
    }
}

/// Node, CPUs, GPUs and task ids of each share.
fn show(shares: &[StepShare]) -> String {
    let one = |part: &StepShare| {
        let tasks: crate::resources::IdSet = part.task_ids.iter().copied().collect();
        assert_eq!(part.share.tasks as usize, part.task_ids.len());
        format!(
            "{}:c{}:g{}:t{tasks}",
            part.share.node, part.share.cpus, part.share.gpus
        )
    };
    shares.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn granted(world: &World, job: JobId, spec: &StepSpec) -> String {
    show(&grant(&world.cluster, world.job(job), spec).unwrap())
}

fn refused(world: &World, job: JobId, spec: &StepSpec) -> RefusalKind {
    grant(&world.cluster, world.job(job), spec)
        .unwrap_err()
        .kind
}

fn start(world: &mut World, job: JobId, spec: &StepSpec) -> StepId {
    let shares = grant(&world.cluster, world.job(job), spec).unwrap();
    let step = StepKind::Numbered(world.job(job).next_step);
    let name = spec.name.clone();
    let cpus_per_task = spec.cpus_per_task;
    world.does(Event::StepGranted {
        job,
        step,
        name,
        uid: Uid(1000),
        shares,
        cpus_per_task,
        with: Vec::new(),
        request_id: 0,
        sharing: spec.sharing,
    });
    StepId { job, step }
}

fn alloc(spec: JobSpec) -> JobSpec {
    JobSpec {
        kind: JobKind::Alloc,
        ..spec
    }
}

#[test]
fn a_step_without_numbers_is_as_its_job() {
    let mut world = World::new(3, 8);
    let job = world.start(alloc(JobSpec {
        tasks: 5,
        tasks_set: true,
        cpus_per_task: 2,
        ..gang(2, 4)
    }));
    assert_eq!(
        granted(&world, job, &step()),
        "0:c0-5:g0-3:t0-2 1:c0-3:g0-3:t3-4"
    );
}

#[test]
fn tasks_are_dealt_out_evenly_and_numbered_in_blocks() {
    let mut world = World::new(3, 8);
    let job = world.start(alloc(JobSpec {
        tasks: 24,
        tasks_set: true,
        ..gang(3, 1)
    }));
    let tasks = |tasks| granted(&world, job, &StepSpec { tasks, ..step() });
    assert_eq!(tasks(1), "0:c0-7:g0:t0");
    assert_eq!(tasks(2), "0:c0-7:g0:t0 1:c0-7:g0:t1");
    assert_eq!(tasks(8), "0:c0-7:g0:t0-2 1:c0-7:g0:t3-5 2:c0-7:g0:t6-7");
    let two = StepSpec {
        tasks: 4,
        nodes: 2,
        ..step()
    };
    assert_eq!(granted(&world, job, &two), "0:c0-7:g0:t0-1 1:c0-7:g0:t2-3");
    let named = StepSpec {
        nodelist: vec!["n3".to_owned()],
        tasks_per_node: 2,
        ..step()
    };
    assert_eq!(granted(&world, job, &named), "2:c0-7:g0:t0-1");
}

#[test]
fn a_step_that_was_not_told_of_its_jobs_cpus_per_task_has_room_for_a_task_on_each_cpu() {
    let mut world = World::new(2, 8);
    let job = world.start(alloc(JobSpec {
        cpus_per_task: 2,
        ..gang(2, 1)
    }));
    let four = StepSpec { tasks: 4, ..step() };
    assert_eq!(granted(&world, job, &four), "0:c0-1:g0:t0-1 1:c0-1:g0:t2-3");
    let told = StepSpec {
        cpus_per_task: 2,
        ..four
    };
    assert_eq!(refused(&world, job, &told), RefusalKind::Invalid);
}

#[test]
fn gpus_are_narrowed_and_not_shared_by_steps_that_ask_for_some() {
    let mut world = World::new(1, 8);
    let job = world.start(alloc(JobSpec {
        cpus_per_task: 4,
        ..gang(1, 4)
    }));
    let some = |count| StepSpec {
        gpus_per_node: gpus(count),
        cpus_per_task: 1,
        ..step()
    };
    start(&mut world, job, &some(1));
    start(&mut world, job, &some(2));
    assert_eq!(granted(&world, job, &some(1)), "0:c2:g3:t0");
    assert_eq!(refused(&world, job, &some(2)), RefusalKind::NodesBusy);
    assert_eq!(granted(&world, job, &some(0)), "0:c2:g:t0");
    assert_eq!(
        granted(&world, job, &step()),
        "0:c0-3:g0-3:t0",
        "all of the job's are shared"
    );
    world.step_ended(job, StepKind::Numbered(0), 0, crate::fixture::OK);
    assert_eq!(granted(&world, job, &some(2)), "0:c0:g0,3:t0");
    assert_eq!(refused(&world, job, &some(5)), RefusalKind::Invalid);
}

#[test]
fn steps_have_cpus_of_their_own_where_they_ask_for_that() {
    let mut world = World::new(1, 8);
    let job = world.start(alloc(JobSpec {
        cpus_per_task: 4,
        ..gang(1, 4)
    }));
    let exact = |tasks, sharing| StepSpec {
        tasks,
        cpus_per_task: 1,
        sharing,
        ..step()
    };
    start(&mut world, job, &exact(3, Sharing::Nothing));
    assert_eq!(
        refused(&world, job, &exact(2, Sharing::Nothing)),
        RefusalKind::NodesBusy
    );
    assert_eq!(
        granted(&world, job, &exact(1, Sharing::Nothing)),
        "0:c3:g0-3:t0"
    );
    assert_eq!(
        granted(&world, job, &exact(2, Sharing::Unasked)),
        "0:c0,3:g0-3:t0-1",
        "who does not insist shares"
    );
    assert_eq!(
        refused(&world, job, &exact(5, Sharing::Nothing)),
        RefusalKind::Invalid,
        "what the job does not have never comes free"
    );
    let all = StepSpec {
        gpus_per_node: gpus(4),
        ..exact(4, Sharing::Everything)
    };
    start(&mut world, job, &all);
    assert_eq!(
        granted(&world, job, &all),
        "0:c0-3:g0-3:t0-3",
        "all is shared"
    );
    assert_eq!(
        granted(&world, job, &exact(1, Sharing::Nothing)),
        "0:c3:g0-3:t0"
    );
    world.step_ended(job, StepKind::Numbered(0), 0, crate::fixture::OK);
    start(&mut world, job, &exact(4, Sharing::Nothing));
    assert_eq!(
        refused(&world, job, &exact(1, Sharing::Nothing)),
        RefusalKind::NodesBusy,
        "also of a step that has all"
    );
}

#[test]
fn tasks_are_numbered_as_asked_and_may_outnumber_cpus() {
    let mut world = World::new(3, 8);
    let job = world.start(alloc(JobSpec {
        tasks: 6,
        tasks_set: true,
        ..gang(3, 2)
    }));
    let asked = |tasks, plane| StepSpec {
        tasks,
        plane,
        ..step()
    };
    let tasks = |spec: &StepSpec| {
        let shares = grant(&world.cluster, world.job(job), spec).unwrap();
        let ids = |part: &StepShare| format!("{}:{:?}", part.share.node, part.task_ids);
        shares.iter().map(ids).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(tasks(&asked(5, 0)), "0:[0, 1] 1:[2, 3] 2:[4]");
    assert_eq!(tasks(&asked(5, 1)), "0:[0, 3] 1:[1, 4] 2:[2]");
    assert_eq!(tasks(&asked(5, 2)), "0:[0, 1] 1:[2, 3] 2:[4]");
    assert_eq!(refused(&world, job, &asked(9, 0)), RefusalKind::Invalid);
    let many = StepSpec {
        overcommit: true,
        ..asked(9, 2)
    };
    assert_eq!(tasks(&many), "0:[0, 1, 6] 1:[2, 3, 7] 2:[4, 5, 8]");
    let from = |relative, nodes| StepSpec {
        relative: Some(relative),
        nodes,
        ..step()
    };
    assert_eq!(tasks(&from(1, 0)), "1:[0, 1] 2:[2, 3]");
    assert_eq!(tasks(&from(2, 1)), "2:[0, 1]");
    let without = |names: &[&str], nodes| StepSpec {
        exclude: names.iter().map(|name| (*name).to_owned()).collect(),
        nodes,
        ..step()
    };
    assert_eq!(tasks(&without(&["n1"], 0)), "1:[0, 1] 2:[2, 3]");
    assert_eq!(tasks(&without(&["n2", "elsewhere"], 1)), "0:[0, 1]");
    assert_eq!(
        refused(&world, job, &without(&["n1"], 3)),
        RefusalKind::NodeConfigUnavailable
    );
    let both = StepSpec {
        nodelist: vec!["n1".to_owned()],
        ..without(&["n1"], 1)
    };
    assert_eq!(
        refused(&world, job, &both),
        RefusalKind::NodeConfigUnavailable
    );
    for (relative, nodes) in [(2, 2), (3, 0), (u32::MAX, 1)] {
        assert_eq!(
            refused(&world, job, &from(relative, nodes)),
            RefusalKind::NodeConfigUnavailable
        );
    }
}

#[test]
fn gpus_per_task_follow_the_tasks() {
    let mut world = World::new(2, 8);
    let job = world.start(alloc(JobSpec {
        tasks: 4,
        tasks_set: true,
        ..gang(2, 4)
    }));
    let each = |tasks| StepSpec {
        tasks,
        gpus_per_task: gpus(2),
        ..step()
    };
    assert_eq!(
        granted(&world, job, &each(3)),
        "0:c0-1:g0-3:t0-1 1:c0-1:g0-1:t2"
    );
    assert_eq!(refused(&world, job, &each(5)), RefusalKind::Invalid);
}

#[test]
fn a_step_that_asks_for_more_memory_than_its_job_has_is_refused() {
    use crate::resources::MemoryRequest::{self, PerCpu, PerGpu, PerNode};
    let mut world = World::new(1, 8);
    let job = |memory| {
        alloc(JobSpec {
            tasks: 4,
            tasks_set: true,
            memory,
            ..gang(1, 2)
        })
    };
    let some = world.start(job(PerNode(1000)));
    let asks = |memory: MemoryRequest| StepSpec {
        tasks: 4,
        memory: Some(memory),
        ..step()
    };
    for memory in [
        PerNode(1000),
        PerNode(0),
        PerCpu(250),
        PerGpu(500),
        MemoryRequest::Default,
    ] {
        assert_eq!(granted(&world, some, &asks(memory)), "0:c0-3:g0-1:t0-3");
    }
    for memory in [PerNode(1001), PerCpu(251), PerGpu(501)] {
        assert_eq!(
            refused(&world, some, &asks(memory)),
            RefusalKind::TaskMemory
        );
    }
}

#[test]
fn what_exceeds_the_allocation_is_refused() {
    let mut world = World::new(2, 8);
    let job = world.start(alloc(batch()));
    for (spec, kind) in [
        (StepSpec { tasks: 2, ..step() }, RefusalKind::Invalid),
        (
            StepSpec {
                cpus_per_task: 2,
                ..step()
            },
            RefusalKind::Invalid,
        ),
        (
            StepSpec { nodes: 2, ..step() },
            RefusalKind::NodeConfigUnavailable,
        ),
        (
            StepSpec {
                nodelist: vec!["n2".to_owned()],
                ..step()
            },
            RefusalKind::InvalidNode,
        ),
        (
            StepSpec {
                gpus_per_node: gpus(1),
                ..step()
            },
            RefusalKind::Invalid,
        ),
        (
            StepSpec {
                tasks: u32::MAX,
                cpus_per_task: u32::MAX,
                ..step()
            },
            RefusalKind::Invalid,
        ),
    ] {
        assert_eq!(refused(&world, job, &spec), kind, "{spec:?}");
    }
}

#[test]
fn only_running_jobs_get_steps() {
    let mut world = World::new(1, 8);
    let job = world.submit(spec(JobKind::Alloc));
    assert_eq!(refused(&world, job, &step()), RefusalKind::JobPending);
    world.does(Event::Cancelled { job, by: Uid(0) });
    assert_eq!(refused(&world, job, &step()), RefusalKind::AlreadyDone);
}

#[test]
fn no_step_has_more_tasks_than_can_be_numbered() {
    let mut world = World::new(2, 8);
    let job = world.start(gang(2, 1));
    for (tasks, tasks_per_node) in [(65_536, 0), (u32::MAX, 0), (0, 40_000), (0, u32::MAX)] {
        for plane in [0, 1] {
            let many = StepSpec {
                tasks,
                tasks_per_node,
                plane,
                overcommit: true,
                ..step()
            };
            assert_eq!(refused(&world, job, &many), RefusalKind::Invalid);
        }
    }
    let most = StepSpec {
        tasks: 65_535,
        overcommit: true,
        ..step()
    };
    assert_eq!(
        grant(&world.cluster, world.job(job), &most).unwrap().len(),
        2
    );
}
