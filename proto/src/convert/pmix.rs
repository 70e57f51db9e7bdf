//! What the PMIx servers of a step say. Taken apart and not copied: it is much, and it passes through several hands.

use super::BadMessage;
use crate::wire::{self, PmixPurpose, pmix};
use spur_core::pmix::layout::{Layout, Node};
use spur_core::pmix::{Message, Purpose};

impl From<Message> for wire::Pmix {
    fn from(message: Message) -> Self {
        let kind = match message {
            Message::Meet {
                meeting: (purpose, ranks),
                data,
                last,
            } => pmix::Kind::Meet(wire::PmixMeet {
                purpose: match purpose {
                    Purpose::Fence => PmixPurpose::Fence,
                    Purpose::Connect => PmixPurpose::Connect,
                    Purpose::Disconnect => PmixPurpose::Disconnect,
                }
                .into(),
                ranks,
                data,
                last,
            }),
            Message::Ask { id, rank } => pmix::Kind::Ask(wire::PmixAsk { id, rank }),
            Message::Told {
                id,
                status,
                data,
                last,
            } => pmix::Kind::Told(wire::PmixTold {
                id,
                status,
                data,
                last,
            }),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<wire::Pmix> for Message {
    type Error = BadMessage;

    fn try_from(pb: wire::Pmix) -> Result<Self, BadMessage> {
        match pb.kind {
            Some(pmix::Kind::Meet(meet)) => {
                let bad = || BadMessage::new("is unknown").at("purpose").at("meet");
                let purpose = match PmixPurpose::try_from(meet.purpose) {
                    Ok(PmixPurpose::Fence) => Purpose::Fence,
                    Ok(PmixPurpose::Connect) => Purpose::Connect,
                    Ok(PmixPurpose::Disconnect) => Purpose::Disconnect,
                    Ok(PmixPurpose::Unspecified) | Err(_) => return Err(bad()),
                };
                if !meet.ranks.is_sorted() {
                    return Err(BadMessage::new("are not in order").at("ranks").at("meet"));
                }
                Ok(Self::Meet {
                    meeting: (purpose, meet.ranks),
                    data: meet.data,
                    last: meet.last,
                })
            }
            Some(pmix::Kind::Ask(wire::PmixAsk { id, rank })) => Ok(Self::Ask { id, rank }),
            Some(pmix::Kind::Told(told)) => Ok(Self::Told {
                id: told.id,
                status: told.status,
                data: told.data,
                last: told.last,
            }),
            None => Err(BadMessage::new("is missing").at("kind")),
        }
    }
}

impl From<&Layout> for wire::PmixStep {
    /// Any version of the library.
    fn from(layout: &Layout) -> Self {
        let node = |node: &Node| wire::PmixNode {
            name: node.name.clone(),
            ranks: node.ranks.clone(),
            program: node.program,
        };
        Self {
            version: 0,
            nodes: layout.nodes().iter().map(node).collect(),
        }
    }
}

impl TryFrom<wire::PmixStep> for Layout {
    type Error = BadMessage;

    fn try_from(step: wire::PmixStep) -> Result<Self, BadMessage> {
        let node = |node: wire::PmixNode| Node {
            name: node.name,
            ranks: node.ranks,
            program: node.program,
        };
        let nodes = step.nodes.into_iter().map(node).collect();
        Self::new(nodes).map_err(|why| BadMessage::new(why.to_string()).at("nodes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were() {
        for purpose in [Purpose::Fence, Purpose::Connect, Purpose::Disconnect] {
            for message in [
                Message::Meet {
                    meeting: (purpose, vec![1, 4]),
                    data: b"data".to_vec(),
                    last: true,
                },
                Message::Ask { id: 3, rank: 9 },
                Message::Told {
                    id: 3,
                    status: -46,
                    data: Vec::new(),
                    last: false,
                },
            ] {
                let there = wire::Pmix::from(message.clone());
                assert_eq!(Message::try_from(there), Ok(message));
            }
        }
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        let meet = |purpose, ranks: &[u32]| {
            Some(pmix::Kind::Meet(wire::PmixMeet {
                purpose,
                ranks: ranks.to_vec(),
                ..Default::default()
            }))
        };
        for (kind, path) in [
            (None, "kind"),
            (meet(0, &[]), "meet.purpose"),
            (meet(9, &[]), "meet.purpose"),
            (meet(1, &[2, 1]), "meet.ranks"),
        ] {
            let bad = Message::try_from(wire::Pmix { kind }).expect_err("it is bad");
            assert_eq!(bad.path, path);
        }
    }
}
