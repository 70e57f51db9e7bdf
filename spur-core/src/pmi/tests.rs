use super::mapping::mapping;
use super::node::{Effect, HELD_MAX, Layout, Refused, Server};
use super::step::Exchange;
use super::wire::{Decoder, Dialect, Message};
use super::{Entry, KEY_MAX, NameRequest, STORE_MAX, VALUE_MAX};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn layout(size: u32) -> Layout {
    Layout {
        job: "7.0".into(),
        size,
        universe: size,
        program: 0,
        mapping: "(vector,(0,2,1))".into(),
    }
}

/// Nodes of a step and the srun between them; what tasks are sent is kept.
struct Step {
    nodes: Vec<Server>,
    exchange: Exchange,
    heard: BTreeMap<u32, Vec<u8>>,
    aborted: Option<(u32, u8)>,
    stuck: Option<String>,
}

impl Step {
    /// With these tasks on each node.
    fn new(tasks: &[&[u32]]) -> Self {
        let size = tasks.iter().map(|ids| ids.len()).sum::<usize>();
        let size = u32::try_from(size).expect("they are few");
        let node = |ids: &&[u32]| Server::new(layout(size), ids.iter().copied());
        Self {
            nodes: tasks.iter().map(node).collect(),
            exchange: Exchange::new(tasks.len()),
            heard: BTreeMap::new(),
            aborted: None,
            stuck: None,
        }
    }

    fn say(&mut self, node: usize, task: u32, text: &[u8]) {
        let effects = self.nodes[node].hear(task, text).expect("it is a message");
        self.act(node, effects);
    }

    fn act(&mut self, node: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send { task, bytes } => self.heard.entry(task).or_default().extend(bytes),
                Effect::Exchange { entries, last } => {
                    match self.exchange.hear(node, entries, last) {
                        Ok(Some(all)) => self.spread(&all),
                        Ok(None) => {}
                        Err(stuck) => self.stuck = Some(stuck.0),
                    }
                }
                Effect::Ask { id, name, request } => {
                    let found = self.exchange.name(name, request);
                    let effects = self.nodes[node].answered(id, found);
                    self.act(node, effects);
                }
                Effect::Abort { task, code, .. } => self.aborted = Some((task, code)),
                Effect::Stuck { task } => self.stuck = Some(format!("task {task} ended")),
            }
        }
    }

    /// Tells every node, in several pieces.
    fn spread(&mut self, all: &[Entry]) {
        for node in 0..self.nodes.len() {
            for piece in all.chunks(2) {
                let effects = self.nodes[node].exchanged(piece.to_vec(), false);
                self.act(node, effects.expect("it waits for that"));
            }
            let effects = self.nodes[node].exchanged(Vec::new(), true);
            self.act(node, effects.expect("it waits for that"));
        }
    }

    fn end(&mut self, node: usize, task: u32) -> bool {
        let (inside, effects) = self.nodes[node].ended(task);
        self.act(node, effects);
        if let Err(stuck) = self.exchange.ended(task) {
            self.stuck = Some(stuck.0);
        }
        inside
    }

    /// What a task heard since the last call.
    fn heard(&mut self, task: u32) -> String {
        let bytes = self.heard.remove(&task).unwrap_or_default();
        String::from_utf8(bytes).expect("text")
    }
}

/// A message of PMI-2.
fn counted(body: &str) -> Vec<u8> {
    format!("{:6}{body}", body.len()).into_bytes()
}

