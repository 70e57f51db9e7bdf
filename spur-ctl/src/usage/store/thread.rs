//! The thread that keeps the record: takes what waits, writes it in one transaction, tells who waits for that, and now and then
//! forgets what is too old.

use super::db::Db;
use super::schema::{self, Place, Spools, Trouble};
use super::write::{self, Round};
use super::{Incoming, RECORDS_MAX, Shared, State};
use crate::store::StoreError;
use crate::usage::board::Board;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Shortest time between two transactions: submissions must not wait for a disk that is busy with their record. Queries need not
/// wait for it either, for what the cluster knows is laid over what the record has.
const PAUSE: Duration = Duration::from_millis(500);
/// Time until a disk that failed is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// How often series are looked at for what is due, and the file for being there.
const TICK: Duration = Duration::from_secs(5);
/// How often what is too old is looked for.
const PURGE_EVERY: Duration = Duration::from_secs(60);
/// Most rows of jobs in one transaction.
const ROUND_JOBS: usize = 2000;
/// Most records in one transaction.
const ROUND_RECORDS: usize = 1000;
/// Most pieces of series in one transaction.
const ROUND_TAILS: usize = 500;

/// The thread's own.
#[derive(Debug)]
pub(super) struct Keeper {
    place: Place,
    keep_days: u64,
    board: Arc<Board>,
    /// None while there can be none.
    db: Option<Db>,
    /// Which file is open.
    inode: Option<(u64, u64)>,
    failing: bool,
    looked: Instant,
    purged: Option<Instant>,
}

impl Keeper {
    /// Opens the record. Only one of a newer spur is an error.
    pub(super) fn open(
        place: Place,
        keep_days: u64,
        board: Arc<Board>,
    ) -> Result<(Self, Spools), StoreError> {
        let mut keeper = Self {
            place,
            keep_days,
            board,
            db: None,
            inode: None,
            failing: false,
            looked: Instant::now(),
            purged: None,
        };
        let spools = match keeper.connect() {
            Ok(spools) => spools,
            Err(Trouble::TooNew(found)) => {
                return Err(StoreError::TooNew {
                    path: PathBuf::from(keeper.place.to_string()),
                    found,
                    known: schema::VERSION,
                });
            }
            Err(Trouble::Broken(why) | Trouble::Other(why)) => {
                keeper.complain(&why);
                Spools::new()
            }
        };
        Ok((keeper, spools))
    }

    /// Opens the file, in the place of one that cannot be read if need be.
    fn connect(&mut self) -> Result<Spools, Trouble> {
        let opened = match (self.place.open(), self.place.file()) {
            (Err(Trouble::Broken(why)), Some(file)) => {
                tracing::error!(
                    path = %file.display(),
                    "the accounting record cannot be read and is set aside as .bad: {why}"
                );
                schema::set_aside(file);
                self.place.open()
            }
            (other, _) => other,
        };
        let (db, spools) = opened?;
        self.inode = self.place.file().and_then(inode);
        self.db = Some(db);
        Ok(spools)
    }

    /// Starts the thread.
    pub(super) fn start(mut self, shared: Arc<Shared>) -> Result<JoinHandle<()>, StoreError> {
        let path = PathBuf::from(self.place.to_string());
        std::thread::Builder::new()
            .name("accounting".to_owned())
            .spawn(move || self.run(&shared))
            .map_err(|cause| StoreError::Open {
                path,
                cause: format!("start its thread: {cause}"),
            })
    }

    fn run(&mut self, shared: &Shared) {
        loop {
            let stop = wait(shared);
            self.tick(shared, stop);
            self.reconnect(shared);
            let written = self.round(shared);
            let left = {
                let state = shared.state();
                !(state.jobs.is_empty()
                    && (state.wants_all || state.records.is_empty() && state.tails.is_empty()))
            };
            match written {
                Ok(()) => self.works(),
                Err(why) => self.complain(&why),
            }
            shared.state().failing = self.failing;
            if stop && (!left || self.failing) {
                return;
            }
            if self.failing {
                pause(shared, RETRY);
            } else if !left {
                pause(shared, PAUSE);
            }
        }
    }

