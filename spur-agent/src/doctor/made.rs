//! What `spurd doctor` sets up on a node, so that it takes away that and nothing else: jobs may run here, with or without an agent.

use crate::leftovers;
use anyhow::Context;
use spur_agent::cgroup::Root;
use spur_agent::config::Config;
use spur_agent::fence::node::{MOUNTED_BY_AGENT, pins_of};
use spur_agent::node::agent_here;
use std::path::PathBuf;

/// What was missing before, and who was here.
pub(super) struct Made<'a> {
    config: &'a Config,
    agent: Option<i32>,
    pins: bool,
    mount: bool,
    /// Folders of the agent's cgroup, outermost first.
    cgroups: Vec<PathBuf>,
}

impl<'a> Made<'a> {
    /// Looks before anything is set up.
    pub(super) fn look(config: &'a Config) -> anyhow::Result<Self> {
        let mut path = Root::mount()?;
        let mut cgroups = Vec::new();
        for part in &config.cgroup {
            path.push(part);
            if !path.exists() {
                cgroups.push(path.clone());
            }
        }
        Ok(Self {
            config,
            agent: agent_here(config),
            pins: !pins_of(config).exists(),
            mount: !config.bpffs.join(MOUNTED_BY_AGENT).exists(),
            cgroups,
        })
    }

    /// Whether the fence that is looked at is a temporary one.
    pub(super) fn has_pins(&self) -> bool {
        self.pins
    }

    /// Takes away what was not here before, and is nobody's since.
    pub(super) fn undo(self) -> anyhow::Result<()> {
        if agent_here(self.config) != self.agent {
            // An agent started meanwhile: all of it is in use.
            return Ok(());
        }
        let pins = pins_of(self.config);
        let links = std::fs::read_dir(spur_ebpf::links_folder(&pins));
        let unused = links.map_or(true, |mut entries| entries.next().is_none());
        if self.pins && unused && pins.exists() {
            std::fs::remove_dir_all(&pins)
                .with_context(|| format!("removing the pins in {}", pins.display()))?;
        }
        if self.mount {
            leftovers::unmount_own(self.config, &mut Vec::new())?;
        }
        for folder in self.cgroups.iter().rev() {
            // Only an empty one goes: the kernel keeps any other.
            if let Err(error) = std::fs::remove_dir(folder) {
                tracing::warn!(folder = %folder.display(), %error, "the cgroup stays");
            }
        }
        Ok(())
    }
}
