//! What waits on disk for the controller: records, which are never dropped, and joined readings, which are bounded.

pub mod records;
pub mod segments;
