//! Bytes of earlier builds still say what they said. `golden/v1/NAME.bin` holds length-delimited messages, `NAME.txt` what they
//! mean; fields that came later may only add lines. To write a new generation after a release: bump the folder's number and
//! run `SPUR_GOLDEN=write cargo test -p spur-proto golden`.

use crate::generate;
use prost::Message;
use serde::Deserialize;
use spur_core::agent::order::{FromAgent, ToAgent};
use spur_core::api::{Refusal, Reply, Request};
use spur_proto::{BadMessage, wire};
use std::fmt::{Debug, Write};
use std::path::PathBuf;

/// Messages per variant.
const SEEDS: u64 = 3;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("golden/v1")
        .join(name)
}

fn write<'de, Core, Pb>(name: &str)
where
    Core: Deserialize<'de> + Debug,
    Pb: Message + for<'a> From<&'a Core>,
{
    let (mut bytes, mut text) = (Vec::new(), String::new());
    for variant in 0..generate::variants::<Core>() {
        for seed in 0..SEEDS {
            let value: Core = generate::value(seed, Some(variant));
            Pb::from(&value)
                .encode_length_delimited(&mut bytes)
                .unwrap();
            writeln!(text, "{value:#?}").unwrap();
        }
    }
    std::fs::write(file(&format!("{name}.bin")), bytes).unwrap();
    std::fs::write(file(&format!("{name}.txt")), text).unwrap();
}

fn still_means_the_same<Core, Pb>(name: &str)
where
    Core: Debug + TryFrom<Pb, Error = BadMessage>,
    Pb: Message + Default,
{
    let bytes = std::fs::read(file(&format!("{name}.bin"))).unwrap();
    let text = std::fs::read_to_string(file(&format!("{name}.txt"))).unwrap();
    let (mut rest, mut now) = (bytes.as_slice(), String::new());
    while !rest.is_empty() {
        let value = Core::try_from(Pb::decode_length_delimited(&mut rest).unwrap()).unwrap();
        writeln!(now, "{value:#?}").unwrap();
    }
    let mut lines = now.lines();
    for then in text.lines() {
        assert!(
            lines.any(|line| line == then),
            "{name}: {then:?} is not said any more, or in another place"
        );
    }
}

fn check<'de, Core, Pb>(name: &str)
where
    Core: Deserialize<'de> + Debug + TryFrom<Pb, Error = BadMessage>,
    Pb: Message + Default + for<'a> From<&'a Core>,
{
    if std::env::var_os("SPUR_GOLDEN").is_some_and(|v| v == "write") {
        write::<Core, Pb>(name);
    }
    still_means_the_same::<Core, Pb>(name);
}

#[test]
fn golden_requests() {
    check::<Request, wire::CallRequest>("request");
}

#[test]
fn golden_replies() {
    check::<Reply, wire::CallAnswer>("reply");
    check::<Result<Reply, Refusal>, wire::CallReply>("outcome");
}

#[test]
fn golden_agent_words() {
    check::<FromAgent, wire::AgentMessage>("from-agent");
    check::<ToAgent, wire::ControllerMessage>("to-agent");
}
