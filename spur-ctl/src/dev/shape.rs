//! What `spur dev up` can say of nodes beyond their number: features, weights, NUMA nodes, links, rails, parts, switches.

use super::layout::names;
use spur_core::slurm::{constraint, hostlist};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Flags of `spur dev up`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Shape {
    /// Features of all nodes, or of some: a100,ib or n[1-2]:a100,ib. May be given several times.
    #[arg(long, value_name = "[NODES:]LIST", value_parser = features)]
    features: Vec<OfNodes<Vec<String>>>,
    /// Weight of all nodes, or of some: 10 or n[1-2]:10. May be given several times.
    #[arg(long, value_name = "[NODES:]N", value_parser = weight)]
    weight: Vec<OfNodes<u32>>,
    /// NUMA nodes of every node, each a socket; CPUs and GPUs are shared out to them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    numa: Option<u32>,
    /// Join so many GPUs after one another by NVLink (XGMI for mi…).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    links: Option<u32>,
    /// Network rails of every node; GPUs are shared out to them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    rails: Option<u32>,
    /// Partition every GPU: 1g.18gb:7, cpx:8.
    #[arg(long, value_name = "PROFILE:N", value_parser = parts)]
    parts: Option<(String, u32)>,
    /// Share the nodes out to so many leaf switches below one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "blocks")]
    switches: Option<u32>,
    /// Share the nodes out to so many blocks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    blocks: Option<u32>,
}

/// A value for some nodes; `None` is all.
#[derive(Clone, Debug)]
struct OfNodes<T> {
    nodes: Option<Vec<String>>,
    value: T,
}

impl<T> OfNodes<T> {
    fn read<E: ToString>(text: &str, value: impl Fn(&str) -> Result<T, E>) -> Result<Self, String> {
        let (nodes, rest) = match text.rsplit_once(':') {
            Some((nodes, rest)) => (
                Some(hostlist::parse(nodes).map_err(|e| e.to_string())?),
                rest,
            ),
            None => (None, text),
        };
        Ok(Self {
            nodes,
            value: value(rest).map_err(|e| e.to_string())?,
        })
    }

    fn is_of(&self, name: &str) -> bool {
        let mut nodes = self.nodes.iter().flatten();
        self.nodes.is_none() || nodes.any(|node| node == name)
    }
}

fn features(text: &str) -> Result<OfNodes<Vec<String>>, String> {
    OfNodes::read(text, |list| {
        let names = list.split(',').map(str::to_owned).collect::<Vec<_>>();
        names
            .iter()
            .try_for_each(|name| constraint::check_name(name))?;
        Ok::<_, constraint::BadName>(names)
    })
}

fn weight(text: &str) -> Result<OfNodes<u32>, String> {
    OfNodes::read(text, |number| match number.parse() {
        Ok(0) | Err(_) => Err("a weight is a number of at least 1"),
        Ok(number) => Ok(number),
    })
}

fn parts(text: &str) -> Result<(String, u32), String> {
    let (profile, number) = text.rsplit_once(':').ok_or("write PROFILE:N")?;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
    let number = number.parse().ok().filter(|n| (1..=64).contains(n));
    match number {
        Some(number) if !profile.is_empty() && profile.chars().all(legal) => {
            Ok((profile.to_owned(), number))
        }
        Some(_) | None => Err("write PROFILE:N, such as 1g.18gb:7, with 1 to 64 parts".to_owned()),
    }
}

impl Shape {
    /// What does not go together with so many nodes and GPUs.
    pub(super) fn check(&self, nodes: u32, gpus: u32) -> Result<(), String> {
        let known = names(nodes);
        let of = |rows: Vec<&Vec<String>>, flag: &str| {
            let mut all = rows.into_iter().flatten();
            match all.find(|name| !known.contains(name)) {
                Some(name) => Err(format!("{flag}: there is no node {name}")),
                None => Ok(()),
            }
        };
        of(
            self.features
                .iter()
                .filter_map(|row| row.nodes.as_ref())
                .collect(),
            "--features",
        )?;
        of(
            self.weight
                .iter()
                .filter_map(|row| row.nodes.as_ref())
                .collect(),
            "--weight",
        )?;
        for (flag, number) in [("--switches", self.switches), ("--blocks", self.blocks)] {
            if number.is_some_and(|number| number > nodes) {
                return Err(format!("{flag}: there are only {nodes} nodes"));
            }
        }
        if let Some(island) = self.links.filter(|island| !gpus.is_multiple_of(*island)) {
            return Err(format!(
                "--links: {gpus} GPUs do not divide into islands of {island}"
            ));
        }
        if self.devices(gpus) > 256 {
            return Err("--parts: a node has at most 256 GPUs and parts".to_owned());
        }
        Ok(())
    }

