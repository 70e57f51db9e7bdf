//! Step tickets: the controller's word to an agent that this user may start this step on this node.
//!
//! A ticket is `version (1 byte) | fields | HMAC-SHA256 (32 bytes)`, with the cluster's token as the key, or with one of the node's own
//! (see [`key_of`]). It is opaque to the client that carries it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use spur_core::agent::order::TicketKey;
use spur_core::id::{Generation, JobId, NodeName, StepId, StepKind, Uid};
use spur_core::time::Millis;

/// What a ticket says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The only node where it counts.
    pub node: NodeName,
    /// The step that it opens.
    pub step: StepId,
    /// Who may present it; the agent compares it with `SO_PEERCRED`.
    pub uid: Uid,
    /// Generation of the job's placement.
    pub generation: Generation,
    /// From this moment on it counts no more.
    pub expires: Millis,
    /// It is for joining the step while it runs, and not for starting it.
    pub attach: bool,
}

/// Why a ticket is not good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// Too short, too long, or of another version.
    #[error("malformed step ticket")]
    Malformed,
    /// Not signed with this cluster's token.
    #[error("step ticket with a wrong signature")]
    Forged,
    /// Signed, but too old.
    #[error("step ticket has expired")]
    Expired,
}

/// A ticket for starting a step.
const VERSION: u8 = 1;
/// The same, for attaching to one: of a version of its own, so that no older agent starts a step by it.
const ATTACH: u8 = 2;
const MAC_LEN: usize = 32;
/// Version, job, step tag and number, uid, generation, expiry, length of the name.
const FIXED_LEN: usize = 1 + 4 + 1 + 4 + 4 + 8 + 8 + 1;

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// The key by which tickets for one node are signed where its agent does not have the cluster's token: made of that, so that the
/// controller keeps no more, and of the node's name, so that no node can make tickets for another.
pub fn key_of(token: &[u8], node: &NodeName) -> TicketKey {
    let mut mac = mac(token);
    mac.update(b"spur step tickets of node ");
    mac.update(node.as_str().as_bytes());
    TicketKey(mac.finalize().into_bytes().into())
}

/// Signs a ticket.
pub fn sign(key: &[u8], ticket: &Ticket) -> Vec<u8> {
    let name = ticket.node.as_str().as_bytes();
    let (tag, number) = match ticket.step.step {
        StepKind::Batch => (0u8, 0u32),
        StepKind::Numbered(number) => (1, number),
    };
    let mut out = Vec::with_capacity(FIXED_LEN + name.len() + MAC_LEN);
    out.push(if ticket.attach { ATTACH } else { VERSION });
    out.extend_from_slice(&ticket.step.job.0.to_be_bytes());
    out.push(tag);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&ticket.uid.0.to_be_bytes());
    out.extend_from_slice(&ticket.generation.0.to_be_bytes());
    out.extend_from_slice(&ticket.expires.0.to_be_bytes());
    out.push(u8::try_from(name.len()).expect("a node name is at most 64 bytes"));
    out.extend_from_slice(name);
    let mut mac = mac(key);
    mac.update(&out);
    out.extend_from_slice(&mac.finalize().into_bytes());
    out
}

/// Checks a ticket's signature (in constant time), then its age, and says what it says.
pub fn verify(key: &[u8], ticket: &[u8], now: Millis) -> Result<Ticket, TicketError> {
    if ticket.len() < FIXED_LEN + MAC_LEN {
        return Err(TicketError::Malformed);
    }
    let (body, signature) = ticket.split_at(ticket.len() - MAC_LEN);
    let mut mac = mac(key);
    mac.update(body);
    mac.verify_slice(signature)
        .map_err(|_| TicketError::Forged)?;
    let ticket = parse(body).ok_or(TicketError::Malformed)?;
    if now >= ticket.expires {
        Err(TicketError::Expired)
    } else {
        Ok(ticket)
    }
}

fn parse(body: &[u8]) -> Option<Ticket> {
    let (&[version], body) = body.split_first_chunk()?;
    let (job, body) = body.split_first_chunk()?;
    let (&[tag], body) = body.split_first_chunk()?;
    let (number, body) = body.split_first_chunk()?;
    let (uid, body) = body.split_first_chunk()?;
    let (generation, body) = body.split_first_chunk()?;
    let (expires, body) = body.split_first_chunk()?;
    let (&[name_len], name) = body.split_first_chunk()?;
    let attach = match version {
        VERSION => false,
        ATTACH => true,
        _ => return None,
    };
    if name.len() != usize::from(name_len) {
        return None;
    }
    let step = match (tag, u32::from_be_bytes(*number)) {
        (0, 0) => StepKind::Batch,
        (1, number) => StepKind::Numbered(number),
        _ => return None,
    };
    Some(Ticket {
        node: NodeName::new(std::str::from_utf8(name).ok()?).ok()?,
        step: StepId {
            job: JobId(u32::from_be_bytes(*job)),
            step,
        },
        uid: Uid(u32::from_be_bytes(*uid)),
        generation: Generation(u64::from_be_bytes(*generation)),
        expires: Millis(u64::from_be_bytes(*expires)),
        attach,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            node: NodeName::new("n1").unwrap(),
            step: StepId {
                job: JobId(7),
                step: StepKind::Numbered(3),
            },
            uid: Uid(1000),
            generation: Generation(9),
            expires: Millis(5000),
            attach: false,
        }
    }

    #[test]
    fn says_what_was_signed() {
        let batch = Ticket {
            step: StepId {
                job: JobId(1),
                step: StepKind::Batch,
            },
            ..ticket()
        };
        let joining = Ticket {
            attach: true,
            ..ticket()
        };
        for ticket in [ticket(), batch, joining] {
            assert_eq!(
                verify(b"key", &sign(b"key", &ticket), Millis(4999)),
                Ok(ticket)
            );
        }
    }

    #[test]
    fn no_node_makes_tickets_for_another() {
        let [one, two] = ["n1", "n2"].map(|name| key_of(b"token", &NodeName::new(name).unwrap()));
        assert_ne!(one, two);
        assert_ne!(key_of(b"other", &NodeName::new("n1").unwrap()), one);
        let forged = sign(&two.0, &ticket());
        assert_eq!(verify(&one.0, &forged, Millis(0)), Err(TicketError::Forged));
        assert_eq!(
            verify(&one.0, &sign(&one.0, &ticket()), Millis(0)),
            Ok(ticket())
        );
    }

    #[test]
    fn expires() {
        assert_eq!(
            verify(b"key", &sign(b"key", &ticket()), Millis(5000)),
            Err(TicketError::Expired)
        );
    }

    #[test]
    fn no_changed_bit_and_no_other_key_is_accepted() {
        let good = sign(b"key", &ticket());
        assert_eq!(verify(b"other", &good, Millis(0)), Err(TicketError::Forged));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                verify(b"key", &bad, Millis(0)),
                Err(TicketError::Forged),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn no_length_panics() {
        let good = sign(b"key", &ticket());
        for len in 0..good.len() {
            assert!(verify(b"key", &good[..len], Millis(0)).is_err());
        }
        assert!(verify(b"key", &[0; 4096], Millis(0)).is_err());
    }
}
