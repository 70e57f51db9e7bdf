//! Whether what is written in `spurd.toml` makes sense.

use super::{CPUS_MAX, Config, Declare, DeclaredGpus, GPUS_MAX, Meter, NUMA_MAX, Raw};
use spur_core::id::NodeName;
use spur_core::slurm::constraint;
use std::path::{Path, PathBuf};

/// Longest path of a Unix socket in bytes (`sun_path` less its NUL, unix(7)).
const SOCKET_PATH_MAX: usize = 107;

/// Key, value and advice of what makes no sense.
pub(super) type Wrong = (String, String, String);

fn wrong(key: &str, value: impl ToString, help: &str) -> Wrong {
    (key.to_owned(), value.to_string(), help.to_owned())
}

/// Turns what is written into what is meant, or says which key is wrong.
pub(super) fn check(file: &Path, raw: Raw) -> Result<Config, Wrong> {
    let node =
        NodeName::new(raw.node.clone()).map_err(|e| wrong("node", &raw.node, &e.to_string()))?;
    let help = "write unix:/path, the controller's agent_socket on this machine";
    let controller = raw.controller.strip_prefix("unix:").map(PathBuf::from);
    let controller = controller.ok_or_else(|| wrong("controller", &raw.controller, help))?;
    check_names(&raw)?;
    check_paths(&raw, &controller)?;
    let declare = raw.declare.unwrap_or_default();
    check_meter(&raw.meter)?;
    check_features(&raw.features)?;
    check_declared(&declare)?;
    Ok(Config {
        file: file.to_owned(),
        cluster: raw.cluster,
        node,
        state_dir: raw.state_dir,
        socket: raw.socket,
        controller,
        token_file: raw.token_file,
        cgroup: PathBuf::from(raw.cgroup),
        bpffs: raw.bpffs,
        pins: raw.pins,
        root: raw.root,
        require: raw.require,
        kill_wait: raw.kill_wait,
        fence_infiniband: raw.fence_infiniband,
        deny_signals: raw.deny_signals,
        fence_object: raw.fence_object,
        meter: raw.meter,
        features: raw.features,
        declare,
    })
}

fn check_names(raw: &Raw) -> Result<(), Wrong> {
    if !is_word(&raw.cluster) {
        return Err(wrong(
            "cluster",
            &raw.cluster,
            "use letters, digits, '-' and '_' (at most 64)",
        ));
    }
    if raw.cgroup.is_empty() || !raw.cgroup.split('/').all(is_group) {
        return Err(wrong(
            "cgroup",
            &raw.cgroup,
            "write a folder below the cgroup v2 mount, such as spur",
        ));
    }
    if !is_word(&raw.pins) {
        return Err(wrong(
            "pins",
            &raw.pins,
            "write the name of a folder below bpffs, such as spur",
        ));
    }
    Ok(())
}

fn check_paths(raw: &Raw, controller: &Path) -> Result<(), Wrong> {
    for (key, path) in [("socket", raw.socket.as_path()), ("controller", controller)] {
        if path.as_os_str().len() > SOCKET_PATH_MAX {
            let help = "the path of a Unix socket has at most 107 bytes; use a shorter one";
            return Err(wrong(key, path.display(), help));
        }
    }
    let paths = [
        ("state_dir", Some(raw.state_dir.as_path())),
        ("socket", Some(&raw.socket)),
        ("controller", Some(controller)),
        ("token_file", Some(&raw.token_file)),
        ("bpffs", Some(&raw.bpffs)),
        ("root", Some(&raw.root)),
        ("fence_object", raw.fence_object.as_deref()),
    ];
    let relative = paths
        .into_iter()
        .find_map(|(key, path)| Some((key, path.filter(|path| !path.is_absolute())?)));
    match relative {
        Some((key, path)) => Err(wrong(key, path.display(), "write an absolute path")),
        None => Ok(()),
    }
}

/// Checks the `[meter]` table.
fn check_meter(meter: &Meter) -> Result<(), Wrong> {
    if meter.idle_threshold > 1000 {
        let help = "write thousandths, from 0 to 1000";
        return Err(wrong("meter.idle_threshold", meter.idle_threshold, help));
    }
    if meter.idle_after == 0 {
        return Err(wrong(
            "meter.idle_after",
            0,
            "write a number of seconds above 0",
        ));
    }
    if meter.spool_mib == 0 {
        return Err(wrong("meter.spool_mib", 0, "write a number of MiB above 0"));
    }
    Ok(())
}

/// Checks what features are called.
fn check_features(features: &[String]) -> Result<(), Wrong> {
    for (at, feature) in features.iter().enumerate() {
        if let Err(why) = constraint::check_name(feature) {
            return Err(wrong("features", feature, &why.to_string()));
        }
        if features[..at].contains(feature) {
            return Err(wrong("features", feature, "write it once"));
        }
    }
    Ok(())
}

