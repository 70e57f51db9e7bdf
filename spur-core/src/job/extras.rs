//! What a request says beyond resources, place and time. Few jobs say any of it, so it is kept apart from [`super::spec`].
//!
//! Texts are as the user wrote them, empty if not given.

use crate::slurm::crontab::Times;
use crate::time::{Millis, TimeLimit};
use serde::{Deserialize, Serialize};

/// Options that most jobs do not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Extras {
    /// `--licenses`.
    pub licenses: String,
    /// `--mail-type`, in Slurm's order and spelling: `BEGIN,END,FAIL`.
    pub mail_type: String,
    /// `--mail-user`.
    pub mail_user: String,
    /// `--wckey`.
    pub wckey: String,
    /// `--mcs-label`.
    pub mcs_label: String,
    /// Comment of an operator, set by `scontrol update`.
    pub admin_comment: String,
    /// `--extra`.
    pub extra: String,
    /// `--deadline`.
    pub deadline: Option<Millis>,
    /// `--time-min`.
    pub time_min: Option<TimeLimit>,
    /// `--signal`.
    pub signal: Option<Warning>,
    /// `--core-spec`: cores of each node set aside for the system.
    pub core_spec: Option<u32>,
    /// `--thread-spec`: threads of each node set aside for the system.
    pub thread_spec: Option<u32>,
    /// `--tmp`: MiB of local disk on every node, 0 if not given.
    pub tmp_mib: u64,
    /// `--reservation`.
    pub reservation: String,
    /// `--container`.
    pub container: String,
    /// `--container-id`.
    pub container_id: String,
    /// `--network`.
    pub network: String,
    /// `--power`.
    pub power: String,
    /// `--bb`.
    pub burst_buffer: String,
    /// `--batch`: features of the node that runs the script.
    pub batch_features: String,
    /// `--cluster-constraint`.
    pub cluster_features: String,
    /// `--delay-boot`, in seconds.
    pub delay_boot: Option<u64>,
    /// `--priority`.
    pub priority: Option<u32>,
    /// `--no-kill`: the job stays when one of its nodes fails.
    pub no_kill: bool,
    /// `--reboot`.
    pub reboot: bool,
    /// `--spread-job`.
    pub spread_job: bool,
    /// `--use-min-nodes`.
    pub use_min_nodes: bool,
    /// `--overcommit`.
    pub overcommit: bool,
    /// `--oversubscribe`.
    pub oversubscribe: bool,
    /// `--wait-all-nodes`.
    pub wait_all_nodes: Option<bool>,
    /// `--oom-kill-step`.
    pub oom_kill_step: Option<bool>,
    /// `--cores-per-socket`, 0 if not given.
    pub cores_per_socket: u32,
    /// `--threads-per-core`, 0 if not given.
    pub threads_per_core: u32,
    /// `--ntasks-per-core`, 0 if not given.
    pub tasks_per_core: u32,
    /// `--tres-per-task`.
    pub tres_per_task: String,
    /// `--tres-bind`, or what `--gpu-bind` means in its words.
    pub tres_bind: String,
    /// `--gpu-freq` as `gpu:FREQ`.
    pub tres_freq: String,
    /// `--cpu-freq`.
    pub cpu_freq: String,
    /// `--distribution`.
    pub distribution: String,
    /// `--profile`.
    pub profile: String,
    /// `--acctg-freq`.
    pub acctg_freq: String,
    /// What `scrontab` made it of.
    pub cron: Option<Cron>,
}

/// The same as [`Extras::default`], as a place to point to.
static NOTHING: Extras = Extras {
    licenses: String::new(),
    mail_type: String::new(),
    mail_user: String::new(),
    wckey: String::new(),
    mcs_label: String::new(),
    admin_comment: String::new(),
    extra: String::new(),
    deadline: None,
    time_min: None,
    signal: None,
    core_spec: None,
    thread_spec: None,
    tmp_mib: 0,
    reservation: String::new(),
    container: String::new(),
    container_id: String::new(),
    network: String::new(),
    power: String::new(),
    burst_buffer: String::new(),
    batch_features: String::new(),
    cluster_features: String::new(),
    delay_boot: None,
    priority: None,
    no_kill: false,
    reboot: false,
    spread_job: false,
    use_min_nodes: false,
    overcommit: false,
    oversubscribe: false,
    wait_all_nodes: None,
    oom_kill_step: None,
    cores_per_socket: 0,
    threads_per_core: 0,
    tasks_per_core: 0,
    tres_per_task: String::new(),
    tres_bind: String::new(),
    tres_freq: String::new(),
    cpu_freq: String::new(),
    distribution: String::new(),
    profile: String::new(),
    acctg_freq: String::new(),
    cron: None,
};

impl Extras {
    /// Nothing given.
    pub fn nothing() -> &'static Self {
        &NOTHING
    }

    /// Every text with what it is.
    pub fn texts(&self) -> [(&'static str, &str); 22] {
        [
            ("licenses", &self.licenses),
            ("mail type", &self.mail_type),
            ("mail user", &self.mail_user),
            ("wckey", &self.wckey),
            ("mcs label", &self.mcs_label),
            ("admin comment", &self.admin_comment),
            ("extra", &self.extra),
            ("reservation", &self.reservation),
            ("container", &self.container),
            ("container id", &self.container_id),
            ("network", &self.network),
            ("power", &self.power),
            ("burst buffer", &self.burst_buffer),
            ("batch features", &self.batch_features),
            ("cluster features", &self.cluster_features),
            ("tres per task", &self.tres_per_task),
            ("tres bind", &self.tres_bind),
            ("tres freq", &self.tres_freq),
            ("cpu freq", &self.cpu_freq),
            ("distribution", &self.distribution),
            ("profile", &self.profile),
            ("acctg freq", &self.acctg_freq),
        ]
    }

    /// Boxed, or `None` if nothing was given.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != NOTHING).then(|| Box::new(self))
    }
}

/// An entry of its owner's crontab, by which the job begins again and again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cron {
    /// When, in five fields ([`crate::slurm::crontab::Times`]).
    pub times: String,
    /// Seconds by which the controller's clock was ahead of Greenwich when the table was set.
    pub utc_offset: i32,
    /// The entry's first line in the table, from 0.
    pub first_line: u32,
    /// The line with its time.
    pub last_line: u32,
}

impl Cron {
    /// When it begins next after a moment.
    #[must_use]
    pub fn next(&self, after: Millis) -> Option<Millis> {
        let (times, _) = Times::read(&self.times).ok()?;
        times.next(after, self.utc_offset)
    }

    /// The same where clocks are put forward and back; `ahead`: by how many seconds they are ahead of Greenwich at a moment.
    #[must_use]
    pub fn next_by(&self, after: Millis, ahead: impl Fn(Millis) -> i32) -> Option<Millis> {
        let (times, _) = Times::read(&self.times).ok()?;
        times.next_by(after, ahead)
    }
}

/// `--signal=[B:][R:]SIGNAL[@SECONDS]`: a signal before the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Warning {
    /// Linux number, 1 to 64.
    pub signal: u8,
    /// Seconds before the limit, at most 65,535.
    pub before: u32,
    /// `B:`: to the batch shell only, instead of to the steps only.
    pub batch: bool,
    /// `R:`: only once a reservation that the job overlaps nears.
    pub reservation: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_the_default() {
        assert_eq!(NOTHING, Extras::default());
        assert_eq!(Extras::default().boxed(), None);
        let some = Extras {
            wckey: "k".to_owned(),
            ..Extras::default()
        };
        assert_eq!(some.clone().boxed(), Some(Box::new(some)));
    }
}
