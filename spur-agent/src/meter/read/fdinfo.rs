//! What DRM clients say of themselves in `/proc/PID/fdinfo/FD` (Documentation/gpu/drm-usage-stats.rst). One client may be open under
//! many descriptors and in many processes; it is one all the same.

use std::collections::BTreeMap;
use std::path::Path;

/// Most descriptors of a process that are looked at.
const DESCRIPTORS_MAX: usize = 4096;

/// Most engines of a client that are told apart.
const ENGINES_MAX: usize = 32;

/// One client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Its number, which is its own on the device.
    pub id: u64,
    /// Busy time of each engine, ns, divided by how many of its kind there are.
    pub busy_ns: BTreeMap<String, u64>,
    /// Cycles of each engine that were the client's, of all that passed, for drivers that count so.
    pub cycles: BTreeMap<String, (u64, u64)>,
    /// Device memory that only this client has, bytes; absent if the driver does not tell.
    pub memory: Option<u64>,
}

/// Regions that are the device's own memory, by how drivers call them.
fn is_device_memory(region: &str) -> bool {
    ["vram", "local", "memory", "device"]
        .iter()
        .any(|name| region.starts_with(name))
}

/// Reads a file; `None` if it is not a DRM client's.
pub fn parse(text: &str) -> Option<Client> {
    let mut client = Client::default();
    let mut id = None;
    let mut capacities: BTreeMap<&str, u64> = BTreeMap::new();
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut resident, mut shared, mut older) = (None, 0u64, None);
    for line in text.lines() {
        let Some((key, value)) = line
            .strip_prefix("drm-")
            .and_then(|line| line.split_once(':'))
        else {
            continue;
        };
        let value = value.trim();
        if key == "client-id" {
            id = value.parse().ok();
        } else if let Some(engine) = key.strip_prefix("engine-capacity-") {
            capacities.extend(value.parse().ok().map(|count| (engine, count)));
        } else if let Some(engine) = key.strip_prefix("engine-") {
            let busy = value
                .strip_suffix("ns")
                .and_then(|number| number.trim().parse().ok());
            insert(&mut client.busy_ns, engine, busy);
        } else if let Some(engine) = key.strip_prefix("total-cycles-") {
            totals.extend(value.parse().ok().map(|total| (engine, total)));
        } else if let Some(engine) = key.strip_prefix("cycles-") {
            insert(
                &mut client.cycles,
                engine,
                value.parse().ok().map(|cycles| (cycles, 0)),
            );
        } else if let Some((kind, _)) = key
            .split_once('-')
            .filter(|(_, region)| is_device_memory(region))
        {
            let Some(bytes) = bytes(value) else { continue };
            match kind {
                "resident" => resident = Some(resident.unwrap_or(0u64).saturating_add(bytes)),
                "shared" => shared = shared.saturating_add(bytes),
                "memory" => older = Some(older.unwrap_or(0u64).saturating_add(bytes)),
                _ => {}
            }
        }
    }
    client.id = id?;
    for (engine, busy) in &mut client.busy_ns {
        *busy /= capacities.get(engine.as_str()).copied().unwrap_or(1).max(1);
    }
    client.cycles.retain(|engine, cycles| {
        cycles.1 = totals.get(engine.as_str()).copied().unwrap_or(0);
        cycles.1 > 0
    });
    client.memory = resident.map(|bytes| bytes.saturating_sub(shared)).or(older);
    Some(client)
}

fn insert<T>(into: &mut BTreeMap<String, T>, engine: &str, value: Option<T>) {
    if let Some(value) = value.filter(|_| into.len() < ENGINES_MAX) {
        into.insert(engine.to_owned(), value);
    }
}

/// `5 KiB`, `7 MiB`, or bytes.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let factor = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.trim().parse::<u64>().ok()?.checked_mul(factor)
}

