//! Plays scenes, and keeps what came of every recording.

use super::record::{self, Record};
use super::scene::{self, SCENES, Scene, Step};
use super::site::{Site, USER};
use crate::user::{Output, User};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Child;
use std::time::Duration;

/// Seconds that a level may take; a system that does not reach it goes on and differs.
const LEVEL_SECONDS: u64 = 10;

/// What came of recordings that were played, by name: the three sections.
pub type Played = BTreeMap<String, String>;

/// Plays all scenes that these recordings need (all of them if none is named).
pub fn play(records: &BTreeMap<String, Record>, wanted: &BTreeSet<String>) -> Result<Played> {
    let site = Site::up()?;
    for (name, text) in scene::SCRIPTS {
        site.script(name, text)?;
    }
    let (name, shown) = scene::SHOWN_SCRIPT;
    if let Some(record) = records.get(shown) {
        site.script(name, record.out())?;
    }
    let mut stage = Stage {
        site,
        records,
        begun: Vec::new(),
        played: Played::new(),
    };
    for scene in scenes(wanted) {
        stage.scene(scene)?;
    }
    Ok(stage.played)
}

/// The scenes that have one of these recordings, and those before one that needs them.
fn scenes(wanted: &BTreeSet<String>) -> Vec<&'static Scene> {
    let has = |scene: &Scene| {
        let mut steps = scene.steps.iter();
        wanted.is_empty()
            || steps.any(|step| match step {
                Step::Play(name) | Step::Begin(name) | Step::PlayOr(name, _) => {
                    wanted.contains(*name)
                }
                Step::Do(_) | Step::Root(_) | Step::Until(..) | Step::Next(_) | Step::Pause(_) => {
                    false
                }
            })
    };
    let all = SCENES.iter().any(|scene| scene.needs_all && has(scene));
    SCENES.iter().filter(|scene| all || has(scene)).collect()
}

struct Stage<'a> {
    site: Site,
    records: &'a BTreeMap<String, Record>,
    begun: Vec<(&'static str, Child)>,
    played: Played,
}

impl Stage<'_> {
    fn scene(&mut self, scene: &Scene) -> Result<()> {
        println!("scene {}", scene.name);
        self.site.burn(scene.first)?;
        for step in scene.steps {
            self.step(step)
                .with_context(|| format!("scene {}, {step:?}", scene.name))?;
        }
        for (name, child) in std::mem::take(&mut self.begun) {
            self.keep(name, &Output::of(child));
        }
        if scene.leaves {
            return Ok(());
        }
        self.site.shell(User::Root, "scancel -u slurmtest");
        let gone = "squeue -h -o %A | wc -l";
        self.site.level(gone, "0", LEVEL_SECONDS);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match *step {
            Step::Play(name) => {
                if let Some(child) = self.start(name) {
                    self.keep(name, &Output::of(child));
                }
            }
            Step::PlayOr(name, line) => match self.start(name) {
                Some(child) => self.keep(name, &Output::of(child)),
                None => drop(self.site.shell(USER, line)),
            },
            Step::Begin(name) => {
                if let Some(child) = self.start(name) {
                    self.begun.push((name, child));
                }
            }
            Step::Do(line) => drop(self.site.shell(USER, line)),
            Step::Root(line) => drop(self.site.shell(User::Root, line)),
            Step::Until(line, wanted) => {
                if !self.site.level(line, wanted, LEVEL_SECONDS) {
                    println!("note: `{line}` does not come to {wanted:?}");
                }
            }
            Step::Next(number) => self.site.burn(number)?,
            Step::Pause(milliseconds) => std::thread::sleep(Duration::from_millis(milliseconds)),
        }
        Ok(())
    }

    /// A recording's command; `None` if this folder of recordings does not have it.
    fn start(&self, name: &str) -> Option<Child> {
        let record = self.records.get(name)?;
        let user = if record.root { User::Root } else { USER };
        Some(self.site.spawn(user, &record.command))
    }

    fn keep(&mut self, name: &str, output: &Output) {
        let sections = record::sections(&output.out, &output.err, output.code);
        self.played.insert(name.to_owned(), sections);
    }
}
