//! `spur usage JOB --plot FILE`: the job's use over time as one SVG that needs nothing else, readable on light and on dark ground.

use crate::cli::render::View;
use crate::cli::render::accounts::numbers;
use spur_core::api::{SeriesKind, SeriesPoint, SeriesView, UsageReport};
use spur_core::slurm::timespec;
use std::fmt::Write as _;

/// Size of the whole and place of a panel, in the picture's units.
const WIDTH: u32 = 900;
const LEFT: u32 = 80;
const RIGHT: u32 = 170;
const TOP: u32 = 84;
const PANEL: u32 = 130;
const GAP: u32 = 50;
/// Most lines that have a word in the legend.
const LEGEND_MAX: usize = 8;
/// Most lines of a panel; of wider jobs the first are shown, and it is said.
const LINES_MAX: usize = 64;

/// Colours that can be told apart, also by those who see few, on white and on black.
const COLOURS: [&str; 8] = [
    "#3b82c4", "#e07b39", "#2f9e6e", "#c7567f", "#8a6fd1", "#b39b2e", "#4aa8a8", "#999999",
];

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#333}.t{font-size:15px;font-weight:600}.g{stroke:#8885;\
    stroke-width:1}.l{fill:none;stroke-width:1.5}.b{stroke:none;opacity:.15}@media(prefers-color-scheme:dark){text{fill:#ddd}}";

/// A panel of the picture.
struct Panel<'a> {
    title: &'static str,
    lines: Vec<&'a SeriesView>,
    most: u64,
    label: fn(u64) -> String,
}

/// The picture; `None` if there is nothing to show.
pub(super) fn svg(view: &View, report: &UsageReport) -> Option<String> {
    let panels = panels(report);
    let span = report
        .series
        .iter()
        .map(end)
        .max()
        .filter(|span| *span > 0)?;
    if panels.is_empty() {
        return None;
    }
    let job = &report.record.job;
    let count = u32::try_from(panels.len()).unwrap_or(4);
    let height = TOP + count * (PANEL + GAP) + 20;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\">\n<title>Use of job {0} over time</title>\n<style>{STYLE}</style>\n\
         <text class=\"t\" x=\"{LEFT}\" y=\"24\">Job {0} ({1}) of {2}</text>\n\
         <text x=\"{LEFT}\" y=\"42\">from {3}, {4}</text>\n",
        job.id,
        escaped(&job.spec.name),
        escaped(&job.spec.owner.user),
        escaped(&view.clock.stamp_or(job.started, "Unknown")),
        timespec::elapsed_long(span / 1000)
    );
    for (at, panel) in (0u32..).zip(&panels) {
        draw(&mut text, panel, TOP + at * (PANEL + GAP), span);
    }
    text.push_str("</svg>\n");
    Some(text)
}

/// Text as XML may hold it.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push('?'),
            c => safe.push(c),
        }
    }
    safe
}

/// The end of what was seen, ms.
fn end(series: &SeriesView) -> u64 {
    series.step.saturating_mul(series.points.len() as u64)
}

fn panels(report: &UsageReport) -> Vec<Panel<'_>> {
    let of = |kind: SeriesKind| -> Vec<&SeriesView> {
        let all = report.series.iter();
        all.filter(|series| series.kind == kind && !series.points.is_empty())
            .collect()
    };
    let most = |lines: &[&SeriesView]| {
        let points = lines.iter().flat_map(|series| &series.points);
        points.map(|point| point.max).max().unwrap_or(0)
    };
    let make = |title, kind, least: u64, label: fn(u64) -> String| {
        let lines = of(kind);
        let most = most(&lines).max(least);
        Panel {
            title,
            lines,
            most: most.max(1),
            label,
        }
    };
    let all = [
        make("CPUs at work", SeriesKind::Cpu, 1000, cpus),
        make("Memory", SeriesKind::Memory, 1 << 20, numbers::bytes),
        make("GPU busy", SeriesKind::GpuBusy, 1000, numbers::percent),
        make("GPU memory", SeriesKind::GpuMemory, 1 << 20, numbers::bytes),
    ];
    all.into_iter()
        .filter(|panel| !panel.lines.is_empty())
        .collect()
}

fn cpus(milli: u64) -> String {
    format!("{}.{}", milli / 1000, milli % 1000 / 100)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a tenth of a unit is enough for a picture"
)]
fn scaled(value: u64, whole: u64, size: u32) -> f64 {
    value as f64 / whole.max(1) as f64 * f64::from(size)
}

/// Adds a line. A string grows, so that it cannot fail.
fn put(text: &mut String, args: std::fmt::Arguments<'_>) {
    writeln!(text, "{args}").expect("a string grows");
}

