//! Clients in odd surroundings: readers that go away, users who insist, large environments.

use crate::possible;
use vm_tests::cluster::Cluster;
use vm_tests::user::NOBODY;

#[test]
fn a_step_ends_when_nobody_reads_what_it_prints() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let line = "timeout 20 srun yes 2>/dev/null | head -1; until test -z \"$(squeue -h)\"; do sleep 0.1; done";
    let output = cluster.run(NOBODY, &["sh", "-c", line]).good();
    assert_eq!(output, "y\n");
    cluster.down();
}

#[test]
fn who_insists_ends_a_step_that_ignores_it() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let script = "srun sh -c 'trap \"\" TERM INT; echo up; while :; do sleep 1; done' > up 2> err & \
                  until test -s up; do sleep 0.1; done; kill $!; wait $!; echo $?; head -1 err";
    let home = cluster.home(NOBODY);
    let script = format!("cd {} && {script}", home.display());
    let output = cluster
        .run(NOBODY, &["timeout", "20", "sh", "-c", &script])
        .good();
    assert_eq!(output, "137\nsrun: forcing job termination\n");
    cluster.down();
}

#[test]
fn a_step_takes_an_environment_as_large_as_linux_does() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let script = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do export E$n=$(head -c 120000 /dev/zero | tr '\\0' x); done; \
                  srun sh -c 'echo ${#E12}'";
    let output = cluster.run(NOBODY, &["sh", "-c", script]).good();
    assert_eq!(output, "120000\n");
    cluster.down();
}
