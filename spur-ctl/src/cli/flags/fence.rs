//! Options of `spur fence`.

use super::{FENCE, Flag, on};

/// What each word does.
pub(super) const ABOUT: &str = "
  show     what the job may open on each node, and what it was refused, by kind
  explain  the same, with what it means and what to do
  log      refusals of all one's jobs or of one, oldest first

Without JOB, show and explain are about the job that they run in.
";

pub(super) static ROWS: &[Flag] = &[
    on(
        "alarms",
        FENCE,
        "log: only what no library does by accident",
    ),
    on("follow", FENCE, "log: go on as refusals happen").short('f'),
    on("json", FENCE, "print JSON, one object a line"),
];
