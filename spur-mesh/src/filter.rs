//! Which packets may pass between two members.
//!
//! Control ports are the daemons' own. Only root has a port below 1024, on every member, so a packet to a control port must come
//! from such a port, and only from or to a member that the controller lets speak control. What hides its ports is refused:
//! it could be for any. Replies come back from a control port to the caller's, and need no rule.

use crate::packet::{Header, Transport};
use std::collections::BTreeSet;

/// Ports below this are root's (`net.ipv4.ip_unprivileged_port_start`, where nobody changed it).
const UNPRIVILEGED_FIRST: u16 = 1024;

/// Why a packet does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// It goes to a control port, and its sender is not root or not a member that may.
    ControlPort,
    /// Its ports cannot be read.
    Hidden,
    /// Neither TCP, UDP nor ICMP: nothing of a job needs it, and it may carry other packets.
    Protocol,
}

/// The ports that only daemons reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    control: BTreeSet<u16>,
}

impl Filter {
    /// A filter for these control ports, TCP and UDP.
    #[must_use]
    pub fn new(control: impl IntoIterator<Item = u16>) -> Self {
        Self {
            control: control.into_iter().collect(),
        }
    }

    /// Whether a packet may pass to or from a member.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, header: &Header, member_speaks_control: bool) -> Result<(), Refusal> {
        let ports = match header.transport {
            Transport::Tcp(ports) | Transport::Udp(ports) => ports,
            Transport::Icmp | Transport::LaterFragment => return Ok(()),
            Transport::Hidden => return Err(Refusal::Hidden),
            Transport::Other(_) => return Err(Refusal::Protocol),
        };
        let open = !self.control.contains(&ports.destination);
        if open || (member_speaks_control && ports.source < UNPRIVILEGED_FIRST) {
            return Ok(());
        }
        Err(Refusal::ControlPort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tests::{ports, v4, v6};
    use crate::packet::{self};
    use proptest::prelude::*;

    fn check(packet: &[u8], control: bool) -> Result<(), Refusal> {
        let Ok(header) = packet::parse(packet) else {
            panic!("no packet: {packet:?}");
        };
        Filter::new([6817, 6818]).check(&header, control)
    }

    #[test]
    fn control_ports_are_for_root_on_members_that_may() {
        let refused = Err(Refusal::ControlPort);
        let table = [
            (1023, 6817, true, Ok(())),
            (1023, 6817, false, refused),
            (1024, 6817, true, refused),
            (40000, 6818, true, refused),
            (40000, 6819, false, Ok(())),
            (6817, 1023, false, Ok(())),
        ];
        for (source, destination, control, wanted) in table {
            for protocol in [6, 17] {
                let payload = ports(source, destination);
                let four = v4([10, 0, 0, 1], [10, 0, 0, 2], protocol, &payload);
                assert_eq!(check(&four, control), wanted, "{source} {destination}");
                let six = v6(1, 2, protocol, &payload);
                assert_eq!(check(&six, control), wanted, "{source} {destination}");
            }
        }
    }

    #[test]
    fn what_may_carry_anything_is_refused() {
        let short = v4([1; 4], [2; 4], 6, &[0; 8]);
        assert_eq!(check(&short, true), Err(Refusal::Hidden));
        for tunnel in [4, 41, 47, 50, 132] {
            let packet = v4([1; 4], [2; 4], tunnel, &[0; 40]);
            assert_eq!(check(&packet, true), Err(Refusal::Protocol));
        }
        assert_eq!(check(&v6(1, 2, 58, &[0; 8]), false), Ok(()));
    }

    proptest! {
        /// Whatever a user of a job sends from a port that is not root's, none of it gets at a control port.
        #[test]
        fn no_packet_of_a_user_reaches_a_control_port(
            source in 1024..=u16::MAX, destination in any::<u16>(), control in any::<bool>(), six in any::<bool>(),
            protocol in prop::sample::select(vec![6_u8, 17]), extensions in 0..4_usize,
        ) {
            let mut payload: Vec<u8> = Vec::new();
            for n in 0..if six { extensions } else { 0 } {
                payload.extend([if n + 1 == extensions { protocol } else { 60 }, 0, 0, 0, 0, 0, 0, 0]);
            }
            payload.extend(ports(source, destination));
            let first = if six && extensions > 0 { 60 } else { protocol };
            let packet = if six { v6(1, 2, first, &payload) } else { v4([1; 4], [2; 4], protocol, &payload) };
            prop_assert_eq!(check(&packet, control).is_ok(), ![6817, 6818].contains(&destination));
        }
    }
}
