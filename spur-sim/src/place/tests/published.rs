//! The real lists against the published results, where they lie beside the checkout.

use crate::place::{Lists, Setup, place};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// May be missed by this much.
const SLACK: f64 = 0.1;

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the traces are whole")
}

/// Mean allocation at 130 % of arrivals by list.
fn published(text: &str) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, u32)> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        if cells[1] == "06-FGD" {
            let last: f64 = cells[cells.len() - 1].parse().unwrap();
            let (sum, count) = sums.entry(cells[0].to_owned()).or_default();
            *sum += last;
            *count += 1;
        }
    }
    let mean = |(list, (sum, count)): (String, (f64, u32))| (list, sum / f64::from(count));
    sums.into_iter().map(mean).collect()
}

/// One order of arrivals a list: all ten, and the table, are what `cargo xtask bench --only place` makes.
#[test]
fn every_published_list_is_matched_without_knowing_it() {
    let folder = traces();
    if !folder.is_dir() {
        eprintln!("skipped: there are no traces in {}", folder.display());
        return;
    }
    let nodes = read(&folder.join("openb/openb_node_list_gpu_node.csv"));
    let published = published(&read(
        &folder.join("fgd-published/analysis_allo_discrete.csv"),
    ));
    assert!(published.len() > 10, "{published:?}");
    let setup = Setup {
        arrivals_percent: 130,
        seeds: vec![42],
        fragmentation: false,
    };
    let mut above = 0.0;
    // Unoptimized code takes seconds a list.
    let every = if cfg!(debug_assertions) { 2 } else { 1 };
    for (list, published) in published.iter().step_by(every) {
        let tasks = read(&folder.join(format!("openb/{list}.csv")));
        let lists = Lists::read(("nodes", &nodes), (list, &tasks)).unwrap();
        let allocated = place(&lists, &setup).unwrap().allocated().mean;
        assert!(
            allocated >= published - SLACK,
            "{list}: {allocated:.2}, published {published:.2}"
        );
        above += allocated - published;
    }
    assert!(above > 0.0, "above on average: {above:.2}");
}
