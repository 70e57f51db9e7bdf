//! Allocation and fragmentation against arrivals, as an SVG that needs nothing beside it.

use super::report::Report;
use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 120.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#333}.t{font-weight:600}.g{stroke:#8885}.l{fill:none;stroke-width:2}\
    @media(prefers-color-scheme:dark){text{fill:#ddd}}";

/// Colours that can be told apart, also by those who see few, on white and on black.
const BLUE: &str = "#3b82c4";
const ORANGE: &str = "#e07b39";

pub(super) fn svg(report: &Report) -> String {
    let most = f64::from(report.arrivals_percent.max(1));
    let x = |percent: f64| LEFT + (WIDTH - LEFT - RIGHT) * percent / most;
    let y = |percent: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * percent / 100.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         role=\"img\">\n<title>Allocation against arrivals</title>\n<style>{STYLE}</style>\n\
         <text class=\"t\" x=\"{LEFT}\" y=\"22\">{} nodes, {} GPUs, {} seeds</text>\n",
        report.nodes,
        report.gpus,
        report.runs.len()
    );
    for percent in [0, 20, 40, 60, 80, 100] {
        let at = y(f64::from(percent));
        _ = writeln!(
            text,
            "<line class=\"g\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        );
    }
    let below = HEIGHT - BOTTOM + 18.0;
    let step = (report.arrivals_percent / 6).max(1).next_multiple_of(10) as usize;
    for percent in (0..=report.arrivals_percent).step_by(step) {
        let at = x(f64::from(percent));
        _ = writeln!(
            text,
            "<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{percent}</text>"
        );
    }
    _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">GPUs asked for, % of all GPUs</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        below + 18.0
    );
    let allocated = report.mean_curve(|point| point.allocated);
    let fragmented = report.mean_curve(|point| point.fragmented);
    for (name, colour, curve) in [
        ("allocated", BLUE, allocated),
        ("fragmented", ORANGE, fragmented),
    ] {
        _ = write!(text, "<polyline class=\"l\" stroke=\"{colour}\" points=\"");
        for (percent, value) in (0u32..).zip(&curve) {
            _ = write!(text, "{:.1},{:.1} ", x(f64::from(percent)), y(*value));
        }
        let last = curve.last().copied().unwrap_or(0.0);
        _ = writeln!(
            text,
            "\"/>\n<text x=\"{:.1}\" y=\"{:.1}\">{name} {last:.1}</text>",
            WIDTH - RIGHT + 6.0,
            y(last) + 4.0
        );
    }
    text.push_str("</svg>\n");
    text
}
