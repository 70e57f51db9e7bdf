//! Options of `spur fence`.

use super::{FENCE, Flag, on};

pub(super) static ROWS: &[Flag] = &[
    on(
        "alarms",
        FENCE,
        "log: only what no library does by accident",
    ),
    on("follow", FENCE, "log: go on as refusals happen").short('f'),
    on("help", FENCE, "show this").short('h'),
    on("json", FENCE, "print JSON, one object a line"),
    on("usage", FENCE, "show a short summary"),
];
