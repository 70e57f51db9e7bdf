//! A node as the score sees it: what is free, with equal devices counted, so that equal nodes are equal values.

/// All of one device, in thousandths.
pub const WHOLE: u16 = 1_000;

/// Devices of a node that are alike: same model, same socket, same free share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Devices {
    /// What is free of each, in thousandths, at least 1.
    pub free: u16,
    /// Position of the model in [`Models`].
    pub model: u8,
    /// Which socket (or NUMA node) they are near, numbered within the node; 0 where that is unknown.
    pub socket: u8,
    /// How many.
    pub count: u16,
}

/// What is free on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// Free CPU, in thousandths of a CPU.
    pub cpu_milli: u64,
    /// Free memory in MiB.
    pub memory_mib: u64,
    /// Most devices near one socket, free or not; parts of at most so many want to be near one.
    socket_size: u16,
    /// Rising, without duplicates.
    devices: Vec<Devices>,
}

/// A part of a job, for one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// CPU in thousandths.
    pub cpu_milli: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Devices; 0 for a part that needs none.
    pub gpus: u32,
    /// What it needs of each, in thousandths: [`WHOLE`], or less for a share.
    pub milli: u16,
    /// Bits of the models that it accepts ([`Models::mask`]).
    pub models: u64,
    /// All devices must be near one socket.
    pub one_socket: bool,
}

impl State {
    /// A node without free devices.
    pub fn new(cpu_milli: u64, memory_mib: u64) -> Self {
        Self {
            cpu_milli,
            memory_mib,
            socket_size: 0,
            devices: Vec::new(),
        }
    }

    /// The same with the most devices near one of its sockets, whether they are free or not.
    #[must_use]
    pub fn with_socket_size(mut self, size: usize) -> Self {
        self.socket_size = u16::try_from(size).unwrap_or(u16::MAX);
        self
    }

    /// Adds free devices; a share of 0 is none.
    pub fn add(&mut self, devices: Devices) {
        if devices.free == 0 || devices.count == 0 {
            return;
        }
        let key = |d: &Devices| (d.free, d.model, d.socket);
        match self.devices.binary_search_by_key(&key(&devices), key) {
            Ok(at) => {
                if let Some(same) = self.devices.get_mut(at) {
                    same.count = same.count.saturating_add(devices.count);
                }
            }
            Err(at) => self.devices.insert(at, devices),
        }
    }

    /// Free devices by what is free of them, least first.
    pub fn devices(&self) -> &[Devices] {
        &self.devices
    }

    /// Free GPU capacity in thousandths of a GPU.
    pub fn free_milli(&self) -> i64 {
        self.devices.iter().map(|d| d.milli()).sum()
    }

    /// Whether so many devices should be near one socket here.
    pub(super) fn wants_one_socket(&self, gpus: u32) -> bool {
        gpus > 1 && gpus <= u32::from(self.socket_size)
    }

    /// Whether a part fits.
    pub fn fits(&self, part: &Part) -> bool {
        if self.cpu_milli < part.cpu_milli || self.memory_mib < part.memory_mib {
            return false;
        }
        part.gpus == 0 || self.most(part) >= part.gpus
    }

    /// Most devices that this part could get here, near one socket if it must.
    fn most(&self, part: &Part) -> u32 {
        let fitting = self.devices.iter().filter(|d| d.serves(part));
        if !part.one_socket || part.gpus < 2 {
            return fitting.map(|d| u32::from(d.count)).sum();
        }
        let sockets = self.devices.iter().map(|d| d.socket).max();
        let on = |socket: u8| {
            let near = fitting.clone().filter(move |d| d.socket == socket);
            near.map(|d| u32::from(d.count)).sum::<u32>()
        };
        (0..=sockets.unwrap_or(0)).map(on).max().unwrap_or(0)
    }

    /// What stays free when a part takes its share of these devices.
    pub(super) fn without(&self, part: &Part, taken: &[Devices]) -> Self {
        let mut after = Self {
            cpu_milli: self.cpu_milli.saturating_sub(part.cpu_milli),
            memory_mib: self.memory_mib.saturating_sub(part.memory_mib),
            socket_size: self.socket_size,
            devices: self.devices.clone(),
        };
        for from in taken {
            let kind = (from.free, from.model, from.socket);
            let found = after
                .devices
                .iter_mut()
                .find(|d| (d.free, d.model, d.socket) == kind);
            if let Some(found) = found {
                found.count = found.count.saturating_sub(from.count);
            }
        }
        after.devices.retain(|d| d.count > 0);
        for from in taken {
            let free = from.free.saturating_sub(part.milli);
            after.add(Devices { free, ..*from });
        }
        after
    }
}

impl Devices {
    /// Free capacity of all of them, in thousandths of a GPU.
    pub(super) fn milli(&self) -> i64 {
        i64::from(self.free) * i64::from(self.count)
    }

    /// Whether each of them has what a part needs of a device.
    pub(super) fn serves(&self, part: &Part) -> bool {
        self.free >= part.milli && part.models & bit(self.model) != 0
    }
}

fn bit(model: u8) -> u64 {
    1u64.checked_shl(u32::from(model)).unwrap_or(0)
}

/// GPU models by number, so that a set of them is one word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Models(Vec<String>);

impl Models {
    /// Most models that are told apart; later ones share the last number.
    pub const MAX: usize = 64;

    /// Numbers these names, sorted, each once.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: std::collections::BTreeSet<&str> = names.collect();
        Self(names.into_iter().map(str::to_owned).collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of a model, if it is known.
    pub fn id(&self, name: &str) -> Option<u8> {
        let at = self.0.binary_search_by(|known| known.as_str().cmp(name));
        u8::try_from(at.ok()?.min(Self::MAX - 1)).ok()
    }

    /// The models of a list joined by bars; all of them if it is empty. Names that no node has add nothing.
    pub fn mask(&self, names: &str) -> u64 {
        if names.is_empty() {
            return u64::MAX;
        }
        let ids = names.split('|').filter_map(|name| self.id(name.trim()));
        ids.fold(0, |mask, id| mask | bit(id))
    }
}
