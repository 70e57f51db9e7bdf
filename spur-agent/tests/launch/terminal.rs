//! A terminal for the first task.

use super::support::{Bench, Client, PATIENCE, UID, task};
use spur_agent::launch::{StepLaunch, Window};
use spur_proto::wire::{Stdin, WindowSize, to_step};

fn on_terminal(bench: &Bench, command: &str) -> StepLaunch {
    StepLaunch {
        terminal: Some(Window {
            rows: 33,
            columns: 99,
        }),
        ..bench.sh(command)
    }
}

fn keys(client: &Client, data: &[u8]) {
    client.send(to_step::Kind::Stdin(Stdin {
        data: data.to_vec(),
        eof: false,
        task: None,
    }));
}

#[test]
fn the_first_task_has_a_terminal_of_its_user_and_the_others_nothing() {
    let bench = Bench::new();
    let command = "if [ $SLURM_PROCID = 0 ]; then test -t 0 && test -t 1 && test -t 2 && stty size; stat -c %u $(tty); \
                   echo controlled > /dev/tty; else echo never; echo never >&2; test -z \"$(cat)\"; exit $((2 + $?)); fi";
    let mut spec = on_terminal(&bench, command);
    spec.tasks = [0, 1, 2]
        .map(|id| task(id, &["sh", "-c", command]))
        .to_vec();
    let heard = bench.run(&spec);
    assert_eq!(
        heard.text(),
        format!("33 99\r\n{UID}\r\ncontrolled\r\n"),
        "{heard:?}"
    );
    assert_eq!(heard.stderr, "");
    let mut codes: Vec<(u32, u32)> = heard.exits.iter().map(|e| (e.task, e.code)).collect();
    codes.sort_unstable();
    assert_eq!(codes, [(0, 0), (1, 2), (2, 2)]);
}

#[test]
fn interrupts_sizes_and_the_end_of_input_pass_through_it() {
    let bench = Bench::new();
    // Whoever says that it is up is ended by the interrupt, however early that comes.
    let command = "trap 'echo size $(stty size)' WINCH; trap 'echo interrupted' INT; sh -c 'echo up; exec cat'; echo first; cat; exit 7";
    let client = bench.connect(&on_terminal(&bench, command));
    client.read_until("up");
    client.send(to_step::Kind::Window(WindowSize {
        rows: 10,
        columns: 20,
    }));
    // The shell runs its trap once what it waits for has ended, by the interrupt.
    keys(&client, b"\x03");
    let heard = client.read_until("first");
    let text = String::from_utf8_lossy(&heard.stdout).into_owned();
    assert!(text.contains("interrupted"), "{text:?}");
    assert!(text.contains("size 10 20"), "{text:?}");
    keys(&client, b"line\n");
    let heard = client.read_until("line\r\nline");
    assert!(heard.ended.is_none());
    keys(&client, b"\x04");
    let heard = client.finish();
    assert_eq!(heard.exits[0].code, 7, "{heard:?}");
}

#[test]
fn what_is_printed_last_arrives_and_what_stays_in_the_background_ends() {
    let bench = Bench::new();
    let command = "sleep 1000 & seq 1 20000";
    let heard = bench.run(&on_terminal(&bench, command));
    assert!(heard.text().ends_with("19999\r\n20000\r\n"));
    assert_eq!(heard.text().lines().count(), 20_000);
    assert!(bench.job.wait_empty(PATIENCE).unwrap());
}

#[test]
fn a_request_to_end_reaches_the_task_and_the_others() {
    let bench = Bench::new();
    let command =
        "trap 'echo asked; exit 3' TERM; : > up$SLURM_PROCID; while :; do sleep 0.05; done";
    let dir = bench.user_dir();
    let mut spec = on_terminal(&bench, command);
    spec.tasks = [0, 1, 2]
        .map(|id| task(id, &["sh", "-c", command]))
        .to_vec();
    spec.work_dir = dir.clone();
    let client = bench.connect(&spec);
    super::support::eventually("all tasks are up", || {
        (0..3).all(|id| dir.join(format!("up{id}")).exists())
    });
    super::support::cancel(&client.supervisor, PATIENCE);
    let heard = client.finish();
    assert!(heard.text().contains("asked"), "{heard:?}");
    assert!(heard.stderr.contains("CANCELLED"), "{heard:?}");
    assert_eq!(heard.exits.iter().filter(|e| e.code == 3).count(), 3);
}
