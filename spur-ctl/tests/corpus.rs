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

/// A small generator of numbers (xorshift64), so that a failure comes back.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).expect("below a usize")
    }
}

/// Changes some bytes: to others, away, twice, or to what means something to a grammar.
fn mutated(bytes: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    const MARKS: &[u8] = b"[](),-:;=%*?&|!+@#'\"\\ \t\n\r\0\x80\xff\xf40123456789aAkKTx._/";
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(5) {
            0 if at < bytes.len() => bytes[at] = MARKS[dice.below(MARKS.len())],
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.insert(at, MARKS[dice.below(MARKS.len())]),
            3 => {
                let end = (at + dice.below(12)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let from = dice.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes
}

#[test]
fn mutations_of_the_corpus_are_no_trouble() {
    let rounds: u32 = std::env::var("SPUR_FUZZ_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(300);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, target) in targets::TARGETS {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        let mut files: Vec<_> = std::fs::read_dir(corpus.join(name))
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        let seeds: Vec<Vec<u8>> = files
            .iter()
            .map(|file| std::fs::read(file).unwrap())
            .collect();
        for _ in 0..rounds {
            for seed in &seeds {
                let other = &seeds[dice.below(seeds.len())];
                let bytes = mutated(seed, other, &mut dice);
                let told = bytes.clone();
                if std::panic::catch_unwind(move || target(&bytes)).is_err() {
                    panic!("{name} panics on {:?}", String::from_utf8_lossy(&told));
                }
            }
        }
    }
}
