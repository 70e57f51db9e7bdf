//! What a planning pass costs: on a large cluster, by the number of jobs, nodes and reservations, and what an event costs.

use super::Report;
use crate::sh;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Points of a curve: how many, and milliseconds.
type Curve = Vec<(f64, f64)>;

pub(super) fn measure(curves: Option<&Path>, report: &mut Report) -> Result<()> {
    report.line("plan: passes over 10,000 nodes of 8 GPUs, 100,000 pending jobs");
    let run = [
        "run",
        "--locked",
        "--release",
        "--quiet",
        "-p",
        "spur-core",
        "--example",
    ];
    let mut command = sh::cargo(&run);
    command.args(["plan_bench", "--"]);
    if curves.is_some() {
        command.arg("--curves");
    }
    let (mut figures, mut points) = (BTreeMap::new(), BTreeMap::<String, Curve>::new());
    let mut csv = String::from("curve,count,milliseconds\n");
    let ok = sh::listen(&mut command, |line| {
        if let Some(point) = line.strip_prefix("curve;") {
            let mut fields = point.split(';');
            let name = fields.next().unwrap_or_default().to_owned();
            let mut number = || fields.next().and_then(|field| field.parse::<f64>().ok());
            if let (Some(count), Some(millis)) = (number(), number()) {
                writeln!(csv, "{name},{count},{millis}").ok();
                points.entry(name).or_default().push((count, millis));
            }
        } else {
            report.line(&format!("  {line}"));
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default().to_owned();
            if let Some(value) = words.next().and_then(|word| word.parse::<f64>().ok()) {
                figures.insert(name, value);
            }
        }
        true
    })?;
    if !ok {
        bail!("the planner's benchmark failed");
    }
    let promises = [
        ("plan_churn_pass_p50", 60.0, "ms"),
        ("plan_churn_pass_p99", 150.0, "ms"),
        ("plan_million_to_one", 1.2, "times"),
    ];
    for (name, limit, unit) in promises {
        let value = figures.get(name).copied();
        let value = value.with_context(|| format!("the benchmark did not say {name}"))?;
        report.promise(name, value, limit, unit);
    }
    if let Some(folder) = curves {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("making the folder {}", folder.display()))?;
        for (name, text) in [("plan.csv", csv), ("plan.svg", svg(&points))] {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
const MARGIN: f64 = 60.0;
const COLOURS: [&str; 5] = ["#1b6ca8", "#d1495b", "#2e8b57", "#b8860b", "#6a4c93"];

/// All curves on axes that count in powers of ten.
fn svg(curves: &BTreeMap<String, Curve>) -> String {
    let all = || curves.values().flatten();
    let range = |of: fn(&(f64, f64)) -> f64| {
        let logs = all().map(of).map(|value| value.max(0.1).log10());
        let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), log| {
            (low.min(log), high.max(log))
        });
        (low.floor(), high.ceil().max(low.floor() + 1.0))
    };
    let (across, up) = (range(|point| point.0), range(|point| point.1));
    let place = |(low, high): (f64, f64), value: f64, length: f64| {
        (value.max(0.1).log10() - low) / (high - low) * (length - 2.0 * MARGIN) + MARGIN
    };
    let x = |value: f64| place(across, value, WIDTH);
    let y = |value: f64| HEIGHT - place(up, value, HEIGHT);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut label = |at: (f64, f64), anchor: &str, words: &str| {
        writeln!(
            text,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{words}</text>",
            at.0, at.1
        )
        .ok();
    };
    for (power, vertical) in powers(across)
        .map(|p| (p, true))
        .chain(powers(up).map(|p| (p, false)))
    {
        let value = 10f64.powf(power);
        if vertical {
            label(
                (x(value), HEIGHT - MARGIN + 18.0),
                "middle",
                &format!("{value}"),
            );
        } else {
            label((MARGIN - 8.0, y(value) + 4.0), "end", &format!("{value}"));
        }
    }
    label(
        (WIDTH / 2.0, HEIGHT - 12.0),
        "middle",
        "jobs, nodes or reservations",
    );
    label((MARGIN, MARGIN - 30.0), "middle", "ms");
    for ((name, _), at) in curves.iter().zip(0u32..) {
        label(
            (WIDTH - MARGIN, MARGIN + 16.0 * f64::from(at) - 30.0),
            "end",
            name,
        );
    }
    for (points, colour) in curves.values().zip(COLOURS.iter().cycle()) {
        let points = points.iter().map(|(count, millis)| (x(*count), y(*millis)));
        line(&mut text, points, colour);
    }
    legend(&mut text, curves.len());
    text + "</svg>\n"
}

fn line(text: &mut String, points: impl Iterator<Item = (f64, f64)>, colour: &str) {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    writeln!(
        text,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{points}\"/>"
    )
    .ok();
}

/// The colours beside the names at the right.
fn legend(text: &mut String, curves: usize) {
    for (at, colour) in (0u32..).zip(COLOURS.iter().cycle()).take(curves) {
        let down = MARGIN + 16.0 * f64::from(at) - 34.0;
        writeln!(
            text,
            "<rect x=\"{:.0}\" y=\"{down:.0}\" width=\"14\" height=\"3\" fill=\"{colour}\"/>",
            WIDTH - MARGIN + 6.0
        )
        .ok();
    }
}

fn powers((low, high): (f64, f64)) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(low), |power| Some(power + 1.0))
        .take_while(move |power| *power <= high)
}
