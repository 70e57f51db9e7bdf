//! Core value -> bytes -> core value changes nothing; a message with any field missing is refused by name.

use crate::generate;
use prost::Message;
use serde::Deserialize;
use spur_core::agent::order::{FromAgent, ToAgent};
use spur_core::api::{Refusal, Reply, Request};
use spur_core::usage::words::{FromMeter, ToMeter};
use spur_proto::{BadMessage, wire};
use std::fmt::Debug;

fn survives<'de, Core, Pb>(seed: u64, variant: Option<usize>)
where
    Core: Deserialize<'de> + Debug + PartialEq + TryFrom<Pb, Error = BadMessage>,
    Pb: Message + Default + for<'a> From<&'a Core>,
{
    let value: Core = generate::value(seed, variant);
    let bytes = Pb::from(&value).encode_to_vec();
    let back = Core::try_from(Pb::decode(bytes.as_slice()).unwrap());
    assert_eq!(back.as_ref(), Ok(&value), "seed {seed}");
}

fn all_survive<'de, Core, Pb>()
where
    Core: Deserialize<'de> + Debug + PartialEq + TryFrom<Pb, Error = BadMessage>,
    Pb: Message + Default + for<'a> From<&'a Core>,
{
    for variant in 0..generate::variants::<Core>() {
        for seed in 0..300 {
            survives::<Core, Pb>(seed, Some(variant));
        }
    }
}

#[test]
fn every_variant_survives() {
    all_survive::<Request, wire::CallRequest>();
    all_survive::<Reply, wire::CallAnswer>();
    all_survive::<Result<Reply, Refusal>, wire::CallReply>();
    all_survive::<FromAgent, wire::AgentMessage>();
    all_survive::<ToAgent, wire::ControllerMessage>();
    all_survive::<FromMeter, wire::MeterMessage>();
    all_survive::<ToMeter, wire::MeterAnswer>();
}

proptest::proptest! {
    #[test]
    fn any_value_survives(seed: u64) {
        survives::<Request, wire::CallRequest>(seed, None);
        survives::<Result<Reply, Refusal>, wire::CallReply>(seed, None);
        survives::<FromAgent, wire::AgentMessage>(seed, None);
        survives::<ToAgent, wire::ControllerMessage>(seed, None);
    }

    #[test]
    fn no_bytes_make_a_conversion_panic(bytes: Vec<u8>) {
        let _any = wire::CallRequest::decode(bytes.as_slice()).map(Request::try_from);
        let _any = wire::AgentMessage::decode(bytes.as_slice()).map(FromAgent::try_from);
    }
}

#[test]
fn a_missing_field_is_named_with_its_path() {
    use wire::call_request::{Kind, Submit};
    let mut request: wire::CallRequest = (&generate::value::<Request>(1, Some(1))).into();
    let Some(Kind::Submit(Submit {
        spec: Some(spec), ..
    })) = &mut request.kind
    else {
        panic!("not a submission")
    };
    spec.owner.as_mut().unwrap().uid = None;
    let bad = Request::try_from(request).unwrap_err();
    assert_eq!(
        bad.to_string(),
        "bad message: Request.spec.owner.uid: is missing"
    );
}

#[test]
fn zero_unknown_and_absent_kinds_are_refused() {
    use wire::call_answer::{Kind, Partitions};
    for state in [0, 99] {
        let partition = wire::Partition {
            state: Some(state),
            ..(&generate::value::<spur_core::partition::Partition>(3, None)).into()
        };
        let answer = wire::CallAnswer {
            kind: Some(Kind::Partitions(Partitions {
                items: vec![partition],
            })),
        };
        let bad = Reply::try_from(answer).unwrap_err();
        assert_eq!(bad.path, "Reply.items.state");
    }
    assert!(Request::try_from(wire::CallRequest { kind: None }).is_err());
}
