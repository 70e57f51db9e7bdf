//! Reservations of nodes in a pass: which nodes they keep from whom, and when they may be used.

use super::bits::Bits;
use super::rooms::Rooms;
use super::wait::Wait;
use crate::cluster::Cluster;
use crate::job::state::Reason;
use crate::manage::reservation::Reservation;
use crate::time::Millis;
use std::rc::Rc;

/// A reservation that is not over.
struct Guard<'a> {
    reservation: &'a Reservation,
    nodes: Bits,
}

/// See the module.
pub(super) struct Guards<'a> {
    at: Millis,
    list: Vec<Guard<'a>>,
}

impl<'a> Guards<'a> {
    /// Those of the cluster.
    pub(super) fn of(cluster: &'a Cluster, rooms: &Rooms<'_>, at: Millis) -> Self {
        let all = cluster.managed.reservations.values();
        let guard = |reservation: &'a Reservation| {
            let mut nodes = Bits::none(rooms.len());
            let ids = reservation.nodes.iter();
            let ids = ids.filter_map(|name| cluster.node_ids.get(name));
            let positions = ids.filter_map(|id| rooms.position(*id));
            positions.for_each(|position| nodes.set(position));
            Guard { reservation, nodes }
        };
        let list = all.filter(|known| known.end > at).map(guard).collect();
        Self { at, list }
    }

    /// The nodes that jobs may use which name these reservations (the first that may be used now counts): of all of these. The
    /// error is why they wait.
    pub(super) fn within(&self, named: &str, nodes: &Rc<Bits>) -> Result<Rc<Bits>, Wait> {
        let wanted = |guard: &&Guard<'_>| is_named(named, guard.reservation);
        let mut known = self.list.iter().filter(wanted).peekable();
        if known.peek().is_none() {
            return Err(Wait {
                reason: Reason::ReservationDeleted,
                text: format!("there is no reservation {named} any more").into(),
            });
        }
        let may = |guard: &&Guard<'_>| {
            guard.reservation.start <= self.at || guard.reservation.has("FLEX")
        };
        let Some(guard) = known.find(may) else {
            return Err(Wait {
                reason: Reason::Reservation,
                text: format!("reservation {named} has not begun").into(),
            });
        };
        let own = guard.reservation;
        if own.has("ANY_NODES") || own.has("FLEX") {
            return Ok(Rc::clone(nodes));
        }
        let mut within = Rc::clone(nodes);
        Rc::make_mut(&mut within).intersect(&guard.nodes);
        Ok(within)
    }

    /// The nodes that other reservations keep from a job which names these and would run from now until then; `None` if none does.
    pub(super) fn barred(&self, named: &str, until: Millis) -> Option<Bits> {
        let own = |guard: &Guard<'_>| is_named(named, guard.reservation);
        let overlaps = self
            .list
            .iter()
            .any(|guard| own(guard) && guard.reservation.may_overlap());
        if overlaps {
            return None;
        }
        let mut barred: Option<Bits> = None;
        for guard in &self.list {
            // Until the reservation is over, unless the job ends before it begins.
            if own(guard) || guard.reservation.start >= until {
                continue;
            }
            match &mut barred {
                Some(barred) => barred.unite(&guard.nodes),
                None => barred = Some(guard.nodes.clone()),
            }
        }
        barred
    }

    /// Why a job waits of which too many nodes are barred.
    pub(super) fn wait(&self, until: Millis) -> Wait {
        let barring = self
            .list
            .iter()
            .filter(|guard| guard.reservation.start < until);
        let mut names: Vec<&str> = Vec::new();
        let mut maintenance = false;
        for guard in barring {
            names.push(&guard.reservation.name);
            maintenance |= guard.reservation.has("MAINT");
        }
        let what = if maintenance {
            "reserved for maintenance"
        } else {
            "reserved for others"
        };
        Wait {
            reason: Reason::ReqNodeNotAvail,
            text: format!(
                "nodes that it could use are {what} while it would run: {}",
                names.join(",")
            )
            .into(),
        }
    }
}

/// Whether a reservation is one of a list with commas.
fn is_named(list: &str, reservation: &Reservation) -> bool {
    list.split(',').any(|name| name == reservation.name)
}
