//! The report as one SVG that needs nothing else, readable on light and on dark ground.

use super::report::{Report, decimal};
use std::fmt::Write as _;

/// Size of the whole and place of a panel, in the picture's units.
const WIDTH: u64 = 900;
const LEFT: u64 = 80;
const INNER: u64 = 780;
const TOP: u64 = 70;
const PANEL: u64 = 130;
const GAP: u64 = 56;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#333}.t{font-size:15px;font-weight:600}.g{stroke:#8885;\
    stroke-width:1}.l{fill:none;stroke-width:1.5}@media(prefers-color-scheme:dark){text{fill:#ddd}}";

/// Colours that can be told apart, also by those who see few, on white and on black.
const BLUE: &str = "#3b82c4";
const ORANGE: &str = "#e07b39";
const GREEN: &str = "#2f9e6e";

/// A line of a panel: colour, and (seconds, amount).
type Line = (&'static str, Vec<(u64, u64)>);

impl Report {
    /// Allocation and fragmentation over time, jobs that wait over time, and mean wait by size.
    pub fn svg(&self) -> String {
        let height = TOP + 4 * (PANEL + GAP);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\">\n<title>Replay of {0} jobs</title>\n<style>{STYLE}</style>\n\
             <text class=\"t\" x=\"{LEFT}\" y=\"24\">{0} jobs on {1} nodes with {2} GPUs, offered load {3}</text>\n",
            self.submitted,
            self.nodes,
            self.gpus,
            decimal(self.load_permille, 1000, 2)
        );
        let curve = |amount: &dyn Fn(&super::measure::Sample) -> u64| -> Vec<(u64, u64)> {
            self.samples
                .iter()
                .map(|sample| (sample.secs, amount(sample)))
                .collect()
        };
        let share = |part: u64, all: u64| (part * 1000).checked_div(all).unwrap_or(0);
        let held = curve(&|sample| share(sample.busy, sample.gpus));
        let broken = curve(&|sample| share(sample.broken, sample.gpus));
        let waiting = curve(&|sample| sample.waiting);
        let span = self.samples.last().map_or(1, |sample| sample.secs.max(1));
        let percent = |amount: u64| format!("{} %", amount / 10);
        panel(
            &mut text,
            0,
            "GPUs held",
            &[(BLUE, held)],
            (span, 1000),
            &percent,
        );
        let title = "Fragmentation: free GPUs on nodes partly held";
        let most = broken
            .iter()
            .map(|(_, amount)| *amount)
            .max()
            .unwrap_or(0)
            .max(100);
        panel(
            &mut text,
            1,
            title,
            &[(ORANGE, broken)],
            (span, most),
            &percent,
        );
        let most = waiting
            .iter()
            .map(|(_, amount)| *amount)
            .max()
            .unwrap_or(0)
            .max(1);
        panel(
            &mut text,
            2,
            "Jobs that wait",
            &[(GREEN, waiting)],
            (span, most),
            &|amount| amount.to_string(),
        );
        self.bars(&mut text, 3);
        text.push_str("</svg>\n");
        text
    }

    /// Mean wait by size.
    fn bars(&self, text: &mut String, at: u64) {
        let top = TOP + at * (PANEL + GAP);
        let rows = self.rows();
        let most = rows
            .iter()
            .map(|(_, waits)| waits.mean)
            .max()
            .unwrap_or(0)
            .max(1);
        frame(
            text,
            top,
            "Mean wait",
            &format!("{} h", decimal(most, 3600, 1)),
        );
        let step = INNER / (rows.len() as u64).max(1);
        for (at, (who, waits)) in (0u64..).zip(&rows) {
            let height = PANEL * waits.mean / most;
            let (x, y) = (LEFT + at * step + step / 8, top + PANEL - height);
            _ = writeln!(
                text,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{height}\" fill=\"{BLUE}\"><title>{who}: {} h</title></rect>\n\
                 <text x=\"{x}\" y=\"{}\">{}</text>",
                step * 3 / 4,
                decimal(waits.mean, 3600, 2),
                top + PANEL + 16,
                who.replace('>', "&gt;")
            );
        }
    }
}

/// Title, scale and ground lines of a panel.
fn frame(text: &mut String, top: u64, title: &str, most: &str) {
    let (right, bottom) = (LEFT + INNER, top + PANEL);
    _ = writeln!(
        text,
        "<text x=\"{LEFT}\" y=\"{}\">{title}</text>\n<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{most}</text>\n\
         <text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\n\
         <line class=\"g\" x1=\"{LEFT}\" y1=\"{top}\" x2=\"{right}\" y2=\"{top}\"/>\n\
         <line class=\"g\" x1=\"{LEFT}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>",
        top - 8,
        LEFT - 6,
        top + 10,
        LEFT - 6
    );
}

fn panel(
    text: &mut String,
    at: u64,
    title: &str,
    lines: &[Line],
    (span, most): (u64, u64),
    label: &dyn Fn(u64) -> String,
) {
    let top = TOP + at * (PANEL + GAP);
    frame(text, top, title, &label(most));
    for (colour, points) in lines {
        _ = write!(text, "<polyline class=\"l\" stroke=\"{colour}\" points=\"");
        for (secs, amount) in points {
            let x = LEFT * 10 + INNER * 10 * secs / span;
            let y = (top + PANEL) * 10 - PANEL * 10 * (*amount).min(most) / most;
            _ = write!(text, "{}.{},{}.{} ", x / 10, x % 10, y / 10, y % 10);
        }
        _ = writeln!(text, "\"/>");
    }
    _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} days</text>",
        LEFT + INNER,
        top + PANEL + 16,
        decimal(span, 86_400, 1)
    );
}
