//! What commands ask and what they are told.

use super::{BadMessage, Wire, optional, required};
use crate::wire;
use spur_core::api::{
    AccountFilter, AccountedJob, Explanation, GpuNow, Grant, GrantNode, IdleGpu, JobFilter,
    JobLines, JobView, LicenseView, NodeEvent, NodeRows, NodeView, Refusal, RefusalKind, Release,
    Reply, Request, RequestCount, RunKey, SeriesKind, SeriesPoint, SeriesView, SetCrontab,
    StartBasis, StartEstimate, Stats, StepView, Stop, Stopped, UsageReport, WouldStart,
};
use spur_core::id::JobId;
use spur_core::job::array::{ArrayView, JobTarget, TaskSet};
use spur_core::job::change::{JobAct, JobChange};
use spur_core::job::extras::{Cron, Extras, Warning};
use spur_core::job::het::HetPart;
use spur_core::job::spec::{Given, GresFlags, JobKind, JobSpec, Switches};
use spur_core::job::state::{JobState, Reason};
use spur_core::job::step::{Sharing, StepSpec, StepState};
use spur_core::manage::accounts::{Account, Accounts, Association, Qos, User};
use spur_core::manage::reservation::Reservation;
use spur_core::manage::{Entity, Manage, Setting, Verb};
use spur_core::node::{AdminState, GpuRecent, LaunchTrouble, Node};
use spur_core::partition::{Partition, PartitionState};
use spur_core::topology::{Switch, Topology, TopologyPlugin};
use std::sync::Arc;

choice!(JobKind = JobKind { Batch, Run, Alloc });
choice!(
    JobState = JobState {
        Pending,
        Running,
        Completed,
        Failed,
        Cancelled,
        Timeout,
        NodeFail,
        OutOfMemory,
        Suspended,
        Deadline
    }
);
choice!(
    Reason = Reason {
        None,
        Priority,
        Resources,
        BeginTime,
        JobHeldUser,
        JobHeldAdmin,
        PartitionDown,
        PartitionInactive,
        PartitionNodeLimit,
        PartitionTimeLimit,
        ReqNodeNotAvail,
        BadConstraints,
        LaunchFailedHeld,
        NonZeroExitCode,
        TimeLimit,
        NodeDown,
        RaisedSignal,
        OutOfMemory,
        JobLaunchFailure,
        Cleaning,
        PartitionConfig,
        MaxMemPerLimit,
        Dependency,
        DependencyNeverSatisfied,
        JobArrayTaskLimit,
        Reservation,
        ReservationDeleted,
        DeadLine,
        Licenses,
        Prolog,
    }
);
choice!(StepState = StepState { Running, Ended });
choice!(
    Sharing = StepSharing {
        Unasked,
        Nothing,
        Everything
    }
);
choice!(AdminState = AdminState { Up, Drain, Down });
choice!(
    PartitionState = PartitionState {
        Up,
        Down,
        Drain,
        Inactive
    }
);
choice!(
    RefusalKind = RefusalKind {
        InvalidJobId,
        AccessDenied,
        InvalidPartition,
        InvalidNode,
        NodeConfigUnavailable,
        InvalidTimeLimit,
        PartitionUnavailable,
        InvalidFeature,
        InvalidNodeCount,
        NodesBusy,
        AlreadyDone,
        JobPending,
        JobNotPending,
        JobFinished,
        JobEnded,
        CannotStartImmediately,
        Invalid,
        NotDurable,
        Busy,
        UpdateUnavailable,
        InvalidGres,
        InvalidPrefer,
        TopologyUnavailable,
        InvalidArray,
        InvalidDependency,
        CircularDependency,
        JobNotRunning,
        JobSuspended,
        BatchOnly,
        InvalidReservation,
        InvalidLicense,
        ReservationAccess,
        ReservationBusy,
        ReservationUnusable,
        ReservationOverlap,
        ReservationEmpty,
        ReservationDuplicate,
        InvalidTime,
        GroupNotPermitted,
        InvalidAccount,
        InvalidQos,
        PartitionBusy,
        NotWholeHetJob,
        InvalidTimeMin,
        CronJob,
        TaskMemory,
    }
);