/// The clients that a process has of the device whose node is `node`, as the descriptors' links call it. `proc` is `/proc`.
pub fn of_process(proc: &Path, pid: u32, node: &str) -> Vec<Client> {
    let folder = proc.join(pid.to_string());
    let entries = std::fs::read_dir(folder.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    let mut clients: Vec<Client> = Vec::new();
    for entry in entries.take(DESCRIPTORS_MAX) {
        if std::fs::read_link(entry.path()).is_ok_and(|to| to == Path::new(node)) {
            let text = std::fs::read_to_string(folder.join("fdinfo").join(entry.file_name()));
            let client = text.ok().and_then(|text| parse(&text));
            clients.extend(client.filter(|new| clients.iter().all(|known| known.id != new.id)));
        }
    }
    clients
}

/// What clients were seen to do, from look to look.
#[derive(Debug, Default)]
pub struct Seen {
    clients: BTreeMap<(u32, u64), BTreeMap<String, u64>>,
    cycles: BTreeMap<(u32, u64), BTreeMap<String, (u64, u64)>>,
    /// One pass is over: a client that is new now began since.
    begun: bool,
}

impl Seen {
    /// Takes a client of a GPU in and gives its busy time since the look before, µs. `span` is the time since then, ms.
    pub fn take(&mut self, gpu: u32, client: &Client, span: u64) -> u64 {
        let key = (gpu, client.id);
        let fresh = !self.clients.contains_key(&key);
        let before = self.clients.entry(key).or_default();
        let mut grown_ns = 0u64;
        for (engine, busy) in &client.busy_ns {
            let last = before
                .entry(engine.clone())
                .or_insert(if fresh && self.begun { 0 } else { *busy });
            grown_ns = grown_ns.saturating_add(busy.saturating_sub(*last));
            // It may go back for a moment: the greatest counts.
            *last = (*last).max(*busy);
        }
        let before = self.cycles.entry(key).or_default();
        for (engine, (own, total)) in &client.cycles {
            let last = before
                .insert(engine.clone(), (*own, *total))
                .unwrap_or((*own, *total));
            let share = own.saturating_sub(last.0).min(total.saturating_sub(last.1));
            let ns = u128::from(share) * u128::from(span) * 1_000_000;
            let ns = ns
                .checked_div(u128::from(total.saturating_sub(last.1)))
                .unwrap_or(0);
            grown_ns = grown_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX));
        }
        grown_ns / 1000
    }

    /// A pass over all is complete: clients that were not in it are gone.
    pub fn pass(&mut self, seen: &std::collections::BTreeSet<(u32, u64)>) {
        self.begun = true;
        self.clients.retain(|key, _| seen.contains(key));
        self.cycles.retain(|key, _| seen.contains(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const XE: &str = "pos:\t0\nflags:\t02\ndrm-driver:\txe\ndrm-client-id:\t7\ndrm-pdev:\t0000:03:00.0\ndrm-total-vram0:\t9 MiB\ndrm-shared-vram0:\t1 MiB\ndrm-resident-vram0:\t4 MiB\ndrm-total-system:\t9 GiB\ndrm-cycles-rcs:\t100\ndrm-total-cycles-rcs:\t1000\ndrm-cycles-ccs:\t5\n";

    #[test]
    fn each_drivers_way_of_counting_is_read() {
        let old = parse("drm-client-id: 3\ndrm-engine-gfx:\t4000 ns\ndrm-engine-capacity-gfx:\t2\ndrm-engine-dec: 10 ns\ndrm-memory-vram:\t5 KiB\ndrm-memory-gtt: 7 KiB\n").unwrap();
        assert_eq!((old.id, old.memory), (3, Some(5 << 10)));
        assert_eq!(
            old.busy_ns,
            BTreeMap::from([("gfx".into(), 2000), ("dec".into(), 10)])
        );
        let xe = parse(XE).unwrap();
        assert_eq!((xe.id, xe.memory), (7, Some(3 << 20)));
        assert_eq!(xe.cycles, BTreeMap::from([("rcs".into(), (100, 1000))]));
        assert_eq!(parse("pos:\t0\ndrm-driver: x\n"), None);
    }

    fn busy(id: u64, ns: u64) -> Client {
        Client {
            id,
            busy_ns: BTreeMap::from([("gfx".into(), ns)]),
            ..Client::default()
        }
    }

    #[test]
    fn what_was_done_before_the_first_look_is_not_counted_and_a_step_back_counts_nothing() {
        let mut seen = Seen::default();
        assert_eq!(seen.take(0, &busy(1, 5_000_000), 1000), 0);
        seen.pass(&BTreeSet::from([(0, 1)]));
        assert_eq!(seen.take(0, &busy(1, 7_000_000), 1000), 2_000);
        assert_eq!(
            seen.take(0, &busy(2, 3_000_000), 1000),
            3_000,
            "a client that began since"
        );
        assert_eq!(seen.take(0, &busy(1, 6_000_000), 1000), 0);
        assert_eq!(seen.take(0, &busy(1, 8_000_000), 1000), 1_000);
        seen.pass(&BTreeSet::from([(0, 2)]));
        assert_eq!(seen.clients.len(), 1);
        let mut client = parse(XE).unwrap();
        seen.take(1, &client, 1000);
        client.cycles = BTreeMap::from([("rcs".into(), (300, 1400))]);
        assert_eq!(seen.take(1, &client, 1000), 500_000);
    }

    #[test]
    fn a_client_under_many_descriptors_is_one() {
        let proc = tempfile::tempdir().unwrap();
        let own = proc.path().join("42");
        for (fd, to) in [
            ("3", "/dev/dri/renderD128"),
            ("4", "/dev/dri/renderD128"),
            ("5", "/dev/dri/renderD129"),
            ("6", "socket:[1]"),
        ] {
            std::fs::create_dir_all(own.join("fd")).unwrap();
            std::fs::create_dir_all(own.join("fdinfo")).unwrap();
            std::os::unix::fs::symlink(to, own.join("fd").join(fd)).unwrap();
            std::fs::write(own.join("fdinfo").join(fd), XE).unwrap();
        }
        assert_eq!(of_process(proc.path(), 42, "/dev/dri/renderD128").len(), 1);
        assert_eq!(of_process(proc.path(), 43, "/dev/dri/renderD128").len(), 0);
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(lines in prop::collection::vec(prop_oneof!["drm-[a-z-]{0,20}:[ \t]?[0-9]{0,22} ?(ns|KiB|MiB)?", ".{0,40}"], 0..20), span in any::<u64>()) {
            if let Some(client) = parse(&lines.join("\n")) {
                let mut seen = Seen::default();
                seen.take(0, &client, span);
                seen.take(0, &client, span);
            }
        }
    }
}
