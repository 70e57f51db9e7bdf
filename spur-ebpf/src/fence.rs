//! The fence of a node: program, maps, links.

mod job;
pub(crate) mod object;
pub(crate) mod older;
mod parents;
pub(crate) mod rows;
mod tables;
mod watch;
mod window;

pub use job::{Adopted, JobFence};
pub use watch::LinkState;

use crate::abi::{self, RawMeta};
use crate::audit::Audit;
use crate::cgroup::Cgroup;
use crate::guard::{self, Guard, GuardOptions};
use crate::pins::Pins;
use crate::{CgroupId, DeviceTable, Error, Result, sys};
use libbpf_rs::query::{LinkInfo, LinkTypeInfo};
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramAttachType};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The fence program of this build.
const FENCE_OBJECT: &[u8] = include_bytes!(env!("SPUR_FENCE_OBJECT"));

/// The fence of a node. Cheap to clone; dropping it leaves everything pinned and in force.
#[derive(Clone, Debug)]
pub struct Fence {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pins: Pins,
    program: OwnedFd,
    program_id: u32,
    program_tag: [u8; 8],
    maps: Maps,
    /// Serialises writers of the device table.
    table: Mutex<()>,
    /// Serialises who makes rows of the guard's maps and who removes those that nobody needs.
    rows: Mutex<()>,
}

#[derive(Debug)]
pub(crate) struct Maps {
    meta: MapHandle,
    table: MapHandle,
    window: window::Window,
    devices: MapHandle,
    policies: MapHandle,
    counters: MapHandle,
    guard_policies: MapHandle,
    guard_counters: MapHandle,
    guard_files: MapHandle,
    pub(crate) guard_settings: MapHandle,
    audit: MapHandle,
}

/// A link pin and what the kernel says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedLink {
    /// Its name below `links/`.
    pub name: String,
    /// Kernel id of the link.
    pub link_id: u32,
    /// Kernel id of its program.
    pub program_id: u32,
    /// The fenced cgroup, or `None` once that is gone and only the pin is left.
    pub cgroup: Option<CgroupId>,
}

impl Fence {
    /// Adopts the fence pinned in the folder `pins`, or loads and pins one. The folder is made, for its owner alone; it has to
    /// be on a BPF file system.
    ///
    /// If another build of the program with the same ABI is pinned, this build's program takes its place in every link, in one
    /// step each. A fence with an older ABI is taken over: ours is put up beside it, gets its policies, counts and table, and only
    /// then the older one goes. A newer one is an error.
    pub fn open_or_load(pins: &Path) -> Result<Fence> {
        Fence::open_object(pins, FENCE_OBJECT)
    }

    /// As [`Fence::open_or_load`], with the program in an object file instead of the built-in one: for tests that need a
    /// broken fence.
    pub fn load_from_file(pins: &Path, object: &Path) -> Result<Fence> {
        let bytes =
            fs::read(object).map_err(Error::kernel("read", object.display().to_string()))?;
        Fence::open_object(pins, &bytes)
    }

    fn open_object(root: &Path, bytes: &[u8]) -> Result<Fence> {
        let older = older::find(&Pins::new(root))?;
        let pins = Pins::prepare(root)?;
        let settled = older.is_none() && pins.marker().exists();
        let hash = object::hash(bytes);
        if object::pinned_meta(&pins)?.is_none() {
            object::load(&pins, bytes)?;
        }
        let maps = object::pinned_maps(&pins)?;
        let program_pin = pins.object(object::PROGRAM);
        let replaced = object::read_meta(&maps.meta)?.object_hash != hash || !program_pin.exists();
        if replaced {
            object::replace_program(&pins, &maps, bytes)?;
        }
        let shown = program_pin.display().to_string();
        let program =
            sys::pinned(&program_pin).map_err(Error::kernel("open pinned program", &shown))?;
        let facts = sys::program_facts(program.as_fd())
            .map_err(Error::kernel("inspect program", &shown))?;
        if facts.kind != libbpf_rs::libbpf_sys::BPF_PROG_TYPE_CGROUP_DEVICE {
            return Err(Error::Unfit {
                subject: shown,
                reason: "it is not a device program".to_owned(),
            });
        }
        let (program_id, program_tag) = (facts.id, facts.tag);
        let fence = Fence {
            inner: Arc::new(Inner {
                pins,
                program,
                program_id,
                program_tag,
                maps,
                table: Mutex::new(()),
                rows: Mutex::new(()),
            }),
        };
        if replaced {
            fence.update_links()?;
            object::write_meta(
                &fence.inner.maps.meta,
                RawMeta {
                    abi: abi::ABI,
                    reserved: 0,
                    object_hash: hash,
                },
            )?;
        }
        if let Some(older) = older {
            older.hand_over(&fence)?;
        }
        if !settled {
            older::settle(&fence)?;
        }
        Ok(fence)
    }

