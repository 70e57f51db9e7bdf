use super::*;
use clap::Parser;
use std::path::Path;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn args(folder: &Path, more: &[&str]) -> Args {
    let file = |name: &str| folder.join(name).display().to_string();
    let (nodes, tasks) = (file("nodes.csv"), file("tasks.csv"));
    let words = ["place", "--nodes", &nodes, "--tasks", &tasks];
    let words = words.into_iter().chain(more.iter().copied());
    Line::try_parse_from(words).unwrap().args
}

fn lists(tasks: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let nodes = "sn,cpu_milli,memory_mib,gpu,model\nn1,32000,65536,4,A\nn2,32000,65536,4,B\n";
    std::fs::write(folder.path().join("nodes.csv"), nodes).unwrap();
    std::fs::write(folder.path().join("tasks.csv"), tasks).unwrap();
    folder
}

const TASKS: &str =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,2000,4096,1,1000\nb,1000,2048,1,300\n";

#[test]
fn seeds_are_numbers_and_ranges() {
    assert_eq!(seeds("42-51").unwrap().0.len(), 10);
    assert_eq!(seeds("7, 1-3").unwrap().0, [7, 1, 2, 3]);
    for bad in ["", "x", "5-4", "1-", "0-5000", "1,,2"] {
        assert!(seeds(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn what_programs_read_has_the_promised_names() {
    let folder = lists(TASKS);
    let args = args(folder.path(), &["--json"]);
    assert_eq!((args.arrivals, args.seeds.0.len()), (130, 10));
    let text = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
    let lists = Lists::read(("n", &text(&args.nodes)), ("t", &text(&args.tasks))).unwrap();
    let setup = Setup {
        arrivals_percent: args.arrivals,
        seeds: args.seeds.0.clone(),
        fragmentation: false,
    };
    let report = place(&lists, &setup).unwrap();
    let json = serde_json::to_value(Answer::of(&report, &setup, 0.5)).unwrap();
    let mean = json["allocated_percent"]["mean"].as_f64().unwrap();
    assert!(mean > 90.0 && mean <= 100.0, "{json}");
    assert!(json["allocated_percent"]["sd"].is_f64());
    assert_eq!(json["decision_hash"].as_str().unwrap().len(), 16);
    assert_eq!(json["seconds"], 0.5);
    assert_eq!(json["by_seed"].as_array().unwrap().len(), 10);
}

#[test]
fn files_are_written_and_bad_ones_named() {
    let folder = lists(TASKS);
    let (csv, svg) = (folder.path().join("out.csv"), folder.path().join("out.svg"));
    let wanted = Args {
        csv: Some(csv.clone()),
        plot: Some(svg.clone()),
        ..args(
            folder.path(),
            &["--seeds", "1", "--arrivals", "50", "--json"],
        )
    };
    assert_eq!(main(&wanted), Ok(0));
    assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 3);
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));

    let folder = lists(&TASKS.replace(",300", ",3000"));
    let why = main(&args(folder.path(), &[])).unwrap_err();
    assert!(why.text.starts_with("spur sim: error: "), "{}", why.text);
    let place = "tasks.csv:3: column gpu_milli: \"3000\" is not a whole number from 1 to 1000";
    assert!(why.text.trim_end().ends_with(place), "{}", why.text);
    std::fs::remove_file(folder.path().join("nodes.csv")).unwrap();
    let why = main(&args(folder.path(), &[])).unwrap_err();
    assert!(why.text.contains("cannot read"), "{}", why.text);
}
