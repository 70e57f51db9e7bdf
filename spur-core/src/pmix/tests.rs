use super::layout::{Layout, Node, Process, Unfit};
use super::step::{Delivery, Hub, NAMED_MAX};
use super::{CHUNK, Message, Purpose, pieces, status};

fn node(name: &str, ranks: &[u32], program: u32) -> Node {
    Node {
        name: name.into(),
        ranks: ranks.into(),
        program,
    }
}

#[test]
fn a_layout_is_said_as_pmix_reads_it() {
    for (nodes, names, ranks, programs) in [
        (vec![node("n1", &[0], 0)], "n1", "0", 1),
        (
            vec![node("n1", &[0, 1], 0), node("n2", &[2, 3], 0)],
            "n1,n2",
            "0,1;2,3",
            1,
        ),
        // Cyclic, and given in another order.
        (
            vec![node("b", &[2, 0], 0), node("a", &[3, 1], 0)],
            "b,a",
            "0,2;1,3",
            1,
        ),
        (
            vec![node("n1", &[0], 0), node("n2", &[1, 2], 1)],
            "n1,n2",
            "0;1,2",
            2,
        ),
    ] {
        let size: usize = nodes.iter().map(|node| node.ranks.len()).sum();
        let layout = Layout::new(nodes).expect("it is right");
        assert_eq!(
            (layout.names().as_str(), layout.ranks().as_str()),
            (names, ranks)
        );
        assert_eq!(
            (layout.programs(), layout.size() as usize),
            (programs, size)
        );
    }
}

#[test]
fn nodes_that_pmix_cannot_tell_apart_are_refused() {
    let twice = vec![node("n1", &[0], 0), node("n1", &[1], 1)];
    assert_eq!(Layout::new(twice), Err(Unfit::Twice("n1".into())));
    for name in ["", "a,b", "a;b", "pmix:a", "n[1-2]"] {
        let layout = Layout::new(vec![node(name, &[0], 0)]);
        assert_eq!(layout, Err(Unfit::Name(name.into())));
    }
}

#[test]
fn processes_know_their_place_on_the_node_and_in_their_program() {
    let nodes = vec![
        node("n1", &[0, 2], 0),
        node("n2", &[1, 3], 0),
        node("n3", &[4, 5], 1),
    ];
    let processes = Layout::new(nodes).expect("it is right").processes();
    let process = |rank, node, local, program, of_program, leader| Process {
        rank,
        node,
        local,
        program,
        of_program,
        leader,
    };
    assert_eq!(
        processes,
        [
            process(0, 0, 0, 0, 0, 0),
            process(1, 1, 0, 0, 1, 0),
            process(2, 0, 1, 0, 2, 0),
            process(3, 1, 1, 0, 3, 0),
            process(4, 2, 0, 1, 0, 4),
            process(5, 2, 1, 1, 1, 4),
        ]
    );
}

#[test]
fn data_is_cut_and_comes_whole() {
    for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 7] {
        let data: Vec<u8> = (0..=250).cycle().take(length).collect();
        let cut = pieces(&data, |data, last| told(9, &data, last));
        let mut whole = Vec::new();
        for (at, piece) in cut.iter().enumerate() {
            let Message::Told { data, last, .. } = piece else {
                panic!("another message: {piece:?}");
            };
            assert!(data.len() <= CHUNK);
            assert_eq!(*last, at + 1 == cut.len());
            whole.extend_from_slice(data);
        }
        assert_eq!(whole, data);
        assert_eq!(cut.len(), length.div_ceil(CHUNK).max(1));
    }
}

fn meet(ranks: &[u32], data: &[u8], last: bool) -> Message {
    meet_for(Purpose::Fence, ranks, data, last)
}

fn meet_for(purpose: Purpose, ranks: &[u32], data: &[u8], last: bool) -> Message {
    Message::Meet {
        meeting: (purpose, ranks.to_vec()),
        data: data.to_vec(),
        last,
    }
}

fn told(id: u32, data: &[u8], last: bool) -> Message {
    Message::Told {
        id,
        status: status::SUCCESS,
        data: data.to_vec(),
        last,
    }
}

fn to(nodes: &[usize], message: Message) -> Option<Delivery> {
    Some(Delivery {
        nodes: nodes.to_vec(),
        messages: vec![message],
    })
}

fn hub() -> Hub {
    Hub::new(vec![vec![0, 1], vec![2, 3], vec![4]])
}

