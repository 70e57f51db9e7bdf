//! `scontrol show config`: every key that Slurm has, with what it is here.

mod table;

use super::super::{ask, worded};
use super::view;
use crate::cli::failure::Failure;
use crate::cli::{link, output};
use spur_core::api::{Reply, Request};
use spur_core::manage::Setting;

/// What every failure begins with.
const PREFIX: &str = "slurm_load_ctl_conf error";

/// Prints the configuration.
pub fn show(which: Option<&str>) -> Result<u8, Failure> {
    let Reply::Pong {
        cluster,
        host,
        started,
        ..
    } = ask(&Request::Ping, PREFIX)?
    else {
        return Err(worded(PREFIX, &link::unexpected()));
    };
    let nodes = super::nodes::load()?.len();
    let Reply::Topology(topology) = ask(&Request::Topology, PREFIX)? else {
        return Err(worded(PREFIX, &link::unexpected()));
    };
    let Reply::Configuration(settings) = ask(&Request::Configuration, PREFIX)? else {
        return Err(worded(PREFIX, &link::unexpected()));
    };
    let view = view([]);
    let (topology, _) = topology.plugin.names();
    let setting = |key: &str| {
        let found = settings.iter().find(|setting| setting.key == key);
        let value = found.map(|setting| setting.value.clone());
        value.filter(|value| !value.is_empty())
    };
    let or = |key: &str, otherwise: &str| setting(key).unwrap_or_else(|| otherwise.to_owned());
    let memory = |key: &str| setting(key).filter(|mib| mib != "0");
    let per_cpu = memory("default_mem_per_cpu");
    let memory = per_cpu.clone().or_else(|| memory("default_mem_per_node"));
    let mut known = vec![
        ("{boot}", view.clock.stamp(started)),
        ("{cluster}", cluster),
        ("{host}", host.clone()),
        ("{nodes}", nodes.to_string()),
        ("{topology}", topology.to_owned()),
        ("{array}", or("max_array_size", "1001")),
        ("{age}", or("min_job_age", "300")),
        ("{timeout}", or("node_timeout", "300")),
        ("{state}", or("state_dir", "(null)")),
        ("{enforce}", or("enforce", "none")),
        ("{file}", or("file", "(null)")),
        ("{health}", or("health_program", "(null)")),
        ("{healthsecs}", or("health_interval", "0")),
        ("{healthstates}", or("health_states", "ANY")),
        ("{maildomain}", or("mail_domain", "(null)")),
        ("{mailprog}", or("mail_prog", "(null)")),
        ("{next}", or("next_job", "1")),
        (
            "{memory}",
            per_cpu
                .as_ref()
                .map_or("DefMemPerNode", |_| "DefMemPerCPU")
                .to_owned(),
        ),
        ("{defmem}", memory.unwrap_or_else(|| "UNLIMITED".to_owned())),
    ];
    known.extend(around_jobs(&settings));
    let now = view.clock.stamp(view.clock.now);
    let own = lines(table::TABLE, &known, which);
    let plugins = lines(table::MPI, &known, which);
    output::print(&format!(
        "Configuration data as of {now}\n{own}\nMPI Plugins Configuration:\n{plugins}\n\
         Slurmctld(primary) at {host} is UP\n"
    ));
    Ok(0)
}

/// What `Prolog`, `PrologEpilogTimeout` and their like are. Two timeouts that differ have a line each, as in later versions of Slurm.
fn around_jobs(settings: &[Setting]) -> Vec<(&'static str, String)> {
    let of = |key: &'static str| {
        let own = settings.iter().filter(move |setting| setting.key == key);
        own.map(|setting| setting.value.clone())
    };
    // As Slurm writes that there is no limit (`NO_VAL16`).
    let secs = |key| {
        let secs = of(key).next().filter(|secs| secs != "0");
        secs.unwrap_or_else(|| u16::MAX.saturating_sub(1).to_string())
    };
    let mut known: Vec<(&str, String)> =
        of("prolog").map(|program| ("{prolog}", program)).collect();
    known.extend(of("epilog").map(|program| ("{epilog}", program)));
    known.extend(of("controller_prolog").map(|program| ("{ctlprolog}", program)));
    known.extend(of("controller_epilog").map(|program| ("{ctlepilog}", program)));
    let (prolog, epilog) = (secs("prolog_timeout"), secs("epilog_timeout"));
    if prolog == epilog {
        known.push(("{programsecs}", prolog));
    } else {
        known.extend([("{prologsecs}", prolog), ("{epilogsecs}", epilog)]);
    }
    known
}

/// The lines of a table, or the one that is meant, with what is known put in.
fn lines(table: &str, known: &[(&str, String)], which: Option<&str>) -> String {
    let mut text = String::new();
    for line in table.lines() {
        let (key, value) = line
            .split_once(" = ")
            .unwrap_or((line.trim_end_matches(" ="), ""));
        let filled = |text: &str| {
            known.iter().fold(text.to_owned(), |text, (name, known)| {
                text.replace(name, known)
            })
        };
        let values: Vec<String> = if value.starts_with('{') && value.ends_with('}') {
            let own = known.iter().filter(|(name, _)| *name == value);
            own.map(|(_, known)| known.clone()).collect()
        } else {
            vec![filled(value)]
        };
        for (at, value) in values.iter().enumerate() {
            let key = filled(key).replace("[*]", &format!("[{at}]"));
            if which.is_none_or(|name| key.eq_ignore_ascii_case(name)) {
                text.push_str(&format!("{key:<23} = {value}\n"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines about programs around jobs, with these settings.
    fn of(settings: &[(&str, &str)]) -> Vec<String> {
        let settings: Vec<Setting> = settings
            .iter()
            .map(|(key, value)| Setting {
                key: (*key).to_owned(),
                value: (*value).to_owned(),
            })
            .collect();
        let all = lines(table::TABLE, &around_jobs(&settings), None);
        let keys = [
            "Prolog[",
            "Epilog[",
            "PrologTimeout",
            "EpilogTimeout",
            "PrologEpilogTimeout",
        ];
        let own = all
            .lines()
            .filter(|line| keys.iter().any(|key| line.starts_with(key)));
        own.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn programs_around_jobs_are_shown_as_slurm_does() {
        assert_eq!(of(&[]), ["PrologEpilogTimeout = 65534"]);
        let same = [
            ("prolog", "/a"),
            ("prolog", "/b/*"),
            ("epilog", "/c"),
            ("prolog_timeout", "30"),
            ("epilog_timeout", "30"),
        ];
        assert_eq!(
            of(&same),
            [
                "Epilog[0] = /c",
                "Prolog[0] = /a",
                "Prolog[1] = /b/*",
                "PrologEpilogTimeout = 30",
            ]
        );
        assert_eq!(
            of(&[("prolog_timeout", "0"), ("epilog_timeout", "7")]),
            ["EpilogTimeout = 7", "PrologTimeout = 65534"]
        );
    }
}
