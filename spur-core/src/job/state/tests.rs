use super::*;

const CAUSES: [Cause; 10] = [
    Cause::Placed,
    Cause::Succeeded,
    Cause::Failed,
    Cause::OutOfMemory,
    Cause::Cancelled,
    Cause::TimedOut,
    Cause::NodeLost,
    Cause::LaunchFailed,
    Cause::Requeued,
    Cause::TooLate,
];

/// The whole table; a change of it must be a change here.
#[test]
fn every_state_and_cause() {
    let mut table = String::new();
    // A suspended job is a running one to the cluster.
    for state in JobState::ALL
        .into_iter()
        .filter(|s| *s != JobState::Suspended)
    {
        for cause in CAUSES {
            if let Some(next) = next(state, cause) {
                table += &format!("{state:?} + {cause:?} -> {next:?}\n");
            }
        }
    }
    let expected = "\
Pending + Placed -> Running
Pending + Succeeded -> Cancelled
Pending + Failed -> Cancelled
Pending + Cancelled -> Cancelled
Pending + TooLate -> Deadline
Running + Succeeded -> Completed
Running + Failed -> Failed
Running + OutOfMemory -> OutOfMemory
Running + Cancelled -> Cancelled
Running + TimedOut -> Timeout
Running + NodeLost -> NodeFail
Running + LaunchFailed -> Failed
Running + Requeued -> Pending
Completed + Requeued -> Pending
Failed + Requeued -> Pending
Cancelled + Requeued -> Pending
Timeout + Requeued -> Pending
NodeFail + Requeued -> Pending
OutOfMemory + Requeued -> Pending
Deadline + Requeued -> Pending
";
    assert_eq!(table, expected);
}

#[test]
fn terminal_states_are_those_that_nothing_but_a_requeue_leaves() {
    for state in JobState::ALL {
        let left = CAUSES
            .iter()
            .any(|cause| *cause != Cause::Requeued && next(state, *cause).is_some());
        assert_eq!(state.is_terminal(), !left, "{state}");
    }
}

#[test]
fn the_worse_status_is_the_one_with_the_higher_shell_code() {
    let exit = |code, signal| ExitStatus { code, signal };
    let worst = [exit(0, 0), exit(3, 0), exit(0, 9), exit(200, 0)];
    for (rank, status) in worst.iter().enumerate() {
        for other in &worst[..rank] {
            assert_eq!(status.worse(*other), *status);
            assert_eq!(other.worse(*status), *status);
        }
    }
    assert_eq!(exit(0, 9).shell(), 137);
}
