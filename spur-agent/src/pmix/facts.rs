//! What the library is told. Attributes' names are those of OpenPMIx's `pmix_common.h`.

use crate::sys::pmix::Fact;
use spur_core::pmix::layout::{Layout, Node, Process, list};
use std::collections::BTreeMap;

type Facts = Vec<(&'static str, Fact)>;

/// A step, seen from one of its nodes.
pub(super) struct Here<'a> {
    pub(super) layout: &'a Layout,
    pub(super) node: &'a Node,
    /// Position of the node.
    pub(super) at: u32,
    pub(super) job: &'a str,
    /// How many tasks could run.
    pub(super) universe: u32,
    /// A folder for the step's files, which goes away with it.
    pub(super) dir: &'a str,
}

fn text(text: &str) -> Fact {
    Fact::Text(text.to_owned())
}

fn count(count: usize) -> Fact {
    Fact::Number(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Of the server itself. Several nodes may be one machine: the name is the cluster's, not the machine's.
pub(super) fn of_server(node: &Node, dir: &str) -> Facts {
    vec![
        ("pmix.srvr.tmpdir", text(dir)),
        ("pmix.sys.tmpdir", text(dir)),
        ("pmix.hname", text(&node.name)),
    ]
}

/// Of the step; the maps are the lists of nodes and of ranks by node as the library writes them.
pub(super) fn of_step(here: &Here<'_>, (names, ranks): (String, String)) -> Facts {
    let layout = here.layout;
    let mut facts = vec![
        ("pmix.jobid", text(here.job)),
        ("pmix.spawned", Fact::Flag(false)),
        ("pmix.univ.size", Fact::Number(here.universe)),
        ("pmix.job.size", Fact::Number(layout.size())),
        ("pmix.job.napps", Fact::Number(layout.programs())),
        ("pmix.max.size", Fact::Number(here.universe)),
        ("pmix.num.nodes", count(layout.nodes().len())),
        ("pmix.nmap", Fact::Text(names)),
        ("pmix.pmap", Fact::Text(ranks)),
        ("pmix.tmpdir", text(here.dir)),
        ("pmix.nsdir", text(here.dir)),
        ("pmix.tdir.rmclean", Fact::Flag(true)),
        // Of this node.
        ("pmix.nodeid", Fact::Number(here.at)),
        ("pmix.local.size", count(here.node.ranks.len())),
        ("pmix.node.size", count(here.node.ranks.len())),
        ("pmix.lpeers", Fact::Text(list(&here.node.ranks))),
    ];
    let first = here.node.ranks.first();
    facts.extend(first.map(|first| ("pmix.lldr", Fact::Rank(*first))));
    let processes = layout.processes();
    let mut programs: BTreeMap<u32, (u32, usize)> = BTreeMap::new();
    for process in &processes {
        let program = programs.entry(process.program);
        program.or_insert((process.leader, 0)).1 += 1;
    }
    let programs = programs.into_iter().map(|(program, (leader, size))| {
        let facts = vec![
            ("pmix.appnum", Fact::Number(program)),
            ("pmix.app.size", count(size)),
            ("pmix.aldr", Fact::Rank(leader)),
        ];
        ("pmix.app.arr", Fact::Facts(facts))
    });
    facts.extend(programs);
    let of_process = |process: &Process| ("pmix.pdata", Fact::Facts(of_process(here, process)));
    facts.extend(processes.iter().map(of_process));
    facts
}

/// The rank comes first.
fn of_process(here: &Here<'_>, process: &Process) -> Facts {
    let node = usize::try_from(process.node).unwrap_or(usize::MAX);
    let node = here.layout.nodes().get(node);
    let name = node.map_or("", |node| &node.name);
    let mut facts = vec![
        ("pmix.rank", Fact::Rank(process.rank)),
        ("pmix.appnum", Fact::Number(process.program)),
        ("pmix.aldr", Fact::Rank(process.leader)),
        ("pmix.grank", Fact::Rank(process.rank)),
        ("pmix.apprank", Fact::Rank(process.of_program)),
        ("pmix.lrank", Fact::Short(process.local)),
        ("pmix.nrank", Fact::Short(process.local)),
        ("pmix.hname", text(name)),
        ("pmix.nodeid", Fact::Number(process.node)),
    ];
    if process.node == here.at {
        facts.push(("pmix.pdir", text(here.dir)));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, ranks: &[u32], program: u32) -> Node {
        Node {
            name: name.into(),
            ranks: ranks.into(),
            program,
        }
    }

    fn all<'f>(facts: &'f Facts, name: &str) -> Vec<&'f Fact> {
        let of_name = facts.iter().filter(|(key, _)| *key == name);
        of_name.map(|(_, fact)| fact).collect()
    }

    #[test]
    fn each_node_is_told_of_itself_and_of_all() {
        let nodes = vec![node("n1", &[0, 1], 0), node("n2", &[2, 3, 4], 1)];
        let layout = Layout::new(nodes).expect("it is right");
        let here = Here {
            layout: &layout,
            node: &layout.nodes()[1],
            at: 1,
            job: "7.0",
            universe: 5,
            dir: "/d",
        };
        let facts = of_step(&here, ("names".into(), "ranks".into()));
        for (name, fact) in [
            ("pmix.job.size", Fact::Number(5)),
            ("pmix.job.napps", Fact::Number(2)),
            ("pmix.local.size", Fact::Number(3)),
            ("pmix.lpeers", text("2,3,4")),
            ("pmix.lldr", Fact::Rank(2)),
            ("pmix.nodeid", Fact::Number(1)),
            ("pmix.nmap", text("names")),
            ("pmix.pmap", text("ranks")),
        ] {
            assert_eq!(all(&facts, name), [&fact], "{name}");
        }
        let programs = all(&facts, "pmix.app.arr");
        assert_eq!(
            programs[1],
            &Fact::Facts(vec![
                ("pmix.appnum", Fact::Number(1)),
                ("pmix.app.size", Fact::Number(3)),
                ("pmix.aldr", Fact::Rank(2)),
            ])
        );
        let processes = all(&facts, "pmix.pdata");
        assert_eq!((programs.len(), processes.len()), (2, 5));
        let Fact::Facts(last) = processes[4] else {
            panic!("a process is told in facts");
        };
        // The library wants this one first.
        assert_eq!(last[0], ("pmix.rank", Fact::Rank(4)));
        for (name, fact) in [
            ("pmix.lrank", Fact::Short(2)),
            ("pmix.apprank", Fact::Rank(2)),
            ("pmix.hname", text("n2")),
            ("pmix.pdir", text("/d")),
        ] {
            assert_eq!(all(last, name), [&fact], "{name}");
        }
        let Fact::Facts(other) = processes[0] else {
            panic!("a process is told in facts");
        };
        assert_eq!(all(other, "pmix.pdir"), Vec::<&Fact>::new());
    }
}
