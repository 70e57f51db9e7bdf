//! Records until the controller has them on its own disk. A file of the journal's kind: checked, synced, its torn end cut off.

use crate::journal::JournalError;
use crate::journal::file::File;
use serde::{Deserialize, Serialize};
use spur_core::usage::words::{UsageEventKind, UsageRecord};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

/// Most records that wait for a disk that takes none. Beyond, the oldest is dropped, events before what jobs used.
pub const UNWRITTEN_MAX: usize = 10_000;

/// Most records that wait for an acknowledgement: a month without a controller, at three jobs a minute. Beyond, events make room.
pub const WAITING_MAX: usize = 200_000;

/// One entry of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Entry {
    Begin {
        id: String,
        next: u64,
    },
    Record {
        number: u64,
        record: Box<UsageRecord>,
    },
    Acked {
        number: u64,
    },
}

/// The records.
#[derive(Debug)]
pub struct Records {
    file: File,
    id: String,
    next: u64,
    waiting: BTreeMap<u64, UsageRecord>,
    /// Could not be written yet.
    unwritten: VecDeque<UsageRecord>,
    /// The disk takes nothing; said once.
    failing: bool,
    dropped: u64,
}

impl Records {
    /// Opens `path`, or begins it as spool `fresh_id`. A file that is something else is set aside, and a full disk waited for: a
    /// node that meters what it can is better than one that does not.
    ///
    /// # Errors
    /// It cannot be read or made.
    pub fn open(path: &Path, fresh_id: &str) -> Result<Self, JournalError> {
        let (file, entries) = match File::open::<Entry>(path) {
            Err(JournalError::Foreign { .. }) => {
                let aside = path.with_extension("bad");
                tracing::error!(
                    file = %path.display(), aside = %aside.display(),
                    "this is no spool of records of this version: it is set aside, and what was in it is lost to the controller"
                );
                std::fs::rename(path, &aside).map_err(|source| JournalError::Io {
                    what: "set aside",
                    file: path.to_owned(),
                    source,
                })?;
                File::open::<Entry>(path)?
            }
            opened => opened?,
        };
        let mut records = Self {
            file,
            id: String::new(),
            next: 1,
            waiting: BTreeMap::new(),
            unwritten: VecDeque::new(),
            failing: false,
            dropped: 0,
        };
        for entry in entries {
            records.take(entry);
        }
        if records.id.is_empty() {
            fresh_id.clone_into(&mut records.id);
        }
        let rewritten = records.rewrite();
        records.say(rewritten);
        Ok(records)
    }

    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Begin { id, next } => {
                self.id = id;
                self.next = self.next.max(next);
            }
            Entry::Record { number, record } => {
                self.waiting.insert(number, *record);
                self.next = self.next.max(number + 1);
            }
            Entry::Acked { number } => {
                self.waiting = self.waiting.split_off(&(number + 1));
                self.next = self.next.max(number + 1);
            }
        }
    }

    /// Which spool this is.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Takes new records, and makes them durable with one sync. Those that the disk does not take wait in memory.
    pub fn add(&mut self, new: impl IntoIterator<Item = UsageRecord>) {
        self.unwritten.extend(new);
        self.write();
    }

    /// Tries to write what waits in memory.
    pub fn write(&mut self) {
        let mut written = Vec::new();
        let mut outcome = Ok(());
        while let Some(record) = self.unwritten.pop_front() {
            let number = self.next + written.len() as u64;
            let entry = Entry::Record {
                number,
                record: Box::new(record.clone()),
            };
            outcome = self.file.append(&entry);
            if outcome.is_err() {
                self.unwritten.push_front(record);
                break;
            }
            written.push((number, record));
        }
        let synced = if written.is_empty() {
            Ok(())
        } else {
            self.file.sync()
        };
        self.next += written.len() as u64;
        self.waiting.extend(written);
        self.say(outcome.and(synced));
        self.bound();
    }

    /// Says once that the disk fails, and once that it is well again.
    fn say(&mut self, outcome: Result<(), JournalError>) {
        match outcome {
            Err(error) if !self.failing => {
                self.failing = true;
                tracing::error!(%error, "records of usage cannot be written; they wait in memory");
            }
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::info!("records of usage are written again");
            }
            Ok(()) | Err(_) => {}
        }
    }

    fn bound(&mut self) {
        while self.unwritten.len() > UNWRITTEN_MAX {
            let event = self.unwritten.iter().position(is_event);
            let lost = self.unwritten.remove(event.unwrap_or(0));
            self.dropped += u64::from(lost.is_some());
        }
        if self.waiting.len() > WAITING_MAX {
            let event = self
                .waiting
                .iter()
                .find(|(_, record)| is_event(record))
                .map(|(number, _)| *number);
            if let Some(number) = event {
                self.waiting.remove(&number);
                self.dropped += 1;
            }
        }
    }

    /// Whether something could not be written yet.
    pub fn is_behind(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Records that were dropped for want of room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Records after `number`, at most `most` of them.
    pub fn after(&self, number: u64, most: usize) -> impl Iterator<Item = (u64, &UsageRecord)> {
        let range = self.waiting.range(number.saturating_add(1)..);
        range.take(most).map(|(number, record)| (*number, record))
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.unwritten.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.file.len()
    }

    /// The controller has every record up to this one.
    pub fn acked(&mut self, number: u64) {
        if self
            .waiting
            .first_key_value()
            .is_none_or(|(first, _)| *first > number)
        {
            return;
        }
        self.waiting = self.waiting.split_off(&(number + 1));
        let outcome = if self.waiting.is_empty() || self.file.is_mostly_old(self.waiting.len()) {
            self.rewrite()
        } else {
            self.file.append(&Entry::Acked { number })
        };
        self.say(outcome);
    }

    fn rewrite(&mut self) -> Result<(), JournalError> {
        let begin = Entry::Begin {
            id: self.id.clone(),
            next: self.next,
        };
        let records = self.waiting.iter().map(|(number, record)| Entry::Record {
            number: *number,
            record: Box::new(record.clone()),
        });
        let entries: Vec<Entry> = std::iter::once(begin).chain(records).collect();
        self.file.replace(&entries)
    }
}

fn is_event(record: &UsageRecord) -> bool {
    match record {
        UsageRecord::Event(event) => !matches!(event.what, UsageEventKind::Gap { .. }),
        UsageRecord::Step(_) | UsageRecord::Job(_) => false,
    }
}

#[cfg(test)]
mod tests;