fn draw(text: &mut String, panel: &Panel<'_>, top: u32, span: u64) {
    let title = panel.title;
    put(
        text,
        format_args!(
            "<text class=\"t\" x=\"{LEFT}\" y=\"{}\">{title}</text>",
            top - 8
        ),
    );
    axes(text, panel, top, span);
    let bands = panel.lines.len() <= LEGEND_MAX;
    for (at, series) in panel.lines.iter().take(LINES_MAX).enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        for stretch in stretches(&series.points) {
            let place = |index: usize, value: u64| {
                let middle = (index as u64) * series.step + series.step / 2;
                let x = f64::from(LEFT) + scaled(middle, span, WIDTH - RIGHT - LEFT);
                let up = scaled(value.min(panel.most), panel.most, PANEL);
                format!("{x:.1},{:.1}", f64::from(top + PANEL) - up)
            };
            if bands {
                band(text, colour, &stretch, place);
            }
            let mean = stretch
                .iter()
                .map(|(index, point)| place(*index, point.mean));
            let mut mean: Vec<String> = mean.collect();
            if let [only] = mean.as_slice() {
                mean.push(only.clone());
            }
            let mean = mean.join(" ");
            put(
                text,
                format_args!(
                    "<polyline class=\"l\" stroke=\"{colour}\" stroke-linecap=\"round\" points=\"{mean}\"/>"
                ),
            );
        }
    }
    legend(text, panel, top, WIDTH - RIGHT + 12);
}

/// The area between the least and the greatest.
fn band(
    text: &mut String,
    colour: &str,
    stretch: &[(usize, &SeriesPoint)],
    place: impl Fn(usize, u64) -> String,
) {
    let above = stretch
        .iter()
        .map(|(index, point)| place(*index, point.max));
    let below = stretch.iter().rev();
    let below = below.map(|(index, point)| place(*index, point.min));
    let around: Vec<String> = above.chain(below).collect();
    let around = around.join(" ");
    put(
        text,
        format_args!("<polygon class=\"b\" fill=\"{colour}\" points=\"{around}\"/>"),
    );
}

/// Three lines each way, with what they stand for.
fn axes(text: &mut String, panel: &Panel<'_>, top: u32, span: u64) {
    let (right, bottom) = (WIDTH - RIGHT, top + PANEL);
    for half in [0u32, 1, 2] {
        let y = bottom - PANEL * half / 2;
        put(
            text,
            format_args!("<line class=\"g\" x1=\"{LEFT}\" y1=\"{y}\" x2=\"{right}\" y2=\"{y}\"/>"),
        );
        let label = (panel.label)(part(panel.most, half));
        put(
            text,
            format_args!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8,
                y + 4
            ),
        );
        let x = LEFT + (right - LEFT) * half / 2;
        put(
            text,
            format_args!("<line class=\"g\" x1=\"{x}\" y1=\"{top}\" x2=\"{x}\" y2=\"{bottom}\"/>"),
        );
        let at = timespec::elapsed_long(part(span, half) / 1000);
        put(
            text,
            format_args!(
                "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{at}</text>",
                bottom + 16
            ),
        );
    }
}

/// So many halves of the whole.
fn part(whole: u64, halves: u32) -> u64 {
    match halves {
        0 => 0,
        1 => whole / 2,
        _ => whole,
    }
}

/// The points between gaps, with their numbers.
fn stretches(points: &[SeriesPoint]) -> Vec<Vec<(usize, &SeriesPoint)>> {
    let numbered: Vec<(usize, &SeriesPoint)> = points.iter().enumerate().collect();
    let parts = numbered.split(|(_, point)| point.millis == 0);
    parts
        .filter(|part| !part.is_empty())
        .map(<[_]>::to_vec)
        .collect()
}

fn legend(text: &mut String, panel: &Panel<'_>, top: u32, x: u32) {
    let mut write =
        |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a string grows");
    for (at, series) in (0u32..).zip(panel.lines.iter().take(LEGEND_MAX)) {
        let y = top + 10 + at * 15;
        let colour = COLOURS[at as usize % COLOURS.len()];
        let name = match series.gpu {
            Some(gpu) => format!("{} GPU {gpu}", series.node),
            None => series.node.to_string(),
        };
        write(format_args!(
            "<line x1=\"{x}\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
             <text x=\"{2}\" y=\"{y}\">{3}</text>",
            y - 4,
            x + 16,
            x + 22,
            escaped(&name)
        ));
    }
    let more = panel.lines.len().saturating_sub(LEGEND_MAX);
    if more > 0 {
        let unseen = panel.lines.len().saturating_sub(LINES_MAX);
        let note = match unseen {
            0 => format!("and {more} more"),
            unseen => format!("and {more} more, {unseen} not shown"),
        };
        let y = top + 10 + 15 * u32::try_from(LEGEND_MAX).unwrap_or(8);
        write(format_args!("<text x=\"{x}\" y=\"{y}\">{note}</text>"));
    }
}
