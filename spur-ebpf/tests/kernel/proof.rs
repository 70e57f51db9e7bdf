//! The second pair of eyes, and the verifier's cost.

use crate::lab::*;
use spur_ebpf::*;
use std::fs;
use std::path::Path;

#[test]
fn an_attached_fence_is_proven() {
    let lab = Lab::new();
    let fence = lab.fence();
    let inner = lab.cgroup("step_0");
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    fence.attach(&inner, "step").unwrap();
    let proof = doctor::verify(&lab.pins(), "job_7", &lab.cgroup).unwrap();
    assert_eq!(
        (proof.program_id, proof.cgroup),
        (fence.program_id(), job.cgroup())
    );
    assert_eq!(proof.program_tag.to_be_bytes(), fence.program_tag());
    assert_eq!(proof.own, [fence.program_id()]);
    let step = doctor::verify(&lab.pins(), "step", &inner).unwrap();
    assert_eq!(step.own, [fence.program_id()]);
    assert!(
        step.effective
            .iter()
            .filter(|&&id| id == fence.program_id())
            .count()
            >= 2,
        "{step:?}"
    );
}

#[test]
fn what_is_not_in_force_is_not_proven() {
    let lab = Lab::new();
    let fence = lab.fence();
    let (one, two) = (lab.cgroup("one"), lab.cgroup("two"));
    let verify = |name: &str, cgroup: &Path| {
        doctor::verify(&lab.pins(), name, cgroup)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let job = fence.attach(&one, "job_7").unwrap();
    assert!(verify("job_8", &one).contains("aya cannot open it"));
    assert!(
        verify("job_7", &two).contains("not on")
            || verify("job_7", &two).contains("says that it is on cgroup")
    );
    // A pin alone is no fence.
    let aside = links_folder(&lab.pins()).join("aside");
    fs::rename(links_folder(&lab.pins()).join("job_7"), &aside).unwrap();
    assert!(verify("job_7", &one).contains("aya cannot open it"));
    fs::rename(&aside, links_folder(&lab.pins()).join("job_7")).unwrap();
    doctor::verify(&lab.pins(), "job_7", &one).unwrap();
    job.detach().unwrap();
    assert!(verify("job_7", &one).contains("aya cannot open it"));
}

#[test]
fn a_program_with_other_maps_is_not_proven() {
    let lab = Lab::new();
    let fence = lab.fence();
    fence.attach(&lab.cgroup, "job_7").unwrap();
    // A second fence whose `policies` is not the one that its program reads.
    let other = Fence::open_or_load(&lab.path("bpf/other")).unwrap();
    other.attach(&lab.cgroup, "job_7").unwrap();
    fs::remove_file(lab.path("bpf/other").join(FOLDER).join("policies")).unwrap();
    fs::rename(
        lab.pins().join(FOLDER).join("policies"),
        lab.path("bpf/other").join(FOLDER).join("policies"),
    )
    .unwrap();
    let error = doctor::verify(&lab.path("bpf/other"), "job_7", &lab.cgroup)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("does not use the pinned map policies"),
        "{error}"
    );
}
