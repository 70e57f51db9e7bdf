//! Slurm's words for what we know by other names: refusals, job states, reasons, node states.

pub mod node_state;

use crate::api::RefusalKind;
use crate::id::NodeName;
use crate::job::state::{JobState, Reason};
use std::fmt;

/// What Slurm's `slurm_strerror` says; our own words where Slurm has none.
pub fn message(kind: RefusalKind) -> &'static str {
    match kind {
        RefusalKind::InvalidJobId => "Invalid job id specified",
        RefusalKind::AccessDenied => "Access/permission denied",
        RefusalKind::InvalidPartition => "Invalid partition name specified",
        RefusalKind::InvalidNode => "Invalid node name specified",
        RefusalKind::NodeConfigUnavailable => "Requested node configuration is not available",
        RefusalKind::InvalidTimeLimit => {
            "Requested time limit is invalid (missing or exceeds some limit)"
        }
        RefusalKind::PartitionUnavailable => "Required partition not available (inactive or drain)",
        RefusalKind::InvalidFeature => "Invalid feature specification",
        RefusalKind::InvalidNodeCount => "Node count specification invalid",
        RefusalKind::NodesBusy => "Requested nodes are busy",
        RefusalKind::AlreadyDone => "Job/step already completing or completed",
        RefusalKind::JobPending => "Job is pending execution",
        RefusalKind::JobNotPending => "Job is no longer pending execution",
        RefusalKind::JobFinished => "Job has already finished",
        RefusalKind::JobEnded => "Job ended before it was given its resources",
        RefusalKind::CannotStartImmediately => {
            "Immediate execution impossible, insufficient resources available"
        }
        RefusalKind::Invalid => "Invalid request",
        RefusalKind::NotDurable => "Controller cannot record the request (disk full or failing)",
        RefusalKind::Busy => "Controller is overloaded, try again",
        RefusalKind::UpdateUnavailable => "Requested operation is presently disabled",
        RefusalKind::InvalidGres => "Invalid generic resource (gres) specification",
        RefusalKind::InvalidPrefer => "Invalid preferred feature specification",
        RefusalKind::TopologyUnavailable => "Requested topology configuration is not available",
        RefusalKind::InvalidArray => "Invalid job array specification",
        RefusalKind::InvalidDependency => "Job dependency problem",
        RefusalKind::CircularDependency => "Circular job dependency",
        RefusalKind::JobNotRunning => "Job is not running",
        RefusalKind::JobSuspended => "Job is suspended",
        RefusalKind::NotWholeHetJob => {
            "Operation not permitted on individual component of heterogeneous job"
        }
        RefusalKind::BatchOnly => "Only batch jobs are accepted or processed",
        RefusalKind::InvalidReservation => "Requested reservation is invalid",
        RefusalKind::InvalidLicense => "Invalid license specification",
        RefusalKind::ReservationAccess => "Access denied to requested reservation",
        RefusalKind::ReservationBusy => "Requested reservation is in use",
        RefusalKind::ReservationUnusable => "Requested reservation not usable now",
        RefusalKind::ReservationOverlap => {
            "Requested reservation overlaps with another reservation"
        }
        RefusalKind::ReservationEmpty => "Reservation request lacks users, groups or accounts",
        RefusalKind::ReservationDuplicate => "Duplicate reservation name",
        RefusalKind::InvalidTime => "Invalid time specified",
        RefusalKind::GroupNotPermitted => "User's group not permitted to use this partition",
        RefusalKind::InvalidAccount => "Invalid account or account/partition combination specified",
        RefusalKind::InvalidQos => "Invalid qos specification",
        RefusalKind::PartitionBusy => "Partition is in use",
        RefusalKind::TaskMemory => "Memory required by task is not available",
        RefusalKind::CronJob => "Cannot modify scrontab jobs through scontrol",
        RefusalKind::InvalidTimeMin => {
            "Invalid time-min specification (exceeds job's time or other limits)"
        }
    }
}

/// All base states with their long and short names.
const STATES: [(JobState, &str, &str); 10] = [
    (JobState::Pending, "PENDING", "PD"),
    (JobState::Running, "RUNNING", "R"),
    (JobState::Completed, "COMPLETED", "CD"),
    (JobState::Failed, "FAILED", "F"),
    (JobState::Cancelled, "CANCELLED", "CA"),
    (JobState::Timeout, "TIMEOUT", "TO"),
    (JobState::NodeFail, "NODE_FAIL", "NF"),
    (JobState::OutOfMemory, "OUT_OF_MEMORY", "OOM"),
    (JobState::Suspended, "SUSPENDED", "S"),
    (JobState::Deadline, "DEADLINE", "DL"),
];

