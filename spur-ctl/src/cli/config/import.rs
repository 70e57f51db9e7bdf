//! From Slurm's configuration to ours: what has a place here is carried over, everything else is named with the reason.

use super::programs::Programs;
use super::slurm::Line;
use spur_core::job::licenses::Licenses;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Imported {
    /// Our configuration.
    pub(super) text: String,
    /// Where, and why not.
    pub(super) left: Vec<(String, String)>,
}

/// What of the whole cluster is carried over: Slurm's key, and ours.
const NUMBERS: [(&str, &str); 5] = [
    ("defmempercpu", "default_mem_per_cpu"),
    ("defmempernode", "default_mem_per_node"),
    ("minjobage", "min_job_age"),
    ("slurmdtimeout", "node_timeout"),
    ("maxarraysize", "max_array_size"),
];

/// Settings that need no line here, and why.
const NEEDLESS: [(&str, &str); 12] = [
    (
        "auth",
        "callers are known by the kernel, agents by the token",
    ),
    ("cred", "steps are signed with the token"),
    ("cgroup", "every job has a cgroup and a fence"),
    ("gres", "GPUs are found by spurd"),
    ("jobacctgather", "what jobs use is always measured"),
    ("proctrack", "jobs are tracked by their cgroups"),
    ("scheduler", "there is one planner, which backfills always"),
    (
        "selecttype",
        "CPUs, memory and GPUs are always given out one by one",
    ),
    ("slurmctld", "see client_socket, agent_socket and SPUR_LOG"),
    ("slurmd", "see spurd.toml on the nodes"),
    ("taskplugin", "every task stays in its step's cgroup"),
    ("switchtype", "nothing to set"),
];

/// Keys of partitions that have a key here, with the way the value is written.
const PARTITION: [(&str, &str, Kind); 21] = [
    ("allowaccounts", "allow_accounts", Kind::List),
    ("allowgroups", "allow_groups", Kind::List),
    ("allowqos", "allow_qos", Kind::List),
    ("default", "default", Kind::Flag),
    ("defaulttime", "default_time", Kind::Time),
    ("defcpupergpu", "def_cpu_per_gpu", Kind::Number),
    ("defmempercpu", "default_mem_per_cpu", Kind::Number),
    ("defmempergpu", "def_mem_per_gpu", Kind::Number),
    ("defmempernode", "default_mem_per_node", Kind::Number),
    ("denyaccounts", "deny_accounts", Kind::List),
    ("denyqos", "deny_qos", Kind::List),
    ("disablerootjobs", "disable_root_jobs", Kind::Flag),
    ("hidden", "hidden", Kind::Flag),
    ("maxcpuspernode", "max_cpus_per_node", Kind::Number),
    ("maxmempercpu", "max_mem_per_cpu", Kind::Number),
    ("maxmempernode", "max_mem_per_node", Kind::Number),
    ("maxnodes", "max_nodes", Kind::Number),
    ("maxtime", "max_time", Kind::Time),
    ("minnodes", "min_nodes", Kind::Number),
    ("prioritytier", "priority_tier", Kind::Number),
    ("rootonly", "root_only", Kind::Flag),
];

/// Keys of partitions that are only kept and shown.
const SHOWN: [&str; 12] = [
    "allocnodes",
    "alternate",
    "exclusiveuser",
    "gracetime",
    "lln",
    "maxcpuspersocket",
    "oversubscribe",
    "overtimelimit",
    "preemptmode",
    "priorityjobfactor",
    "qos",
    "tresbillingweights",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Flag,
    List,
    Number,
    Time,
}

/// A line's pairs by small key; later ones win.
type Pairs = BTreeMap<String, String>;

#[derive(Default)]
struct Import {
    out: Imported,
    top: BTreeMap<&'static str, String>,
    /// Memory that partitions have unless they say so.
    memory: Pairs,
    partitions: Vec<(String, Pairs)>,
    nodes: Vec<(String, String)>,
    switches: Vec<(bool, String)>,
    defaults: (Pairs, Pairs),
    programs: Programs,
    licenses: Licenses,
}

