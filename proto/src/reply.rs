//! Answers as bytes. Lists of jobs are by far the longest: they are put together from what is kept with each row, and read one by one,
//! without the messages of all of them in memory. The bytes are those of [`wire::CallReply`] all the same.

use crate::convert::{BadMessage, Wire, job_of};
use crate::{envelope, wire};
use prost::{Message, decode_length_delimiter, encode_length_delimiter, length_delimiter_len};
use spur_core::api::{JobView, Refusal, Reply};
use spur_core::job::spec::JobSpec;
use std::borrow::Cow;
use std::io;
use std::sync::Arc;

/// The wire type of what has a length.
const DELIMITED: u8 = 2;
/// `CallReply.answer`, `CallAnswer.jobs` and `Jobs.items`: what stands in front of their lengths.
const ANSWER: u8 = 1 << 3 | DELIMITED;
const JOBS: u8 = 8 << 3 | DELIMITED;
const ITEM: u8 = 1 << 3 | DELIMITED;
/// `JobView.id` and `JobView.spec`.
const NUMBER: u8 = 1 << 3;
const SPEC: u8 = 2 << 3 | DELIMITED;

/// An answer of at most `max` bytes, with its length in front, as [`envelope::seal`] makes it.
pub fn seal(answer: &Result<Reply, Refusal>, max: usize) -> io::Result<Vec<u8>> {
    match answer {
        Ok(Reply::Jobs(rows)) => seal_jobs(rows, max),
        answer => envelope::seal(&wire::CallReply::from(answer), max),
    }
}

fn seal_jobs(rows: &[Arc<JobView>], max: usize) -> io::Result<Vec<u8>> {
    let parts: Vec<Parts<'_>> = rows.iter().map(|row| Parts::of(row)).collect();
    let items = parts.iter().map(|parts| field_len(parts.len())).sum();
    let jobs = field_len(items);
    envelope::seal_with(field_len(jobs), max, |out| {
        begin(out, ANSWER, jobs);
        begin(out, JOBS, items);
        for parts in &parts {
            begin(out, ITEM, parts.len());
            out.extend_from_slice(&parts.kept);
            out.extend_from_slice(&parts.added);
        }
    })
}

/// A row. A message may be in two parts, of which the first is kept with the row.
struct Parts<'r> {
    kept: Cow<'r, [u8]>,
    /// What only the one who answers knows.
    added: Vec<u8>,
}

impl<'r> Parts<'r> {
    fn of(row: &'r JobView) -> Self {
        let kept = || {
            let kept = wire::JobView {
                unavailable: Vec::new(),
                expected: None,
                ..row.to_pb()
            };
            kept.encode_to_vec()
        };
        let added = || {
            let added = wire::JobView {
                unavailable: row.unavailable.iter().map(Wire::to_pb).collect(),
                expected: row.expected.as_ref().map(Wire::to_pb),
                ..wire::JobView::default()
            };
            added.encode_to_vec()
        };
        let adds = !row.unavailable.is_empty() || row.expected.is_some();
        Self {
            kept: row.written.bytes(kept),
            added: if adds { added() } else { Vec::new() },
        }
    }

    fn len(&self) -> usize {
        self.kept.len() + self.added.len()
    }
}

/// How long a field is with so many bytes in it.
fn field_len(content: usize) -> usize {
    1 + length_delimiter_len(content) + content
}

/// Adds what stands in front of so many bytes.
fn begin(out: &mut Vec<u8>, key: u8, content: usize) {
    out.push(key);
    encode_length_delimiter(content, out).expect("a vector has room");
}

/// The answer of a body. Other bytes are `InvalidData`; a message that says less or other than it must is the inner error.
pub fn open(body: &[u8]) -> io::Result<Result<Result<Reply, Refusal>, BadMessage>> {
    let Some(items) = items(body) else {
        let reply: wire::CallReply = envelope::decode(body)?;
        return Ok(reply.try_into());
    };
    let mut rows = Vec::new();
    for row in Rows::of(items) {
        match row? {
            Ok(row) => rows.push(Arc::new(row)),
            Err(bad) => return Ok(Err(bad)),
        }
    }
    Ok(Ok(Ok(Reply::Jobs(rows))))
}

/// The answer of a body, of which a list of jobs is not read yet.
pub fn open_jobs(body: Vec<u8>) -> io::Result<Result<Result<Jobs, Reply>, Refused>> {
    if items(&body).is_some() {
        return Ok(Ok(Ok(Jobs { body })));
    }
    Ok(match open(&body)? {
        Ok(Ok(reply)) => Ok(Err(reply)),
        Ok(Err(refusal)) => Err(Refused::No(refusal)),
        Err(bad) => Err(Refused::Bad(bad)),
    })
}

