//! From a store to a running writer.

use super::agents::Links;
use super::ask::Input;
use super::hooks::Desk;
use super::pace::Pace;
use super::waits::Waits;
use super::{Counters, INBOX_MAX, LETTERS_MAX, SNAPSHOT_MIN, Writer, now};
use crate::config::Config;
use crate::denials::Denials;
use crate::hooks::{AT_ONCE, HookRun};
use crate::readers::{Publisher, Readers};
use crate::store::{Batch, Store, StoreError};
use crate::usage::{Place, Usage};
use spur_core::effect::Letter;
use spur_core::event::Event;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// What the rest of the controller needs of the writer.
#[derive(Debug)]
pub struct Parts {
    /// The way to it.
    pub inbox: mpsc::Sender<Input>,
    /// What it publishes.
    pub readers: Arc<Readers>,
    /// Single refusals.
    pub denials: Arc<Denials>,
    /// What jobs use.
    pub usage: Arc<Usage>,
    /// Mails to send.
    pub letters: mpsc::Receiver<Letter>,
    /// Programs of the operator that are due here.
    pub hooks: mpsc::Receiver<HookRun>,
    /// Resolves when it has stopped; the error says why it could not go on.
    pub stopped: oneshot::Receiver<Result<(), String>>,
    /// Its thread.
    pub thread: JoinHandle<()>,
}

/// Reads the state back, makes the configuration known, and starts the writer on a thread of its own.
pub fn start(store: Box<dyn Store>, config: &Config, key: Arc<[u8]>) -> Result<Parts, StoreError> {
    let (mut writer, readers) = Writer::open(store, config, key)?;
    let known = |job| writer.cluster.jobs.contains_key(&job);
    let denials = Arc::new(Denials::open(&config.state_dir.join("denials.db"), known)?);
    writer.denials = Arc::clone(&denials);
    let record = config.accounting.server.clone();
    let record = record.unwrap_or_else(|| Place::File(config.state_dir.join("accounting.db")));
    let usage = Arc::new(Usage::open_at(record, config.accounting.keep_days)?);
    usage.all_jobs(&writer.publisher.draft);
    writer.usage = Arc::clone(&usage);
    let (inbox, receiver) = mpsc::channel(INBOX_MAX);
    let (sender, letters) = mpsc::channel(LETTERS_MAX);
    writer.letters = Some(sender);
    let (runner, hooks) = mpsc::channel(AT_ONCE);
    writer.hooks.runner = Some(runner);
    writer.resume_hooks();
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("writer".to_owned())
        .spawn(move || drop(stop.send(run(writer, receiver))))
        .map_err(|e| StoreError::Open {
            path: config.state_dir.clone(),
            cause: format!("start the writer: {e}"),
        })?;
    Ok(Parts {
        inbox,
        readers,
        denials,
        usage,
        letters,
        hooks,
        stopped,
        thread,
    })
}

fn run(writer: Writer, inbox: mpsc::Receiver<Input>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|e| e.to_string())?;
    runtime.block_on(writer.run(inbox))
}

impl Writer {
    /// A writer over what the store holds, and where its rows are read.
    pub(super) fn open(
        mut store: Box<dyn Store>,
        config: &Config,
        key: Arc<[u8]>,
    ) -> Result<(Self, Arc<Readers>), StoreError> {
        let (cluster, last_at) = store.load()?.replay();
        match store.retain_payloads(&cluster) {
            // They are looked for again at the next start.
            Err(error @ StoreError::Write { .. }) => {
                tracing::warn!("scripts of jobs that are gone are kept: {error}");
            }
            done => done?,
        }
        let (publisher, readers) = Publisher::new();
        let snapshot_at = SNAPSHOT_MIN.max(store.snapshot_bytes());
        let mut writer = Self {
            cluster,
            store,
            store_failed: None,
            broken: None,
            snapshot_at,
            last_at,
            looked_at: spur_core::time::Millis::default(),
            links: Links::default(),
            waits: Waits::default(),
            pace: Pace::new(),
            pulses: BTreeMap::new(),
            denial_totals: BTreeMap::new(),
            denials_due: None,
            denials: Arc::default(),
            usage: Arc::default(),
            publisher,
            key,
            counters: Counters {
                started: now(),
                counted_since: now(),
                ..Counters::default()
            },
            turn: 0,
            letters: None,
            kills: BTreeMap::new(),
            programs: config.programs.clone(),
            hooks: Desk::default(),
        };
        writer.configure(config.event())?;
        let hooks = config.controller_programs.hooks();
        writer.configure(Event::HooksConfigured { hooks })?;
        writer.suspect_links();
        for job in writer.cluster.jobs.values() {
            writer.waits.leave(job);
        }
        writer.publish_all();
        Ok((writer, readers))
    }

    /// Logs the configuration if it differs from what the log says already.
    fn configure(&mut self, event: Event) -> Result<(), StoreError> {
        let at = now().max(self.last_at);
        let mut changed = self.cluster.clone();
        changed.apply(at, &event);
        if changed == self.cluster {
            return Ok(());
        }
        let batch = Batch {
            events: vec![(at, event)],
            ..Batch::default()
        };
        if let Err(error) = self.store.append(&batch) {
            if let StoreError::Write { path, cause } = error {
                return Err(StoreError::Changed { path, cause });
            }
            return Err(error);
        }
        self.cluster = changed;
        self.last_at = at;
        Ok(())
    }
}
