use super::*;
use spur_core::time::TimeLimit;
use spur_core::topology::TopologyPlugin;

#[expect(
    clippy::unwrap_in_result,
    reason = "a test fails when it cannot write its file"
)]
fn read(text: &str) -> Result<Config, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Config::read(file.path()).map_err(|e| {
        e.to_string()
            .replace(&file.path().display().to_string(), "FILE")
    })
}

#[test]
fn the_contract_file_is_understood() {
    let config = read(
        r#"
        cluster = "dev"
        state_dir = "/var/lib/spur"
        client_socket = "/run/spur/spurctld.sock"
        agent_socket = "/run/spur/agents.sock"
        token_file = "/etc/spur/token"
        operators = ["alice"]
        min_job_age = 300
        node_timeout = 300
        [[partition]]
        name = "gpu"
        default = true
        nodes = "n[1-4]"
        max_time = "1-00:00:00"
        default_time = "01:00:00"
        default_mem_per_cpu = 1024
        "#,
    )
    .unwrap();
    let partition = &config.partitions[0];
    assert_eq!(partition.max_time, TimeLimit::Secs(86_400));
    assert_eq!(partition.default_time, Some(TimeLimit::Secs(3600)));
    assert_eq!(partition.nodes.as_ref().unwrap().len(), 4);
}

#[test]
fn the_shortest_file_is_understood() {
    let config = read("cluster = \"c\"\n[[partition]]\nname = \"p\"").unwrap();
    assert!(config.partitions[0].default);
    assert_eq!(config.partitions[0].nodes, None);
    assert_eq!(config.accounting.keep_days, 365);
}

#[test]
fn mistakes_are_named() {
    let partition = "[[partition]]\nname = \"p\"\n";
    for (text, says) in [
        ("cluster = \"c\"", "no [[partition]]"),
        (
            &format!("cluster = \"c d\"\n{partition}"),
            "cluster = \"c d\"",
        ),
        (&format!("cluster = \"c\"\nfoo = 1\n{partition}"), "foo"),
        (
            &format!(
                "cluster = \"c\"\ndefault_mem_per_cpu = 1\ndefault_mem_per_node = 1\n{partition}"
            ),
            "default_mem_per_node: give this or default_mem_per_cpu",
        ),
        (
            &format!("cluster = \"c\"\nstate_dir = \"x\"\n{partition}"),
            "use an absolute path",
        ),
        (
            &format!("cluster = \"c\"\n{partition}max_time = \"soon\""),
            "max_time: invalid time \"soon\"",
        ),
        (
            &format!("cluster = \"c\"\n{partition}nodes = \"n[1-\""),
            "partition \"p\": nodes",
        ),
        (&format!("cluster = \"c\"\n{partition}{partition}"), "twice"),
        (
            &format!("cluster = \"c\"\n[accounting]\nkeep_days = 0\n{partition}"),
            "accounting: keep_days = 0: use 1 to",
        ),
        (
            &format!("cluster = \"c\"\n[accounting]\nforever = true\n{partition}"),
            "forever",
        ),
        (
            &format!("cluster = \"c\"\n{partition}max_time = \"1\"\ndefault_time = \"2\""),
            "exceeds max_time",
        ),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(says), "{text}\n{error}");
    }
}

#[test]
fn a_token_that_others_may_read_or_that_is_short_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let token_file = dir.path().join("token");
    let mut config = read("cluster = \"c\"\n[[partition]]\nname = \"p\"").unwrap();
    config.token_file.clone_from(&token_file);
    for (token, mode, good) in [
        ("x", 0o600, false),
        (&"x".repeat(32), 0o640, false),
        (&"x".repeat(32), 0o600, true),
    ] {
        std::fs::write(&token_file, format!("{token}\n")).unwrap();
        std::fs::set_permissions(&token_file, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(config.token().is_ok(), good, "{token} {mode:o}");
    }
}

