//! A real controller process, real sockets, and agents that speak the protocol but run nothing.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test fails on anything unexpected"
)]

#[cfg(test)]
mod admin;
#[cfg(test)]
mod agent;
#[cfg(test)]
mod cron;
#[cfg(test)]
mod door;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod load;
#[cfg(test)]
mod mail;
#[cfg(test)]
mod mesh;
#[cfg(test)]
mod placement;
#[cfg(test)]
mod process;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod waits;
