//! The agent's end: asks the child for one GPU after the other, with a deadline for each, on a thread of its own.

use super::COMMAND;
use super::words::{Answer, Ask, Which, read, write};
use crate::meter::latest::{Latest, Note};
use crate::meter::sampler::uptime;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Weak;
use std::time::{Duration, Instant};

/// How long the library may take to begin: eight GPUs without persistence mode take several seconds.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);

/// Children that hang and are left alone, at most; with so many, no other is tried.
pub const STUCK_MAX: usize = 3;

/// First and longest pause after a failure.
const PAUSE_MIN: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// What is read seldom is read every so many milliseconds.
const DEEP_EVERY: u64 = 10_000;

/// Least milliseconds between two rounds: the driver's own samples are not closer.
const ROUND_MIN: u64 = 500;

/// The thread's state.
#[derive(Debug)]
pub struct Keeper {
    /// The program that is run as `PROGRAM nvml`.
    pub program: PathBuf,
    /// The GPUs.
    pub gpus: Vec<Which>,
    /// How long an answer may take.
    pub within: Duration,
    /// First pause after a failure.
    pub pause: Duration,
    /// Where looks go. The thread ends when nobody is left to see them.
    pub latest: Weak<Latest>,
}

#[derive(Debug)]
struct Talk {
    child: Child,
    socket: UnixStream,
}

/// Why there is no answer.
#[derive(Debug)]
enum Silence {
    /// The child hangs.
    Late,
    /// It ended, or says nonsense.
    Gone(String),
}

/// When something that failed is tried again.
#[derive(Clone, Copy, Debug)]
struct Again {
    at: Instant,
    pause: Duration,
}

