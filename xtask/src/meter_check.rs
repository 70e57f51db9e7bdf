//! `cargo xtask meter-check`: what the meter says beside what is true, on real kernels and on this machine, with the error of each;
//! an error if one is beyond the promise. What is done, and what the limits are, is in `vm-tests` (`src/meter`, `src/guest/meter.rs`).

mod cost;

use crate::{bench, setup, sh, vm};
use anyhow::{Result, bail, ensure};
use std::path::PathBuf;
use std::process::Command;

/// Kernels that the promise is made for.
const PROMISED: [&str; 2] = ["6.1", "6.12"];

/// Seconds for one machine: ten thousand processes under emulation take minutes.
const LIMIT: u64 = 1800;

/// Begins a comparison's line.
const MARK: &str = "meter-check: ";

/// A comparison's last word when all is well.
const HOLDS: &str = "holds";

/// The guest's command, and this machine's.
const FLAG: &str = "--meter-check";

/// Where to look.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One kernel only: 6.1, 6.12 or 7; all: also those for which nothing is promised.
    #[arg(long)]
    kernel: Option<String>,
    /// This machine only.
    #[arg(long)]
    host: bool,
    /// Seconds for which the meter's cost is measured on this machine; 0 leaves that out.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Folder of binaries whose cost is measured, instead of a release build.
    #[arg(long, value_name = "FOLDER")]
    bins: Option<PathBuf>,
}

/// A comparison, as it was said: where, and the fields.
struct Row {
    place: String,
    fields: Vec<String>,
}

impl Row {
    /// A figure of point 4 with its limit, if it has one.
    fn at_most(place: &str, case: &str, what: &str, value: u64, limit: Option<u64>) -> Self {
        let bound = limit.map_or(String::new(), |limit| format!("<= {limit}"));
        let good = limit.map(|limit| value <= limit);
        Self::bounded(place, [case, what, &value.to_string(), &bound], good)
    }

    /// A figure of point 4 that must not be less.
    fn at_least(place: &str, case: &str, what: &str, value: u64, limit: u64) -> Self {
        let bound = format!(">= {limit}");
        Self::bounded(
            place,
            [case, what, &value.to_string(), &bound],
            Some(value >= limit),
        )
    }

    fn bounded(place: &str, [case, what, value, bound]: [&str; 4], good: Option<bool>) -> Self {
        let verdict = match good {
            None => "",
            Some(true) => HOLDS,
            Some(false) => "BROKEN",
        };
        let fields = ["4", case, what, value, bound, "", verdict];
        Self {
            place: place.to_owned(),
            fields: fields.map(str::to_owned).to_vec(),
        }
    }

    /// Within the promise, or nothing was promised.
    fn good(&self) -> bool {
        let verdict = self.fields.last().map_or("", String::as_str);
        verdict.is_empty() || verdict == HOLDS
    }
}

/// Runs everything and prints the table.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !sh::is_root() {
        bail!("the meter is in the kernel, which takes root");
    }
    setup::for_build()?;
    vm::build()?;
    let extras = [vm::meter_print()?];
    let (mut rows, mut good) = (Vec::new(), true);
    if args.kernel.is_none() {
        let mut command = Command::new(sh::bin_dir()?.join("guest-tests"));
        let mut lines = Vec::new();
        good &= sh::listen(command.arg(FLAG), |line| keep(&mut lines, line))?;
        rows.extend(read("here", &lines));
        if args.seconds > 0 {
            let bins = match &args.bins {
                Some(bins) => bins.clone(),
                None => {
                    bench::build_release()?;
                    sh::bin_dir()?.with_file_name("release")
                }
            };
            rows.extend(cost::measure(&bins, args.seconds)?);
        }
    }
    if !args.host {
        if let Some(why) = setup::no_machine() {
            bail!("no virtual machines here: {why}");
        }
        for kernel in kernels(args.kernel.as_deref())? {
            let outcome = vm::boot(kernel, LIMIT, &extras, &vm::tests(&[FLAG.to_owned()]))?;
            good &= outcome.ok;
            rows.extend(read(&format!("kernel {kernel}"), &outcome.lines));
        }
    }
    ensure!(!rows.is_empty(), "nothing was measured");
    print!("{}", table(&rows));
    if good && rows.iter().all(Row::good) {
        println!("meter-check: everything is within the promise");
        return Ok(());
    }
    bail!("something is beyond the promise, or could not be measured")
}

fn kernels(wanted: Option<&str>) -> Result<Vec<&'static str>> {
    wanted.map_or_else(|| Ok(PROMISED.to_vec()), vm::kernels)
}

fn keep(lines: &mut Vec<String>, line: &str) -> bool {
    lines.push(line.to_owned());
    true
}

fn read(place: &str, lines: &[String]) -> Vec<Row> {
    let fields = lines.iter().filter_map(|line| line.strip_prefix(MARK));
    let row = |line: &str| Row {
        place: place.to_owned(),
        fields: line.split('|').map(str::to_owned).collect(),
    };
    fields
        .map(row)
        .filter(|row| row.fields.len() == 7)
        .collect()
}

/// In columns, numbers to the right.
fn table(rows: &[Row]) -> String {
    const HEAD: [&str; 8] = [
        "where",
        "point",
        "case",
        "what",
        "measured",
        "true, or limit",
        "error %",
        "",
    ];
    let mut lines = vec![HEAD.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        let mut cells = vec![row.place.clone()];
        cells.extend(row.fields.iter().cloned());
        cells
    }));
    let width = |column: usize| {
        lines
            .iter()
            .map(|cells| cells[column].chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for cells in &lines {
        let line: Vec<String> = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| match column {
                4..=6 => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            })
            .collect();
        text += line.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{read, table};

    #[test]
    fn rows_are_read_and_stand_in_columns() {
        let lines = [
            "guest: a test ok",
            "meter-check: 2|10 processes|cpu ns|995|1000|-0.500|holds",
            "meter-check: the meter's printer is not here",
        ];
        let rows = read("kernel 6.1", &lines.map(str::to_owned));
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0].find("measured"), lines[1].find("     995"));
        assert!(lines[1].ends_with("holds"), "{text}");
    }
}
