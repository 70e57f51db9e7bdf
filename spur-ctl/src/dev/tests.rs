use super::layout::Layout;
use super::*;
use spur_core::resources::MemoryRequest;

fn wanted(words: &[&str]) -> Up {
    let all = ["spur dev", "up", "--dir", "/tmp"].iter().chain(words);
    match Args::try_parse_from(all).unwrap() {
        Args::Up(up) => up,
        Args::Down { .. } => panic!("that was down"),
    }
}

#[test]
fn the_contract_has_its_defaults() {
    let up = wanted(&[]);
    assert_eq!(
        (up.nodes, up.gpus, up.gpu_type.as_str(), up.hollow),
        (2, 8, "h200", false)
    );
    let up = wanted(&[
        "--nodes", "4", "--cpus", "64", "--memory", "256G", "--hollow",
    ]);
    assert_eq!(
        (up.nodes, up.cpus, up.memory, up.hollow),
        (4, Some(64), Some(262_144), true)
    );
    assert!(Args::try_parse_from(["spur dev", "up"]).is_err());
    assert!(Args::try_parse_from(["spur dev", "up", "--dir", "x", "--memory", "lots"]).is_err());
}

#[test]
fn bad_values_are_refused_by_name() {
    let refused = |words: &[&str]| check(&wanted(words)).unwrap_err().text;
    assert!(refused(&["--nodes", "0"]).contains("--nodes"));
    assert!(refused(&["--nodes", "65"]).contains("--nodes"));
    assert!(refused(&["--gpu-type", "H200"]).contains("--gpu-type"));
    assert!(check(&wanted(&["--nodes", "1000", "--hollow"])).is_ok());
}

#[test]
fn nodes_and_clusters_have_device_numbers_of_their_own() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (
        Layout::new(a.path()).unwrap(),
        Layout::new(b.path()).unwrap(),
    );
    let (major, first) = a.device(0, 8);
    assert!((120..=127).contains(&major));
    assert_eq!(a.device(1, 8), (major, first + 8));
    assert_ne!(a.kernel_name("n1"), b.kernel_name("n1"));
    assert_ne!(a.kernel_name("n1"), a.kernel_name("n2"));
    let (_, last) = a.device(9_999, 32);
    assert!(last < 1 << 20, "a minor has 20 bits");
}

#[test]
fn configurations_are_what_the_daemons_read() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path()).unwrap();
    let up = wanted(&["--cpus", "64", "--memory", "64G"]);
    let machine = config::Machine {
        cpus: 2,
        memory_mib: 4096,
    };
    let path = layout.controller_config();
    std::fs::write(&path, config::controller(&layout, &up, machine)).unwrap();
    let read = crate::config::Config::read(&path).unwrap();
    assert_eq!(read.client_socket, layout.client_socket());
    assert_eq!(read.partitions.len(), 1);
    assert_eq!(read.default_memory, MemoryRequest::PerCpu(1024));
    let text = config::node(&layout, &up, 1, "n2", std::path::Path::new("/sys/fs/bpf"));
    let node: toml::Table = text.parse().unwrap();
    assert_eq!(node["node"].as_str(), Some("n2"));
    let gpus = &node["declare"]["gpus"][0];
    assert_eq!(gpus["count"].as_integer(), Some(8));
    assert_eq!(
        gpus["minor"].as_integer(),
        Some(i64::from(layout.device(1, 8).1))
    );
    let none = config::node(
        &layout,
        &wanted(&["--gpus", "0"]),
        0,
        "n1",
        std::path::Path::new("/x"),
    );
    let none: toml::Table = none.parse().unwrap();
    assert_eq!(none["declare"]["gpus"].as_array().map(Vec::len), Some(0));
}

#[test]
fn features_switches_and_parts_are_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path()).unwrap();
    let up = wanted(&[
        "--nodes=5",
        "--hollow",
        "--features=ib",
        "--features=n[1-2]:a100,ib",
        "--weight=n5:20",
        "--numa=2",
        "--links=4",
        "--rails=4",
        "--parts=1g.18gb:7",
        "--switches=2",
    ]);
    assert!(check(&up).is_ok());
    let machine = config::Machine {
        cpus: 2,
        memory_mib: 4096,
    };
    let path = layout.controller_config();
    std::fs::write(&path, config::controller(&layout, &up, machine)).unwrap();
    let read = crate::config::Config::read(&path).unwrap();
    let of = |name: &str| {
        let node = &read.nodes[&spur_core::id::NodeName::new(name).unwrap()];
        (node.features.join(","), node.weight)
    };
    assert_eq!(of("n1"), ("ib,a100".to_owned(), 1));
    assert_eq!(of("n4"), ("ib".to_owned(), 1));
    assert_eq!(of("n5"), ("ib".to_owned(), 20));
    let below = |name| read.topology.nodes_below(name).len();
    assert_eq!((below("s1"), below("s2"), below("top")), (2, 3, 5));
    let text = config::node(&layout, &up, 1, "n2", std::path::Path::new("/x"));
    let node: toml::Table = text.parse().unwrap();
    let declare = &node["declare"];
    let number = |value: &toml::Value| value.as_integer().unwrap();
    assert_eq!(
        (number(&declare["numa"]), number(&declare["rails"])),
        (2, 4)
    );
    let group = &declare["gpus"][0];
    assert_eq!(group["links"].as_str(), Some("nvlink"));
    assert_eq!((number(&group["island"]), number(&group["parts"])), (4, 7));
    assert_eq!(number(&group["memory_mib"]), 144_384 / 7);
    assert_eq!(number(&group["minor"]), i64::from(layout.device(1, 56).1));
}

#[test]
fn shapes_that_cannot_be_are_refused_by_name() {
    let refused = |words: &[&str]| check(&wanted(words)).unwrap_err().text;
    assert!(refused(&["--features=n[1-3]:x"]).contains("--features: there is no node n3"));
    assert!(refused(&["--weight=n9:2"]).contains("--weight: there is no node n9"));
    assert!(refused(&["--links=3"]).contains("8 GPUs do not divide into islands of 3"));
    assert!(refused(&["--switches=3"]).contains("--switches: there are only 2 nodes"));
    assert!(refused(&["--parts=1g:40"]).contains("at most 256"));
    for word in ["--features=a b", "--weight=0", "--parts=1g", "--numa=0"] {
        let all = ["spur dev", "up", "--dir", "/tmp", word];
        assert!(Args::try_parse_from(all).is_err(), "{word}");
    }
}

#[test]
fn env_can_be_sourced_whatever_the_folder_is_called() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("it's a test");
    std::fs::create_dir(&dir).unwrap();
    let layout = Layout::new(&dir).unwrap();
    let env = dir.join("env");
    std::fs::write(&env, config::env(&layout)).unwrap();
    let shell = std::process::Command::new("sh")
        .args([
            "-c",
            ". \"$0\"; printf '%s\\n%s' \"$SPUR_CONTROLLER\" \"${PATH%%:*}\"",
        ])
        .arg(&env)
        .output()
        .unwrap();
    let said = String::from_utf8(shell.stdout).unwrap();
    let expected = format!(
        "unix:{}\n{}",
        layout.client_socket().display(),
        layout.path("bin").display()
    );
    assert_eq!(said, expected);
}
