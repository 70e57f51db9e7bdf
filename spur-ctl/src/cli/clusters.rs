//! `-M`: there is only this cluster, by its name or as `all`.

use super::failure::Failure;
use super::flags::getopt::{Options, Source};
use super::link;
use spur_core::api::{Reply, Request};

/// The name of this cluster if `-M` was given and means it; an error if it means another.
pub fn asked(options: &Options) -> Result<Option<String>, Failure> {
    let Some(given) = options
        .given()
        .iter()
        .rev()
        .find(|given| given.flag.longs().any(|long| long == "clusters"))
    else {
        return Ok(None);
    };
    let list = given.value.as_deref().unwrap_or_default();
    let who = options.command;
    let Ok(Reply::Pong { cluster, .. }) = link::question(&Request::Ping) else {
        let why = "There is a problem talking to the database: Unable to contact slurm controller (connect failure).  \
                   Only local cluster communication is available, remove --cluster from your command line or contact \
                   your admin to resolve the problem.";
        return Err(Failure::error(who, why));
    };
    let known = |name: &str| name == cluster || name.eq_ignore_ascii_case("all");
    let words = list.split(',').filter(|word| !word.is_empty());
    let unknown = words.clone().find(|word| !known(word));
    if unknown.is_some() || words.count() == 0 {
        let from = if given.source == Source::Environment {
            "SLURM_CLUSTERS"
        } else {
            "--cluster"
        };
        let why = format!(
            "'{}' can't be reached now, or it is an invalid entry for {from}.  Use 'sacctmgr list clusters' to see \
             available clusters.",
            unknown.unwrap_or(list)
        );
        return Err(Failure::error(who, why));
    }
    Ok(Some(cluster))
}
