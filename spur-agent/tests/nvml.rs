//! NVML through the real child process and a library made for the tests, which hangs, loses GPUs, crashes and reports MIG.

#![expect(clippy::unwrap_used, reason = "tests")]

use spur_agent::discover::nvml::{self, Extra, Instance, Mig};
use spur_agent::meter::device::DeviceLook;
use spur_agent::meter::latest::{Latest, Note};
use spur_agent::meter::nvml::keeper::Keeper;
use spur_agent::meter::nvml::words::Which;
use spur_core::usage::metric::{Metric, Source, Value};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long anything may take.
const SOON: Duration = Duration::from_secs(60);

struct Lab {
    dir: tempfile::TempDir,
    latest: Option<Arc<Latest>>,
    notes: Vec<Note>,
}

impl Lab {
    /// Two GPUs that begin with these words. `None` without a C compiler.
    fn new(words: [&str; 2]) -> Option<Self> {
        let lab = Self::idle(words, &[])?;
        lab.watch(vec![gpu(0, "GPU-0"), gpu(1, "GPU-1")]);
        Some(lab)
    }

    /// The same, and nobody looks yet. The library is built with these options.
    fn idle(words: [&str; 2], options: &[&str]) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("libnvidia-ml.so.1");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvml/stub.c");
        let made = Command::new("cc")
            .args(options)
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .arg(&library)
            .arg(source)
            .status();
        let Ok(made) = made else {
            eprintln!("skipped: there is no C compiler");
            return None;
        };
        assert!(made.success());
        let program = dir.path().join("spurd");
        let text = format!(
            "#!/bin/sh\nexport LD_LIBRARY_PATH={at} NVML_STUB={at}\nexec {} \"$@\"\n",
            env!("CARGO_BIN_EXE_spurd"),
            at = dir.path().display()
        );
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let lab = Self {
            latest: Some(Arc::new(Latest::default())),
            dir,
            notes: Vec::new(),
        };
        lab.say(0, words[0]);
        lab.say(1, words[1]);
        Some(lab)
    }

    /// The agent's program, which finds the library.
    fn program(&self) -> std::path::PathBuf {
        self.dir.path().join("spurd")
    }

    /// Looks at these from now on.
    fn watch(&self, gpus: Vec<Which>) {
        if let Some(latest) = &self.latest {
            latest.want(500, true);
            let keeper = Keeper {
                program: self.program(),
                within: Duration::from_millis(1500),
                pause: Duration::from_millis(500),
                ..Keeper::new(gpus, Arc::downgrade(latest))
            };
            std::thread::spawn(|| keeper.run());
        }
    }

    /// What discovery is told.
    fn discovered(&self) -> Vec<Extra> {
        let output = Command::new(self.program())
            .arg(nvml::COMMAND)
            .output()
            .unwrap();
        let answer: Result<Vec<Extra>, String> = serde_json::from_slice(&output.stdout).unwrap();
        answer.unwrap()
    }

    /// What a GPU does from now on; written in one step, since the library reads it all the time.
    fn say(&self, gpu: u32, word: &str) {
        let draft = self.dir.path().join("draft");
        std::fs::write(&draft, word).unwrap();
        std::fs::rename(draft, self.dir.path().join(gpu.to_string())).unwrap();
    }

    /// Waits until a look, later than those before, satisfies `pick`.
    fn look<T>(
        &mut self,
        what: &str,
        pick: impl Fn(&BTreeMap<u32, DeviceLook>, &[Note]) -> Option<T>,
    ) -> T {
        let end = Instant::now() + SOON;
        let latest = Arc::clone(self.latest.as_ref().unwrap());
        let mut serial = latest.newer(0).map_or(0, |looks| looks.serial);
        loop {
            self.notes.extend(latest.take_notes());
            let looks = latest.newer(serial);
            serial = looks.as_ref().map_or(serial, |looks| looks.serial);
            let gpus = looks.map(|looks| looks.gpus).unwrap_or_default();
            if let Some(found) = pick(&gpus, &self.notes) {
                return found;
            }
            assert!(
                Instant::now() < end,
                "waited in vain until {what}: {:?}",
                self.notes
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Nobody hangs any more: the children end when nobody listens.
        self.say(0, "ok");
        self.say(1, "ok");
        self.latest = None;
    }
}

/// What the meter looks at.
fn gpu(index: u32, uuid: &str) -> Which {
    Which {
        index,
        uuid: uuid.to_owned(),
        pci: String::new(),
        part: uuid.starts_with("MIG-"),
    }
}

#[test]
fn discovery_is_told_the_instances_of_a_gpu() {
    let Some(lab) = Lab::idle(["mig", "ok"], &[]) else {
        return;
    };
    let told = lab.discovered();
    assert_eq!(told.len(), 2);
    assert_eq!(
        (told[1].uuid.as_str(), &told[1].mig),
        ("GPU-1", &Mig::Off),
        "a GPU without MIG"
    );
    let instance = |uuid: &str, profile: &str, gi, ci| Instance {
        uuid: uuid.to_owned(),
        profile: profile.to_owned(),
        memory_mib: 16 << 10,
        gi,
        ci,
    };
    let expected = vec![
        instance("MIG-a", "1c.3g.71gb", 1, 0),
        instance("MIG-b", "1c.3g.71gb", 1, 1),
        instance("MIG-c", "1g.18gb", 9, 0),
    ];
    assert_eq!(told[0].mig, Mig::On(expected));
    lab.say(0, "ok");
    assert_eq!(lab.discovered()[0].mig, Mig::Off, "its mode is off");
}

#[test]
fn a_library_that_cannot_number_instances_says_so() {
    let Some(lab) = Lab::idle(["mig", "ok"], &["-DOLD"]) else {
        return;
    };
    let told = lab.discovered();
    assert!(
        matches!(&told[0].mig, Mig::Unknown(why) if why.contains("no numbers")),
        "{:?}",
        told[0].mig
    );
}

#[test]
fn an_instance_tells_its_memory_and_processes_and_nothing_of_the_gpu() {
    let Some(mut lab) = Lab::idle(["mig", "ok"], &[]) else {
        return;
    };
    lab.watch(vec![gpu(0, "MIG-a"), gpu(1, "MIG-c"), gpu(2, "MIG-gone")]);
    let looks = lab.look("a look at both", |gpus, notes| {
        let missing = notes.iter().any(|note| note.gpu == 2 && note.stale);
        (gpus.len() == 2 && missing).then(|| gpus.clone())
    });
    for (index, pid) in [(0, 5010), (1, 5090)] {
        let look = &looks[&index];
        let metrics: Vec<Metric> = look.told.iter().map(|told| told.metric).collect();
        assert_eq!(metrics, [Metric::HwMemory, Metric::HwMemoryLimit]);
        assert_eq!(look.level(Metric::HwMemory), Some(2 << 30));
        assert_eq!((look.busy, look.by_process), (None, false));
        let processes = look.processes.as_ref().unwrap();
        assert_eq!(processes.len(), 1);
        assert_eq!(
            (processes[0].pid, processes[0].memory),
            (pid, Some(1 << 30))
        );
        assert!(!look.tells_errors);
    }
}

#[test]
fn a_gpu_tells_all_that_nvml_has() {
    let Some(mut lab) = Lab::new(["ok", "ok"]) else {
        return;
    };
    let errors = lab.look("an error of the second GPU", |gpus, _| {
        gpus.get(&1)
            .map(|look| look.errors.clone())
            .filter(|errors| !errors.is_empty())
    });
    assert_eq!(errors, [(79, "XID 79".to_owned())]);
    let look = lab.look("busy time by process", |gpus, _| {
        gpus.get(&0)
            .filter(|look| {
                look.by_process
                    && look
                        .processes
                        .as_ref()
                        .is_some_and(|all| all.iter().any(|one| one.busy_us.is_some()))
            })
            .cloned()
    });
    assert_eq!(
        (
            look.level(Metric::HwMemory),
            look.level(Metric::HwMemoryLimit)
        ),
        (Some(8 << 30), Some(80 << 30))
    );
    assert_eq!(
        (
            look.level(Metric::HwPower),
            look.level(Metric::HwTemperature)
        ),
        (Some(300_000), Some(50_000))
    );
    assert_eq!(
        (
            look.level(Metric::HwClock),
            look.level(Metric::HwMemoryClock)
        ),
        (Some(1500), Some(2600))
    );
    assert_eq!(
        (
            look.count(Metric::HwThrottlePower),
            look.count(Metric::HwThrottleThermal)
        ),
        (Some(5), Some(6))
    );
    assert_eq!(
        (
            look.count(Metric::HwEccCorrected),
            look.count(Metric::HwEccUncorrected)
        ),
        (Some(1), Some(2))
    );
    assert!(look.count(Metric::HwEnergy).is_some());
    assert_uses(&look);
}

/// What the library says of utilization and of its one process.
fn assert_uses(look: &DeviceLook) {
    let spread = look
        .told
        .iter()
        .find(|told| told.metric == Metric::HwUtilization)
        .unwrap();
    assert!(
        matches!(
            spread.value,
            Value::Level {
                min: 400,
                max: 800,
                mean: 401..=799
            }
        ),
        "{spread:?}"
    );
    assert_eq!(spread.source, Source::Nvml);
    let process = look.processes.as_ref().unwrap()[0];
    assert_eq!((process.pid, process.memory), (4242, Some(5 << 30)));
    assert!(
        (100_000..2_000_000).contains(&process.busy_us.unwrap()),
        "{process:?}"
    );
}

#[test]
fn mig_has_memory_and_power_and_no_utilization() {
    let Some(mut lab) = Lab::new(["mig", "unsupported"]) else {
        return;
    };
    let looks = lab.look("a look at both", |gpus, _| {
        (gpus.len() == 2).then(|| gpus.clone())
    });
    let mig = &looks[&0];
    assert_eq!((mig.busy, mig.by_process), (None, false));
    assert_eq!(
        (
            mig.level(Metric::HwUtilization),
            mig.level(Metric::HwMemoryUtilization)
        ),
        (None, None)
    );
    assert!(
        mig.level(Metric::HwPower).is_some()
            && mig.processes.as_ref().is_some_and(|all| all.len() == 1)
    );
    let none = &looks[&1];
    assert_eq!(
        (none.told.as_slice(), none.busy, &none.processes),
        (&[][..], None, &None)
    );
}

#[test]
fn a_gpu_that_hangs_leaves_the_others_seen_and_comes_back() {
    let Some(mut lab) = Lab::new(["ok", "ok"]) else {
        return;
    };
    lab.look("a look at both", |gpus, _| (gpus.len() == 2).then_some(()));
    lab.say(1, "hang");
    let why = lab.look("the second GPU is silent", |_, notes| {
        notes
            .iter()
            .find(|note| note.gpu == 1 && note.stale)
            .map(|note| note.why.clone())
    });
    assert!(why.contains("did not answer"), "{why}");
    lab.look("the first GPU alone", |gpus, _| {
        (gpus.len() == 1 && gpus.contains_key(&0)).then_some(())
    });
    assert!(
        lab.notes.iter().all(|note| note.gpu == 1),
        "{:?}",
        lab.notes
    );
    lab.say(1, "ok");
    lab.look("both again", |gpus, notes| {
        (gpus.contains_key(&1) && notes.iter().any(|note| note.gpu == 1 && !note.stale))
            .then_some(())
    });
}

#[test]
fn a_lost_gpu_and_a_crash_of_the_library_end_nothing() {
    let Some(mut lab) = Lab::new(["ok", "lost"]) else {
        return;
    };
    lab.look("the first GPU", |gpus, _| {
        (gpus.len() == 1 && gpus.contains_key(&0)).then_some(())
    });
    lab.look("the loss", |_, notes| {
        notes
            .iter()
            .find(|note| note.gpu == 1 && note.stale)
            .map(|_| ())
    });
    lab.say(0, "crash");
    lab.look("the crash", |_, notes| {
        notes
            .iter()
            .find(|note| note.gpu == 0 && note.stale)
            .map(|_| ())
    });
    lab.say(0, "ok");
    lab.say(1, "ok");
    lab.look("both", |gpus, notes| {
        (gpus.contains_key(&0) && notes.iter().filter(|note| !note.stale).count() == 2)
            .then_some(())
    });
}
