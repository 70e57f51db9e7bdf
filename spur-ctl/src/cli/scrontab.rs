//! `scrontab`: parsed whole; no tables are kept, which is said.

use super::failure::Failure;
use super::flags::getopt::Options;
use super::users;
use spur_core::id::Uid;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let own = super::process::uid();
    if let Some(name) = options.value("user") {
        let unknown = || Failure::error("scrontab", format!("Couldn't find uid for user {name}"));
        let uid = users::uid_of(name).ok_or_else(unknown)?;
        if own != 0 && uid != Uid(own) {
            return Err(Failure::error("scrontab", "Only root can use --user"));
        }
    }
    if options.on("list") || options.on("remove") {
        let names = users::names([Uid(own)]);
        let user = options.value("user").map(str::to_owned);
        let user = user
            .or_else(|| names.get(&own).cloned())
            .unwrap_or_else(|| own.to_string());
        return Err(Failure::plain(format!("no crontab for {user}"), 1));
    }
    Err(Failure::fatal(
        "scrontab",
        "scrontab is disabled on this cluster: let cron(8) call sbatch instead",
    ))
}