/// Carries it over.
pub(super) fn import(lines: &[Line]) -> Imported {
    let mut import = Import::default();
    for line in lines {
        import.line(line);
    }
    import.finish()
}

pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl Import {
    fn left(&mut self, at: &str, what: &str, why: &str) {
        self.out
            .left
            .push((at.to_owned(), format!("{what}: {why}")));
    }

    fn line(&mut self, line: &Line) {
        let Some((first, name)) = line.pairs.first() else {
            return;
        };
        let small = |(key, value): &(String, String)| (key.to_ascii_lowercase(), value.clone());
        let pairs: Pairs = line.pairs.iter().map(small).collect();
        let gres_file = pairs.contains_key("file")
            || pairs.contains_key("autodetect")
            || pairs.contains_key("name");
        match first.to_ascii_lowercase().as_str() {
            "nodename" if gres_file => self.left(&line.at, "this line", "GPUs are found by spurd"),
            "name" | "autodetect" => self.left(&line.at, "this line", "GPUs are found by spurd"),
            "nodename" if name == "DEFAULT" => self.defaults.0.extend(pairs),
            "nodename" => self.node(&line.at, name, &pairs),
            "partitionname" if name == "DEFAULT" => self.defaults.1.extend(pairs),
            "partitionname" => self.partition(&line.at, name, pairs),
            "switchname" | "blockname" => self.switch(&line.at, name, &pairs),
            "nodeset" | "downnodes" | "frontendname" => {
                let why = match first.to_ascii_lowercase().as_str() {
                    "nodeset" => "name the nodes in the partition",
                    "downnodes" => {
                        "take them down with `scontrol update nodename=… state=down reason=…`"
                    }
                    _ => "there are no front ends",
                };
                self.left(&line.at, &format!("{first}={name}"), why);
            }
            _ => {
                for (key, value) in &line.pairs {
                    self.setting(&line.at, key, value);
                }
            }
        }
    }

    /// A setting of the whole cluster.
    fn setting(&mut self, at: &str, key: &str, value: &str) {
        let small = key.to_ascii_lowercase();
        if let Some((_, ours)) = NUMBERS.iter().find(|(slurms, _)| *slurms == small) {
            match value.parse::<u64>() {
                Ok(number) => drop(self.top.insert(ours, number.to_string())),
                Err(_) => self.left(at, &format!("{key}={value}"), "not a number"),
            }
            return;
        }
        match small.as_str() {
            "clustername" => drop(self.top.insert("cluster", quoted(value))),
            known if Programs::KEYS.contains(&known) => {
                let why = self.programs.take((key, value));
                why.into_iter()
                    .for_each(|why| self.left(at, &format!("{key}={value}"), why));
            }
            "licenses" => match Licenses::read(value) {
                Some(licenses) => self.licenses.add(&licenses),
                None => self.left(at, &format!("{key}={value}"), "not a list of name:count"),
            },
            "mailprog" => drop(self.top.insert("mail_prog", quoted(value))),
            "maildomain" => drop(self.top.insert("mail_domain", quoted(value))),
            "maxmempercpu" | "maxmempernode" | "jobdefaults" => {
                self.memory.insert(small, value.to_owned());
            }
            "accountingstorageenforce" => self.enforce(at, key, value),
            "topologyplugin" if value.ends_with("tree") || value.ends_with("block") => {}
            "topologyplugin" if value.ends_with("default") || value.ends_with("flat") => {}
            _ => {
                let known = NEEDLESS
                    .iter()
                    .find(|(begins, _)| small.starts_with(begins));
                let why = known.map_or("nothing here does the same", |(_, why)| why);
                self.left(at, &format!("{key}={value}"), why);
            }
        }
    }

    fn enforce(&mut self, at: &str, key: &str, value: &str) {
        let mut kept = Vec::new();
        for word in value.split(',').map(str::trim) {
            match word.to_ascii_lowercase().as_str() {
                "associations" | "limits" | "safe" | "all" => {
                    kept.push("associations");
                    if word.eq_ignore_ascii_case("all") {
                        kept.push("qos");
                    }
                    if !word.eq_ignore_ascii_case("associations") {
                        self.left(
                            at,
                            &format!("{key}={word}"),
                            "associations are enforced, limits are not",
                        );
                    }
                }
                "qos" => kept.push("qos"),
                "none" | "0" | "" => {}
                _ => self.left(at, &format!("{key}={word}"), "not enforced"),
            }
        }
        kept.sort_unstable();
        kept.dedup();
        let list: Vec<String> = kept.iter().map(|word| quoted(word)).collect();
        if !list.is_empty() {
            self.top
                .insert("accounting_enforce", format!("[{}]", list.join(", ")));
        }
    }

    fn node(&mut self, at: &str, name: &str, pairs: &Pairs) {
        let get = |key: &str| pairs.get(key).or_else(|| self.defaults.0.get(key)).cloned();
        let features = get("features").or_else(|| get("feature"));
        let weight = get("weight");
        let state = get("state").filter(|state| {
            !matches!(
                state.to_ascii_uppercase().as_str(),
                "UNKNOWN" | "IDLE" | "CLOUD"
            )
        });
        let mut said = String::new();
        if let Some(list) = features {
            let names: Vec<String> = list.split(',').map(|name| quoted(name.trim())).collect();
            let _written = writeln!(said, "features = [{}]", names.join(", "));
        }
        if let Some(weight) = weight.filter(|weight| weight != "1") {
            match weight.parse::<u32>() {
                Ok(number) if number > 0 => drop(writeln!(said, "weight = {number}")),
                _ => self.left(at, &format!("Weight={weight}"), "a weight is at least 1"),
            }
        }
        if let Some(state) = state {
            let why = "set it with `scontrol update nodename=… state=… reason=…`";
            self.left(at, &format!("State={state}"), why);
        }
        if !said.is_empty() {
            self.nodes.push((name.to_owned(), said));
        }
        let found: Vec<&str> = pairs
            .keys()
            .filter(|key| {
                !matches!(
                    key.as_str(),
                    "nodename" | "features" | "feature" | "weight" | "state"
                )
            })
            .map(String::as_str)
            .collect();
        if !found.is_empty() {
            let what = format!("NodeName={name}: {}", found.join(", "));
            self.left(
                at,
                &what,
                "found by spurd on the node, which registers itself",
            );
        }
    }

    fn partition(&mut self, at: &str, name: &str, pairs: Pairs) {
        let mut all = self.defaults.1.clone();
        all.extend(pairs);
        all.remove("partitionname");
        let keys: Vec<String> = all.keys().cloned().collect();
        for key in keys {
            let known = PARTITION.iter().any(|(slurms, ..)| *slurms == key)
                || SHOWN.contains(&key.as_str())
                || matches!(
                    key.as_str(),
                    "nodes" | "state" | "shared" | "priority" | "reqresv" | "jobdefaults"
                );
            if !known {
                let value = all.remove(&key).unwrap_or_default();
                self.left(at, &format!("{key}={value}"), "nothing here does the same");
            }
        }
        self.partitions.push((name.to_owned(), all));
    }

    fn switch(&mut self, at: &str, name: &str, pairs: &Pairs) {
        let block = pairs.contains_key("blockname");
        let mut said = format!("name = {}\n", quoted(name));
        for (key, value) in pairs {
            match key.as_str() {
                "switchname" | "blockname" => {}
                "nodes" | "switches" => drop(writeln!(said, "{key} = {}", quoted(value))),
                _ => self.left(at, &format!("{key}={value}"), "nothing here does the same"),
            }
        }
        self.switches.push((block, said));
    }

    fn finish(mut self) -> Imported {
        let mut text = String::new();
        self.top
            .entry("cluster")
            .or_insert_with(|| quoted("cluster"));
        for (key, value) in &self.top {
            let _written = writeln!(text, "{key} = {value}");
        }
        text.push_str(&self.programs.write());
        if !self.licenses.is_empty() {
            text.push_str("\n[licenses]\n");
        }
        for (name, count) in self.licenses.iter() {
            let _written = writeln!(text, "{} = {count}", quoted(name));
        }
        for (name, pairs) in std::mem::take(&mut self.partitions) {
            self.write_partition(&mut text, &name, pairs);
        }
        for (nodes, said) in &self.nodes {
            let _written = write!(text, "\n[[node]]\nnodes = {}\n{said}", quoted(nodes));
        }
        if let Some((block, _)) = self.switches.first() {
            let plugin = if *block { "block" } else { "tree" };
            let _written = write!(text, "\n[topology]\nplugin = \"{plugin}\"\n");
            let word = if *block { "block" } else { "switch" };
            for (_, said) in &self.switches {
                let _written = write!(text, "\n[[topology.{word}]]\n{said}");
            }
        }
        self.out.text = text;
        self.out
    }

    fn write_partition(&mut self, text: &mut String, name: &str, mut pairs: Pairs) {
        for (key, value) in &self.memory {
            pairs.entry(key.clone()).or_insert_with(|| value.clone());
        }
        if let Some(defaults) = pairs.remove("jobdefaults") {
            for part in defaults.split(',').filter_map(|part| part.split_once('=')) {
                pairs.insert(part.0.to_ascii_lowercase(), part.1.to_owned());
            }
        }
        if let Some(sharing) = pairs.remove("shared") {
            pairs.entry("oversubscribe".to_owned()).or_insert(sharing);
        }
        if let Some(priority) = pairs.remove("priority") {
            pairs.entry("prioritytier".to_owned()).or_insert(priority);
        }
        let _written = write!(text, "\n[[partition]]\nname = {}\n", quoted(name));
        let mut shown = Vec::new();
        for (key, value) in &pairs {
            let at = format!("partition {name}");
            if let Some((_, ours, kind)) = PARTITION.iter().find(|(slurms, ..)| slurms == key) {
                match written(*kind, value) {
                    Some(Some(said)) => drop(writeln!(text, "{ours} = {said}")),
                    Some(None) => {}
                    None => self.left(&at, &format!("{key}={value}"), "not understood"),
                }
                continue;
            }
            match key.as_str() {
                "nodes" if value.eq_ignore_ascii_case("ALL") => {}
                "nodes" => drop(writeln!(text, "nodes = {}", quoted(value))),
                "state" => drop(writeln!(
                    text,
                    "state = {}",
                    quoted(&value.to_ascii_lowercase())
                )),
                "reqresv" if is_yes(value) => text.push_str("require_reservation = true\n"),
                "reqresv" => {}
                _ => shown.push(format!("{key} = {}", quoted(value))),
            }
        }
        if !shown.is_empty() {
            let _written = writeln!(text, "shown = {{ {} }}", shown.join(", "));
        }
    }
}

