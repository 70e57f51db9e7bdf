//! The first message of an agent: does it know the token, and does what it says of its node make sense?

use spur_core::agent::order::FromAgent;
use spur_core::event::NodeHello;
use spur_core::resources::Inventory;
use spur_proto::wire::AgentMessage;
use tonic::Status;

/// Most jobs of which one node has something left.
const JOBS_MAX: usize = 65_536;
/// The longest text in a greeting, in bytes.
const TEXT_MAX: usize = 4096;

/// Checks a greeting.
pub(super) fn check(first: Option<AgentMessage>, token: &[u8]) -> Result<NodeHello, Status> {
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
    if !same(shown.trim_ascii_end().as_bytes(), token) {
        tracing::warn!(node = %hello.name, "an agent showed a wrong token");
        return Err(Status::unauthenticated(
            "wrong token: the agent's token file differs from the controller's",
        ));
    }
    sensible(&hello)
        .map_err(|what| Status::invalid_argument(format!("node {}: {what}", hello.name)))?;
    Ok(hello)
}

/// Compares secrets of equal length in constant time.
pub(crate) fn same(shown: &[u8], secret: &[u8]) -> bool {
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
