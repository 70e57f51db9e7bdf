//! Places for what takes much memory while a call is carried: a long question, a list as an answer. Each user has a few, so that
//! whoever sends slowly or does not read waits for nobody but themselves, and all together have a few more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long a call waits for a place.
const WAIT: Duration = Duration::from_secs(30);

/// Places of one kind.
#[derive(Debug)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    each: usize,
    users: Mutex<BTreeMap<u32, Arc<Semaphore>>>,
}

/// Held while the memory is.
#[derive(Debug)]
pub(super) struct Place {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Places {
    /// So many in all, so many for each user.
    pub(super) fn new(all: usize, each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            each,
            users: Mutex::default(),
        }
    }

    /// A place for this user, or none after half a minute. A user's own comes first: who waits for it keeps none of the others.
    pub(super) async fn take(&self, uid: u32) -> Option<Place> {
        let own = self.of(uid);
        let both = async {
            let own = own.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(Place {
                _own: own,
                _all: all,
            })
        };
        timeout(WAIT, both).await.ok().flatten()
    }

    fn of(&self, uid: u32) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        // Those whom nobody uses are as good as new.
        users.retain(|_, places| Arc::strong_count(places) > 1);
        let new = || Arc::new(Semaphore::new(self.each));
        Arc::clone(users.entry(uid).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_user_waits_for_nobody_but_itself() {
        let places = Places::new(3, 2);
        let held = [places.take(1).await, places.take(1).await];
        assert!(held.iter().all(Option::is_some));
        assert!(places.take(1).await.is_none(), "its own are taken");
        let other = places.take(2).await;
        assert!(other.is_some(), "another's are not");
        assert!(places.take(3).await.is_none(), "all are taken");
        drop(held);
        assert!(places.take(1).await.is_some());
        drop(other);
        assert!(places.take(3).await.is_some());
        assert_eq!(places.users.lock().unwrap().len(), 1, "none is kept");
    }
}
