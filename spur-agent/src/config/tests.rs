use super::*;

const LEAST: &str = "cluster = \"dev\"\nnode = \"n1\"\n";

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("/x/spurd.toml"), text).map_err(|e| e.to_string())
}

#[test]
fn defaults_are_the_documented_ones() {
    let config = parse(LEAST).unwrap();
    assert_eq!(config.socket, Path::new("/run/spur/spurd.sock"));
    assert_eq!(config.controller, Path::new("/run/spur/agents.sock"));
    assert_eq!(config.require, Require::Fence);
    assert_eq!(config.kill_wait, 30);
    assert_eq!(config.declare, Declare::default());
}

#[test]
fn errors_name_file_key_and_help() {
    let gpus = |rest: &str| {
        format!(
            "{LEAST}[[declare.gpus]]\nmodel = \"h200\"\ncount = 8\ndev_dir = \"/d\"\nmajor = 120\n{rest}"
        )
    };
    let cases = [
        ("cluster = \"dev\"\nnode = \"-x\"\n".to_owned(), "node"),
        (format!("{LEAST}colour = 1\n"), "colour"),
        (format!("{LEAST}state_dir = \"here\"\n"), "state_dir"),
        (
            format!("{LEAST}controller = \"tcp:1.2.3.4\"\n"),
            "controller",
        ),
        (format!("{LEAST}cgroup = \"../up\"\n"), "cgroup"),
        (format!("{LEAST}pins = \"a/b\"\n"), "pins"),
        (format!("{LEAST}require = \"hope\"\n"), "hope"),
        (
            format!("{LEAST}socket = \"/{}\"\n", "s".repeat(120)),
            "socket",
        ),
        (format!("{LEAST}[declare]\ncpus = 0\n"), "declare.cpus"),
        (
            gpus("").replace("major = 120", "major = 1"),
            "declare.gpus[0].major",
        ),
        (
            gpus("").replace("count = 8", "count = 300"),
            "declare.gpus.count",
        ),
        (gpus("").replace("h200", "H 200"), "declare.gpus[0].model"),
        (
            gpus(
                "[[declare.gpus]]\nmodel = \"a\"\ncount = 1\ndev_dir = \"/e\"\nmajor = 120\nminor = 7\n",
            ),
            "declare.gpus[1].minor",
        ),
    ];
    let more = [
        (format!("{LEAST}features = [\"a b\"]\n"), "features"),
        (format!("{LEAST}features = [\"a\", \"a\"]\n"), "features"),
        (format!("{LEAST}[declare]\nnuma = 0\n"), "declare.numa"),
        (
            format!("{LEAST}[declare]\nsockets = 0\n"),
            "declare.sockets",
        ),
        (format!("{LEAST}[declare]\nrails = 65\n"), "declare.rails"),
        (gpus("island = 4\n"), "declare.gpus[0].island"),
        (
            gpus("links = \"nvlink\"\nisland = 3\n"),
            "declare.gpus[0].island",
        ),
        (gpus("links = \"rope\"\n"), "rope"),
        (gpus("parts = 0\n"), "declare.gpus[0].parts"),
        (gpus("parts = 7\n"), "declare.gpus[0].parts"),
        (gpus("parts = 40\nprofile = \"1g\"\n"), "declare.gpus.count"),
        (gpus("profile = \"1 g\"\n"), "declare.gpus[0].profile"),
    ];
    for (text, key) in cases.into_iter().chain(more) {
        let error = parse(&text).expect_err(&text);
        assert!(error.starts_with("/x/spurd.toml"), "{error}");
        assert!(error.contains(key), "{error} should name {key}");
    }
}

#[test]
fn a_secret_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    let config = parse(&format!("{LEAST}token_file = {:?}\n", file)).unwrap();
    assert!(
        config
            .token()
            .unwrap_err()
            .to_string()
            .contains("copy the controller's token")
    );
    std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(
        config
            .token()
            .unwrap_err()
            .to_string()
            .contains("chmod 600")
    );
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(config.token().unwrap().len(), 32);
    std::fs::write(&file, "short").unwrap();
    assert!(
        config
            .token()
            .unwrap_err()
            .to_string()
            .contains("at least 32")
    );
}