record!(Partition = Partition {
    req name, req default, opt nodes, req max_time, opt default_time, req default_mem_per_cpu, req state, req priority_tier,
    def min_nodes, def max_nodes, def max_cpus_per_node, def max_mem_per_node, def max_mem_per_cpu, def def_mem_per_gpu,
    def def_cpu_per_gpu, rep allow_groups, rep allow_accounts, rep deny_accounts, rep allow_qos, rep deny_qos,
    def alloc_nodes, def qos, def hidden, def root_only, def require_reservation, def disable_root_jobs,
    def exclusive_user, def least_loaded, opt priority_job_factor, def grace_time, def over_subscribe,
    def over_time_limit, def preempt_mode, def max_cpus_per_socket, def alternate, def billing_weights,
    def default_mem_per_node,
});
choice!(
    Entity = Entity {
        Partition,
        Node,
        Reservation,
        Account,
        User,
        Qos
    }
);
choice!(
    Verb = Verb {
        Create,
        Update,
        Delete
    }
);
record!(Setting = Setting { req key, req value });
record!(Manage = ManageRequest { req entity, req verb, rep names, rep scope, rep settings });
record!(Reservation = Reservation {
    req name, req start, req end, rep nodes, def features, def partition, rep flags, rep users, rep groups, rep accounts,
    def licenses, def comment, def max_start_delay, def numbered,
});
record!(Account = ChargedAccount { req name, def description, def organization });
record!(User = AccountUser { req name, def default_account, def admin_level, rep coordinates });
record!(Association = AccountAssociation {
    req id, req account, def user, def partition, def parent, def shares, rep limits, rep qos, def default_qos, def comment,
});
record!(Qos = ServiceQuality { req id, req name, def description, def priority, rep flags, rep limits });
record!(Accounts = AccountBook { rep accounts, rep users, rep associations, rep qos });
choice!(TopologyPlugin = TopologyPlugin { None, Tree, Block });
record!(Switch = Switch { req name, rep nodes, rep switches });
record!(Topology = Topology { req plugin, rep switches, rep block_sizes });
record!(GresFlags = GresFlags {
    req enforce_binding, req disable_binding, req one_task_per_sharing, req multiple_tasks_per_sharing,
    req allow_task_sharing,
});
record!(Given = Given {
    req account, req partition, req qos, req memory,
});
choice!(
    JobAct = JobAct {
        Hold,
        HoldByUser,
        Release,
        Requeue,
        RequeueHold,
        Suspend,
        Resume,
        Top
    }
);
record!(ArrayView = ArrayView { req job, opt task, req tasks, req throttle });
record!(JobTarget = JobTarget { req job, opt tasks, opt offset });
record!(HetPart = HetPart { req leader, req offset, req size });
record!(JobChange = JobChange {
    opt time_limit, opt name, opt comment, opt partition, opt priority, opt nice, opt account, opt qos, opt dependency,
    opt throttle, opt begin, opt nodes_min, opt nodes_max, opt tasks, opt tasks_per_node, opt cpus_per_task, opt mincpus,
    opt memory, opt gpus_per_node, opt nodelist, opt exclude, opt constraint, opt exclusive, opt contiguous, opt requeue,
    opt work_dir, opt stdin, opt stdout, opt stderr, opt prefer, opt reservation, opt licenses, opt wckey, opt admin_comment,
    opt extra, opt mcs_label, opt mail_type, opt mail_user, opt deadline, opt time_min, opt tmp_mib,
});
record!(WouldStart = WouldStart { req job, req start, req cpus, rep nodes, req partition });
record!(Switches = Switches { req count, opt max_wait_secs });
record!(Warning = Warning { req signal, req before, req batch, req reservation });
record!(SetCrontab = SetCrontab { opt user, opt table, rep specs, rep payloads });
record!(Cron = Cron { req times, req utc_offset, req first_line, req last_line });
record!(Extras = JobExtras {
    def licenses, def mail_type, def mail_user, def wckey, def mcs_label, def admin_comment, def extra, opt
    deadline, opt time_min, opt signal, opt core_spec, opt thread_spec, def tmp_mib, def reservation, def
    container, def container_id, def network, def power, def burst_buffer, def batch_features, def
    cluster_features, opt delay_boot, opt priority, def no_kill, def reboot, def spread_job, def use_min_nodes,
    def overcommit, def oversubscribe, opt wait_all_nodes, opt oom_kill_step, def cores_per_socket, def
    threads_per_core, def tasks_per_core, def tres_per_task, def tres_bind, def tres_freq, def cpu_freq, def
    distribution, def profile, def acctg_freq, opt cron,
});
record!(JobSpec = JobSpec {
    req kind, req owner, req name, req account, req partition, req qos, req comment, req nodes_min, req nodes_max,
    req nodes_set, req tasks, req tasks_set, req tasks_per_node, req cpus_per_task, req cpus_per_task_set, req memory,
    opt gpus_per_node, opt gpus_total, opt gpus_per_task, rep nodelist, rep exclude, req constraint, req exclusive,
    opt time_limit, opt begin, req hold, req nice, req requeue, req work_dir, req stdin, req stdout, req stderr, req append,
    req export, req command, req submit_host, req submit_sid, opt gpus_per_socket, def tasks_per_gpu, def cpus_per_gpu,
    def gres_flags, opt switches, def prefer, def tasks_per_socket, def sockets_per_node, def mincpus, def segment,
    def contiguous, def array, def dependency, opt kill_on_invalid_dep, opt extras, def submit_line, def request_id, def given, def association,
});
record!(StepSpec = StepSpec {
    req name, req tasks, req nodes, req cpus_per_task, req tasks_per_node, opt gpus_per_node, opt gpus_per_task,
    rep nodelist, def request_id, def sharing, opt relative, def overcommit, def plane, rep exclude, opt memory,
    def patient,
});
record!(LicenseView = LicenseView { req name, req total, req used });
record!(JobFilter = JobFilter {
    rep ids, rep users, rep partitions, rep names, rep states, req all_states, rep nodes, rep accounts,
    def estimates, rep targets, def visible,
});
record!(StepView = StepView { req kind, req name, req state, req started, opt ended, rep shares, req exit, def suspended_ms });
record!(JobView = JobView {
    req id, req state, req completing, req reason, req reason_text, req priority, req submitted, req eligible,
    opt started, opt ended, rep nodes, rep gpu_models, rep steps, req exit, req derived_exit, req restarts, req denials,
    def generation, opt cancelled_by, rep idle, def due, rep avoid, rep uncleaned, rep unavailable, opt expected,
    opt array, def dependency, opt suspended, def suspended_ms, opt het, def backfilled,
    opt turned, def ran_before_ms,
} with spec: Arc<JobSpec>, by job_of, beside written);
record!(JobLines = JobLines {
    rep words, rep ids, rep states, rep completing, rep reasons, rep unavailable, rep names, rep partitions, rep users, rep accounts, rep qos, rep nodes, rep tasks, rep uids, rep priorities, rep sizes, rep arrays, rep indices, rep throttles, rep limits, rep submitted, rep begins, rep started, rep ended, rep expected, rep suspended, rep stopped,
    rep het_leaders, rep het_offsets, rep het_sizes,
});
record!(Node = Node {
    req id, req name, req inventory, req admin, req reason, opt reason_by, req connected, req last_seen, req boot_id,
    req boot_time, req agent_start, req fence, req fence_note, req version, req os, req hostname, req address,
    req load_x100, req free_mib, req cpus_used, req memory_used, req gpus_used, req gpus_sick, rep jobs, req generation,
    req last_busy, req lost, opt next_inventory, opt fence_suffices, rep utilization, opt trouble,
    rep gpu_notes, rep stuck,
});
record!(NodeView = NodeView { req node, rep partitions, req completing, req planned, rep features, def weight, def comment, def extra,
    rep reservations, def maintenance,
});
record!(Stats = Stats {
    req started, req log_entries, req log_batches, req passes, req last_pass_us, req max_pass_us, req jobs_started,
    req pending, req running, req ignored, req rss_kib, def meters, def usage_batches, def usage_bytes, def usage_refused,
    def usage_lag_ms, def usage_records, def accounting_backlog, def counted_since, def submitted, def completed,
    def cancelled, def failed, def passes_us, def passes_queue, def last_queue, def last_pass, rep requests,
    rep requesters,
});
record!(RequestCount = RequestCount { req id, req name, req count, req micros });
record!(GrantNode = GrantNode { req name, req address, rep task_ids, req ticket });
record!(Grant = Grant { req step, req job, rep nodes, req cpus_per_task });
record!(Refusal = Refusal { req kind, req text });
record!(NodeRows = NodeRows { req node, rep rows });
record!(IdleGpu = IdleGpu { req node, req gpu, req idle });
choice!(
    StartBasis = StartBasis {
        Reserved,
        Estimated,
        Never
    }
);
choice!(
    Stop = NodeStop {
        Excluded,
        NotNamed,
        Feature,
        TooSmall,
        LaunchFailed,
        Unclean,
        Down,
        Silent,
        Drained,
        Unfenced,
        Changing,
        Resting,
        SickGpus,
        Busy,
        Shape,
        Nothing,
    }
);
record!(StartEstimate = StartEstimate { opt start, req basis, rep nodes });
record!(Stopped = NodesStopped { req by, req detail, req nodes, rep names, opt until });
record!(Release = JobRelease { req node, req job, req user, req gives, opt until, req cleaning });
record!(Explanation = Explanation {
    req job, req reason, req words, req partition, req need, req cause, req eligible, req ahead, req nodes, rep stopped,
    rep releases, opt by_limits, opt expected, rep advice, opt network, opt network_until, opt blocked,
});
choice!(
    SeriesKind = SeriesKind {
        Cpu,
        Memory,
        GpuBusy,
        GpuMemory
    }
);
record!(AccountFilter = AccountFilter {
    rep ids, rep users, rep accounts, rep partitions, rep names, rep nodes, rep states, opt since, opt until,
    req duplicates,
});
record!(RunKey = RunKey { req submitted, req job, req restarts });
record!(AccountedJob = AccountedJob { req job, opt requeued, rep nodes, rep steps, req live });
record!(GpuNow = GpuNow { req node, req gpu, req age, opt busy, opt memory, opt power });
record!(NodeEvent = NodeEvent { req node, req event });
record!(SeriesPoint = SeriesPoint { req millis, req mean, req min, req max });
record!(SeriesView = SeriesView { req node, req kind, opt gpu, req step, rep points });
record!(UsageReport = UsageReport { req record, rep now, rep events, rep series });