fn is_yes(value: &str) -> bool {
    value.eq_ignore_ascii_case("yes")
}

/// A value as ours are written; `Some(None)` where it says what is so anyway, `None` where it makes no sense.
fn written(kind: Kind, value: &str) -> Option<Option<String>> {
    let endless = ["UNLIMITED", "INFINITE", "NONE", "ALL"];
    if endless.iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return Some(None);
    }
    match kind {
        Kind::Flag if is_yes(value) => Some(Some("true".to_owned())),
        Kind::Flag => Some(None),
        Kind::Time => Some(Some(quoted(value))),
        Kind::Number => Some(Some(value.parse::<u64>().ok()?.to_string())),
        Kind::List => {
            let names: Vec<String> = value.split(',').map(|name| quoted(name.trim())).collect();
            Some(Some(format!("[{}]", names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::slurm;
    use super::*;
    use crate::config::Config;
    use spur_core::resources::MemoryRequest;

    const SLURM: &str = "ClusterName=base\nSlurmctldHost=vm\nMinJobAge=200\nDefMemPerCPU=1024\nMaxArraySize=20001\n\
        GresTypes=gpu\nPrologSlurmctld=/y\nMailProg=/opt/mail\nMailDomain=example.org\nAccountingStorageEnforce=limits\n\
        NodeName=DEFAULT Weight=5\n\
        NodeName=n[1-4] CPUs=64 RealMemory=1000 Gres=gpu:h200:8 Features=a100,ib State=UNKNOWN\n\
        PartitionName=DEFAULT MaxTime=1-00:00:00\n\
        PartitionName=gpu Nodes=n[1-4] Default=YES DefaultTime=01:00:00 State=UP AllowGroups=ml OverSubscribe=FORCE:4\n\
        PartitionName=all Nodes=ALL MaxNodes=2 JobDefaults=DefCpuPerGPU=4 PowerDownOnIdle=NO\n\
        Licenses=fluent:30,ansys@server=100\n";

    #[test]
    fn what_is_imported_is_a_configuration_and_the_rest_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (conf, gres) = (dir.path().join("slurm.conf"), dir.path().join("gres.conf"));
        std::fs::write(&conf, SLURM).unwrap();
        std::fs::write(&gres, "NodeName=n[1-4] Name=gpu File=/dev/nvidia[0-7]\n").unwrap();
        let mut lines = slurm::read(&conf).unwrap();
        lines.extend(slurm::read(&gres).unwrap());
        let imported = import(&lines);
        let ours = dir.path().join("spur.toml");
        std::fs::write(&ours, &imported.text).unwrap();
        let config = Config::read(&ours)
            .map_err(|e| format!("{e}\n{}", imported.text))
            .unwrap();
        assert_eq!((config.cluster.as_str(), config.min_job_age), ("base", 200));
        assert_eq!(config.mailer.program(), std::path::Path::new("/opt/mail"));
        assert_eq!(config.mailer.domain.as_deref(), Some("example.org"));
        let licenses: Vec<_> = config.licenses.iter().collect();
        assert_eq!(licenses, [("ansys@server", 100), ("fluent", 30)]);
        let prolog = &config.controller_programs.prolog;
        assert_eq!(*prolog, [std::path::PathBuf::from("/y")]);
        assert_eq!(config.partitions.len(), 2);
        let gpu = &config.partitions[0];
        assert_eq!(
            (gpu.default, gpu.allow_groups.join(",")),
            (true, "ml".to_owned())
        );
        assert_eq!(
            (gpu.over_subscribe.as_str(), gpu.default_mem_per_cpu),
            ("FORCE:4", 0)
        );
        assert_eq!(config.default_memory, MemoryRequest::PerCpu(1024));
        assert_eq!(
            (
                config.partitions[1].max_nodes,
                config.partitions[1].def_cpu_per_gpu
            ),
            (2, 4)
        );
        assert_eq!(config.nodes.len(), 4);
        assert!(
            config
                .nodes
                .values()
                .all(|node| node.weight == 5 && node.features.len() == 2)
        );
        let left: Vec<String> = imported
            .left
            .iter()
            .map(|(at, why)| format!("{at}: {why}"))
            .collect();
        for says in [
            "slurm.conf:10: AccountingStorageEnforce=limits: associations are enforced, limits are not",
            "gres.conf:1: this line: GPUs are found by spurd",
            "slurm.conf:15: powerdownonidle=NO: nothing here does the same",
        ] {
            assert!(left.iter().any(|line| line == says), "{says}\n{left:#?}");
        }
    }
}