#[test]
fn nodes_limits_and_switches_are_understood() {
    let config = read(
        r#"
        cluster = "c"
        [[partition]]
        name = "p"
        nodes = "n[1-4]"
        min_nodes = 1
        max_nodes = 2
        max_cpus_per_node = 32
        max_mem_per_node = 100000
        def_mem_per_gpu = 2000
        def_cpu_per_gpu = 4
        [[node]]
        nodes = "n[1-2]"
        features = ["a100", "ib"]
        weight = 10
        [topology]
        plugin = "tree"
        [[topology.switch]]
        name = "s1"
        nodes = "n[1-2]"
        [[topology.switch]]
        name = "s2"
        nodes = "n[3-4]"
        [[topology.switch]]
        name = "top"
        switches = "s[1-2]"
        "#,
    )
    .unwrap();
    let partition = &config.partitions[0];
    assert_eq!((partition.min_nodes, partition.max_nodes), (1, 2));
    assert_eq!(
        (partition.max_cpus_per_node, partition.max_mem_per_node),
        (32, 100_000)
    );
    assert_eq!(
        (partition.def_mem_per_gpu, partition.def_cpu_per_gpu),
        (2000, 4)
    );
    let first = &config.nodes[&NodeName::new("n1").unwrap()];
    assert_eq!(
        (first.features.join(","), first.weight),
        ("a100,ib".into(), 10)
    );
    assert_eq!(config.nodes.len(), 2);
    assert_eq!(config.topology.plugin, TopologyPlugin::Tree);
    assert_eq!(config.topology.nodes_below("top").len(), 4);
    let Event::Configured {
        node_config,
        topology,
        ..
    } = config.event()
    else {
        panic!("not a configuration")
    };
    assert_eq!((node_config, topology), (config.nodes, config.topology));
}

#[test]
fn blocks_are_understood() {
    let config = read(
        r#"
        cluster = "c"
        [[partition]]
        name = "p"
        [topology]
        plugin = "block"
        block_sizes = [2, 4]
        block = [{ name = "b1", nodes = "n[1-2]" }, { name = "b2", nodes = "n[3-4]" }]
        "#,
    )
    .unwrap();
    assert_eq!(config.topology.plugin, TopologyPlugin::Block);
    assert_eq!(config.topology.block_sizes, [2, 4]);
    assert_eq!(config.topology.switches[1].nodes.len(), 2);
}

#[test]
fn mistakes_of_nodes_and_topology_are_named() {
    let closed = "cluster = \"c\"\n[[partition]]\nname = \"p\"\nnodes = \"n[1-4]\"\n";
    let tree = "[topology]\nplugin = \"tree\"\n";
    let block = "[topology]\nplugin = \"block\"\n";
    for (text, says) in [
        (
            "max_nodes = 2\nmin_nodes = 3",
            "FILE: partition \"p\": min_nodes: exceeds max_nodes",
        ),
        (
            "max_mem_per_node = 2\nmax_mem_per_cpu = 3",
            "FILE: partition \"p\": max_mem_per_cpu: give this or max_mem_per_node",
        ),
        ("[[node]]\nfeatures = []", "missing field `nodes`"),
        (
            "[[node]]\nnodes = \"n[1-\"",
            "FILE: node \"n[1-\": unbalanced",
        ),
        (
            "[[node]]\nnodes = \"n1\"\nfeatures = [\"a b\"]",
            "FILE: node \"n1\": feature \"a b\": a name has no blanks",
        ),
        (
            "[[node]]\nnodes = \"n1\"\nfeatures = [\"a\", \"a\"]",
            "FILE: node \"n1\": feature \"a\" is there twice",
        ),
        (
            "[[node]]\nnodes = \"n1\"\nweight = 0",
            "weight = 0: use at least 1",
        ),
        (
            "[[node]]\nnodes = \"n[1-2]\"\n[[node]]\nnodes = \"n[2-3]\"",
            "FILE: node \"n[2-3]\": n2 is in another [[node]] too",
        ),
        ("[topology]\nplugin = \"torus\"", "unknown variant `torus`"),
        (tree, "FILE: topology: no [[topology.switch]]"),
        (block, "FILE: topology: no [[topology.block]]"),
        (
            "[[topology.switch]]\nname = \"s\"\nnodes = \"n1\"",
            "FILE: topology: switch needs plugin = \"tree\"",
        ),
        (
            &format!("{tree}block_sizes = [2]"),
            "FILE: topology: block_sizes needs plugin = \"block\"",
        ),
        (
            &format!("{tree}[[topology.switch]]\nname = \"s 1\"\nnodes = \"n1\""),
            "FILE: topology: switch \"s 1\": use letters",
        ),
        (
            &format!(
                "{tree}switch = [{{ name = \"a\", switches = \"b\" }}, {{ name = \"b\", switches = \"a\" }}]"
            ),
            "FILE: topology: switch \"a\" is below itself",
        ),
        (
            &format!("{tree}[[topology.switch]]\nname = \"s\"\nnodes = \"n[1-5]\""),
            "FILE: topology: switch \"s\": no [[partition]] or [[node]] has node n5",
        ),
        (
            &format!(
                "{block}block_sizes = [4]\n[[topology.block]]\nname = \"b\"\nnodes = \"n[1-2]\""
            ),
            "FILE: topology: block sizes [4]: begin with at most 2",
        ),
    ] {
        let error = read(&format!("{closed}{text}")).unwrap_err();
        assert!(error.contains(says), "{text}\n{error}");
    }
}
