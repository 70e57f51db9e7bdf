//! The kernel's word that devices come or go: what goes is closed at once, and everything is looked up again a moment later, not
//! only at the next grant.

use crate::agent::Input;
use crate::discover::{Identity, nvidia};
use crate::node::Node;
use crate::sys::uevent;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Subsystems whose events can change the number of a fenced device.
const SUBSYSTEMS: [&str; 9] = [
    "pci", "drm", "accel", "kfd", "module", "nvidia", "platform", "faux", "drivers",
];

/// Events that come together are answered once.
const SETTLE: Duration = Duration::from_millis(20);

/// Longest message that is looked at.
const MESSAGE_BYTES_MAX: usize = 8192;

/// Listens on a thread of its own until the agent stops.
pub fn watch(node: Arc<Node>, inputs: mpsc::Sender<Input>) -> std::io::Result<()> {
    let socket = uevent::socket()?;
    let body = move || {
        loop {
            match hear(&socket, &node, None) {
                Ok(Some(true)) => {}
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(%error, "the kernel's device events cannot be read any more");
                    return;
                }
            }
            let settled = Instant::now() + SETTLE;
            while matches!(hear(&socket, &node, Some(settled)), Ok(Some(_))) {}
            if inputs.blocking_send(Input::DevicesChanged).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("uevents".into())
        .spawn(body)?;
    Ok(())
}

/// Takes one message, waiting for it until `end`, and closes what goes, before its number can be another's. Says whether it is about
/// what could be fenced; `None` if none came.
fn hear(socket: &OwnedFd, node: &Node, end: Option<Instant>) -> std::io::Result<Option<bool>> {
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    match rustix::event::poll(&mut fds, left.as_ref()) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut message = [0; MESSAGE_BYTES_MAX];
    let event = match uevent::receive(socket, &mut message) {
        Ok(len) => message.get(..len).and_then(Event::parse),
        // An overrun means that events were lost: look as well.
        Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Some(Event::default()),
        Err(error) => return Err(error),
    };
    let Some(event) = event else {
        return Ok(Some(false));
    };
    if let Some(fence) = node.fence().filter(|_| event.goes)
        && let Err(error) = fence.close(|identity| event.takes(identity))
    {
        let error = crate::fence::node::chain(&error);
        tracing::error!(error, "a device that goes cannot be closed");
    }
    Ok(Some(true))
}

/// What a message says that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Event {
    /// A device or a driver goes.
    goes: bool,
    /// Where it is below `/sys`.
    path: String,
    /// Of which subsystem.
    subsystem: String,
}

impl Event {
    /// Reads a message (`ACTION@PATH`, then NUL-separated `KEY=VALUE`); `None` if it is about nothing that could be fenced.
    fn parse(message: &[u8]) -> Option<Self> {
        let field = |key: &str| {
            let mut fields = message.split(|byte| *byte == 0);
            let value = fields.find_map(|field| field.strip_prefix(key.as_bytes()))?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        let subsystem = field("SUBSYSTEM=")?;
        if !SUBSYSTEMS.contains(&subsystem.as_str()) {
            return None;
        }
        let action = field("ACTION=").unwrap_or_default();
        let path = field("DEVPATH=").unwrap_or_default();
        // Connectors and card nodes come and go without their GPU.
        let last = path.rsplit('/').next().unwrap_or_default();
        let partly = subsystem == "drm" && !last.starts_with("renderD");
        Some(Self {
            goes: matches!(action.as_str(), "remove" | "unbind" | "offline") && !partly,
            path,
            subsystem,
        })
    }

    /// Whether this GPU goes with it.
    fn takes(&self, identity: &Identity) -> bool {
        let last = self.path.rsplit('/').next().unwrap_or_default();
        let module = |name: &str| self.subsystem == "module" && last == name;
        let pci = |address: &str| self.subsystem == "pci" && last == address;
        match identity {
            Identity::Nvidia { pci: address, .. } | Identity::Mig { pci: address, .. } => {
                module(nvidia::MODULE) || pci(address)
            }
            // Its render node is all that a job has of it.
            Identity::Amd { pci: address, .. } => {
                let node =
                    self.subsystem == "drm" && self.path.split('/').any(|part| part == address);
                module("amdgpu") || pci(address) || (node && !address.is_empty())
            }
            Identity::Drm { device } => {
                let path = format!("/sys{}", self.path);
                let inside = |outer: &str, inner: &str| {
                    inner
                        .strip_prefix(outer)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                // The device itself, one above it, or its render node.
                inside(&path, device) || inside(device, &path)
            }
            Identity::Declared { .. } | Identity::MigShared { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(action: &str, path: &str, subsystem: &str) -> Option<Event> {
        let text = format!(
            "{action}@{path}\0ACTION={action}\0DEVPATH={path}\0SUBSYSTEM={subsystem}\0SEQNUM=7\0"
        );
        Event::parse(text.as_bytes())
    }

    #[test]
    fn only_devices_that_could_be_fenced_count() {
        assert!(event("add", "/devices/x", "drm").is_some_and(|event| !event.goes));
        assert_eq!(event("add", "/devices/x", "net"), None);
        assert_eq!(Event::parse(b"SUBSYSTEM"), None);
        assert_eq!(Event::parse(b""), None);
    }

    #[test]
    fn what_goes_takes_its_own_gpus_and_no_other() {
        let nvidia = |pci: &str| Identity::Nvidia {
            uuid: "GPU-aa".into(),
            pci: pci.into(),
        };
        let drm = |device: &str| Identity::Drm {
            device: device.into(),
        };
        let gpu = "/devices/pci0000:00/0000:00:01.0/0000:19:00.0";
        for (action, path, subsystem, identity, takes) in [
            ("remove", gpu, "pci", nvidia("0000:19:00.0"), true),
            ("unbind", gpu, "pci", nvidia("0000:19:00.0"), true),
            ("unbind", gpu, "pci", nvidia("0000:2a:00.0"), false),
            (
                "remove",
                "/module/nvidia",
                "module",
                nvidia("0000:19:00.0"),
                true,
            ),
            (
                "remove",
                "/module/nvidia_uvm",
                "module",
                nvidia("0000:19:00.0"),
                false,
            ),
            (
                "remove",
                "/devices/faux/vgem/drm/renderD128",
                "drm",
                drm("/sys/devices/faux/vgem"),
                true,
            ),
            (
                "remove",
                "/devices/faux/vgem",
                "faux",
                drm("/sys/devices/faux/vgem"),
                true,
            ),
            (
                "remove",
                "/devices/faux/vgem2",
                "faux",
                drm("/sys/devices/faux/vgem"),
                false,
            ),
        ] {
            let event = event(action, path, subsystem).unwrap();
            assert_eq!(
                event.goes && event.takes(&identity),
                takes,
                "{action} {path}"
            );
        }
        let node = format!("{gpu}/drm/renderD128");
        let event_of_node = event("remove", &node, "drm").unwrap();
        let amd = Identity::Amd {
            unique_id: 7,
            pci: "0000:19:00.0".into(),
            partition: 0,
        };
        assert!(event_of_node.takes(&amd), "the node is its all");
        assert!(
            !event_of_node.takes(&nvidia("0000:19:00.0")),
            "one way to it of several"
        );
        let connector = format!("{gpu}/drm/card0/card0-DP-1");
        assert!(!event("remove", &connector, "drm").unwrap().goes);
    }
}
