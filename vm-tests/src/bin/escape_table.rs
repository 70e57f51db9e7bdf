//! The table of escapes for `cargo xtask escapes`: which tests it wants (`plan`), the document's copy (`write FILE`), and the verdict
//! over what ran (`judge`, or `judge --part` where only a part was asked for; results on standard input).

use anyhow::{Context, Result, bail};
use std::process::ExitCode;
use vm_tests::escapes::{self, Results};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("escape-table: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<bool> {
    match words {
        ["plan"] => {
            for (package, name) in escapes::tests() {
                println!("{} {name}", package.unwrap_or("guest"));
            }
            Ok(true)
        }
        ["write", file] => {
            let document =
                std::fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
            let new = escapes::renewed(&document)
                .with_context(|| format!("{file} lacks the marks {:?}", escapes::MARKS))?;
            std::fs::write(file, new).with_context(|| format!("writing {file}"))?;
            Ok(true)
        }
        ["judge", rest @ ..] => {
            let text = std::io::read_to_string(std::io::stdin()).context("reading results")?;
            let (table, good) = escapes::judge(&Results::read(&text), rest.is_empty());
            print!("{table}");
            Ok(good)
        }
        _ => bail!("say plan, write FILE or judge"),
    }
}
