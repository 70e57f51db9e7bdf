//! A real controller process, real sockets, and agents that speak the protocol but run nothing.

mod agent;
mod durability;
mod jobs;
mod load;
mod process;
mod rights;
mod waits;