#[test]
fn mpichs_first_questions_are_answered() {
    let mut step = Step::new(&[&[0, 1]]);
    for (asked, due) in [
        (
            "cmd=init pmi_version=1 pmi_subversion=1\n",
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
        ),
        (
            "cmd=get_maxes\n",
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=256 vallen_max=1024\n",
        ),
        ("cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n"),
        ("cmd=get_my_kvsname\n", "cmd=my_kvsname rc=0 kvsname=7.0\n"),
        ("cmd=get_universe_size\n", "cmd=universe_size rc=0 size=2\n"),
        (
            "cmd=get kvsname=7.0 key=PMI_process_mapping\n",
            "cmd=get_result rc=0 msg=success value=(vector,(0,2,1))\n",
        ),
        (
            "cmd=get kvsname=7.0 key=none\n",
            "cmd=get_result rc=-1 msg=key_not_found info=key_not_found value=unknown\n",
        ),
        (
            "cmd=odd a=b\n",
            "cmd=odd_result rc=-1 msg=unknown_command info=unknown_command\n",
        ),
        ("cmd=finalize\n", "cmd=finalize_ack rc=0\n"),
    ] {
        step.say(0, 0, asked.as_bytes());
        assert_eq!(step.heard(0), due, "{asked}");
    }
}

#[test]
fn what_one_node_puts_the_other_gets_after_the_barrier() {
    let mut step = Step::new(&[&[0, 1], &[2]]);
    step.say(0, 0, b"cmd=put kvsname=7.0 key=a value=1=x;\n");
    assert_eq!(step.heard(0), "cmd=put_result rc=0 msg=success\n");
    step.say(0, 0, b"cmd=barrier_in\n");
    step.say(1, 2, b"cmd=barrier_in\n");
    assert_eq!(
        (step.heard(0), step.heard(2)),
        (String::new(), String::new())
    );
    step.say(0, 1, b"cmd=barrier_in\n");
    for task in 0..3 {
        assert_eq!(step.heard(task), "cmd=barrier_out rc=0\n");
    }
    step.say(1, 2, b"cmd=get kvsname=7.0 key=a\n");
    assert_eq!(
        step.heard(2),
        "cmd=get_result rc=0 msg=success value=1=x;\n"
    );
}

#[test]
fn pmi_2_begins_with_a_line_and_goes_on_with_lengths() {
    let mut step = Step::new(&[&[0], &[1]]);
    for task in 0..2 {
        let node = task as usize;
        step.say(node, task, b"cmd=init pmi_version=2 pmi_subversion=0\n");
        assert_eq!(
            step.heard(task),
            "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n"
        );
        step.say(
            node,
            task,
            &counted("cmd=fullinit;pmijobid=7.0;pmirank=0;threaded=FALSE;"),
        );
        let body = format!(
            "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank={task};size=2;appnum=0;debugged=FALSE;pmiverbose=FALSE;"
        );
        assert_eq!(step.heard(task).as_bytes(), counted(&body));
    }
    step.say(0, 0, &counted("cmd=kvs-put;key=k;value=a;;b;thrid=t1;"));
    assert_eq!(
        step.heard(0).as_bytes(),
        counted("cmd=kvs-put-response;thrid=t1;rc=0;")
    );
    step.say(0, 0, &counted("cmd=kvs-fence;thrid=t2;"));
    step.say(1, 1, &counted("cmd=kvs-fence;"));
    assert_eq!(
        step.heard(0).as_bytes(),
        counted("cmd=kvs-fence-response;thrid=t2;rc=0;")
    );
    assert_eq!(
        step.heard(1).as_bytes(),
        counted("cmd=kvs-fence-response;rc=0;")
    );
    step.say(1, 1, &counted("cmd=kvs-get;jobid=7.0;srcid=-1;key=k;"));
    let due = counted("cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b;");
    assert_eq!(step.heard(1).as_bytes(), due);
    step.say(1, 1, &counted("cmd=info-getjobattr;key=universeSize;"));
    let due = counted("cmd=info-getjobattr-response;rc=0;found=TRUE;value=2;");
    assert_eq!(step.heard(1).as_bytes(), due);
    step.say(1, 1, &counted("cmd=dance;"));
    let due = counted("cmd=dance-response;rc=1;errmsg=unknown command;");
    assert_eq!(step.heard(1).as_bytes(), due);
}