    /// Puts this fence's program into every pinned link whose cgroup still lives.
    fn update_links(&self) -> Result<()> {
        for link in self.links()? {
            if link.cgroup.is_some() && link.program_id != self.inner.program_id {
                let path = self.inner.pins.link(&link.name)?;
                let shown = path.display().to_string();
                let fd = sys::pinned(&path).map_err(Error::kernel("open pinned link", &shown))?;
                sys::link_update(fd.as_fd(), self.inner.program.as_fd())
                    .map_err(Error::kernel("replace the program of link", &shown))?;
            }
        }
        Ok(())
    }

    /// Fences exactly the devices of `table`, in an order in which no device that is fenced before and after is open in between.
    /// Policies are not touched: a bit keeps its meaning, see [`crate::GrantBit`].
    pub fn set_devices(&self, table: &DeviceTable) -> Result<()> {
        let _writer = self
            .inner
            .table
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        tables::set(&self.inner.maps, table)
    }

    /// The table that is in force.
    pub fn devices(&self) -> Result<DeviceTable> {
        let _writer = self
            .inner
            .table
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        tables::get(&self.inner.maps)
    }

    /// Puts a cgroup under the fence and pins the link as `links/<name>`. Until a policy is written, every fenced device is
    /// refused, also where the same cgroup was fenced before.
    ///
    /// May be repeated: if the pin is a link on this cgroup, it is adopted and its policy stays. A pin whose cgroup is gone is
    /// replaced; one that fences another living cgroup is an error.
    pub fn attach(&self, cgroup: &Path, name: &str) -> Result<JobFence> {
        self.attach_to(&Cgroup::open(cgroup)?, name)
    }

    fn attach_to(&self, cgroup: &Cgroup, name: &str) -> Result<JobFence> {
        let path = self.inner.pins.link(name)?;
        match self.link_facts(name)? {
            Some(link) if link.cgroup == Some(cgroup.id) => {
                return self.adopt_link(&link, cgroup.id);
            }
            Some(PinnedLink {
                cgroup: Some(other),
                ..
            }) => {
                return Err(Error::Unfit {
                    subject: path.display().to_string(),
                    reason: format!(
                        "it fences cgroup {other}, not {} ({})",
                        cgroup.id, cgroup.path
                    ),
                });
            }
            Some(PinnedLink { cgroup: None, .. }) => Pins::remove(&path)?,
            None => {}
        }
        let _maker = self
            .inner
            .rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let job = JobFence::new(Arc::clone(&self.inner), name, cgroup.id);
        job.forget()?;
        let made = create_link(&self.inner, cgroup).and_then(|link| {
            sys::pin(link.as_fd(), &path)
                .map_err(Error::kernel("pin link", path.display().to_string()))
        });
        if made.is_err() {
            job.remove_rows()?;
        }
        made.map(|()| job)
    }

    /// Takes over the link `links/<name>` after a restart, if it is a device link of this fence's program on this very cgroup.
    pub fn adopt(&self, name: &str, cgroup: &Path) -> Result<Adopted> {
        let cgroup = Cgroup::open(cgroup)?;
        let Some(link) = self.link_facts(name)? else {
            return Ok(Adopted::Missing);
        };
        match link.cgroup {
            Some(id) if id == cgroup.id => self.adopt_link(&link, id).map(Adopted::Fence),
            Some(_) | None => Ok(Adopted::Elsewhere(link)),
        }
    }

    fn adopt_link(&self, link: &PinnedLink, cgroup: CgroupId) -> Result<JobFence> {
        if link.program_id != self.inner.program_id {
            return Err(Error::Unfit {
                subject: self.inner.pins.link(&link.name)?.display().to_string(),
                reason: format!(
                    "its program has id {}, the fence's program has {}",
                    link.program_id, self.inner.program_id
                ),
            });
        }
        let job = JobFence::new(Arc::clone(&self.inner), &link.name, cgroup);
        job.complete()?;
        Ok(job)
    }

    /// Every pinned link, sorted by name: what an agent compares with its journal.
    pub fn links(&self) -> Result<Vec<PinnedLink>> {
        let mut links = Vec::new();
        for name in self.inner.pins.link_names()? {
            links.extend(self.link_facts(&name)?);
        }
        Ok(links)
    }

    /// The names of all pinned links, sorted; what they are is not looked at.
    pub fn link_names(&self) -> Result<Vec<String>> {
        self.inner.pins.link_names()
    }

    /// Removes the pins of links whose cgroup is gone; such a link does nothing any more. Returns their names.
    pub fn remove_stale_links(&self) -> Result<Vec<String>> {
        let mut removed = Vec::new();
        for link in self
            .links()?
            .into_iter()
            .filter(|link| link.cgroup.is_none())
        {
            Pins::remove(&self.inner.pins.link(&link.name)?)?;
            removed.push(link.name);
        }
        self.forget_gone()?;
        Ok(removed)
    }

