//! When faults happen.

use crate::params::Faults;
use crate::queue::{Fault, Happening, Queue};
use crate::rng::Rng;

impl Fault {
    pub(crate) const ALL: [Self; 4] = [
        Self::ControllerCrash,
        Self::AgentCrash,
        Self::Reboot,
        Self::Cut,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ControllerCrash => "controller crash",
            Self::AgentCrash => "agent crash",
            Self::Reboot => "reboot",
            Self::Cut => "cut",
        }
    }

    fn mean_secs(self, faults: &Faults) -> u64 {
        match self {
            Self::ControllerCrash => faults.controller_crash_secs,
            Self::AgentCrash => faults.agent_crash_secs,
            Self::Reboot => faults.reboot_secs,
            Self::Cut => faults.cut_secs,
        }
    }

    /// Schedules the next fault of the kind, so that the given mean comes out.
    pub(crate) fn schedule(self, faults: &Faults, queue: &mut Queue, rng: &mut Rng) {
        let mean = self.mean_secs(faults);
        if mean > 0 {
            let millis = rng.between(1, mean.saturating_mul(2_000));
            queue.after(millis, Happening::Fault(self));
        }
    }
}