#[test]
fn a_fence_is_over_when_every_node_has_said_all() {
    let mut hub = hub();
    // What it says comes in pieces, and by node whatever the order.
    let said: [(usize, &[u8], bool); 4] = [
        (1, b"ba", false),
        (0, b"a1", true),
        (1, b"b2", true),
        (2, b"", true),
    ];
    for (node, data, last) in said {
        let due = (node == 2).then(|| meet(&[], b"a1bab2", true));
        let heard = hub.hear(node, meet(&[], data, last)).expect("it goes on");
        assert_eq!(heard, due.and_then(|due| to(&[0, 1, 2], due)));
    }
    // The next begins anew.
    assert_eq!(hub.hear(0, meet(&[], b"x", true)), Ok(None));
}

#[test]
fn a_fence_of_some_waits_for_their_nodes_only() {
    let mut hub = hub();
    assert_eq!(hub.hear(0, meet(&[1, 4], b"a", true)), Ok(None));
    // Another one, of others, and one for another purpose, are other meetings.
    assert_eq!(hub.hear(2, meet(&[], b"all", true)), Ok(None));
    let connect = meet_for(Purpose::Connect, &[1, 4], b"", true);
    assert_eq!(hub.hear(2, connect), Ok(None));
    let heard = hub.hear(2, meet(&[1, 4], b"c", true));
    assert_eq!(heard, Ok(to(&[0, 2], meet(&[1, 4], b"ac", true))));
    // One node alone.
    let heard = hub.hear(1, meet(&[2, 3], b"b", true));
    assert_eq!(heard, Ok(to(&[1], meet(&[2, 3], b"b", true))));
}

#[test]
fn nobody_waits_for_a_rank_that_has_ended() {
    // It ends before others come, or while they wait.
    let mut before = hub();
    assert_eq!(before.ended(4), Ok(()));
    assert_eq!(before.hear(0, meet(&[1, 2], b"", true)), Ok(None));
    let stuck = before.hear(0, meet(&[], b"", true)).expect_err("4 is gone");
    assert!(stuck.0.contains("task 4 ended"), "{stuck:?}");
    let mut while_waiting = hub();
    assert_eq!(while_waiting.hear(0, meet(&[1, 4], b"", true)), Ok(None));
    assert_eq!(while_waiting.ended(3), Ok(()));
    assert!(while_waiting.ended(4).is_err());
}

#[test]
fn a_fence_has_an_end_of_its_memory() {
    let mut hub = hub();
    let piece = vec![0; 64 << 20];
    for _ in 0..4 {
        assert_eq!(hub.hear(0, meet(&[], &piece, false)), Ok(None));
    }
    assert!(hub.hear(0, meet(&[], b"x", false)).is_err());
}

#[test]
fn questions_go_to_the_node_that_knows_and_answers_to_who_asked() {
    let mut hub = hub();
    let ask = |id, rank| Message::Ask { id, rank };
    // Two nodes use the same number.
    assert_eq!(hub.hear(0, ask(7, 4)), Ok(to(&[2], ask(0, 4))));
    assert_eq!(hub.hear(1, ask(7, 4)), Ok(to(&[2], ask(1, 4))));
    // Not for another node to answer.
    assert_eq!(hub.hear(0, told(1, b"false", true)), Ok(None));
    assert_eq!(hub.hear(2, told(1, b"da", false)), Ok(None));
    let heard = hub.hear(2, told(0, b"x", true));
    assert_eq!(heard, Ok(to(&[0], told(7, b"x", true))));
    let heard = hub.hear(2, told(1, b"ta", true));
    assert_eq!(heard, Ok(to(&[1], told(7, b"data", true))));
    // It is answered once.
    assert_eq!(hub.hear(2, told(1, b"", true)), Ok(None));
    let nobody = Message::Told {
        id: 8,
        status: status::NOT_FOUND,
        data: Vec::new(),
        last: true,
    };
    assert_eq!(hub.hear(0, ask(8, 5)), Ok(to(&[0], nobody)));
}

/// Nobody but this node comes to any of them.
#[test]
fn meetings_that_are_awaited_take_room() {
    let meet = |first: u32| Message::Meet {
        meeting: (Purpose::Fence, (first..first + (1 << 16)).collect()),
        data: Vec::new(),
        last: true,
    };
    let mut hub = Hub::new(vec![vec![0], vec![1 << 16]]);
    let room = u32::try_from(NAMED_MAX >> 18).expect("it is a small number");
    let mut heard = (1..=room).map(|first| hub.hear(0, meet(first)));
    assert!(heard.any(|heard| heard.is_err()));
    // What is over takes none.
    let mut hub = Hub::new(vec![vec![1 << 16]]);
    assert!((1..=room).all(|first| hub.hear(0, meet(first)).is_ok()));
}
