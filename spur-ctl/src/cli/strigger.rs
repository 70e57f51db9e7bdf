//! `strigger`: parsed whole; no triggers are kept, which is said.

use super::failure::Failure;
use super::flags::getopt::Options;
use super::output;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let modes = ["set", "get", "clear"];
    let given = modes.iter().filter(|mode| options.on(mode)).count();
    if given != 1 {
        return Err(Failure::error(
            "strigger",
            "You must specify --get, --set, or --clear",
        ));
    }
    if options.on("get") {
        if !options.on("noheader") {
            output::print(
                "TRIG_ID RES_TYPE   RES_ID TYPE                                 OFFSET USER FLAGS PROGRAM\n",
            );
        }
        return Ok(0);
    }
    if options.on("clear") {
        return Err(Failure::error("strigger", "there are no triggers to clear"));
    }
    Err(Failure::error(
        "strigger",
        "triggers are not available: watch `spur fence log --follow`, or poll `sinfo` and `squeue --json`",
    ))
}