/// Why a body has no answer to be used.
#[derive(Debug)]
pub enum Refused {
    /// The controller said no.
    No(Refusal),
    /// The message says less or other than it must.
    Bad(BadMessage),
}

/// Jobs as they came, read one after another: of ten thousand, only the one that is looked at takes memory besides its bytes.
#[derive(Debug)]
pub struct Jobs {
    body: Vec<u8>,
}

impl Jobs {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        items(&self.body).is_none_or(<[u8]>::is_empty)
    }

    /// Each in turn. After an error there is no other.
    pub fn rows(&self) -> Rows<'_> {
        Rows::of(items(&self.body).unwrap_or_default())
    }
}

/// The items of a list of jobs; `None` if the answer is another.
fn items(body: &[u8]) -> Option<&[u8]> {
    inside(body, ANSWER).and_then(|answer| inside(answer, JOBS))
}

/// Rows of a list, one after another.
pub struct Rows<'b> {
    rest: &'b [u8],
    reader: Reader<'b>,
}

impl<'b> Rows<'b> {
    fn of(items: &'b [u8]) -> Self {
        Self {
            rest: items,
            reader: Reader::default(),
        }
    }
}

impl Iterator for Rows<'_> {
    type Item = io::Result<Result<JobView, BadMessage>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((item, behind)) = field(self.rest, ITEM) else {
            self.rest = &[];
            return Some(Err(io::ErrorKind::InvalidData.into()));
        };
        self.rest = behind;
        let row = self.reader.row(item);
        if !matches!(row, Ok(Ok(_))) {
            self.rest = &[];
        }
        Some(row.map(|row| row.map_err(|bad| bad.at("items").at("Reply"))))
    }
}

/// How many requests are remembered while rows are read.
const REQUESTS: usize = 8;

/// Reads rows. Those of jobs that asked for the same share the request: tasks of an array do, and neighbours often.
#[derive(Default)]
struct Reader<'b> {
    /// The last that were read, with their bytes, in no order.
    requests: Vec<(&'b [u8], Arc<JobSpec>)>,
    /// Which of them the next takes the place of.
    oldest: usize,
}

impl<'b> Reader<'b> {
    fn row(&mut self, item: &'b [u8]) -> io::Result<Result<JobView, BadMessage>> {
        let Some((before, spec, behind)) = parted(item) else {
            return envelope::decode(item).map(JobView::from_pb);
        };
        let mut row: wire::JobView = envelope::decode(before)?;
        envelope::merge(&mut row, behind)?;
        if row.spec.is_some() {
            // In two parts: to be put together as messages are.
            return envelope::decode(item).map(JobView::from_pb);
        }
        let request = self.request(spec)?;
        Ok(request.and_then(|request| job_of(row, request)))
    }

    fn request(&mut self, bytes: &'b [u8]) -> io::Result<Result<Arc<JobSpec>, BadMessage>> {
        let known = self.requests.iter().find(|(known, _)| *known == bytes);
        if let Some((_, request)) = known {
            return Ok(Ok(Arc::clone(request)));
        }
        let request = match JobSpec::from_pb(envelope::decode(bytes)?) {
            Ok(request) => Arc::new(request),
            Err(bad) => return Ok(Err(bad.at("spec"))),
        };
        let read = (bytes, Arc::clone(&request));
        if self.requests.len() < REQUESTS {
            self.requests.push(read);
        } else {
            self.requests[self.oldest] = read;
            self.oldest = (self.oldest + 1) % REQUESTS;
        }
        Ok(Ok(request))
    }
}

/// A row whose second field is its request: what is before that, the request, and what is behind.
fn parted(item: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key, number) = item.split_first()?;
    let last = number.iter().position(|byte| *byte < 0x80)?;
    let (before, rest) = item.split_at(last + 2);
    let (spec, behind) = (*key == NUMBER).then(|| field(rest, SPEC))??;
    Some((before, spec, behind))
}

/// What is in a field, and what is behind it; `None` if another field is there, or a part of one.
fn field(bytes: &[u8], key: u8) -> Option<(&[u8], &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let len = (*first == key).then(|| decode_length_delimiter(&mut rest).ok())??;
    rest.split_at_checked(len)
}

/// What is in the only field.
fn inside(bytes: &[u8], key: u8) -> Option<&[u8]> {
    let (content, behind) = field(bytes, key)?;
    behind.is_empty().then_some(content)
}
