//! `sprio`: what makes up the priority of waiting jobs. Only niceness and what an operator set do; every other factor has weight 0.

use super::failure::Failure;
use super::flags::getopt::Options;
use super::{link, output, resolve, users};
use spur_core::api::{JobFilter, JobView, Reply, Request};
use spur_core::id::JobId;
use spur_core::job::state::JobState;
use std::sync::Arc;

/// Letter, header, width.
const LETTERS: [(char, &str, usize); 24] = [
    ('a', "AGE", 10),
    ('A', "AGE", 10),
    ('b', "ASSOC", 10),
    ('B', "ASSOC", 10),
    ('c', "CLUSTER", 10),
    ('f', "FAIRSHARE", 10),
    ('F', "FAIRSHARE", 10),
    ('i', "JOBID", 15),
    ('j', "JOBSIZE", 10),
    ('J', "JOBSIZE", 10),
    ('n', "QOSNAME", 10),
    ('N', "NICE", 10),
    ('o', "ACCOUNT", 10),
    ('p', "PARTITION", 10),
    ('P', "PARTITION", 10),
    ('q', "QOS", 10),
    ('Q', "QOS", 10),
    ('r', "PARTITION", 9),
    ('S', "SITE", 10),
    ('t', "TRES", 20),
    ('T', "TRES", 20),
    ('u', "USER", 8),
    ('y', "PRIORITY", 10),
    ('Y', "PRIORITY", 10),
];

const USUAL: &str = "%.15i %9r %.10Y %.10S";
const LONG: &str =
    "%.15i %9r %.8u %.10o %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T";
const NORM: &str = "%.15i %9r %.10y %.10S";

/// A piece of a format.
enum Piece {
    Text(String),
    /// Letter, width, to the right.
    Field(char, usize, bool),
}

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    if options.on("helpformat") {
        let line = |(letter, header, _): &(char, &str, usize)| format!("%{letter}  {header}\n");
        output::print(&LETTERS.iter().map(line).collect::<String>());
        return Ok(0);
    }
    if let Some(given) = options.last("json").or_else(|| options.last("yaml")) {
        return Err(Failure::plain(
            format!(
                "sprio: unrecognized option '--{}'\nTry \"sprio --help\" for more information",
                given.flag.long
            ),
            1,
        ));
    }
    let usual = match () {
        () if options.on("long") => LONG,
        () if options.on("norm") => NORM,
        () => USUAL,
    };
    let format = read(options.value("format").unwrap_or(usual))?;
    let asked = asked(options)?;
    let mut text = String::new();
    if !options.on("noheader") {
        text.push_str(&line(&format, |letter| header(letter).to_owned()));
    }
    if options.on("weights") {
        text.push_str(&line(&format, |letter| match letter {
            'i' => "Weights".to_owned(),
            'S' => "1".to_owned(),
            _ => String::new(),
        }));
        output::print(&text);
        return Ok(0);
    }
    let jobs = load(asked)?;
    let selected = options.on("jobs") || options.on("user") || options.on("partition");
    if jobs.is_empty() && selected {
        output::print("Unable to find jobs matching user/id(s) specified\n");
        return Ok(0);
    }
    for job in &jobs {
        text.push_str(&line(&format, |letter| cell(job, letter)));
    }
    output::print(&text);
    Ok(0)
}

fn header(letter: char) -> &'static str {
    let known = LETTERS.iter().find(|(own, ..)| *own == letter);
    known.map_or("", |(_, header, ..)| header)
}

fn cell(job: &JobView, letter: char) -> String {
    let spec = &job.spec;
    match letter {
        'i' => job.id.to_string(),
        'r' => spec.partition.clone(),
        'u' => spec.owner.user.clone(),
        'o' => spec.account.clone(),
        'n' => spec.qos.clone(),
        'N' => spec.nice.to_string(),
        'Y' => job.priority.to_string(),
        'y' => format!("{:.8}", f64::from(job.priority) / f64::from(u32::MAX)),
        'c' | 't' | 'T' => String::new(),
        'a' | 'b' | 'f' | 'j' | 'p' | 'q' => "0.0000000".to_owned(),
        _ => "0".to_owned(),
    }
}

