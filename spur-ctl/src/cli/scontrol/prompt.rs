//! `scontrol` without words: commands line by line from standard input, until its end or `exit`.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::output;
use super::{abbreviates, with_option, words_of};
use std::io::{BufRead as _, IsTerminal as _};

/// Words that change how the lines after them are carried out, and the option that does the same.
const MODES: [(&str, usize, &str); 6] = [
    ("all", 3, "--all"),
    ("details", 3, "--details"),
    ("hide", 3, "--hide"),
    ("oneliner", 1, "--oneliner"),
    ("quiet", 4, "--quiet"),
    ("verbose", 4, "--verbose"),
];

/// Runs it; the answer is that of the last command that failed.
pub(super) fn main(options: &Options) -> Result<u8, Failure> {
    let input = std::io::stdin();
    let prompt = input.is_terminal();
    let mut options = options.clone();
    let mut last: Vec<String> = Vec::new();
    let mut code = 0;
    let mut line = String::new();
    loop {
        if prompt {
            output::print("scontrol: ");
        }
        line.clear();
        match input.lock().read_line(&mut line) {
            Ok(0) => return Ok(code),
            Ok(_) => {}
            Err(why) => return Err(Failure::error("scontrol", format!("standard input: {why}"))),
        }
        let mut words = split(&line);
        match words.first().map(String::as_str) {
            None => continue,
            Some("!!") => words.clone_from(&last),
            Some(word) if abbreviates(word, "exit", 1) || abbreviates(word, "quit", 4) => {
                return Ok(code);
            }
            Some(word) => {
                let mode = MODES
                    .iter()
                    .find(|(full, least, _)| abbreviates(word, full, *least));
                if let Some((_, _, option)) = mode {
                    options = with_option(&options, option)?;
                    continue;
                }
            }
        }
        match words_of(&options, &words) {
            Ok(0) => {}
            Ok(failed) => code = failed,
            Err(failure) => {
                code = failure.code;
                output::complain(&[failure.text.trim_end_matches('\n').to_owned()]);
            }
        }
        last = words;
    }
}

/// Words of a line: blanks part them, quotes hold them together, `#` at the beginning of one ends the line.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn lines_are_parted_into_words() {
        assert_eq!(split("show job 7\n"), ["show", "job", "7"]);
        assert_eq!(
            split("update nodename=n1 reason=\"bad fan\" # why\n"),
            ["update", "nodename=n1", "reason=bad fan"]
        );
        assert_eq!(split("a '' b#c \"open"), ["a", "", "b#c", "open"]);
        assert!(split("  # nothing\n").is_empty());
    }
}
