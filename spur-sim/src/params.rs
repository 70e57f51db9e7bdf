//! What is simulated: size, load and faults.

/// Size, load and faults of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Nodes, 1 to 10,000.
    pub nodes: u32,
    /// CPUs of each.
    pub cpus: u32,
    /// GPUs of each.
    pub gpus: u32,
    /// Jobs that clients submit.
    pub jobs: u32,
    /// Over how many seconds they come, and faults happen.
    pub span_secs: u64,
    /// Longest run time of a job in seconds.
    pub longest_secs: u64,
    /// What goes wrong until the span is over.
    pub faults: Faults,
    /// Within how many seconds after the span everything must have drained.
    pub drain_secs: u64,
}

/// Mean seconds between faults of a kind over the whole cluster; 0: never. And chances in 1,000.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The controller dies and comes back.
    pub controller_crash_secs: u64,
    /// The controller dies when it would have heard that a batch is on the disk.
    pub crash_while_writing_permille: u32,
    /// An agent dies and comes back.
    pub agent_crash_secs: u64,
    /// A machine reboots.
    pub reboot_secs: u64,
    /// A stream is cut; what was under way is lost.
    pub cut_secs: u64,
    /// A job cannot be set up on a node.
    pub launch_failure_permille: u32,
    /// The first so many nodes fail every launch.
    pub bad_nodes: u32,
    /// A message takes seconds rather than milliseconds.
    pub slow_message_permille: u32,
    /// An effect is carried out twice.
    pub repeat_permille: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            nodes: 4,
            cpus: 16,
            gpus: 4,
            jobs: 120,
            span_secs: 1_200,
            longest_secs: 120,
            faults: Faults::default(),
            drain_secs: 20_000,
        }
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            controller_crash_secs: 90,
            crash_while_writing_permille: 8,
            agent_crash_secs: 40,
            reboot_secs: 150,
            cut_secs: 30,
            launch_failure_permille: 20,
            bad_nodes: 0,
            slow_message_permille: 50,
            repeat_permille: 50,
        }
    }
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        controller_crash_secs: 0,
        crash_while_writing_permille: 0,
        agent_crash_secs: 0,
        reboot_secs: 0,
        cut_secs: 0,
        launch_failure_permille: 0,
        bad_nodes: 0,
        slow_message_permille: 0,
        repeat_permille: 0,
    };
}