/// Checks the `[declare]` table.
fn check_declared(declare: &Declare) -> Result<(), Wrong> {
    let wrong =
        |key: &str, value: String, help: &str| Err((key.to_owned(), value, help.to_owned()));
    match declare.cpus {
        Some(cpus) if cpus == 0 || cpus > CPUS_MAX => {
            return wrong(
                "declare.cpus",
                cpus.to_string(),
                "write a number from 1 to 8192, or leave it out",
            );
        }
        Some(_) | None => {}
    }
    if declare.memory_mib == Some(0) {
        return wrong(
            "declare.memory_mib",
            "0".into(),
            "write a number of MiB above 0, or leave it out",
        );
    }
    let shared = [
        ("numa", declare.numa),
        ("sockets", declare.sockets),
        ("rails", declare.rails),
    ];
    for (key, value) in shared {
        if let Some(value) = value.filter(|value| !(1..=NUMA_MAX).contains(value)) {
            let help = "write a number from 1 to 64, or leave it out";
            return wrong(&format!("declare.{key}"), value.to_string(), help);
        }
    }
    let groups = declare.gpus.as_deref().unwrap_or_default();
    let total: u64 = groups.iter().map(|group| u64::from(group.devices())).sum();
    if total > u64::from(GPUS_MAX) {
        return wrong(
            "declare.gpus.count",
            total.to_string(),
            "a node has at most 256 GPUs in all",
        );
    }
    for (at, group) in groups.iter().enumerate() {
        check_group(at, group)?;
        for other in &groups[..at] {
            let numbers = |g: &DeclaredGpus| g.minor..g.minor + g.devices();
            let (a, b) = (numbers(group), numbers(other));
            if group.major == other.major && a.start < b.end && b.start < a.end {
                let value = group.minor.to_string();
                return wrong(
                    &format!("declare.gpus[{at}].minor"),
                    value,
                    "another group has these numbers; choose others",
                );
            }
            if group.dev_dir == other.dev_dir {
                let value = group.dev_dir.display().to_string();
                return wrong(
                    &format!("declare.gpus[{at}].dev_dir"),
                    value,
                    "another group has this folder; choose another",
                );
            }
        }
    }
    Ok(())
}

/// Checks one group of stand-ins.
fn check_group(at: usize, group: &DeclaredGpus) -> Result<(), Wrong> {
    let wrong = |key: &str, value: String, help: &str| {
        Err((format!("declare.gpus[{at}].{key}"), value, help.to_owned()))
    };
    let word = is_word(&group.model) && !group.model.bytes().any(|b| b.is_ascii_uppercase());
    if !word {
        return wrong(
            "model",
            group.model.clone(),
            "use lower case letters, digits, '-' and '_', such as h200",
        );
    }
    if group.count == 0 {
        return wrong(
            "count",
            "0".into(),
            "write a number above 0, or leave the group out",
        );
    }
    check_parts(at, group)?;
    if !(120..=127).contains(&group.major) {
        return wrong(
            "major",
            group.major.to_string(),
            "use 120 to 127, which no driver takes",
        );
    }
    if group.minor >= 1 << 20 || group.minor.saturating_add(group.devices()) > 1 << 20 {
        return wrong(
            "minor",
            group.minor.to_string(),
            "device minors end at 1048575",
        );
    }
    if !group.dev_dir.is_absolute() {
        return wrong(
            "dev_dir",
            group.dev_dir.display().to_string(),
            "write an absolute path",
        );
    }
    Ok(())
}

/// Checks islands and parts of a group.
fn check_parts(at: usize, group: &DeclaredGpus) -> Result<(), Wrong> {
    let wrong = |key: &str, value: String, help: &str| {
        Err((format!("declare.gpus[{at}].{key}"), value, help.to_owned()))
    };
    match (group.island, group.links) {
        (Some(island), None) => {
            let help = "say with links what joins the GPUs of an island";
            return wrong("island", island.to_string(), help);
        }
        (Some(island), Some(_)) if island == 0 || !group.count.is_multiple_of(island) => {
            let help = "the GPUs of the group must divide into islands of this many";
            return wrong("island", island.to_string(), help);
        }
        (_, _) => {}
    }
    if group.parts == 0 {
        return wrong(
            "parts",
            "0".into(),
            "write a number above 0, or leave it out",
        );
    }
    match &group.profile {
        None if group.parts > 1 => wrong(
            "parts",
            group.parts.to_string(),
            "say with profile what the parts are, such as 1g.18gb",
        ),
        Some(profile) if !is_word(&profile.replace(['.', '+'], "-")) => wrong(
            "profile",
            profile.clone(),
            "use letters, digits, '.', '-', '+' and '_', such as 1g.18gb",
        ),
        Some(_) | None => Ok(()),
    }
}

/// A part of a control group's path: as a word, with dots within it, as systemd's units have.
fn is_group(part: &str) -> bool {
    !part.starts_with('.') && is_word(&part.replace('.', "-"))
}

/// 1 to 64 letters, digits, `-`, `_`.
fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}
