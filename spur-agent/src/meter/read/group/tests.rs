use super::*;
use proptest::prelude::*;

const ALL: Depth = Depth {
    cpu: true,
    io: true,
    kills: true,
    pressure: true,
    stat: true,
};

fn write(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
}

#[test]
fn a_group_with_all_controllers_tells_all() {
    let dir = tempfile::tempdir().unwrap();
    let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=70\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=50\n";
    write(
        dir.path(),
        &[
            (
                "cpu.stat",
                "usage_usec 900\nuser_usec 700\nsystem_usec 200\nnr_periods 0\nthrottled_usec 11\n",
            ),
            (
                "io.stat",
                "8:0 rbytes=100 wbytes=10 rios=3 wios=1 dbytes=0 dios=0\n9:0 rbytes=1 wbytes=2 rios=1 wios=1\n",
            ),
            ("memory.current", "5000\n"),
            ("memory.peak", "9000\n"),
            ("memory.max", "max\n"),
            (
                "memory.stat",
                "anon 1\ninactive_file 2000\npgfault 10\npgmajfault 3\n",
            ),
            (
                "memory.events",
                "low 0\noom 4\noom_kill 2\noom_group_kill 9\n",
            ),
            ("pids.current", "7\n"),
            ("cpu.pressure", pressure),
            ("memory.pressure", pressure),
            ("io.pressure", pressure),
        ],
    );
    let mut files = Files::open(dir.path());
    let group = files.read(ALL, &mut Vec::new());
    assert_eq!(
        group,
        Group {
            counts: Counts {
                cpu: Some(900),
                user: Some(700),
                system: Some(200),
                throttled: Some(11),
                read_bytes: Some(101),
                write_bytes: Some(12),
                reads: Some(4),
                writes: Some(2),
                oom_kills: Some(2),
                major_faults: Some(3),
                minor_faults: Some(7),
                ..Counts::default()
            },
            memory: Some(3000),
            peak: Some(9000),
            limit: None,
            pids: Some(7),
            pressure_cpu: Some(70),
            pressure_memory: Some((70, 50)),
            pressure_io: Some((70, 50)),
        }
    );
    assert_less(dir.path(), &mut files);
}

/// What is read every second, after a first look at all.
fn assert_less(dir: &Path, files: &mut Files) {
    std::fs::write(dir.join("memory.current"), "6000\n").unwrap();
    let less = Depth {
        cpu: false,
        io: false,
        kills: false,
        pressure: false,
        stat: false,
    };
    let group = files.read(less, &mut Vec::new());
    assert_eq!(
        (group.memory, group.counts.cpu, group.pressure_io),
        (Some(4000), None, None)
    );
}

#[test]
fn a_group_of_a_hybrid_host_tells_its_cpu_time_only() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        &[(
            "cpu.stat",
            "usage_usec 900\nuser_usec 700\nsystem_usec 200\n",
        )],
    );
    let group = Files::open(dir.path()).read(ALL, &mut Vec::new());
    let counts = Counts {
        cpu: Some(900),
        user: Some(700),
        system: Some(200),
        ..Counts::default()
    };
    assert_eq!(
        group,
        Group {
            counts,
            ..Group::default()
        }
    );
}

proptest! {
    #[test]
    fn no_text_breaks_a_reader(texts in prop::collection::vec(prop_oneof!["[a-z_]{0,12}[ =][0-9-]{0,25}\n?", any::<Vec<u8>>().prop_map(|b| String::from_utf8_lossy(&b).into_owned())], 11)) {
        let dir = tempfile::tempdir().unwrap();
        let names = ["cpu.stat", "io.stat", "memory.current", "memory.peak", "memory.max", "memory.stat", "memory.events", "pids.current", "cpu.pressure", "memory.pressure", "io.pressure"];
        for (name, text) in names.iter().zip(&texts) {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Files::open(dir.path()).read(ALL, &mut Vec::new());
    }
}