record!(LaunchTrouble = LaunchTrouble { req failures, req last, opt until, req job, req why });
record!(GpuRecent = GpuRecent { req gpu, req permille, req at });

impl Wire for (JobId, Option<Refusal>) {
    type Pb = wire::JobOutcome;
    fn to_pb(&self) -> wire::JobOutcome {
        wire::JobOutcome {
            job: Some(self.0.to_pb()),
            refusal: self.1.as_ref().map(Wire::to_pb),
        }
    }
    fn from_pb(pb: wire::JobOutcome) -> Result<Self, BadMessage> {
        let wire::JobOutcome { job, refusal } = pb;
        Ok((required(job, "job")?, optional(refusal, "refusal")?))
    }
}

impl Wire for TaskSet {
    type Pb = wire::TaskSet;
    fn to_pb(&self) -> wire::TaskSet {
        wire::TaskSet {
            words: self.words().to_vec(),
        }
    }
    fn from_pb(pb: wire::TaskSet) -> Result<Self, BadMessage> {
        let set = Self::from_words(pb.words);
        set.ok_or_else(|| BadMessage::new("more indices than an array can have").at("words"))
    }
}

impl Wire for (JobTarget, Option<Refusal>) {
    type Pb = wire::TargetOutcome;
    fn to_pb(&self) -> wire::TargetOutcome {
        wire::TargetOutcome {
            target: Some(self.0.to_pb()),
            refusal: self.1.as_ref().map(Wire::to_pb),
        }
    }
    fn from_pb(pb: wire::TargetOutcome) -> Result<Self, BadMessage> {
        let wire::TargetOutcome { target, refusal } = pb;
        Ok((required(target, "target")?, optional(refusal, "refusal")?))
    }
}

