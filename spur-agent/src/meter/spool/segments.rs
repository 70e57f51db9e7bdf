//! Joined readings of the time in which the controller was away: files of batches, each of which can be read on its own. Bounded:
//! when there is no room, the oldest file goes, and the gap is told.

use crate::journal::JournalError;
use crate::journal::file::File;
use crate::meter::outlet::{Reading, encode};
use spur_core::usage::codec::Encoder;
use spur_core::usage::words::Batch;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

/// A file is closed when it has so many bytes, or an eighth of all room if that is less.
pub const SEGMENT_BYTES: u64 = 1 << 20;

/// Readings that are kept in memory while the disk takes none; an hour of them, at a minute each.
pub const MEMORY_MAX: usize = 60;

/// The number under which readings in memory are handed out.
pub const MEMORY: u64 = u64::MAX;

const PREFIX: &str = "late-";

/// The readings.
#[derive(Debug)]
pub struct Segments {
    dir: PathBuf,
    room: u64,
    open: Option<Open>,
    /// Files, the open one included, with their sizes.
    files: BTreeMap<u64, u64>,
    next: u64,
    memory: VecDeque<Reading>,
    failing: bool,
    /// Milliseconds that were dropped and not told yet.
    lost: u64,
}

#[derive(Debug)]
struct Open {
    number: u64,
    file: File,
    encoder: Encoder,
}

impl Segments {
    /// Looks what an earlier agent left in `dir`, of which `room` bytes may be used.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn open(dir: &Path, room: u64) -> std::io::Result<Self> {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(dir)?.flatten() {
            let name = entry.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
            if let (Some(number), Ok(meta)) = (number, entry.metadata()) {
                files.insert(number, meta.len());
            }
        }
        let next = files.last_key_value().map_or(1, |(last, _)| last + 1);
        Ok(Self {
            dir: dir.to_owned(),
            room,
            open: None,
            files,
            next,
            memory: VecDeque::new(),
            failing: false,
            lost: 0,
        })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{PREFIX}{number:010}"))
    }

    /// Keeps a reading: on disk, or in memory while the disk takes none.
    pub fn add(&mut self, reading: Reading) {
        self.memory.push_back(reading);
        while let Some(reading) = self.memory.front().cloned() {
            match self.write(&reading) {
                Ok(()) => drop(self.memory.pop_front()),
                Err(error) => {
                    self.open = None;
                    if !self.failing {
                        tracing::error!(%error, "usage cannot be spooled; the last of it is kept in memory");
                    }
                    self.failing = true;
                    break;
                }
            }
        }
        if self.memory.is_empty() && std::mem::take(&mut self.failing) {
            tracing::info!("usage is spooled again");
        }
        while self.memory.len() > MEMORY_MAX {
            let lost = self.memory.pop_front();
            self.lost += lost.map_or(0, |reading| reading.span);
        }
        self.bound();
    }

    fn write(&mut self, reading: &Reading) -> Result<(), JournalError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let number = self.next;
                self.next += 1;
                let (file, _) = File::open::<Batch>(&self.path(number))?;
                self.files.insert(number, file.len());
                Open {
                    number,
                    file,
                    encoder: Encoder::default(),
                }
            }
        };
        let first = open.file.is_empty();
        let (batch, _) = encode(
            &mut open.encoder,
            &reading.values,
            (reading.moment, reading.span),
            first,
        );
        open.file.append(&Batch {
            late: true,
            ..batch
        })?;
        open.file.sync()?;
        self.files.insert(open.number, open.file.len());
        if open.file.len() < SEGMENT_BYTES.min(self.room / 8) {
            self.open = Some(open);
        }
        Ok(())
    }

    /// Drops the oldest files that there is no room for.
    fn bound(&mut self) {
        while self.bytes() > self.room && self.files.len() > 1 {
            let Some((number, _)) = self.files.first_key_value() else {
                return;
            };
            let number = *number;
            let span: u64 = self
                .read(number)
                .iter()
                .map(|batch| u64::from(batch.span))
                .sum();
            self.lost += span;
            self.remove(number);
        }
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.files.values().sum()
    }

    /// Milliseconds of readings that were dropped since this was asked before.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// The oldest readings, with the number under which they are removed. What was being written is closed first.
    pub fn oldest(&mut self) -> Option<(u64, Vec<Batch>)> {
        while let Some(number) = self.files.keys().next().copied() {
            if self.open.as_ref().is_some_and(|open| open.number == number) {
                self.open = None;
            }
            let batches = self.read(number);
            if !batches.is_empty() {
                return Some((number, batches));
            }
            self.remove(number);
        }
        if self.memory.is_empty() {
            return None;
        }
        let mut encoder = Encoder::default();
        let batches = self.memory.iter().enumerate().map(|(at, reading)| {
            let (batch, _) = encode(
                &mut encoder,
                &reading.values,
                (reading.moment, reading.span),
                at == 0,
            );
            Batch {
                late: true,
                ..batch
            }
        });
        Some((MEMORY, batches.collect()))
    }

    /// The batches of a file up to the first that is torn, from its first keyframe.
    fn read(&self, number: u64) -> Vec<Batch> {
        let read = File::open::<Batch>(&self.path(number)).map(|(_, batches)| batches);
        match read {
            Ok(batches) => batches
                .into_iter()
                .skip_while(|batch| !batch.keyframe)
                .collect(),
            Err(error) => {
                tracing::warn!(%error, "spooled usage cannot be read; it is left out");
                Vec::new()
            }
        }
    }

    /// The controller has these readings.
    pub fn remove(&mut self, number: u64) {
        if number == MEMORY {
            self.memory.clear();
            return;
        }
        if self.open.as_ref().is_some_and(|open| open.number == number) {
            self.open = None;
        }
        self.files.remove(&number);
        match std::fs::remove_file(self.path(number)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, number, "spooled usage cannot be removed");
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.memory.is_empty()
    }
}

#[cfg(test)]
mod tests;
