//! Thin, safe wrappers around the system calls that need `unsafe`: the only such code in this crate.
//!
//! Each file wraps one idea. Whatever `rustix` offers safely is used directly and is not here.

pub mod clock;
pub mod clone;
pub mod exec;
pub mod fd;
pub mod kcmp;
pub mod lock;
pub mod mig;
#[cfg(test)]
pub(crate) mod odd;
pub mod pmix;
pub mod process;
pub mod ready;
pub mod signal;
pub mod spawn;
pub mod uevent;
