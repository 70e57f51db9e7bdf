//! Who has a device open: one walk of the kernel's own, by its iterator over open files.

use super::Holder;
use super::abi::{RawHolder, RawMeterSettings};
use super::object::{self, HOLDERS_OBJECT, Maps};
use crate::abi::Plain;
use crate::guard::said;
use crate::{Error, Result};
use libbpf_rs::{Iter, Link};
use std::collections::BTreeSet;
use std::io::Read;
use std::mem::size_of;

/// Rows that are read at once.
const ROWS: usize = 256;
const ROW: usize = size_of::<RawHolder>();

/// The program, loaded once and asked often. It does nothing by itself.
#[derive(Debug)]
pub(super) struct Walker {
    link: Link,
}

impl Walker {
    pub(super) fn load(maps: &Maps, settings: &RawMeterSettings) -> Result<Walker> {
        let (result, said) = said::listen(|| try_load(maps, settings));
        result.map_err(|error| match said::verifier(&said) {
            Some(line) => Error::Unfit {
                subject: "the iterator over open files".to_owned(),
                reason: format!("the verifier refuses it: {line}"),
            },
            None => error,
        })
    }

    /// Everybody who has one of the wanted devices open, each once per device.
    pub(super) fn walk(&self, wanted: &dyn Fn(u32, u32) -> bool) -> Result<Vec<Holder>> {
        let mut iter = Iter::new(&self.link).map_err(Error::libbpf("walk", "open files"))?;
        let mut found = BTreeSet::new();
        let mut buffer = [0; ROW * ROWS];
        let mut filled = 0;
        loop {
            let read = iter.read(&mut buffer[filled..]);
            match read.map_err(Error::kernel("read", "the iterator over open files"))? {
                0 => break,
                more => filled += more,
            }
            let whole = filled - filled % ROW;
            let rows = buffer[..whole]
                .chunks_exact(ROW)
                .filter_map(RawHolder::from_bytes);
            found.extend(
                rows.map(holder)
                    .filter(|holder| wanted(holder.major, holder.minor)),
            );
            buffer.copy_within(whole..filled, 0);
            filled -= whole;
        }
        Ok(found.into_iter().collect())
    }
}

fn try_load(maps: &Maps, settings: &RawMeterSettings) -> Result<Walker> {
    let mut object = object::open(HOLDERS_OBJECT)?;
    maps.prepare(&mut object, settings)?;
    let object = object
        .load()
        .map_err(Error::libbpf("load", "the iterator over open files"))?;
    let mut programs = object.progs_mut();
    let program = programs.next().ok_or_else(|| Error::Unfit {
        subject: "the iterator's object".to_owned(),
        reason: "it has no program".to_owned(),
    })?;
    let link = program.attach();
    let link = link.map_err(Error::libbpf("attach", "the iterator over open files"))?;
    Ok(Walker { link })
}

/// The kernel's own numbers have 12 bits of major and 20 of minor.
fn holder(raw: RawHolder) -> Holder {
    Holder {
        pid: raw.pid,
        cgroup_id: raw.cgroup,
        major: raw.device >> 20,
        minor: raw.device & 0xf_ffff,
    }
}
