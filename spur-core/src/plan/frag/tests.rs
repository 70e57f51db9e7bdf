use super::*;
use crate::plan::mix::{Class, Mix};
use crate::time::Millis;

fn models() -> Models {
    Models::of(["a", "b"].into_iter())
}

fn node(cpus: u64, memory_mib: u64, free: &[(u16, u8)]) -> State {
    let mut state = State::new(cpus * 1_000, memory_mib).with_socket_size(4);
    for (free, socket) in free {
        state.add(Devices {
            free: *free,
            model: 0,
            socket: *socket,
            count: 1,
        });
    }
    state
}

fn part(gpus: u32, milli: u16, cpus: u64) -> Part {
    Part {
        cpu_milli: cpus * 1_000,
        memory_mib: 0,
        gpus,
        milli,
        models: u64::MAX,
        one_socket: false,
    }
}

fn learned(classes: &[(u32, u16, u64, &str, u32)]) -> Scorer {
    let mut mix = Mix::default();
    for (gpus, milli, cpus, accepts, parts) in classes {
        let class = Class {
            gpus: *gpus,
            milli: *milli,
            cpu_milli: cpus * 1_000,
            memory_mib: 0,
            models: (*accepts).to_owned(),
        };
        mix.observe(Millis(0), class, *parts);
    }
    assert!(mix.version() > 0, "enough was seen");
    Scorer::new(&mix, &models())
}

/// Of several nodes, the position of the one with the best score.
fn choose(scorer: &Scorer, nodes: &[State], part: &Part) -> Option<usize> {
    let scores = nodes.iter().map(|node| scorer.score(node, part));
    let ranked = scores
        .enumerate()
        .filter_map(|(at, score)| Some((score?, at)));
    ranked.min().map(|(_, at)| at)
}

#[test]
fn equal_states_are_equal_values_in_whatever_order_devices_came() {
    let one = node(8, 100, &[(1_000, 0), (500, 1), (1_000, 0)]);
    let other = node(8, 100, &[(500, 1), (1_000, 0), (1_000, 0), (0, 1)]);
    assert_eq!(one, other);
    assert_eq!(one.free_milli(), 2_500);
}

#[test]
fn what_does_not_fit_has_no_score() {
    let scorer = Scorer::new(&Mix::default(), &models());
    let here = node(8, 100, &[(1_000, 0), (400, 0)]);
    assert_eq!(scorer.score(&here, &part(2, 1_000, 1)), None);
    assert_eq!(scorer.score(&here, &part(1, 1_000, 9)), None);
    let other_model = Part {
        models: models().mask("b"),
        ..part(1, 500, 1)
    };
    assert_eq!(scorer.score(&here, &other_model), None);
    assert!(scorer.score(&here, &part(2, 400, 8)).is_some());
    let apart = node(8, 100, &[(1_000, 0), (1_000, 1)]);
    let together = Part {
        one_socket: true,
        ..part(2, 1_000, 1)
    };
    assert!(scorer.score(&apart, &part(2, 1_000, 1)).is_some());
    assert_eq!(scorer.score(&apart, &together), None);
}

#[test]
fn a_share_goes_where_it_fills_a_device_that_is_begun() {
    let scorer = learned(&[(1, 500, 1, "", 40), (1, 1_000, 4, "", 40)]);
    let nodes = [
        node(64, 100, &[(1_000, 0), (1_000, 0)]),
        node(64, 100, &[(1_000, 0), (500, 0)]),
    ];
    let share = part(1, 500, 1);
    assert_eq!(choose(&scorer, &nodes, &share), Some(1));
    let best = scorer.best(&nodes[1], &share).unwrap();
    assert_eq!(best.devices[0].free, 500);
    assert_eq!(best.after, node(63, 100, &[(1_000, 0)]));
}

#[test]
fn a_job_without_gpus_takes_cpus_that_no_gpu_needs() {
    let scorer = learned(&[(1, 1_000, 8, "", 100)]);
    let nodes = [
        node(32, 100, &[(1_000, 0); 4]),
        node(32, 100, &[(1_000, 0)]),
        node(16, 100, &[(1_000, 0); 2]),
    ];
    assert_eq!(choose(&scorer, &nodes, &part(0, 0, 8)), Some(1));
}

/// pytorch/ci-infra#696: nodes of two sockets with four GPUs each; small jobs spread, four GPUs are free but never four
/// near one socket. Here each small job keeps off the socket that still is whole.
#[test]
fn small_jobs_do_not_break_up_a_socket_that_a_job_of_four_needs() {
    for scorer in [
        Scorer::new(&Mix::default(), &models()),
        learned(&[(1, 1_000, 4, "", 90), (4, 1_000, 16, "", 10)]),
    ] {
        let mut nodes = vec![node(192, 2_000, &[(1_000, 0), (1_000, 1)].repeat(4)); 3];
        for _ in 0..12 {
            let at = choose(&scorer, &nodes, &part(1, 1_000, 4)).unwrap();
            nodes[at] = scorer.best(&nodes[at], &part(1, 1_000, 4)).unwrap().after;
        }
        let four = Part {
            one_socket: true,
            ..part(4, 1_000, 16)
        };
        for _ in 0..3 {
            let at = choose(&scorer, &nodes, &four).expect("a socket is whole for a job of four");
            nodes[at] = scorer.best(&nodes[at], &four).unwrap().after;
        }
    }
}

#[test]
fn models_that_are_asked_for_by_name_are_kept_for_who_asks() {
    let scorer = learned(&[(1, 1_000, 1, "", 50), (1, 1_000, 1, "a", 50)]);
    let mut of_b = State::new(8_000, 100);
    of_b.add(Devices {
        free: WHOLE,
        model: 1,
        socket: 0,
        count: 1,
    });
    let nodes = [node(8, 100, &[(1_000, 0)]), of_b];
    assert_eq!(choose(&scorer, &nodes, &part(1, 1_000, 1)), Some(1));
}

#[test]
fn several_devices_come_from_as_few_sockets_as_can_be() {
    let scorer = Scorer::new(&Mix::default(), &models());
    let here = node(
        64,
        100,
        &[(1_000, 0), (1_000, 0), (1_000, 1), (1_000, 1), (1_000, 1)],
    );
    let two = scorer.best(&here, &part(2, 1_000, 1)).unwrap();
    assert_eq!(two.devices.len(), 1);
    assert_eq!(
        two.devices[0].socket, 0,
        "the three near the other stay together"
    );
    let four = scorer.best(&here, &part(4, 1_000, 1)).unwrap();
    let taken: Vec<(u8, u16)> = four.devices.iter().map(|d| (d.socket, d.count)).collect();
    assert_eq!(taken, [(1, 3), (0, 1)]);
}
