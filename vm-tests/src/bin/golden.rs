//! `golden [--list] [--save DIR] [FILE…]`: plays the recordings of the real Slurm and says which match. Last line: `N of M match`.

use anyhow::{Context, Result};
use clap::Parser;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use vm_tests::golden::judge::{self, Verdict};
use vm_tests::golden::{play, record, site};
use vm_tests::host;

/// Lines of a difference that are shown without `--full`.
const LINES: usize = 24;

#[derive(Parser)]
#[command(name = "golden")]
struct Args {
    /// Only the verdict of each recording, not how it differs.
    #[arg(long)]
    list: bool,
    /// Every line that differs.
    #[arg(long)]
    full: bool,
    /// Keep what our commands printed in this folder, in the form of the recordings.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// We are in name spaces of our own.
    #[arg(long, hide = true)]
    inside: bool,
    /// Names of recordings, with or without folder and `.txt`; all without.
    files: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("golden: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<ExitCode> {
    let folder = record::folder();
    let Some(records) = record::all(&folder) else {
        host::skip(&format!("no recordings in {}", folder.display()));
        return Ok(ExitCode::SUCCESS);
    };
    if !args.inside {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let words: Vec<String> = std::iter::once("--inside".to_owned())
            .chain(words)
            .collect();
        let code = site::enter(&words)?;
        return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
    }
    let wanted = wanted(args, &records)?;
    let played = play::play(&records, &wanted)?;
    if let Some(dir) = &args.save {
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        for (name, sections) in &played {
            let first = records
                .get(name)
                .map(|record| format!("$ {}\n", record.command));
            fs::write(
                dir.join(format!("{name}.txt")),
                first.unwrap_or_default() + sections,
            )?;
        }
    }
    let asked = records
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.contains(*name));
    let verdicts = judge::judge(asked, &played);
    Ok(if tell(&verdicts, args) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints every verdict and how many match; whether none differs that is not known to.
fn tell(verdicts: &BTreeMap<String, Verdict>, args: &Args) -> bool {
    let (mut good, mut new) = (0, 0);
    let known = judge::known();
    for (name, verdict) in verdicts {
        let matches = matches!(verdict, Verdict::Match | Verdict::Intended(_));
        good += usize::from(matches);
        new += usize::from(!matches && !known.contains_key(name.as_str()));
        println!("{}", line(name, verdict, args));
        if let Some(missing) = known.get(name.as_str()).filter(|_| !matches) {
            println!("    known: {missing}");
        }
    }
    println!("{good} of {} match", verdicts.len());
    new == 0
}

/// The recordings that were named; an unknown name is an error.
fn wanted<T>(args: &Args, records: &BTreeMap<String, T>) -> Result<BTreeSet<String>> {
    let name = |file: &String| {
        let name = file.rsplit('/').next().unwrap_or(file);
        let name = name.strip_suffix(".txt").unwrap_or(name);
        let known = records.contains_key(name).then(|| name.to_owned());
        known.with_context(|| format!("{file}: no such recording"))
    };
    args.files.iter().map(name).collect()
}

fn line(name: &str, verdict: &Verdict, args: &Args) -> String {
    match verdict {
        Verdict::Match => format!("ok        {name}"),
        Verdict::Intended(why) => format!("intended  {name}: {why}"),
        Verdict::NeedlesslyIntended => {
            format!("DIFFERS   {name}: matches; take it out of intended.tsv")
        }
        Verdict::NotPlayed => format!("DIFFERS   {name}: no step plays it"),
        Verdict::Differs(_) if args.list => format!("DIFFERS   {name}"),
        Verdict::Differs(lines) => {
            let most = if args.full { usize::MAX } else { LINES };
            let shown: Vec<&str> = lines.lines().take(most).collect();
            let more = lines.lines().count() - shown.len();
            let rest = if more > 0 {
                format!("\n    … {more} more lines")
            } else {
                String::new()
            };
            format!("DIFFERS   {name}\n{}{rest}", shown.join("\n"))
        }
    }
}
