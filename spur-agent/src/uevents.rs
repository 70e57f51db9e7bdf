//! The kernel's word that devices come or go: the device table is looked up again at once, not only at the next grant.

use crate::agent::Input;
use crate::sys::uevent;
use std::time::Duration;
use tokio::sync::mpsc;

/// Subsystems whose events can change the number of a fenced device.
const SUBSYSTEMS: [&str; 6] = ["pci", "drm", "accel", "kfd", "module", "nvidia"];

/// Events that come together are answered once.
const SETTLE: Duration = Duration::from_millis(20);

/// Longest message that is looked at.
const MESSAGE_BYTES_MAX: usize = 8192;

/// Listens on a thread of its own until the agent stops.
pub fn watch(inputs: mpsc::Sender<Input>) -> std::io::Result<()> {
    let socket = uevent::socket()?;
    std::thread::Builder::new().name("uevents".into()).spawn(move || {
        let mut message = [0; MESSAGE_BYTES_MAX];
        loop {
            // An overrun means that events were lost: look as well.
            let concerns = match uevent::receive(&socket, &mut message) {
                Ok(len) => message.get(..len).is_some_and(concerns_us),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => true,
                Err(error) => {
                    tracing::warn!(%error, "the kernel's device events cannot be read any more");
                    return;
                }
            };
            if concerns {
                std::thread::sleep(SETTLE);
                if inputs.blocking_send(Input::DevicesChanged).is_err() {
                    return;
                }
            }
        }
    })?;
    Ok(())
}

/// Whether a message (NUL-separated `KEY=VALUE`) is about a device that could be fenced.
fn concerns_us(message: &[u8]) -> bool {
    let subsystem = message
        .split(|byte| *byte == 0)
        .find_map(|field| field.strip_prefix(b"SUBSYSTEM="));
    subsystem.is_some_and(|name| SUBSYSTEMS.iter().any(|known| known.as_bytes() == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_that_could_be_fenced_count() {
        assert!(concerns_us(
            b"add@/devices/x\0ACTION=add\0SUBSYSTEM=drm\0MAJOR=226\0"
        ));
        assert!(!concerns_us(b"add@/devices/x\0ACTION=add\0SUBSYSTEM=net\0"));
        assert!(!concerns_us(b"SUBSYSTEM"));
        assert!(!concerns_us(b""));
    }
}
