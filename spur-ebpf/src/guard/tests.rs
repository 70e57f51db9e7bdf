use super::*;

/// A guard of which every program runs but those that are named.
fn guard(but: &[(Hook, HookState)]) -> Guard {
    let runs = HookState::Attached {
        program_id: 1,
        link_id: 1,
        adopted: false,
    };
    let mut hooks: BTreeMap<Hook, HookState> = Hook::ALL
        .into_iter()
        .map(|hook| (hook, runs.clone()))
        .collect();
    hooks.extend(but.iter().cloned());
    Guard {
        folder: PathBuf::new(),
        hooks,
        links: BTreeMap::new(),
    }
}

fn refused(reason: &str) -> HookState {
    HookState::Refused(reason.to_owned())
}

#[test]
fn a_node_is_guarded_when_every_required_program_runs() {
    assert!(guard(&[]).is_complete());
    for hook in Hook::ALL {
        let without = guard(&[(hook, refused("no"))]);
        assert_eq!(without.is_complete(), !hook.is_required(), "{hook}");
    }
    // A kernel without rings lacks their hook, and one that asks a single hook for both kinds of ioctl the second.
    for hook in [Hook::UringSqpoll, Hook::FileIoctlCompat] {
        assert!(guard(&[(hook, HookState::Absent)]).is_complete());
    }
    assert!(!guard(&[(Hook::FileReceive, HookState::Absent)]).is_complete());
}

#[test]
fn what_is_missing_is_said_in_one_line() {
    assert_eq!(guard(&[]).summary(), "all required programs run");
    let one = guard(&[
        (Hook::Bpf, refused("too long")),
        (Hook::TaskKill, refused("x")),
    ]);
    assert_eq!(one.summary(), "bpf: too long");
    let two = guard(&[
        (Hook::Bpf, refused("too long")),
        (Hook::MmapFile, HookState::Absent),
    ]);
    assert_eq!(
        two.summary(),
        "mmap_file: this kernel has no such hook; bpf: too long"
    );
    let all: Vec<_> = Hook::ALL
        .map(|hook| (hook, refused("not permitted")))
        .into();
    assert_eq!(
        guard(&all).summary(),
        "no program of the guard runs here: not permitted"
    );
}

#[test]
fn every_program_has_the_name_of_a_hook() {
    let names: std::collections::BTreeSet<&str> =
        Hook::ALL.iter().map(|hook| hook.name()).collect();
    assert_eq!(names.len(), Hook::ALL.len());
    assert_eq!(Hook::FileOpen.function(), "bpf_lsm_file_open");
    assert_eq!(Hook::DmaBufExport.function(), "dma_buf_export");
}
