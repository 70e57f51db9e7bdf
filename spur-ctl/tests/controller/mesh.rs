//! `spur node`, asked of a controller.

use crate::process::Controller;
use spur_proto::invitation::Invitation;
use std::process::{Command, Output};

/// Runs `spur node WORDS…` as root.
fn run(controller: &Controller, words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spur"))
        .arg("node")
        .args(words.split(' '))
        .env("SPUR_CONTROLLER", controller.address())
        .env("TZ", "UTC")
        .output()
        .unwrap()
}

/// What it prints.
fn node(controller: &Controller, words: &str) -> String {
    let output = run(controller, words);
    assert!(output.status.success(), "{words}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it complains of.
fn fails(controller: &Controller, words: &str) -> String {
    let output = run(controller, words);
    assert_eq!(output.status.code(), Some(1), "{words}: {output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("spur node: error: "), "{text}");
    text
}

fn json(controller: &Controller, words: &str) -> serde_json::Value {
    serde_json::from_str(&node(controller, words)).unwrap()
}

#[test]
fn an_operator_founds_a_mesh_and_invites_hosts() {
    let controller = Controller::start();
    let listed = node(&controller, "list");
    assert_eq!(listed, "The mesh is not founded.\n");
    let early = fails(&controller, "token");
    assert!(early.contains("no controller is known"), "{early}");
    let zero = format!("found ctl {}= 192.0.2.1:51820", "A".repeat(43));
    let refused = fails(&controller, &zero);
    assert!(refused.contains("no sound X25519"), "{refused}");
    let key = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
    let inside = format!("found ctl {key} 100.64.0.9:51820");
    let refused = fails(&controller, &inside);
    assert!(refused.contains("100.64.0.9:51820 cannot be"), "{refused}");
    let found = format!("found ctl {key} 192.0.2.1:51820 [2001:db8::1]:51820");
    let founded = node(&controller, &found);
    assert!(
        founded.starts_with("The mesh fd") && founded.ends_with("with ctl.\n"),
        "{founded}"
    );
    let again = fails(&controller, &found);
    assert!(again.contains("founded already"), "{again}");

    let text = node(&controller, "token --role login --name l1 --lifetime 10");
    let invitation = Invitation::from_text(&text).unwrap();
    let meeting = &invitation.controllers[0];
    assert_eq!((meeting.key.0, meeting.endpoints.len()), ([2; 32], 2));
    let made = json(&controller, "token --json");
    let second = Invitation::from_text(made["token"].as_str().unwrap()).unwrap();
    assert_eq!((invitation.token.0, second.token.0), (1, 2));
    assert!(invitation.key != second.key, "each has a key of its own");

    let listed = json(&controller, "list --json");
    let network = listed["network"].as_str().unwrap();
    assert!(founded.contains(network), "{founded} {network}");
    assert_eq!(listed["members"].as_array().unwrap().len(), 1);
    assert_eq!(listed["tokens"][0]["name"], "l1");
    assert_eq!(listed["tokens"][1]["key"], made["key"]);
    assert!(
        listed["tokens"][1].get("token").is_none(),
        "a secret is told once"
    );
    assert_eq!(json(&controller, "show ctl --json")["ipv4"], "100.64.0.1");
    let shown = node(&controller, "show ctl");
    assert!(shown.contains(key), "{shown}");

    node(&controller, "withdraw 1");
    let again = fails(&controller, "withdraw 1");
    assert!(again.contains("no such token is open"), "{again}");
    assert_eq!(json(&controller, "list --json")["tokens"][0]["number"], 2);
    let last = fails(&controller, "remove ctl");
    assert!(last.contains("last controller"), "{last}");
    let unknown = fails(&controller, "show n7");
    assert!(unknown.contains("named n7"), "{unknown}");
}
