//! The first message of an agent: is it the one that it says, and does what it says of its node make sense?

use crate::front::accept::Peer;
use spur_core::agent::order::FromAgent;
use spur_core::event::NodeHello;
use spur_core::id::NodeName;
use spur_core::mesh::Role;
use spur_core::resources::Inventory;
use spur_proto::door::Member;
use spur_proto::wire::AgentMessage;
use tonic::{Request, Status};

/// Most jobs of which one node has something left.
const JOBS_MAX: usize = 65_536;
/// The longest text in a greeting, in bytes.
const TEXT_MAX: usize = 4096;

/// The member of the mesh from which a request comes; `None`: from this host.
pub(crate) fn member<T>(request: &Request<T>) -> Option<Member> {
    request.extensions().get::<Peer>()?.member.clone()
}

/// Whether an agent may greet as this node. The key of its tunnel says which one it is; on this host the token shows that it is one.
pub(crate) fn admit(
    node: &NodeName,
    shown: &str,
    (member, token): (Option<&Member>, &[u8]),
) -> Result<(), Status> {
    match member {
        Some(member) if member.role == Role::Node && member.name == *node => Ok(()),
        Some(member) => {
            tracing::warn!(%node, member = %member.name, "an agent greets as another node");
            Err(Status::unauthenticated(format!(
                "member {} of the mesh is not node {node}",
                member.name
            )))
        }
        None if same(shown.trim_ascii_end().as_bytes(), token) => Ok(()),
        None => {
            tracing::warn!(%node, "an agent showed a wrong token");
            Err(Status::unauthenticated(
                "wrong token: the agent's token file differs from the controller's",
            ))
        }
    }
}

/// Checks a greeting.
pub(super) fn check(
    first: Option<AgentMessage>,
    member: Option<&Member>,
    token: &[u8],
) -> Result<NodeHello, Status> {
    let first =
        first.ok_or_else(|| Status::invalid_argument("the stream ended before its greeting"))?;
    let first =
        FromAgent::try_from(first).map_err(|bad| Status::invalid_argument(bad.to_string()))?;
    let FromAgent::Hello {
        token: shown,
        hello,
    } = first
    else {
        return Err(Status::invalid_argument(
            "the first message must be the greeting",
        ));
    };
    admit(&hello.name, &shown, (member, token))?;
    sensible(&hello)
        .map_err(|what| Status::invalid_argument(format!("node {}: {what}", hello.name)))?;
    Ok(hello)
}

/// Compares secrets of equal length in constant time.
fn same(shown: &[u8], secret: &[u8]) -> bool {
    let difference = shown
        .iter()
        .zip(secret)
        .fold(0, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
    shown.len() == secret.len() && difference == 0
}

fn sensible(hello: &NodeHello) -> Result<(), String> {
    let inventory = &hello.inventory;
    let (cpus_max, gpus_max) = (Inventory::CPUS_MAX, Inventory::GPUS_MAX);
    if inventory.cpus == 0 || inventory.cpus > cpus_max {
        return Err(format!("{} CPUs: must be 1 to {cpus_max}", inventory.cpus));
    }
    if inventory.gpus.len() > gpus_max {
        return Err(format!("{} GPUs: at most {gpus_max}", inventory.gpus.len()));
    }
    if let Some((_, gpu)) = (0u32..)
        .zip(&inventory.gpus)
        .find(|(at, gpu)| gpu.index != *at)
    {
        return Err(format!("GPU {} is out of order", gpu.index));
    }
    if hello.jobs.len() > JOBS_MAX {
        return Err(format!("{} jobs: at most {JOBS_MAX}", hello.jobs.len()));
    }
    let texts = [
        &hello.boot_id,
        &hello.fence_note,
        &hello.version,
        &hello.os,
        &hello.hostname,
        &hello.address,
    ];
    match texts.iter().find(|text| text.len() > TEXT_MAX) {
        Some(text) => Err(format!(
            "a text of {} bytes: at most {TEXT_MAX}",
            text.len()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_the_same() {
        let secret = b"0123456789abcdef0123456789abcdef";
        assert!(same(secret, secret));
        assert!(!same(b"", secret));
        assert!(!same(&secret[..31], secret));
        assert!(!same(&[secret.as_slice(), b"x"].concat(), secret));
        for at in 0..secret.len() {
            let mut other = *secret;
            other[at] ^= 1;
            assert!(!same(&other, secret));
        }
    }
}