variants!(Request = CallRequest in call_request {
    unit Ping;
    unit Nodes;
    unit Partitions;
    unit Stats;
    unit Shutdown;
    unit IdleGpus;
    unit Topology;
    unit State;
    unit Reservations;
    unit Licenses;
    unit Configuration;
    unit Accounts;
    unit Reconfigure;
    unit ResetStats;
    rec Submit { req spec, opt payload };
    rec Run { req spec, req step, opt immediate };
    rec AwaitAllocation { req job };
    rec Step { req job, req step };
    rec Finish { req job, req exit };
    rec AwaitEnd { req job };
    rec Cancel { req filter, opt signal, req batch_only, opt step, def children };
    rec Jobs { req filter };
    rec JobLines { req filter, def folded };
    rec Denials { opt job, req limit, def after, def alarms, def wait };
    rec DenialRows { req job };
    rec Script { req job };
    rec Hold { rep jobs };
    rec Release { rep jobs };
    rec Requeue { req job };
    rec UpdateJob { req job, opt time_limit, opt name, opt comment, opt partition, opt priority };
    rec UpdateNode { rep nodes, opt admin, opt reason };
    rec UpdatePartition { req name, req state };
    rec Usage { req job, req watch, req details };
    rec Accounting { req filter, opt after, req limit };
    rec Explain { req job };
    rec Control { rep jobs, req act };
    rec ChangeJobs { rep jobs, req change };
    rec TestOnly { req spec };
    rec AwaitCleaned { req job };
    rec Submission { req request_id };
    rec SubmitHet { rep specs, opt payload };
    rec RunHet { rep specs, rep steps, opt immediate };
    rec StepHet { req job, rep offsets, rep steps };
    rec Crontab { opt user };
    rec Attach { req job, req step };
    one Manage;
    one SetCrontab;
    one Mesh;
});
variants!(Reply = CallAnswer in call_answer {
    unit Done;
    rec Pong { req cluster, req version, req host, req started };
    rec Submitted { req job, rep notices };
    rec Allocated { req job };
    rec Crontab { opt table };
    rec Ended { req job };
    one Granted;
    one JobLines;
    one Script;
    one State;
    one Stats;
    one Usage;
    one Explanation;
    one Topology;
    one WouldStart;
    one Accounts;
    one Mesh;
    list Managed;
    list Reservations;
    list Licenses;
    list Configuration;
    list PerJob;
    list Jobs;
    list Nodes;
    list Partitions;
    list Denials;
    list DenialRows;
    list Accounting;
    list PerTarget;
    list GrantedHet;
});

impl Wire for Result<Reply, Refusal> {
    type Pb = wire::CallReply;
    fn to_pb(&self) -> wire::CallReply {
        use wire::call_reply::Outcome;
        let outcome = match self {
            Ok(reply) => Outcome::Answer(reply.to_pb()),
            Err(refusal) => Outcome::Refusal(refusal.to_pb()),
        };
        wire::CallReply {
            outcome: Some(outcome),
        }
    }
    fn from_pb(pb: wire::CallReply) -> Result<Self, BadMessage> {
        use wire::call_reply::Outcome;
        match pb.outcome {
            Some(Outcome::Answer(reply)) => Reply::from_pb(reply).map(Ok),
            Some(Outcome::Refusal(refusal)) => Refusal::from_pb(refusal)
                .map(Err)
                .map_err(|e| e.at("refusal")),
            None => Err(BadMessage::new("neither an answer nor a refusal").at("outcome")),
        }
    }
}
public!(Result<Reply, Refusal>, wire::CallReply);