/// States that Slurm knows and that no job of ours is ever in: a filter that names them selects nothing.
const NEVER: [(&str, &str); 15] = [
    ("RESV_DEL_HOLD", "RD"),
    ("STAGE_OUT", "SO"),
    ("BOOT_FAIL", "BF"),
    ("PREEMPTED", "PR"),
    ("LAUNCH_FAILED", "LF"),
    ("POWER_UP_NODE", "PN"),
    ("RECONFIG_FAIL", "RF"),
    ("REQUEUED", "RQ"),
    ("REQUEUE_FED", "RF"),
    ("REQUEUE_HOLD", "RH"),
    ("RESIZING", "RS"),
    ("REVOKED", "RV"),
    ("SIGNALING", "SI"),
    ("SPECIAL_EXIT", "SE"),
    ("STOPPED", "ST"),
];

fn state_names(state: JobState) -> (&'static str, &'static str) {
    let found = STATES.iter().find(|(known, ..)| *known == state);
    found
        .map(|(_, long, short)| (*long, *short))
        .expect("the table has every state, a test says")
}

/// `RUNNING` and the like; an ended job that is not cleaned up everywhere is `COMPLETING`.
pub fn job_state(state: JobState, completing: bool) -> &'static str {
    if completing {
        "COMPLETING"
    } else {
        state_names(state).0
    }
}

/// `R` and the like; `CG` while completing.
pub fn job_state_compact(state: JobState, completing: bool) -> &'static str {
    if completing {
        "CG"
    } else {
        state_names(state).1
    }
}

/// What a `-t` list may select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateFilter {
    /// Jobs in this base state.
    State(JobState),
    /// Jobs that are completing.
    Completing,
    /// Jobs that wait for the controller's prolog.
    Configuring,
    /// A state that Slurm has and we do not.
    Never,
    /// `all`.
    All,
}

/// Reads one state name, long or short, in any case; `None` if there is no such state.
pub fn parse_job_state(text: &str) -> Option<StateFilter> {
    let is = |long: &str, short: &str| {
        text.eq_ignore_ascii_case(long) || text.eq_ignore_ascii_case(short)
    };
    if text.eq_ignore_ascii_case("all") {
        return Some(StateFilter::All);
    }
    if is("COMPLETING", "CG") {
        return Some(StateFilter::Completing);
    }
    if is("CONFIGURING", "CF") {
        return Some(StateFilter::Configuring);
    }
    let state = STATES.iter().find(|(_, long, short)| is(long, short));
    let never = || {
        NEVER
            .iter()
            .any(|(long, short)| is(long, short))
            .then_some(StateFilter::Never)
    };
    state
        .map(|(state, ..)| StateFilter::State(*state))
        .or_else(never)
}

/// State names in the order in which Slurm lists them, long, in lower case, for messages. [`parse_job_state`] takes all.
pub fn job_state_list() -> Vec<String> {
    let all = [
        "pending",
        "running",
        "suspended",
        "completed",
        "cancelled",
        "failed",
        "timeout",
        "node_fail",
        "preempted",
        "boot_fail",
        "deadline",
        "out_of_memory",
        "completing",
        "configuring",
        "resizing",
        "resv_del_hold",
        "requeued",
        "requeue_fed",
        "requeue_hold",
        "revoked",
        "signaling",
        "special_exit",
        "stage_out",
        "stopped",
    ];
    all.map(str::to_owned).to_vec()
}