fn read(text: &str) -> Result<Vec<Piece>, Failure> {
    let mut pieces = Vec::new();
    let mut chars = text.chars().peekable();
    let mut plain = String::new();
    while let Some(c) = chars.next() {
        if c != '%' {
            plain.push(c);
            continue;
        }
        let right = chars.next_if_eq(&'.').is_some();
        let mut width = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            width.push(digit);
        }
        let Some(letter) = chars.next() else { break };
        let known = LETTERS.iter().find(|(own, ..)| *own == letter);
        let bad = || {
            Failure::error(
                "sprio",
                format!("Invalid job format specification: {letter}"),
            )
        };
        let (_, _, usual) = known.ok_or_else(bad)?;
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        let width = if width.is_empty() {
            Ok(*usual)
        } else {
            width.parse()
        };
        let width =
            width.map_err(|_| Failure::error("sprio", format!("format {text:?}: too wide")))?;
        pieces.push(Piece::Field(letter, width, right));
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

fn line(format: &[Piece], cell: impl Fn(char) -> String) -> String {
    let mut text = String::new();
    for piece in format {
        match piece {
            Piece::Text(plain) => text.push_str(plain),
            Piece::Field(letter, width, right) => {
                let value: String = cell(*letter).chars().take((*width).max(1)).collect();
                let padded = if *right {
                    format!("{value:>width$}")
                } else {
                    format!("{value:<width$}")
                };
                text.push_str(&padded);
            }
        }
    }
    text.push('\n');
    text
}

/// Which jobs are asked for.
fn asked(options: &Options) -> Result<JobFilter, Failure> {
    let list = |name: &str| {
        options
            .value(name)
            .map(resolve::filter::list)
            .unwrap_or_default()
    };
    let operands = options.operands.iter();
    let mut rest = operands.map(|operand| operand.to_string_lossy().into_owned());
    let mut jobs = list("jobs");
    // `-j` takes its value only when attached; what follows it as a word of its own is an operand to getopt.
    if options.on("jobs") && options.value("jobs").is_none() {
        jobs.extend(
            rest.next()
                .as_deref()
                .map(resolve::filter::list)
                .unwrap_or_default(),
        );
    }
    if let Some(word) = rest.next() {
        let why = format!("Unrecognized option: {word}");
        return Err(Failure::error("sprio", why));
    }
    let mut ids = Vec::new();
    for text in jobs {
        let bad = |_| Failure::error("sprio", format!("Invalid job id: {text}"));
        ids.push(JobId(text.parse().map_err(bad)?));
    }
    let mut owners = Vec::new();
    for name in list("user") {
        let unknown = || Failure::error("sprio", format!("Invalid user: {name}"));
        owners.push(users::uid_of(&name).ok_or_else(unknown)?);
    }
    Ok(JobFilter {
        ids,
        users: owners,
        partitions: list("partition"),
        states: vec![JobState::Pending],
        ..JobFilter::default()
    })
}

/// Waiting jobs that are asked for, in order of number.
fn load(filter: JobFilter) -> Result<Vec<Arc<JobView>>, Failure> {
    let named = !filter.ids.is_empty();
    match link::question(&Request::Jobs { filter }) {
        Ok(Reply::Jobs(jobs)) => Ok(jobs),
        Ok(_) => Err(Failure::error("sprio", link::unexpected().text())),
        // One that is no more does not wait.
        Err(link::Trouble::Refused(_)) if named => Ok(Vec::new()),
        Err(trouble) => Err(Failure::error("sprio", trouble.text())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_header_is_slurms() {
        let format = read(USUAL).unwrap_or_default();
        let text = line(&format, |letter| header(letter).to_owned());
        assert_eq!(text, "          JOBID PARTITION   PRIORITY       SITE\n");
    }
}
