//! Replays the corpus of the fuzz targets (`fuzz/`): nothing in it may panic, and all of it must be done at once.

#[path = "../../fuzz/targets.rs"]
mod targets;

use std::path::Path;

#[test]
fn the_corpus_neither_panics_nor_hangs() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, target) in targets::TARGETS {
        let files = std::fs::read_dir(corpus.join(name)).unwrap();
        let mut replayed = 0;
        for file in files {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            target(&bytes);
            replayed += 1;
        }
        assert!(replayed > 0, "{name} has no corpus");
    }
}

#[test]
fn long_inputs_are_no_trouble() {
    for (_, target) in targets::TARGETS {
        for mark in [
            "[",
            "]",
            ",",
            "-",
            ":",
            "9",
            "%",
            "\\",
            "\"",
            "=",
            "\0",
            "\u{ff}",
            "n[1-9]",
            "#!/bin/sh\n#SBATCH -n1\n",
            "-x",
        ] {
            target(mark.repeat(10_000).as_bytes());
        }
    }
}
