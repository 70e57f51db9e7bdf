//! The end of a run: numbers, and the proof that the log alone gives the state.

use super::Controller;
use crate::machine::Around;
use crate::outcome::Outcome;
use spur_core::cluster::Cluster;
use spur_core::event::Event;
use spur_core::job::Job;

impl Controller {
    /// Replays the log from nothing: that must give what is in memory. Fills in the outcome's numbers.
    pub(crate) fn settle_accounts(&self, around: &mut Around<'_>, outcome: &mut Outcome) {
        let mut replayed = Cluster::default();
        let mut digest = 0xcbf2_9ce4_8422_2325_u64;
        let mut count = |job: Option<&Job>| {
            if let Some(job) = job {
                *outcome.ends.entry(job.state).or_default() += 1;
            }
        };
        for (at, event) in &self.log {
            if let Event::Purged { jobs } = event {
                jobs.iter().for_each(|job| count(replayed.jobs.get(job)));
            }
            replayed.apply(*at, event);
            for byte in format!("{at:?}{event:?}").bytes() {
                digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        self.cluster.jobs.values().for_each(|job| count(Some(job)));
        if replayed != self.cluster {
            around
                .oracle
                .breaks("a replay of the log gives another cluster".to_owned());
        }
        outcome.digest = digest;
        outcome.events = self.durable as u64;
        outcome.ignored = self.ignored;
    }
}