/// The reason as `squeue` shows it.
pub fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::None => "None",
        Reason::Priority => "Priority",
        Reason::Resources => "Resources",
        Reason::BeginTime => "BeginTime",
        Reason::JobHeldUser => "JobHeldUser",
        Reason::JobHeldAdmin => "JobHeldAdmin",
        Reason::PartitionDown => "PartitionDown",
        Reason::PartitionInactive => "PartitionInactive",
        Reason::PartitionNodeLimit => "PartitionNodeLimit",
        Reason::PartitionTimeLimit => "PartitionTimeLimit",
        Reason::ReqNodeNotAvail => "ReqNodeNotAvail",
        Reason::BadConstraints => "BadConstraints",
        Reason::LaunchFailedHeld => "launch failed requeued held",
        Reason::NonZeroExitCode => "NonZeroExitCode",
        Reason::TimeLimit => "TimeLimit",
        Reason::NodeDown => "NodeDown",
        Reason::RaisedSignal => "RaisedSignal",
        Reason::OutOfMemory => "OutOfMemory",
        Reason::JobLaunchFailure => "JobLaunchFailure",
        Reason::Cleaning => "Cleaning",
        Reason::PartitionConfig => "PartitionConfig",
        Reason::MaxMemPerLimit => "MaxMemPerLimit",
        Reason::Dependency => "Dependency",
        Reason::DependencyNeverSatisfied => "DependencyNeverSatisfied",
        Reason::JobArrayTaskLimit => "JobArrayTaskLimit",
        Reason::Reservation => "Reservation",
        Reason::ReservationDeleted => "ReservationDeleted",
        Reason::DeadLine => "DeadLine",
        Reason::Licenses => "Licenses",
        Reason::Prolog => "Prolog",
    }
}

/// The reason with what belongs to it: `ReqNodeNotAvail, UnavailableNodes:n[3-4]`.
pub fn reason_with(why: Reason, unavailable: &[NodeName]) -> String {
    if why != Reason::ReqNodeNotAvail || unavailable.is_empty() {
        return reason(why).to_owned();
    }
    let names: Vec<&str> = unavailable.iter().map(NodeName::as_str).collect();
    format!(
        "{}, UnavailableNodes:{}",
        reason(why),
        super::hostlist::compress(&names)
    )
}

/// A reason as one word, as `scontrol` shows it and as programs that split at blanks need it.
pub fn one_word(reason: &str) -> String {
    reason.replace(' ', "_")
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(reason(*self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn states_have_slurms_names() {
        use JobState::{
            Cancelled, Completed, Failed, NodeFail, OutOfMemory, Pending, Running, Timeout,
        };
        for (state, long, short) in [
            (Pending, "PENDING", "PD"),
            (Running, "RUNNING", "R"),
            (Completed, "COMPLETED", "CD"),
            (Failed, "FAILED", "F"),
            (Cancelled, "CANCELLED", "CA"),
            (Timeout, "TIMEOUT", "TO"),
            (NodeFail, "NODE_FAIL", "NF"),
            (OutOfMemory, "OUT_OF_MEMORY", "OOM"),
        ] {
            assert_eq!(
                (job_state(state, false), job_state_compact(state, false)),
                (long, short)
            );
            assert_eq!(
                (job_state(state, true), job_state_compact(state, true)),
                ("COMPLETING", "CG")
            );
            for text in [long.to_owned(), short.to_owned(), long.to_lowercase()] {
                assert_eq!(
                    parse_job_state(&text),
                    Some(StateFilter::State(state)),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn filters_know_slurms_other_states() {
        assert_eq!(parse_job_state("all"), Some(StateFilter::All));
        assert_eq!(parse_job_state("cg"), Some(StateFilter::Completing));
        assert_eq!(parse_job_state("Preempted"), Some(StateFilter::Never));
        assert_eq!(parse_job_state("nope"), None);
        assert_eq!(parse_job_state(""), None);
        assert!(
            job_state_list()
                .iter()
                .all(|name| parse_job_state(name).is_some())
        );
    }

    #[test]
    fn reasons_of_one_word_have_no_blanks() {
        assert_eq!(
            Reason::LaunchFailedHeld.to_string(),
            "launch failed requeued held"
        );
        assert_eq!(
            one_word(reason(Reason::LaunchFailedHeld)),
            "launch_failed_requeued_held"
        );
        let nodes: Vec<NodeName> = ["n3", "n4"].map(|n| NodeName::new(n).unwrap()).into();
        let shown = reason_with(Reason::ReqNodeNotAvail, &nodes);
        assert_eq!(shown, "ReqNodeNotAvail, UnavailableNodes:n[3-4]");
        assert_eq!(one_word(&shown), "ReqNodeNotAvail,_UnavailableNodes:n[3-4]");
        assert_eq!(reason_with(Reason::Priority, &nodes), "Priority");
        assert_eq!(format!("{:>12}", Reason::Priority), "    Priority");
    }

    #[test]
    fn refusals_speak_as_slurm() {
        assert_eq!(
            message(RefusalKind::InvalidPartition),
            "Invalid partition name specified"
        );
        assert_eq!(
            message(RefusalKind::NodeConfigUnavailable),
            "Requested node configuration is not available"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_state_or_not(text in "\\PC*") {
            let _state = parse_job_state(&text);
        }
    }
}
