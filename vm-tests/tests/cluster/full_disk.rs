//! A full disk under the controller's log.

use crate::possible;
use rustix::mount::{MountFlags, mount};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use vm_tests::cluster::SOON;
use vm_tests::daemons::Daemons;
use vm_tests::user::{NOBODY, User};
use vm_tests::wait;

/// A log on a file system of its own, of four megabytes.
fn small_log(dir: &Path) {
    mount(
        "tmpfs",
        dir.join("ctl"),
        "tmpfs",
        MountFlags::empty(),
        c"size=4m",
    )
    .expect("root may mount");
}

#[test]
fn a_full_disk_refuses_clearly_and_loses_nothing() {
    if !possible() {
        return;
    }
    let mut daemons =
        Daemons::start_prepared("[declare]\ncpus = 2\nmemory_mib = 1000\n", small_log);
    // Jobs wait, and yet might start: those that might not are in no record.
    let down = ["scontrol", "update", "partitionname=gpu", "state=down"];
    daemons.run(User::Root, &down).good();
    let submit = || daemons.run(NOBODY, &["sbatch", "--parsable", "--wrap", "true"]);
    let mut acknowledged = BTreeSet::from([submit().good().trim().to_owned()]);
    let ballast = daemons.dir().join("ctl/ballast");
    let fill = fs::write(&ballast, vec![0; 4 << 20]);
    assert!(fill.is_err(), "the file system is not small");
    // What was allocated before it was full may still take some.
    let refused = (0..5000).map(|_| submit()).find(|output| {
        acknowledged.extend((output.code == 0).then(|| output.out.trim().to_owned()));
        output.code != 0
    });
    let refused = refused.expect("a full disk is noticed");
    assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{refused:?}");
    assert!(refused.err.starts_with("sbatch: error: "), "{refused:?}");
    // Whatever is asked for one job is refused in so many words.
    let one = acknowledged.first().expect("one was taken").clone();
    for words in [["scancel", &one], ["scancel", "--user=nobody"]] {
        let output = daemons.run(NOBODY, &words);
        assert!(
            output.code == 1 && output.err.contains("disk is full"),
            "{words:?}: {output:?}"
        );
    }
    let known = |daemons: &Daemons| -> BTreeSet<String> {
        let shown = daemons
            .run(User::Root, &["squeue", "-h", "-o", "%i"])
            .good();
        shown.lines().map(|id| id.trim().to_owned()).collect()
    };
    assert_eq!(
        known(&daemons),
        acknowledged,
        "queries go on, and nothing is half done"
    );
    fs::remove_file(&ballast).expect("it can be removed");
    acknowledged.insert(submit().good().trim().to_owned());
    daemons.replace_controller();
    daemons.await_idle();
    assert_eq!(known(&daemons), acknowledged);
    // The accounting record was on the same disk: it was delayed, no more.
    let list = ["sacct", "-a", "-X", "-n", "-P", "-o", "JobID"];
    wait::until_true("every job is recorded", SOON, || {
        let shown = daemons.run(User::Root, &list).out;
        let recorded: BTreeSet<String> = shown.lines().map(str::to_owned).collect();
        recorded == acknowledged
    });
}