impl Again {
    fn after(before: Option<Self>, first: Duration) -> Self {
        let pause = before.map_or(first, |before| (before.pause * 2).min(PAUSE_MAX));
        Self {
            at: Instant::now() + pause,
            pause,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    talk: Option<Talk>,
    stuck: Vec<Child>,
    /// No child before then.
    again: Option<Again>,
    /// GPUs that are not asked before then.
    sick: BTreeMap<u32, Again>,
    deep_at: u64,
    /// CPU time of children that ended, µs.
    spent: u64,
    /// Of the present one.
    cpu: u64,
    memory: u64,
}

impl Keeper {
    /// A keeper with the usual patience.
    pub fn new(gpus: Vec<Which>, latest: Weak<Latest>) -> Self {
        Self {
            program: "/proc/self/exe".into(),
            gpus,
            within: Duration::from_secs(5),
            pause: PAUSE_MIN,
            latest,
        }
    }

    /// Asks until nobody sees it.
    pub fn run(self) {
        let mut state = State::default();
        while let Some(latest) = self.latest.upgrade() {
            let begun = uptime();
            self.round(&mut state, &latest, begun);
            latest.set_cost(state.spent + state.cpu, state.memory);
            let interval = latest.wanted().max(ROUND_MIN);
            drop(latest);
            let rest = interval.saturating_sub(uptime() - begun).max(10);
            std::thread::sleep(Duration::from_millis(rest));
        }
        // The child ends when its socket does.
    }

    fn round(&self, state: &mut State, latest: &Latest, now: u64) {
        state
            .stuck
            .retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let waits = state.again.is_some_and(|again| Instant::now() < again.at);
        if state.talk.is_none() && !waits && state.stuck.len() < STUCK_MAX {
            match self.begin() {
                Ok(talk) => {
                    (state.talk, state.again) = (Some(talk), None);
                }
                Err((silence, child)) => self.failed(state, latest, None, &silence, child),
            }
        }
        let deep = now >= state.deep_at;
        if deep {
            state.deep_at = now + DEEP_EVERY;
        }
        let mut looks = BTreeMap::new();
        for which in &self.gpus {
            let resting = state
                .sick
                .get(&which.index)
                .is_some_and(|again| Instant::now() < again.at);
            let Some(talk) = state.talk.as_mut().filter(|_| !resting) else {
                continue;
            };
            let ask = Ask::Look {
                which: which.clone(),
                deep,
                costly: latest.wants_costly(),
            };
            match self.ask(talk, &ask, self.within) {
                Ok(Answer::Look {
                    look,
                    cpu_us,
                    memory,
                }) => {
                    (state.cpu, state.memory) = (cpu_us, memory);
                    match look {
                        Ok(look) => {
                            looks.insert(which.index, *look);
                            if state.sick.remove(&which.index).is_some() {
                                note(latest, which.index, false, "NVML answers again");
                            }
                        }
                        Err(why) => self.sick(state, latest, which.index, &why),
                    }
                }
                Ok(Answer::Ready(_)) => {}
                Err(silence) => {
                    let child = state.talk.take().map(|talk| talk.child);
                    self.failed(state, latest, Some(which.index), &silence, child);
                }
            }
        }
        // Where there is nothing to tell, the last looks grow old by themselves.
        if !looks.is_empty() {
            latest.publish(uptime(), looks);
        }
    }

    /// A child is no good any more.
    fn failed(
        &self,
        state: &mut State,
        latest: &Latest,
        gpu: Option<u32>,
        silence: &Silence,
        child: Option<Child>,
    ) {
        state.spent += std::mem::take(&mut state.cpu);
        state.memory = 0;
        let why = match silence {
            Silence::Late => format!(
                "NVML did not answer within {} s: its process is left alone",
                self.within.as_secs_f32()
            ),
            Silence::Gone(why) => why.clone(),
        };
        tracing::warn!(gpu, why, "NVML");
        if let Some(mut child) = child {
            match silence {
                Silence::Late => state.stuck.push(child),
                // It closed the socket: it is at its end.
                Silence::Gone(_) => match child.try_wait() {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => state.stuck.push(child),
                },
            }
        }
        match gpu {
            Some(gpu) => {
                state.again = Some(Again {
                    at: Instant::now(),
                    pause: self.pause,
                });
                self.sick(state, latest, gpu, &why);
            }
            None => {
                state.again = Some(Again::after(state.again, self.pause));
                for which in &self.gpus {
                    if !state.sick.contains_key(&which.index) {
                        self.sick(state, latest, which.index, &why);
                    }
                }
            }
        }
        if state.stuck.len() >= STUCK_MAX {
            tracing::error!(
                children = state.stuck.len(),
                "too many processes hang in NVML: nothing is asked until one ends"
            );
        }
    }

    fn sick(&self, state: &mut State, latest: &Latest, gpu: u32, why: &str) {
        let before = state.sick.get(&gpu).copied();
        state.sick.insert(gpu, Again::after(before, self.pause));
        if before.is_none() {
            note(latest, gpu, true, why);
        }
    }

    fn begin(&self) -> Result<Talk, (Silence, Option<Child>)> {
        let gone = |error: io::Error| (Silence::Gone(format!("cannot ask NVML: {error}")), None);
        let (own, other) = UnixStream::pair().map_err(gone)?;
        let child = Command::new(&self.program)
            .arg(COMMAND)
            .stdin(OwnedFd::from(other))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(gone)?;
        let mut talk = Talk { child, socket: own };
        match self.ask(&mut talk, &Ask::Begin, BEGIN_WITHIN.max(self.within)) {
            Ok(Answer::Ready(Ok(()))) => Ok(talk),
            Ok(Answer::Ready(Err(why))) => Err((Silence::Gone(why), Some(talk.child))),
            Ok(Answer::Look { .. }) => Err((
                Silence::Gone("the child says nonsense".into()),
                Some(talk.child),
            )),
            Err(silence) => Err((silence, Some(talk.child))),
        }
    }

    fn ask(&self, talk: &mut Talk, ask: &Ask, within: Duration) -> Result<Answer, Silence> {
        let gone = |error: io::Error| Silence::Gone(format!("NVML's process ended: {error}"));
        write(&mut talk.socket, ask).map_err(gone)?;
        let mut socket = Deadline {
            socket: &talk.socket,
            at: Instant::now() + within,
        };
        match read(&mut socket) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(Silence::Gone("NVML's process ended".into())),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Silence::Late),
            Err(error) => Err(gone(error)),
        }
    }
}

fn note(latest: &Latest, gpu: u32, stale: bool, why: &str) {
    latest.note(Note {
        gpu,
        stale,
        why: why.to_owned(),
    });
}

/// A socket that is read until a moment.
struct Deadline<'a> {
    socket: &'a UnixStream,
    at: Instant,
}

impl io::Read for Deadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.at.saturating_duration_since(Instant::now());
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        if left.is_zero() {
            return Err(late());
        }
        self.socket.set_read_timeout(Some(left))?;
        let mut socket = self.socket;
        match socket.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(late()),
            read => read,
        }
    }
}
