//! `scontrol show topology`.

use spur_core::slurm::hostlist;
use spur_core::topology::{Switch, Topology, TopologyPlugin};

/// The lines of all switches or blocks, of the one with a name, or of those that a node is on.
pub fn records(topology: &Topology, which: Option<&str>) -> Result<String, String> {
    let lines = match topology.plugin {
        TopologyPlugin::None => return Ok(String::new()),
        TopologyPlugin::Tree => switches(topology),
        TopologyPlugin::Block => blocks(topology),
    };
    let all = || lines.iter().map(|line| line.text.clone() + "\n");
    let Some(which) = which else {
        return Ok(all().collect());
    };
    if let Some(line) = lines.iter().find(|line| line.name == which) {
        return Ok(line.text.clone() + "\n");
    }
    let with_node = lines.iter().zip(all());
    let found: String = with_node
        .filter(|(line, _)| line.nodes.contains(&which))
        .map(|(_, text)| text)
        .collect();
    if found.is_empty() {
        let what = match topology.plugin {
            TopologyPlugin::Block => "block",
            TopologyPlugin::None | TopologyPlugin::Tree => "switch",
        };
        return Err(format!(
            "Topology information contains no {what} or node named {which}"
        ));
    }
    Ok(found)
}

struct Line<'a> {
    name: String,
    nodes: Vec<&'a str>,
    text: String,
}

fn switches(topology: &Topology) -> Vec<Line<'_>> {
    let line = |switch: &Switch| {
        let nodes = topology.nodes_below(&switch.name);
        let nodes: Vec<&str> = nodes.into_iter().map(|node| node.as_str()).collect();
        let below = match switch.switches.as_slice() {
            [] => String::new(),
            below => format!(" Switches={}", hostlist::compress(below)),
        };
        let text = format!(
            "SwitchName={} Level={} LinkSpeed=1 Nodes={}{below}",
            switch.name,
            topology.level(&switch.name).unwrap_or(0),
            hostlist::compress(&nodes)
        );
        Line {
            name: switch.name.clone(),
            nodes,
            text,
        }
    };
    topology.switches.iter().map(line).collect()
}

/// Blocks, then what several of them make together.
fn blocks(topology: &Topology) -> Vec<Line<'_>> {
    let smallest = topology.switches.iter().map(|block| block.nodes.len());
    let smallest = u32::try_from(smallest.min().unwrap_or(0)).unwrap_or(u32::MAX);
    let base = topology.block_sizes.first().copied().unwrap_or(smallest);
    let mut lines = Vec::new();
    let mut before = 0;
    for size in std::iter::once(&base).chain(topology.block_sizes.iter().skip(1)) {
        let together = (*size / base.max(1)).max(1) as usize;
        let word = if *size == base {
            "BlockName"
        } else {
            "AggregatedBlock"
        };
        // What is left over at the end is not shown again if it makes no more than before.
        let more = |group: &&[Switch]| group.len() == together || group.len() > before;
        for group in topology.switches.chunks(together).filter(more) {
            let names: Vec<&str> = group.iter().map(|block| block.name.as_str()).collect();
            let nodes = group.iter().flat_map(|block| &block.nodes);
            let nodes: Vec<&str> = nodes.map(|node| node.as_str()).collect();
            let (name, index) = (names.join(","), lines.len());
            let text = format!(
                "{word}={name} BlockIndex={index} Nodes={} BlockSize={size}",
                hostlist::compress(&nodes)
            );
            lines.push(Line { name, nodes, text });
        }
        before = together;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_core::id::NodeName;

    fn topology(plugin: TopologyPlugin, rows: &[(&str, &str, &str)], sizes: &[u32]) -> Topology {
        let switch = |(name, nodes, switches): &(&str, &str, &str)| Switch {
            name: (*name).to_owned(),
            nodes: hostlist::parse(nodes)
                .unwrap()
                .into_iter()
                .map(|name| NodeName::new(name).unwrap())
                .collect(),
            switches: hostlist::parse(switches).unwrap(),
        };
        Topology {
            plugin,
            switches: rows.iter().map(switch).collect(),
            block_sizes: sizes.to_vec(),
        }
    }

    #[test]
    fn a_tree_is_shown_as_slurm_does() {
        let rows = [
            ("s1", "n[1-2]", ""),
            ("s2", "n[3-4]", ""),
            ("top", "", "s[1-2]"),
        ];
        let tree = topology(TopologyPlugin::Tree, &rows, &[]);
        let all = "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n\
                   SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n\
                   SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[1-2]\n";
        assert_eq!(records(&tree, None).unwrap(), all);
        let lines: Vec<&str> = all.lines().collect();
        let one = |which| records(&tree, Some(which));
        assert_eq!(one("s2").unwrap(), format!("{}\n", lines[1]));
        assert_eq!(one("n4").unwrap(), format!("{}\n{}\n", lines[1], lines[2]));
        assert_eq!(
            one("n9").unwrap_err(),
            "Topology information contains no switch or node named n9"
        );
        assert_eq!(records(&Topology::default(), None).unwrap(), "");
    }

    #[test]
    fn blocks_and_what_they_make_together_are_shown() {
        let rows = [
            ("b1", "n[1-2]", ""),
            ("b2", "n[3-4]", ""),
            ("b3", "n[5-6]", ""),
        ];
        let blocks = topology(TopologyPlugin::Block, &rows, &[2, 4]);
        assert_eq!(
            records(&blocks, None).unwrap(),
            "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n\
             BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n\
             BlockName=b3 BlockIndex=2 Nodes=n[5-6] BlockSize=2\n\
             AggregatedBlock=b1,b2 BlockIndex=3 Nodes=n[1-4] BlockSize=4\n"
        );
    }
}
