//! Which grant bit stands for which GPU. A bit belongs to an identity, not to an index: a running job's policy holds bits, and
//! after a hotplug and a restart of the agent the same index may be another GPU. So the pairs are kept in a file.

use crate::discover::Identity;
use spur_core::resources::GpuVendor;
use spur_ebpf::GrantBit;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bits from here up stand for the control nodes of a vendor.
const FIRST_SHARED: u16 = 500;

/// The pairs, in memory and on disk.
#[derive(Debug)]
pub struct Bits {
    file: PathBuf,
    of: BTreeMap<Identity, u16>,
    /// What the file says.
    kept: BTreeMap<Identity, u16>,
}

/// Why a GPU has no bit.
#[derive(Debug, thiserror::Error)]
pub enum BitsError {
    /// The file is damaged or cannot be read or written.
    #[error("cannot keep the GPUs' grant bits in {file}: {source}")]
    File {
        /// Which file.
        file: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// More GPUs than bits.
    #[error(
        "this node had more than {FIRST_SHARED} different GPUs since its jobs started; end the jobs that hold gone ones"
    )]
    Full,
}

impl Bits {
    /// Reads the file, and gives every identity of `now` a bit; [`Self::keep`] writes them down. Bits in `held` (of living policies) are not given to others.
    pub fn open(
        state_dir: &Path,
        now: &[Identity],
        held: &BTreeSet<u16>,
    ) -> Result<Self, BitsError> {
        let file = state_dir.join("grant-bits");
        let failed = |source: io::Error| BitsError::File {
            file: file.clone(),
            source,
        };
        let of: BTreeMap<Identity, u16> = match std::fs::read(&file) {
            Ok(bytes) => rmp_serde::from_slice::<Vec<(Identity, u16)>>(&bytes)
                .map_err(|e| failed(io::Error::new(io::ErrorKind::InvalidData, e.to_string())))?
                .into_iter()
                .collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(failed(error)),
        };
        let mut bits = Self {
            file: file.clone(),
            kept: of.clone(),
            of,
        };
        bits.of
            .retain(|identity, bit| now.contains(identity) || held.contains(bit));
        for identity in now {
            bits.give(identity)?;
        }
        Ok(bits)
    }

    /// Writes them down, if the file says something else. Before that, no policy that outlives this process may hold a new one.
    pub fn keep(&mut self) -> Result<(), BitsError> {
        if self.of != self.kept {
            self.save().map_err(|source| BitsError::File {
                file: self.file.clone(),
                source,
            })?;
            self.kept = self.of.clone();
        }
        Ok(())
    }

    fn give(&mut self, identity: &Identity) -> Result<(), BitsError> {
        if !self.of.contains_key(identity) {
            let used: BTreeSet<u16> = self.of.values().copied().collect();
            let free = (0..FIRST_SHARED)
                .find(|bit| !used.contains(bit))
                .ok_or(BitsError::Full)?;
            self.of.insert(identity.clone(), free);
        }
        Ok(())
    }

    /// Writes the file whole or not at all; durable before any policy uses a new bit.
    fn save(&self) -> io::Result<()> {
        let pairs: Vec<(&Identity, &u16)> = self.of.iter().collect();
        let bytes = rmp_serde::to_vec(&pairs).map_err(io::Error::other)?;
        let draft = self.file.with_extension("new");
        let mut out = std::fs::File::create(&draft)?;
        out.write_all(&bytes)?;
        out.sync_data()?;
        std::fs::rename(&draft, &self.file)
    }

    /// The bit of a GPU; `None` if it was not there when the agent started.
    pub fn of(&self, identity: &Identity) -> Option<GrantBit> {
        self.of.get(identity).copied().and_then(GrantBit::new)
    }
}

/// The bit of a vendor's control nodes.
pub fn shared(vendor: GpuVendor) -> GrantBit {
    let number = match vendor {
        GpuVendor::Nvidia => FIRST_SHARED,
        GpuVendor::Amd => FIRST_SHARED + 1,
        GpuVendor::Drm => FIRST_SHARED + 2,
        GpuVendor::Simulated => FIRST_SHARED + 3,
    };
    GrantBit::new(number).expect("below 512")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(number: u32) -> Identity {
        Identity::Declared {
            major: 120,
            minor: number,
        }
    }

    #[test]
    fn a_bit_stays_with_its_gpu_while_a_policy_may_hold_it() {
        let dir = tempfile::tempdir().unwrap();
        let none = BTreeSet::new();
        let mut first = Bits::open(dir.path(), &[gpu(0), gpu(1)], &none).unwrap();
        let (zero, one) = (first.of(&gpu(0)).unwrap(), first.of(&gpu(1)).unwrap());
        assert_ne!(zero, one);
        first.keep().unwrap();
        // GPU 0 is gone, GPU 2 is new, and a job still holds GPU 0's bit.
        let held = BTreeSet::from([zero.number()]);
        let mut second = Bits::open(dir.path(), &[gpu(1), gpu(2)], &held).unwrap();
        assert_eq!(second.of(&gpu(1)), Some(one));
        assert!(![zero, one].contains(&second.of(&gpu(2)).unwrap()));
        second.keep().unwrap();
        // The job ended: the bit is free.
        let third = Bits::open(dir.path(), &[gpu(1), gpu(2), gpu(3)], &none).unwrap();
        assert_eq!(third.of(&gpu(3)), Some(zero));
        assert_eq!(third.of(&gpu(0)), None);
        std::fs::write(dir.path().join("grant-bits"), b"junk").unwrap();
        assert!(
            Bits::open(dir.path(), &[gpu(1)], &none)
                .unwrap_err()
                .to_string()
                .contains("grant-bits")
        );
    }
}
