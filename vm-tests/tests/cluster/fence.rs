//! Who may open what.

use crate::possible;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::probe::{Verdict, reached, verdicts, within_the_job};
use vm_tests::user::{NOBODY, Output, UNKNOWN, User};
use vm_tests::wait;

/// The program's words after `srun` for a scan with no hint of which device is whose.
fn scan(cluster: &Cluster, user: User, devices: &[String]) -> Vec<String> {
    let home = cluster.home(user).to_string_lossy().into_owned();
    let mut words = vec!["env".to_owned()];
    for name in [
        "CUDA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
    ] {
        words.extend(["-u".to_owned(), name.to_owned()]);
    }
    words.extend([cluster.probe(), "scan".to_owned(), home]);
    words.extend_from_slice(devices);
    words
}

/// Of root's job, what it can do without leaving it.
fn inside(user: User, scan: String) -> String {
    if user == User::Root {
        within_the_job(&scan)
    } else {
        scan
    }
}

fn srun(cluster: &Cluster, user: User, options: &[&str], words: &[String]) -> Output {
    let mut args = vec!["srun".to_owned()];
    args.extend(options.iter().map(|option| (*option).to_owned()));
    args.extend_from_slice(words);
    cluster.run(user, &args)
}

/// Other names for the same devices, made before the job and open to everybody: hard links and new nodes.
fn other_names(cluster: &Cluster, devices: &[String]) -> (Vec<String>, Vec<String>) {
    let folder = Path::new(&devices[0])
        .parent()
        .expect("devices have a folder");
    let (mut links, mut nodes) = (Vec::new(), Vec::new());
    for (number, device) in devices.iter().enumerate() {
        let link = folder
            .join(format!("link{number}"))
            .to_string_lossy()
            .into_owned();
        fs::hard_link(device, &link).expect("root may link");
        links.push(link);
        let node = cluster
            .dir()
            .join(format!("node{number}"))
            .to_string_lossy()
            .into_owned();
        let status = std::process::Command::new("cp")
            .args(["-a", device, &node])
            .status();
        assert!(status.expect("cp is installed").success());
        fs::set_permissions(&node, fs::Permissions::from_mode(0o666)).expect("root may open it up");
        nodes.push(node);
    }
    (links, nodes)
}

/// The numbers at the end of names.
fn numbers(paths: impl IntoIterator<Item = impl AsRef<str>>) -> BTreeSet<u32> {
    let number = |path: &str| {
        let digits = path
            .rfind(|c: char| !c.is_ascii_digit())
            .map_or(path, |at| &path[at + 1..]);
        digits.parse().expect("a number at the end of the name")
    };
    paths
        .into_iter()
        .map(|path| number(path.as_ref()))
        .collect()
}

#[test]
fn a_job_reaches_its_own_gpus_in_every_way_and_no_other_in_any() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(4, 8);
    let devices = cluster.devices("n1");
    assert_eq!(devices.len(), 8, "{devices:?}");
    let (links, nodes) = other_names(&cluster, &devices);
    for user in [NOBODY, UNKNOWN, User::Root] {
        let mut all = devices.clone();
        all.extend(links.iter().chain(&nodes).cloned());
        let words = scan(&cluster, user, &all);
        let output = srun(&cluster, user, &["-w", "n1", "--gres=gpu:2"], &words).good();
        let output = inside(user, output);
        let of = |names: &[String]| -> BTreeSet<u32> {
            let all = reached(&output);
            numbers(names.iter().filter(|name| all.contains(*name)))
        };
        let own = of(&devices);
        assert_eq!(own.len(), 2, "{user:?}: {output}");
        assert_eq!(verdicts(&output).len(), 24, "{user:?}: {output}");
        assert_eq!(of(&links), own, "{user:?}: {output}");
        assert_eq!(of(&nodes), own, "{user:?}: {output}");
    }
    cluster.down();
}

#[test]
fn a_job_without_gres_reaches_none() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 8);
    let devices = cluster.devices("n1");
    for user in [NOBODY, User::Root] {
        let output = srun(&cluster, user, &[], &scan(&cluster, user, &devices)).good();
        let output = inside(user, output);
        let verdicts = verdicts(&output);
        assert_eq!(verdicts.len(), 8);
        assert!(
            verdicts
                .values()
                .all(|verdict| *verdict == Verdict::Refused),
            "{verdicts:?}"
        );
    }
    cluster.down();
}

#[test]
fn a_batch_script_is_fenced_and_its_steps_narrower() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 8);
    let devices = cluster.devices("n1");
    let words = scan(&cluster, NOBODY, &devices).join(" ");
    let script = format!("{words} > whole\nsrun -n1 --gres=gpu:1 {words} > step\n");
    let job = cluster.sbatch(NOBODY, &["--gres=gpu:4", "-o", "out"], &script);
    let out = || fs::read_to_string(cluster.home(NOBODY).join("out")).unwrap_or_default();
    assert_eq!(
        cluster.await_state(&job, &["COMPLETED", "FAILED"]),
        "COMPLETED",
        "{}",
        out()
    );
    let read = |name: &str| reached(&vm_tests::host::read(&cluster.home(NOBODY).join(name)));
    let (whole, step) = (read("whole"), read("step"));
    assert_eq!((whole.len(), step.len()), (4, 1), "{whole:?} {step:?}");
    assert!(step.is_subset(&whole), "{whole:?} {step:?}");
    cluster.down();
}

#[test]
fn two_jobs_at_once_never_share_a_gpu() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 8);
    let devices = cluster.devices("n1");
    let home = cluster.home(NOBODY);
    let words = scan(&cluster, NOBODY, &devices).join(" ");
    let counts = [1, 3, 2, 2];
    let jobs: Vec<Child> = (0..counts.len())
        .map(|number| {
            let gres = format!("--gres=gpu:{}", counts[number]);
            let script = format!("{words} > part{number} && mv part{number} scan{number}; while ! test -e go; do sleep 0.1; done");
            cluster.spawn(NOBODY, &["srun", &gres, "-n1", "-c1", "sh", "-c", &script])
        })
        .collect();
    wait::until_true(
        &format!("all four run at once\n{}", cluster.logs()),
        SOON,
        || (0..counts.len()).all(|number| home.join(format!("scan{number}")).exists()),
    );
    let mut seen = BTreeSet::new();
    for (number, count) in counts.iter().enumerate() {
        let own = reached(&vm_tests::host::read(&home.join(format!("scan{number}"))));
        assert_eq!(own.len(), *count, "{own:?}");
        assert!(
            seen.is_disjoint(&own),
            "job {number} shares a GPU: {own:?}, {seen:?}"
        );
        seen.extend(own);
    }
    fs::write(home.join("go"), "").expect("a file can be made");
    for job in jobs {
        Output::of(job).good();
    }
    cluster.down();
}
