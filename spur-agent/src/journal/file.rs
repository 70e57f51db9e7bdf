//! A file of records: length (4 bytes), check (8 bytes of SHA-256), MessagePack. A record that does not check, and all after it,
//! was being written when the writer died, and is cut off.

use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// First bytes of the file: what it is, and the version of its layout.
const MAGIC: &[u8; 8] = b"spurjrn1";
/// Bytes before a record.
const HEAD: usize = 12;
/// The longest record; a job order of 10,000 nodes has about 1 MiB.
const RECORD_BYTES_MAX: usize = 64 << 20;
/// The file is written anew when it has this many records more than it needs.
const OLD_RECORDS_MIN: usize = 4096;

/// What went wrong with the journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The kernel said no.
    #[error("cannot {what} the journal {file}: {source}")]
    Io {
        /// What was attempted.
        what: &'static str,
        /// Which file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is something else.
    #[error(
        "{file} is not a journal of this version: move it away, after a look at the jobs that still run here"
    )]
    Foreign {
        /// Which file.
        file: PathBuf,
    },
}

/// An open journal file.
#[derive(Debug)]
pub(crate) struct File {
    path: PathBuf,
    out: fs::File,
    /// Records in the file.
    records: usize,
    /// Length up to the last whole record; a failed append is cut back to it.
    len: u64,
}

fn failed<'a>(what: &'static str, file: &'a Path) -> impl FnOnce(io::Error) -> JournalError + 'a {
    move |source| JournalError::Io {
        what,
        file: file.to_owned(),
        source,
    }
}

impl File {
    /// Opens or makes the file and gives its records.
    pub(crate) fn open<R: DeserializeOwned>(path: &Path) -> Result<(Self, Vec<R>), JournalError> {
        let mut options = fs::OpenOptions::new();
        let options = std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let out = options
            .append(true)
            .create(true)
            .open(path)
            .map_err(failed("open", path))?;
        let bytes = fs::read(path).map_err(failed("read", path))?;
        let mut file = Self {
            path: path.to_owned(),
            out,
            records: 0,
            len: 0,
        };
        if bytes.len() < MAGIC.len() {
            file.cut(0)?;
            file.out.write_all(MAGIC).map_err(failed("begin", path))?;
            file.len = MAGIC.len() as u64;
            return Ok((file, Vec::new()));
        }
        if !bytes.starts_with(MAGIC) {
            return Err(JournalError::Foreign {
                file: path.to_owned(),
            });
        }
        let (records, whole) = parse(&bytes);
        file.records = records.len();
        if whole < bytes.len() {
            tracing::warn!(file = %path.display(), cut = bytes.len() - whole, "the journal's last record is torn; it is cut off");
        }
        file.cut(whole as u64)?;
        Ok((file, records))
    }

    fn cut(&mut self, len: u64) -> Result<(), JournalError> {
        self.len = len;
        self.out.set_len(len).map_err(failed("shorten", &self.path))
    }

    /// Adds a record. After a failure (a full disk) the file ends where it ended before.
    pub(crate) fn append(&mut self, record: &impl Serialize) -> Result<(), JournalError> {
        let bytes = frame(record);
        if let Err(source) = self.out.write_all(&bytes) {
            let len = self.len;
            self.cut(len)?;
            return Err(failed("write", &self.path)(source));
        }
        self.len += bytes.len() as u64;
        self.records += 1;
        Ok(())
    }

    /// Makes everything so far durable.
    pub(crate) fn sync(&self) -> Result<(), JournalError> {
        self.out.sync_data().map_err(failed("sync", &self.path))
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// For tests: an open file that takes nothing, as on a full disk.
    #[cfg(test)]
    pub(crate) fn read_only(path: &Path) -> Self {
        let out = fs::File::open(path).expect("the file is there");
        let len = out.metadata().expect("the file is there").len();
        Self {
            path: path.to_owned(),
            out,
            records: 0,
            len,
        }
    }

    /// Whether most records are out of date.
    pub(crate) fn is_mostly_old(&self, live: usize) -> bool {
        self.records > live * 2 + OLD_RECORDS_MIN
    }

    /// Puts a new file with these records in place of the old one, whole or not at all.
    pub(crate) fn replace<R: Serialize>(&mut self, records: &[R]) -> Result<(), JournalError> {
        let draft = self.path.with_extension("new");
        let mut bytes = MAGIC.to_vec();
        records
            .iter()
            .for_each(|record| bytes.extend(frame(record)));
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", &draft)(error));
            }
            Ok(()) | Err(_) => {}
        }
        let mut options = fs::OpenOptions::new();
        let options = std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut out = options
            .append(true)
            .create_new(true)
            .open(&draft)
            .map_err(failed("create", &draft))?;
        out.write_all(&bytes).map_err(failed("write", &draft))?;
        out.sync_data().map_err(failed("sync", &draft))?;
        fs::rename(&draft, &self.path).map_err(failed("put in place", &self.path))?;
        if let Some(folder) = self.path.parent() {
            fs::File::open(folder)
                .and_then(|f| f.sync_all())
                .map_err(failed("sync the folder of", &self.path))?;
        }
        (self.out, self.records, self.len) = (out, records.len(), bytes.len() as u64);
        Ok(())
    }
}

fn check(body: &[u8]) -> [u8; 8] {
    let hash = Sha256::digest(body);
    hash.first_chunk().copied().expect("SHA-256 has 32 bytes")
}

fn frame(record: &impl Serialize) -> Vec<u8> {
    let body = rmp_serde::to_vec_named(record).expect("plain data always encodes into memory");
    let len = u32::try_from(body.len()).expect("records are bounded far below 4 GiB");
    let mut bytes = Vec::with_capacity(HEAD + body.len());
    bytes.extend(len.to_le_bytes());
    bytes.extend(check(&body));
    bytes.extend(body);
    bytes
}

/// The records up to the first that is torn, and where that begins.
fn parse<R: DeserializeOwned>(bytes: &[u8]) -> (Vec<R>, usize) {
    let (mut records, mut at) = (Vec::new(), MAGIC.len());
    while let Some((record, len)) = next(&bytes[at..]) {
        records.push(record);
        at += len;
    }
    (records, at)
}

fn next<R: DeserializeOwned>(bytes: &[u8]) -> Option<(R, usize)> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let len = usize::try_from(u32::from_le_bytes(*len))
        .ok()
        .filter(|len| *len <= RECORD_BYTES_MAX)?;
    let body = rest.get(..len)?;
    (check(body) == *sum)
        .then(|| rmp_serde::from_slice(body).ok())
        .flatten()
        .map(|record| (record, HEAD + len))
}
