//! Sources: each file reads one kind of thing below a root folder that tests replace. What is not there is absent.

pub mod amd;
pub mod fdinfo;
pub mod group;
pub mod kept;
pub mod rss;
pub mod standin;