#[test]
fn who_waits_for_an_attribute_of_the_node_gets_it_when_it_is_put() {
    let mut step = Step::new(&[&[0, 1]]);
    for task in 0..2 {
        step.say(0, task, b"cmd=init pmi_version=2 pmi_subversion=0\n");
        step.heard(task);
    }
    step.say(0, 0, &counted("cmd=info-getnodeattr;key=a;wait=FALSE;"));
    let none = counted("cmd=info-getnodeattr-response;rc=0;found=FALSE;");
    assert_eq!(step.heard(0).as_bytes(), none);
    step.say(0, 0, &counted("cmd=info-getnodeattr;key=a;wait=TRUE;"));
    assert_eq!(step.heard(0), "");
    step.say(0, 1, &counted("cmd=info-putnodeattr;key=a;value=v;"));
    let found = counted("cmd=info-getnodeattr-response;rc=0;found=TRUE;value=v;");
    assert_eq!(step.heard(0).as_bytes(), found);
}

#[test]
fn names_are_found_from_other_nodes() {
    let mut step = Step::new(&[&[0], &[1]]);
    step.say(0, 0, b"cmd=publish_name service=s port=tag#0$p\n");
    assert_eq!(
        step.heard(0),
        "cmd=publish_result rc=0 msg=success info=ok\n"
    );
    step.say(1, 1, b"cmd=lookup_name service=s\n");
    assert_eq!(
        step.heard(1),
        "cmd=lookup_result rc=0 msg=success info=ok port=tag#0$p\n"
    );
    step.say(1, 1, b"cmd=unpublish_name service=s\n");
    step.heard(1);
    step.say(0, 0, b"cmd=lookup_name service=s\n");
    assert_eq!(
        step.heard(0),
        "cmd=lookup_result rc=-1 msg=service_not_found info=service_not_found\n"
    );
}

#[test]
fn an_abort_has_a_code_that_is_not_success() {
    for (text, code) in [
        ("exitcode=3", 3),
        ("exitcode=0", 1),
        ("exitcode=-1", 255),
        ("", 1),
    ] {
        let mut step = Step::new(&[&[0, 1]]);
        step.say(0, 1, format!("cmd=abort {text}\n").as_bytes());
        assert_eq!(step.aborted, Some((1, code)), "{text}");
    }
}

#[test]
fn a_task_that_has_ended_keeps_nobody_waiting_for_ever() {
    // On the same node, on another, before and after the others come to the barrier.
    for (tasks, node) in [(vec![vec![0, 1]], 0), (vec![vec![0], vec![1]], 1)] {
        for first in [true, false] {
            let tasks: Vec<&[u32]> = tasks.iter().map(Vec::as_slice).collect();
            let mut step = Step::new(&tasks);
            step.say(node, 1, b"cmd=init pmi_version=1 pmi_subversion=1\n");
            if first {
                assert!(step.end(node, 1));
            }
            step.say(0, 0, b"cmd=barrier_in\n");
            if !first {
                assert!(step.end(node, 1));
            }
            let why = step.stuck.expect("nobody can come any more");
            assert!(why.starts_with("task 1 ended"), "{why}");
        }
    }
}

#[test]
fn a_task_that_took_its_leave_or_never_came_is_not_missed() {
    let mut step = Step::new(&[&[0, 1]]);
    step.say(
        0,
        0,
        b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n",
    );
    assert!(!step.end(0, 0) && !step.end(0, 1));
    assert_eq!(step.stuck, None);
}

#[test]
fn a_store_has_an_end() {
    let mut step = Step::new(&[&[0]]);
    let value = "v".repeat(1000);
    for at in 0.. {
        step.say(
            0,
            0,
            format!("cmd=put kvsname=7.0 key=k{at} value={value}\n").as_bytes(),
        );
        if step.heard(0).contains("no_room") {
            assert!(at > STORE_MAX / 1200);
            break;
        }
        assert!(at < STORE_MAX / 1000, "no end");
    }
    let entry = || (b"k".to_vec(), vec![0; 1 << 20]);
    let mut exchange = Exchange::new(1);
    let full = (0..64).find(|_| exchange.hear(0, vec![entry()], false).is_err());
    assert_eq!(full, Some((STORE_MAX >> 20) - 1), "keys count too");
}

