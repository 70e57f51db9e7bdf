//! Core types to messages and back. `convert/macros.rs` writes the bodies; the tables below it are the whole mapping.

#[macro_use]
mod macros;
mod agent;
mod basic;
mod client;
mod mesh;
mod pmix;
mod roll;
mod usage;

pub(crate) use client::job_of;
use std::borrow::Cow;

/// A message that says less, or other, than it must.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad message: {path}: {problem}")]
pub struct BadMessage {
    /// The field's path, innermost last, as in `submit.spec.owner.uid`.
    pub path: String,
    /// What is wrong with it.
    pub problem: Cow<'static, str>,
}

impl BadMessage {
    /// A problem with the value at hand; callers add the path on the way out.
    pub(crate) fn new(problem: impl Into<Cow<'static, str>>) -> Self {
        Self {
            path: String::new(),
            problem: problem.into(),
        }
    }

    /// Puts a field's name in front of the path.
    pub(crate) fn at(mut self, field: &str) -> Self {
        self.path = if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{field}.{}", self.path)
        };
        self
    }
}

/// A core type that has a form on the wire.
pub(crate) trait Wire: Sized {
    /// That form.
    type Pb;
    /// Writes it.
    fn to_pb(&self) -> Self::Pb;
    /// Reads it.
    fn from_pb(pb: Self::Pb) -> Result<Self, BadMessage>;
}

/// A field that must be there.
pub(crate) fn required<T: Wire>(pb: Option<T::Pb>, field: &'static str) -> Result<T, BadMessage> {
    T::from_pb(pb.ok_or_else(|| BadMessage::new("is missing").at(field))?).map_err(|e| e.at(field))
}

/// A field that may be absent.
pub(crate) fn optional<T: Wire>(
    pb: Option<T::Pb>,
    field: &'static str,
) -> Result<Option<T>, BadMessage> {
    pb.map(T::from_pb).transpose().map_err(|e| e.at(field))
}

/// A repeated field.
pub(crate) fn repeated<T: Wire, C: FromIterator<T>>(
    pb: Vec<T::Pb>,
    field: &'static str,
) -> Result<C, BadMessage> {
    pb.into_iter()
        .map(T::from_pb)
        .collect::<Result<C, _>>()
        .map_err(|e| e.at(field))
}
