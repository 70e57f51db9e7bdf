//! How many connections each user has on their way in: one user who opens many and says nothing must not keep others out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most connections of one user, root too, whose first message has not come: a quarter of all.
pub(super) const USER_MAX: usize = super::INCOMING_MAX / 4;

/// Counts by user id.
#[derive(Clone, Debug, Default)]
pub(super) struct Seats(Arc<Mutex<BTreeMap<u32, usize>>>);

/// One connection's place; free again when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    uid: u32,
    seats: Seats,
}

impl Seats {
    /// A place, unless the user has as many as one may.
    pub(super) fn take(&self, uid: u32) -> Option<Seat> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.entry(uid).or_default();
        if *own >= USER_MAX {
            return None;
        }
        *own += 1;
        Some(Seat {
            uid,
            seats: self.clone(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.uid) {
            Some(own) if *own > 1 => *own -= 1,
            Some(_) | None => drop(taken.remove(&self.uid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_every_place_and_places_come_back() {
        let seats = Seats::default();
        let mut taken: Vec<Seat> = std::iter::from_fn(|| seats.take(1000)).collect();
        assert_eq!(taken.len(), USER_MAX);
        let others = seats.take(1001);
        assert!(others.is_some());
        taken.pop();
        assert!(seats.take(1000).is_some());
        drop((taken, others));
        assert!(seats.0.lock().unwrap().is_empty());
    }
}
