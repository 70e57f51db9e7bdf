//! Prints what the meter counts, for tests of other crates: `meter_print PINS JOB_LEVEL`, then words on standard input.
//!
//! ```text
//!  add DIR       count for this control group
//!  remove DIR    stop
//!  late          attach to what was loaded since
//!  read          lines `cgroup DIR NAME VALUE` and `gpu DIR DEVICE RING busy_ns N queue_ns N jobs N`, and one `lost N`
//!  coverage      lines `covered SOURCE …` and `missing SOURCE WHY`
//! ```
//!
//! Each word is answered with its lines, and then with `ok` or `failed WHY`. The meter is taken off the kernel at the end of input.

use spur_ebpf::meter::{Counts, Covered, GpuWork, Meter};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Cgroups by id, with the name that they were added by.
type Names = BTreeMap<u64, String>;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [pins, level] = &args[..] else {
        return Err("say meter_print PINS JOB_LEVEL".into());
    };
    let mut meter = Meter::open(Path::new(pins), level.parse()?)?;
    let mut names = Names::new();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match answer(&mut meter, &mut names, word, rest) {
            Ok(text) => writeln!(out, "{text}ok")?,
            Err(error) => writeln!(out, "failed {error}")?,
        }
        out.flush()?;
    }
    meter.remove_all()?;
    Ok(())
}

fn answer(
    meter: &mut Meter,
    names: &mut Names,
    word: &str,
    dir: &str,
) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    match word {
        "add" => {
            // A version 2 cgroup's id is its folder's inode.
            let id = std::fs::metadata(dir)?.ino();
            meter.add(id)?;
            names.insert(id, dir.to_owned());
        }
        "remove" => {
            let id = std::fs::metadata(dir)?.ino();
            meter.remove(id)?;
            names.remove(&id);
        }
        "late" => {
            meter.attach_late();
        }
        "read" => read(meter, names, &mut text)?,
        "coverage" => {
            for (source, covered) in meter.coverage().iter() {
                text += &match covered {
                    Covered::Counted { typed, note, .. } => {
                        let note = note.as_deref().unwrap_or("");
                        format!("covered {source}: typed {typed} {note}\n")
                    }
                    Covered::Missing(why) => format!("missing {source}: {why}\n"),
                };
            }
        }
        _ => return Err(format!("no word {word:?}").into()),
    }
    Ok(text)
}

fn read(meter: &Meter, names: &Names, text: &mut String) -> Result<(), Box<dyn Error>> {
    let (mut counts, mut work) = (Vec::new(), Vec::new());
    meter.read(&mut counts);
    meter.gpu(&mut work)?;
    for (id, counts) in &counts {
        let Some(dir) = names.get(id) else { continue };
        for (name, value) in values(counts) {
            if let Some(value) = value {
                *text += &format!("cgroup {dir} {name} {value}\n");
            }
        }
    }
    for GpuWork {
        cgroup_id,
        device,
        ring,
        busy_ns,
        queue_ns,
        jobs,
    } in &work
    {
        let Some(dir) = names.get(cgroup_id) else {
            continue;
        };
        *text += &format!(
            "gpu {dir} {device} {ring} busy_ns {busy_ns} queue_ns {queue_ns} jobs {jobs}\n"
        );
    }
    *text += &format!("lost {}\n", meter.lost());
    Ok(())
}

fn values(counts: &Counts) -> [(&'static str, Option<u64>); 11] {
    [
        ("cpu_ns", counts.cpu_ns),
        ("user_ns", counts.user_ns),
        ("system_ns", counts.system_ns),
        ("runqueue_ns", counts.runqueue_ns),
        ("switches", counts.switches),
        ("starts", counts.starts),
        ("ends", counts.ends),
        ("read_bytes", counts.read_bytes),
        ("write_bytes", counts.write_bytes),
        ("reads", counts.reads),
        ("writes", counts.writes),
    ]
}