    /// GPUs and parts of a node.
    pub(super) fn devices(&self, gpus: u32) -> u32 {
        gpus * self.parts.as_ref().map_or(1, |(_, parts)| *parts)
    }

    /// For `spur.toml`: nodes and topology.
    pub(super) fn controller(&self, nodes: u32) -> String {
        let mut text = self.nodes(nodes);
        let all = names(nodes);
        let (plugin, word, groups) = match (self.switches, self.blocks) {
            (Some(leaves), _) => ("tree", "switch", leaves),
            (None, Some(blocks)) => ("block", "block", blocks),
            (None, None) => return text,
        };
        // Writing to a string cannot fail.
        let _written = write!(text, "\n[topology]\nplugin = \"{plugin}\"\n");
        let total = all.len();
        let count = groups as usize;
        for group in 0..count {
            let members = &all[group * total / count..(group + 1) * total / count];
            let (letter, list) = (&word[..1], hostlist::compress(members));
            let _written = write!(
                text,
                "[[topology.{word}]]\nname = \"{letter}{}\"\nnodes = \"{list}\"\n",
                group + 1
            );
        }
        if plugin == "tree" && count > 1 {
            let _written = write!(
                text,
                "[[topology.switch]]\nname = \"top\"\nswitches = \"s[1-{count}]\"\n"
            );
        }
        text
    }

    /// Rows for nodes that are alike, in order of the first of each.
    fn nodes(&self, nodes: u32) -> String {
        let mut rows: Vec<(String, Vec<String>)> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for name in names(nodes) {
            let mut features: Vec<&str> = Vec::new();
            let mine = self.features.iter().filter(|row| row.is_of(&name));
            for feature in mine.flat_map(|row| &row.value) {
                if !features.contains(&feature.as_str()) {
                    features.push(feature);
                }
            }
            let weight = self.weight.iter().rev().find(|row| row.is_of(&name));
            let mut said = String::new();
            if !features.is_empty() {
                let _written = writeln!(said, "features = {features:?}");
            }
            if let Some(weight) = weight {
                let _written = writeln!(said, "weight = {}", weight.value);
            }
            if said.is_empty() {
                continue;
            }
            let at = *known.entry(said.clone()).or_insert(rows.len());
            match rows.get_mut(at) {
                Some((_, members)) => members.push(name),
                None => rows.push((said, vec![name])),
            }
        }
        let row = |(said, members): &(String, Vec<String>)| {
            format!(
                "\n[[node]]\nnodes = \"{}\"\n{said}",
                hostlist::compress(members)
            )
        };
        rows.iter().map(row).collect()
    }

    /// For the table `[declare]` of a `spurd.toml`.
    pub(super) fn declare(&self) -> String {
        let line = |key, value: Option<u32>| value.map(|value| format!("{key} = {value}\n"));
        let lines = [line("numa", self.numa), line("rails", self.rails)];
        lines.into_iter().flatten().collect()
    }

    /// For a group of stand-ins of this model.
    pub(super) fn group(&self, model: &str) -> String {
        let mut text = String::new();
        if let Some(island) = self.links {
            let kind = if model.starts_with("mi") {
                "xgmi"
            } else {
                "nvlink"
            };
            let _written = write!(text, "links = \"{kind}\"\nisland = {island}\n");
        }
        if let Some((profile, parts)) = &self.parts {
            let _written = write!(text, "profile = \"{profile}\"\nparts = {parts}\n");
        }
        text
    }

    /// Memory of a device, of a GPU with so much.
    pub(super) fn memory(&self, gpu: u64) -> u64 {
        gpu / u64::from(self.parts.as_ref().map_or(1, |(_, parts)| *parts))
    }
}
