//! Who may open what, as a table; and whether that is right.

use anyhow::{Result, ensure};
use std::fmt::Write;

/// What one job found.
pub(super) struct Row {
    job: String,
    gres: String,
    answers: Vec<String>,
}

impl Row {
    /// Reads a job's output; `None` until it has looked at everything.
    pub(super) fn read(gres: &str, text: &str) -> Option<Self> {
        let mut lines: Vec<&str> = text.lines().collect();
        if lines.pop() != Some("done") {
            return None;
        }
        let job = lines.first()?.strip_prefix("job ")?.to_owned();
        let answers = lines[1..].iter().map(|line| (*line).to_owned()).collect();
        Some(Self {
            job,
            gres: gres.to_owned(),
            answers,
        })
    }

    /// The job's number.
    pub(super) fn job(&self) -> &str {
        &self.job
    }

    fn reached(&self) -> Vec<usize> {
        (0..)
            .zip(&self.answers)
            .filter(|(_, answer)| *answer == "reached")
            .map(|(at, _)| at)
            .collect()
    }
}

/// The table: a column for each GPU.
pub(super) fn render(rows: &[Row], gpus: u32) -> String {
    let mut text = format!("{:>5} {:<14}", "job", "asked for");
    for number in 0..gpus {
        // Writing to a string cannot fail.
        write!(text, " {:<8}", format!("gpu{number}")).ok();
    }
    text.push('\n');
    for row in rows {
        write!(text, "{:>5} {:<14}", row.job, row.gres).ok();
        for answer in &row.answers {
            write!(
                text,
                " {:<8}",
                if answer == "reached" {
                    "OPEN"
                } else {
                    answer.as_str()
                }
            )
            .ok();
        }
        text.push('\n');
    }
    text
}

/// Each job reaches as many as it asked for, is refused the rest, and shares none.
pub(super) fn check(rows: &[Row], counts: &[usize]) -> Result<()> {
    let mut taken = Vec::new();
    for (row, count) in rows.iter().zip(counts) {
        let own = row.reached();
        let refused = row
            .answers
            .iter()
            .filter(|answer| *answer == "refused")
            .count();
        let job = &row.job;
        ensure!(
            own.len() == *count,
            "job {job} reaches {} GPUs, not {count}",
            own.len()
        );
        ensure!(
            own.len() + refused == row.answers.len(),
            "job {job}: {:?}",
            row.answers
        );
        ensure!(
            own.iter().all(|gpu| !taken.contains(gpu)),
            "job {job} shares a GPU"
        );
        taken.extend(own);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        Row::read("--gres=gpu:1", text).expect("complete")
    }

    #[test]
    fn shares_and_surpluses_are_found() {
        assert!(Row::read("", "job 3\nreached\n").is_none());
        let one = || row("job 3\nreached\nrefused\ndone\n");
        let other = row("job 4\nrefused\nreached\ndone\n");
        assert!(check(&[one(), other], &[1, 1]).is_ok());
        assert!(check(&[one(), one()], &[1, 1]).is_err());
        assert!(check(&[one()], &[0]).is_err());
        assert!(check(&[row("job 3\nreached\nstrange\ndone\n")], &[1]).is_err());
        assert!(
            render(&[one()], 2).contains("    3 --gres=gpu:1   OPEN     refused"),
            "{}",
            render(&[one()], 2)
        );
    }
}