    /// Removes a pin, whatever it fences; one that is gone is fine. The cgroup stays fenced only if somebody else holds the link.
    pub fn unpin(&self, name: &str) -> Result<()> {
        let path = self.inner.pins.link(name)?;
        let cgroup = self.link_facts(name)?.and_then(|link| link.cgroup);
        Pins::remove(&path)?;
        match cgroup {
            Some(id) => JobFence::new(Arc::clone(&self.inner), name, id).remove_rows(),
            None => self.forget_gone(),
        }
    }

    /// Removes the guard's rows of cgroups that are gone. A living one keeps its rows also without a pin: somebody may have taken
    /// that away.
    fn forget_gone(&self) -> Result<()> {
        let _remover = self
            .inner
            .rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let links = self.links()?;
        let fenced: BTreeSet<u64> = links
            .iter()
            .filter_map(|link| Some(link.cgroup?.0))
            .collect();
        for id in rows::all(&self.inner.maps) {
            let gone = || matches!(Cgroup::by_id(id), Ok(None) | Err(_));
            if !fenced.contains(&id.0) && gone() {
                rows::remove(&self.inner.maps, id)?;
            }
        }
        Ok(())
    }

    /// Puts the guard in force: loads, attaches and pins every program of it that this kernel takes, and says for each what came of
    /// it. What an earlier agent of the same build and options pinned is adopted; anything else goes after ours have come.
    ///
    /// Fails only where nothing could be pinned or found out; a kernel without a working BPF LSM is a [`Guard`] that is not complete.
    pub fn guard(&self, options: &GuardOptions) -> Result<Guard> {
        guard::guard(&self.inner.pins, &self.inner.maps, options)
    }

    /// What the kernel says of one pin; `None` if there is no such pin.
    fn link_facts(&self, name: &str) -> Result<Option<PinnedLink>> {
        let path = self.inner.pins.link(name)?;
        let shown = path.display().to_string();
        let fd = match sys::pinned(&path) {
            Ok(fd) => fd,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::kernel("open pinned link", shown)(error)),
        };
        let info = LinkInfo::from_fd(fd.as_fd()).map_err(Error::libbpf("inspect link", &shown))?;
        let LinkTypeInfo::Cgroup(link) = info.info else {
            return Err(Error::Unfit {
                subject: shown,
                reason: "it is not a link of a cgroup".to_owned(),
            });
        };
        if !matches!(link.attach_type, ProgramAttachType::CgroupDevice) {
            return Err(Error::Unfit {
                subject: shown,
                reason: "it is not a link of a device program".to_owned(),
            });
        }
        let cgroup = (link.cgroup_id != 0).then_some(CgroupId(link.cgroup_id));
        Ok(Some(PinnedLink {
            name: name.to_owned(),
            link_id: info.id,
            program_id: info.prog_id,
            cgroup,
        }))
    }

    /// A reader of the audit ring.
    pub fn audit(&self) -> Result<Audit> {
        Audit::new(object::open_map(&self.inner.pins, "audit")?)
    }

    /// The folder in which this fence is pinned.
    #[must_use]
    pub fn pins(&self) -> &Path {
        &self.inner.pins.base
    }

    /// Kernel id of the program.
    #[must_use]
    pub fn program_id(&self) -> u32 {
        self.inner.program_id
    }

    /// The kernel's tag of the program: a hash of its instructions.
    #[must_use]
    pub fn program_tag(&self) -> [u8; 8] {
        self.inner.program_tag
    }

    /// Removes every pin. Fences without any other holder fall: only for the end of an agent's use of this folder.
    pub fn remove(self) -> Result<()> {
        object::remove_all(&self.inner.pins)
    }
}

/// Puts the program on a cgroup, beside others.
fn create_link(inner: &Inner, cgroup: &Cgroup) -> Result<OwnedFd> {
    parents::check(cgroup)?;
    sys::link_create(inner.program.as_fd(), cgroup.as_fd())
        .map_err(|error| watch::link_error(cgroup, error))
}

/// The bytes of one map entry, or `None` if there is none.
pub(crate) fn lookup(map: &MapHandle, key: &[u8]) -> Result<Option<Vec<u8>>> {
    map.lookup(key, MapFlags::ANY)
        .map_err(Error::libbpf("read map", map.name().to_string_lossy()))
}

pub(crate) fn update(map: &MapHandle, key: &[u8], value: &[u8]) -> Result<()> {
    map.update(key, value, MapFlags::ANY)
        .map_err(Error::libbpf("write map", map.name().to_string_lossy()))
}