#[test]
fn a_key_that_is_put_again_and_again_is_kept_once() {
    let mut step = Step::new(&[&[0]]);
    let put = format!("cmd=put kvsname=7.0 key=k value={}\n", "v".repeat(1000));
    for _ in 0..=HELD_MAX / 1000 {
        step.say(0, 0, put.as_bytes());
        assert!(step.heard(0).contains("success"));
    }
    let effects = step.nodes[0]
        .hear(0, b"cmd=barrier_in\n")
        .expect("a message");
    let told: usize = effects
        .iter()
        .map(|effect| match effect {
            Effect::Exchange { entries, .. } => entries.len(),
            other @ (Effect::Send { .. }
            | Effect::Ask { .. }
            | Effect::Stuck { .. }
            | Effect::Abort { .. }) => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(told, 1);
}

/// An answer to whoever is at the barrier of a node, alone in its step.
fn at_the_barrier() -> Server {
    let mut server = Server::new(layout(1), [0]);
    server.hear(0, b"cmd=barrier_in\n").expect("a message");
    server
}

#[test]
fn what_others_bring_is_taken_at_a_barrier_only_and_has_an_end() {
    let entry = |key: &str, value: usize| (key.as_bytes().to_vec(), vec![b'v'; value]);
    let mut server = Server::new(layout(1), [0]);
    let unasked = server.exchanged(vec![entry("k", 1)], false);
    assert_eq!(unasked, Err(Refused::NotAwaited));
    let mut none = Server::new(layout(1), []);
    assert_eq!(none.exchanged(Vec::new(), true), Err(Refused::NotAwaited));
    for (key, value) in [("k".repeat(KEY_MAX), 1), ("k".into(), VALUE_MAX)] {
        let long = at_the_barrier().exchanged(vec![entry(&key, value)], false);
        assert_eq!(long, Err(Refused::TooLong));
    }
    // Short ones cost more than their bytes.
    for (value, most) in [(1000, HELD_MAX / 1000), (0, HELD_MAX / 100)] {
        let mut server = at_the_barrier();
        let key = |at: usize| at.to_string();
        let mut all = (0..=most).map(|at| server.exchanged(vec![entry(&key(at), value)], false));
        assert_eq!(all.find(Result::is_err), Some(Err(Refused::Full)));
    }
    let mut server = at_the_barrier();
    assert!(server.exchanged(Vec::new(), true).is_ok());
    assert_eq!(server.exchanged(Vec::new(), true), Err(Refused::NotAwaited));
}

/// A node whose only task speaks PMI-2.
fn speaks_two() -> Step {
    let mut step = Step::new(&[&[0]]);
    step.say(0, 0, b"cmd=init pmi_version=2 pmi_subversion=0\n");
    step.heard(0);
    step
}

#[test]
fn attributes_are_as_short_as_keys_and_have_an_end() {
    let mut step = speaks_two();
    let mut put = |key: &str, value: usize| {
        let value = "v".repeat(value);
        let body = format!("cmd=info-putnodeattr;key={key};value={value};");
        step.say(0, 0, &counted(&body));
        step.heard(0).contains("rc=0")
    };
    assert!(!put("a", VALUE_MAX) && !put(&"k".repeat(KEY_MAX), 1) && !put("", 1));
    // What is refused or put again takes no room.
    for _ in 0..HELD_MAX / 1000 + 1 {
        assert!(!put("", VALUE_MAX - 1) && put("again", VALUE_MAX - 1));
    }
    let most = HELD_MAX / 1000;
    let full = (0..=most).find(|at| !put(&at.to_string(), 1000));
    assert!(full.is_some_and(|full| full > HELD_MAX / 1200), "{full:?}");
}

#[test]
fn who_waits_has_an_end_of_its_memory() {
    // The mark of a thread comes back with the answer.
    let mark = "t".repeat(60 << 10);
    for (request, answer) in [
        ("info-getnodeattr;key=a;wait=TRUE", "found=FALSE"),
        ("name-lookup;name=s", "nobody has published it"),
    ] {
        let mut server = Server::new(layout(1), [0]);
        server
            .hear(0, b"cmd=init pmi_version=2 pmi_subversion=0\n")
            .expect("a message");
        let asked = counted(&format!("cmd={request};thrid={mark};"));
        let most = HELD_MAX / mark.len();
        let refused = |effect: &Effect| match effect {
            Effect::Send { bytes, .. } => String::from_utf8_lossy(bytes).contains(answer),
            Effect::Exchange { .. }
            | Effect::Ask { .. }
            | Effect::Stuck { .. }
            | Effect::Abort { .. } => false,
        };
        let end = (0..=most).find(|_| {
            let effects = server.hear(0, &asked).expect("a message");
            effects.iter().any(refused)
        });
        assert!(end.is_some_and(|end| end > most / 2), "{request}: {end:?}");
    }
}

#[test]
fn ports_are_as_short_as_values() {
    let port = |length: usize| format!("cmd=name-publish;name=s;port={};", "p".repeat(length));
    let mut step = speaks_two();
    step.say(0, 0, &counted(&port(VALUE_MAX)));
    assert!(step.heard(0).contains("rc=1"));
    step.say(0, 0, &counted(&port(VALUE_MAX - 1)));
    assert!(step.heard(0).contains("rc=0"));
    // Nor does anybody else make them longer.
    let mut server = Server::new(layout(1), [0]);
    let asked = server.hear(0, b"cmd=lookup_name service=s\n");
    assert!(matches!(asked.as_deref(), Ok([Effect::Ask { id: 0, .. }])));
    let answer = server.answered(0, Some(vec![b'p'; VALUE_MAX]));
    let [Effect::Send { bytes, .. }] = &answer[..] else {
        panic!("{answer:?}");
    };
    assert!(bytes.starts_with(b"cmd=lookup_result rc=-1"));
}

#[test]
fn names_have_an_end() {
    let mut exchange = Exchange::new(1);
    let mut publish = |at: usize| {
        let request = NameRequest::Publish { port: Vec::new() };
        exchange
            .name(at.to_string().into_bytes(), request)
            .is_some()
    };
    assert!((0..super::NAMES_MAX).all(&mut publish));
    assert!(!publish(super::NAMES_MAX));
}

#[test]
fn the_mapping_is_short_where_it_repeats() {
    for (tasks, due) in [
        (vec![vec![0, 1], vec![2, 3]], "(vector,(0,2,2))"),
        (vec![vec![0, 2], vec![1, 3]], "(vector,(0,2,1))"),
        (
            vec![vec![0], vec![1, 2], vec![3, 4]],
            "(vector,(0,1,1),(1,2,2))",
        ),
        (vec![vec![0, 1, 4], vec![2, 3]], "(vector,(0,2,2))"),
        (vec![vec![0, 3], vec![1, 2]], "(vector,(0,1,1),(1,1,2))"),
        (vec![vec![0, 1, 2]], "(vector,(0,1,3))"),
        (vec![vec![0]], "(vector,(0,1,1))"),
    ] {
        let tasks: Vec<&[u32]> = tasks.iter().map(Vec::as_slice).collect();
        assert_eq!(mapping(&tasks).as_deref(), Some(due));
    }
    let (even, odd): (Vec<u32>, Vec<u32>) = (0..4000).partition(|id| id * id % 7 < 3);
    assert_eq!(
        mapping(&[&even, &odd]).map(|text| text.len() < 1024),
        Some(true)
    );
    let (some, others): (Vec<u32>, Vec<u32>) = (0..4000).partition(|id| id * id % 4099 < 2000);
    assert_eq!(mapping(&[&some, &others]), None, "it would not fit");
}

/// Node of each task by a mapping's text, as MPICH reads it.
fn nodes_of(text: &str, size: usize) -> Vec<usize> {
    let blocks = text.trim_start_matches("(vector,").trim_end_matches(')');
    let blocks: Vec<Vec<usize>> = blocks
        .split("),")
        .map(|block| {
            let numbers = block.trim_matches(['(', ')']).split(',');
            numbers.map(|n| n.parse().expect("a number")).collect()
        })
        .collect();
    let once = blocks.iter().flat_map(|block| {
        (block[0]..block[0] + block[1]).flat_map(|node| std::iter::repeat_n(node, block[2]))
    });
    once.collect::<Vec<_>>()
        .into_iter()
        .cycle()
        .take(size)
        .collect()
}

proptest! {
    #[test]
    fn a_mapping_says_where_every_task_is(places in prop::collection::vec(0usize..4, 1..40)) {
        let mut tasks: Vec<Vec<u32>> = vec![Vec::new(); 4];
        for (id, node) in (0..).zip(&places) {
            tasks[*node].push(id);
        }
        let tasks: Vec<&[u32]> = tasks.iter().map(Vec::as_slice).collect();
        let text = mapping(&tasks).expect("it is short");
        prop_assert_eq!(nodes_of(&text, places.len()), places);
    }

    #[test]
    fn messages_survive_the_wire_however_they_are_cut(
        lengths: bool,
        messages in prop::collection::vec(
            ("[a-z-]{1,12}", prop::collection::vec(("[a-zA-Z_-]{1,8}", prop::collection::vec(33u8..127, 0..40)), 0..5)),
            1..6,
        ),
        cut in 1usize..50,
    ) {
        let dialect = if lengths { Dialect::Lengths } else { Dialect::Lines };
        let messages: Vec<Message> = messages
            .into_iter()
            .map(|(command, pairs)| Message { command, pairs })
            .collect();
        let bytes: Vec<u8> = messages.iter().flat_map(|message| message.encode(dialect)).collect();
        let mut decoder = Decoder::default();
        decoder.speak(dialect);
        let mut heard = Vec::new();
        for part in bytes.chunks(cut) {
            decoder.push(part);
            while let Some(message) = decoder.take().expect("whole messages") {
                heard.push(message);
            }
        }
        prop_assert_eq!(heard, messages);
    }

    #[test]
    fn nothing_that_a_task_says_breaks_its_node(
        version in 1u8..3,
        parts in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                "(cmd=[a-z_-]{1,9}[ ;](key=[a-c]?[ ;])?(value=[;]*[ ;])?\n?)".prop_map(String::into_bytes),
                "cmd=(kvs-fence|kvs-put|kvs-get|info-getnodeattr|name-publish|abort);(key=a;)?(thrid=b;)?"
                    .prop_map(|body| counted(&body)),
                "cmd=(barrier_in|finalize|getbyidx idx=0|publish_name service=a port=b|abort)\n".prop_map(String::into_bytes),
            ],
            0..12,
        ),
    ) {
        let mut server = Server::new(layout(2), [0, 1]);
        let begin = format!("cmd=init pmi_version={version} pmi_subversion=0\n");
        prop_assert!(server.hear(0, begin.as_bytes()).is_ok());
        for part in parts {
            if server.hear(0, &part).is_err() {
                break;
            }
        }
        server.ended(0);
        drop(server.exchanged(Vec::new(), true));
    }
}

#[test]
fn an_answer_is_one_message_whatever_was_sent() {
    let two = || [1, 2].map(|_| Message::new("a;b c\nd").with("k", "v;w x\ny"));
    for (dialect, command, value) in [
        (Dialect::Lines, "a;b_c_d", "v;w_x_y"),
        (Dialect::Lengths, "a;b c\nd", "v;w x\ny"),
    ] {
        let mut decoder = Decoder::default();
        decoder.speak(dialect);
        two()
            .iter()
            .for_each(|message| decoder.push(&message.encode(dialect)));
        for _ in two() {
            let read = decoder.take().expect("it is a message");
            assert_eq!(read, Some(Message::new(command).with("k", value)));
        }
        assert_eq!(decoder.take(), Ok(None));
    }
}
