//! What jobs and devices really use: the words of the meter, from the node's sources to the record that stays.
//!
//! Everything that can be is a counter that only grows, in whole units, so that a lost reading costs resolution and never truth. A
//! value that was not measured is absent; it is never zero.

pub mod codec;
pub mod histogram;
pub mod idle;
pub mod metric;
pub mod series;
pub mod summary;
pub mod words;