    /// What time alone makes due.
    fn tick(&mut self, shared: &Shared, all: bool) {
        if self.looked.elapsed() < TICK && !all {
            return;
        }
        self.looked = Instant::now();
        let due = self.board.due(all);
        let mut state = shared.state();
        state.tails.extend(due);
        state.cut_tails();
        drop(state);
        let file = self.place.file();
        if self.db.is_some() && file.is_some_and(|file| inode(file) != self.inode) {
            tracing::error!(path = %self.place, "the accounting record was taken away; it is begun anew");
            self.db = None;
        }
        let purge = self
            .purged
            .is_none_or(|purged| purged.elapsed() >= PURGE_EVERY);
        if let Some(db) = self.db.as_mut().filter(|_| purge && !self.failing) {
            self.purged = Some(Instant::now());
            let oldest = crate::driver::now()
                .0
                .saturating_sub(self.keep_days.saturating_mul(86_400_000));
            match write::purge(db, oldest) {
                Ok(0) => {}
                Ok(count) => {
                    tracing::info!(count, "runs that are too old left the accounting record")
                }
                Err(why) => tracing::warn!("the accounting record cannot be thinned out: {why}"),
            }
        }
    }

    /// Opens the file again if it is not open; what the cluster knows must then be told again.
    fn reconnect(&mut self, shared: &Shared) {
        if self.db.is_some() {
            return;
        }
        match self.connect() {
            Ok(spools) => {
                let mut state = shared.state();
                state.spools = spools;
                state.wants_all = true;
            }
            Err(Trouble::TooNew(found)) => {
                self.complain(&format!("its version {found} is too new"))
            }
            Err(Trouble::Broken(why) | Trouble::Other(why)) => self.complain(&why),
        }
    }

    /// One transaction. What it took stays where it was until it is durable.
    fn round(&mut self, shared: &Shared) -> Result<(), String> {
        let Some(db) = &mut self.db else {
            return Err("it is not open".to_owned());
        };
        let round = collect(&shared.state());
        if round.is_empty() {
            return Ok(());
        }
        match write::write(db, &round) {
            Ok(()) => {
                done(shared, &round);
                Ok(())
            }
            Err(why) => {
                if why.broken {
                    self.db = None;
                }
                Err(why.text)
            }
        }
    }

    fn complain(&mut self, why: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::error!(
                path = %self.place,
                "the accounting record cannot be written, and is delayed until it can: {why}"
            );
        }
    }

    fn works(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!("the accounting record is written again");
        }
    }
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Waits until there is something to write, or time has come to look; whether it is time to end.
fn wait(shared: &Shared) -> bool {
    let state = shared.state();
    let idle = |state: &mut State| {
        let rest = state.records.is_empty() && state.tails.is_empty();
        state.jobs.is_empty() && (state.wants_all || rest) && !state.stop
    };
    let waited = shared.work.wait_timeout_while(state, TICK, idle);
    waited.unwrap_or_else(PoisonError::into_inner).0.stop
}

/// Lets more come together, unless it is time to end.
fn pause(shared: &Shared, pause: Duration) {
    let mut state = shared.state();
    state.resting = true;
    let waited = shared
        .work
        .wait_timeout_while(state, pause, |state| !state.stop);
    waited.unwrap_or_else(PoisonError::into_inner).0.resting = false;
}

/// What the next transaction writes. Records come after the rows of their jobs, or they would be strangers.
fn collect(state: &State) -> Round {
    let rows_first = state.wants_all || state.jobs.len() > ROUND_JOBS;
    let records = if rows_first { 0 } else { ROUND_RECORDS };
    let tails = if rows_first { 0 } else { ROUND_TAILS };
    Round {
        jobs: state
            .jobs
            .iter()
            .take(ROUND_JOBS)
            .map(|(key, row)| (*key, Arc::clone(row)))
            .collect(),
        records: state.records.iter().take(records).map(Arc::clone).collect(),
        tails: state.tails.iter().take(tails).cloned().collect(),
    }
}

/// It is durable: what was taken goes, and nodes hear of it.
fn done(shared: &Shared, round: &Round) {
    let mut state = shared.state();
    for (key, row) in &round.jobs {
        if state.jobs.get(key).is_some_and(|now| Arc::ptr_eq(now, row)) {
            state.jobs.remove(key);
        }
    }
    state.records.drain(..round.records.len());
    // Beyond their bound the oldest may have gone meanwhile; at worst a piece is written twice, which changes no mean.
    let tails = round.tails.len().min(state.tails.len());
    state.tails.drain(..tails);
    state.written += round.records.len() as u64;
    for record in &round.records {
        let durable = (record.spool.clone(), record.number);
        state.spools.insert(record.node.clone(), durable);
    }
    drop(state);
    shared
        .room
        .add_permits(round.records.len().min(RECORDS_MAX));
    for Incoming {
        slot,
        spool,
        number,
        ..
    } in round.records.iter().map(Arc::as_ref)
    {
        slot.durable.send_replace((spool.clone(), *number));
    }
}
