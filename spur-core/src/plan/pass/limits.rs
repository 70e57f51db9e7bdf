//! The limit that a job starts with: its own, or as much of it as there is room for.

use super::Pass;
use crate::id::JobId;
use crate::plan::ask::Ask;
use crate::plan::bits::Bits;
use crate::plan::kind::Kind;
use crate::plan::wait::Wait;
use crate::resources::NodeShare;
use crate::time::TimeLimit;

/// What counts as no limit where limits are compared by the minute: a year, as in Slurm.
const UNLIMITED_MINUTES: u64 = 365 * 24 * 60;

/// What comes of looking for room with one limit.
pub(super) enum Tried<'a> {
    /// With that limit, there.
    Fits((TimeLimit, Vec<NodeShare>)),
    /// Nowhere: what was asked for, and the nodes that reservations keep from it.
    Full(Ask<'a>, Option<Bits>),
}

impl<'a> Pass<'a> {
    /// The longest and the least limit with which a job of a class may start.
    pub(super) fn limits(&self, kind: &Kind<'a>, limit: TimeLimit) -> (TimeLimit, TimeLimit) {
        let partition = self.cluster.partitions.get(kind.partition);
        let most = partition.map_or(TimeLimit::Unlimited, |partition| partition.max_time);
        kind.class.limits(limit, (self.at, most))
    }

    /// Looks for room for a job that would have such a limit; with the number of its line, if that is the line's own limit.
    pub(super) fn try_limit(
        &mut self,
        (job, number): (JobId, Option<usize>),
        kind: &mut Kind<'a>,
        limit: TimeLimit,
    ) -> Result<Tried<'a>, Wait> {
        let (mut ask, until, barred) = self.prepared(kind, limit)?;
        let failed = kind.failed_for(&mut ask, (job, self.at), self.cluster);
        if failed.is_some_and(|failed| limit >= failed) {
            return Ok(Tried::Full(ask, barred));
        }
        let own = |pass: &mut Self| Some(std::mem::take(pass.holes.get_mut(number?)?));
        let mut holes = own(self).unwrap_or_default();
        let shares = self.place(&mut holes, kind, (&ask, until), barred.as_ref());
        if let Some(own) = number.and_then(|number| self.holes.get_mut(number)) {
            *own = holes;
        }
        Ok(match shares {
            Some(shares) => Tried::Fits((limit, shares)),
            None => {
                kind.fails(&ask, limit);
                Tried::Full(ask, barred)
            }
        })
    }

    /// Makes the limit of a job that fits with less than it wants as long as there is room for it, to the minute: what is free for
    /// longer is free for less as well.
    pub(super) fn stretch(
        &mut self,
        job: JobId,
        kind: &mut Kind<'a>,
        (found, longest): ((TimeLimit, Vec<NodeShare>), TimeLimit),
    ) -> (TimeLimit, Vec<NodeShare>) {
        let minutes = |limit| match limit {
            TimeLimit::Secs(secs) => secs / 60,
            TimeLimit::Unlimited => UNLIMITED_MINUTES,
        };
        let mut best = found;
        let (mut fits, mut fails) = (minutes(best.0), minutes(longest));
        while fails.saturating_sub(fits) > 1 {
            let middle = fits + (fails - fits) / 2;
            let tried = self.try_limit((job, None), kind, TimeLimit::Secs(middle * 60));
            if let Ok(Tried::Fits(longer)) = tried {
                (fits, best) = (middle, longer);
            } else {
                fails = middle;
            }
        }
        best
    }
}
