//! Parsing in the manner of `getopt_long`: long names may be abbreviated, values follow `=` or a blank, short options may
//! be grouped, `--` ends the options. The messages are those of glibc, which users of Slurm know.

use super::nearest::nearest;
use super::{Command, Flag, Value, rows};
use crate::cli::failure::Failure;
use spur_core::slurm::raw;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Where an option came from; later ones win over earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An earlier component of the same heterogeneous job.
    Component,
    /// A `#SBATCH` line.
    Script,
    /// The environment.
    Environment,
    /// The command line.
    CommandLine,
}

/// One option that was given.
#[derive(Clone, Debug)]
pub struct Given {
    /// Its row.
    pub flag: &'static Flag,
    /// Its value. From the environment, also options without one have it: `SBATCH_DEBUG=2`.
    pub value: Option<String>,
    /// Where it came from.
    pub source: Source,
}

/// Everything that was given to a command.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which command.
    pub command: Command,
    given: Vec<Given>,
    /// What follows the options.
    pub operands: Vec<OsString>,
}

impl Options {
    /// Nothing given.
    pub fn none(command: Command) -> Self {
        Self {
            command,
            given: Vec::new(),
            operands: Vec::new(),
        }
    }

    /// Everything given, in order of rising precedence.
    pub fn given(&self) -> &[Given] {
        &self.given
    }

    /// The one that counts for a long name, in full.
    pub fn last(&self, long: &str) -> Option<&Given> {
        debug_assert!(
            Command::all().flat_map(rows).any(|flag| flag.named(long)),
            "the table has no option --{long}"
        );
        self.given.iter().rev().find(|given| given.flag.named(long))
    }

    /// The value that counts.
    pub fn value(&self, long: &str) -> Option<&str> {
        self.last(long)?.value.as_deref()
    }

    /// Gives an option another value from where the one that counts came from; nothing if it was not given.
    pub fn replace(&mut self, long: &str, value: String) {
        if let Some(given) = self
            .given
            .iter_mut()
            .rev()
            .find(|given| given.flag.named(long))
        {
            given.value = Some(value);
        }
    }

    /// Whether it was given.
    pub fn on(&self, long: &str) -> bool {
        self.last(long).is_some()
    }

    /// How often it was given; a number from the environment counts as that many.
    pub fn count(&self, long: &str) -> u32 {
        let one = |given: &Given| {
            given
                .value
                .as_ref()
                .and_then(|v| v.parse().ok())
                .unwrap_or(1)
        };
        self.given
            .iter()
            .filter(|given| given.flag.named(long))
            .map(one)
            .sum()
    }

    /// All but what came from there.
    pub fn without(&self, source: Source) -> Self {
        let mut rest = self.clone();
        rest.given.retain(|given| given.source != source);
        rest
    }

    /// Adds options behind those that are there.
    pub fn extend(&mut self, more: impl Iterator<Item = Given>) {
        self.given.extend(more);
    }

    /// Lays these options below those that are there already, or above, by their source.
    pub fn merge(&mut self, other: Self) {
        self.given.extend(other.given);
        self.given.sort_by_key(|given| given.source);
    }
}

/// Parses a command line, without the command's own name.
pub fn parse(command: Command, args: &[OsString], source: Source) -> Result<Options, Failure> {
    let mut parser = Parser {
        options: Options::none(command),
        args: args.iter(),
        source,
    };
    parser.run()?;
    Ok(parser.options)
}

/// The options that environment variables give. Empty values and, for options without a value, `0` and `no` count as
/// unset.
pub fn environment(command: Command, get: impl Fn(&str) -> Option<String>) -> Options {
    let mut options = Options::none(command);
    for flag in rows(command) {
        let value = flag.env_names(command).iter().find_map(|name| get(name));
        let Some(mut value) = value.filter(|value| !value.is_empty()) else {
            continue;
        };
        // A variable of its own says how large planes are.
        if flag.named("distribution") && value.eq_ignore_ascii_case("plane") {
            let size = get("SLURM_DIST_PLANESIZE").unwrap_or_default();
            value = format!("plane={size}");
        }
        if flag.value == Value::No && matches!(value.as_str(), "0" | "no" | "No" | "NO") {
            continue;
        }
        let given = Given {
            flag,
            value: Some(value),
            source: Source::Environment,
        };
        options.given.push(given);
    }
    options
}

struct Parser<'a> {
    options: Options,
    args: std::slice::Iter<'a, OsString>,
    source: Source,
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        while let Some(arg) = self.args.next() {
            let bytes = arg.as_bytes();
            if bytes == b"--" {
                break;
            }
            if let Some(long) = bytes.strip_prefix(b"--") {
                self.long(long)?;
            } else if bytes.len() > 1 && bytes[0] == b'-' {
                self.shorts(&bytes[1..])?;
            } else {
                self.options.operands.push(arg.clone());
                if self.options.command.stops_at_operand() {
                    break;
                }
            }
        }
        self.options.operands.extend(self.args.by_ref().cloned());
        Ok(())
    }

    fn long(&mut self, text: &[u8]) -> Result<(), Failure> {
        let (name, attached) = match text.iter().position(|&b| b == b'=') {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let (spelling, flag) = self.find_long(
            &String::from_utf8_lossy(name),
            &String::from_utf8_lossy(text),
        )?;
        let value = match (flag.value, attached) {
            (Value::No, Some(_)) => {
                return Err(self.fail(format!("option '--{spelling}' doesn't allow an argument")));
            }
            (Value::No | Value::Maybe(_), None) => None,
            (Value::Needed(_) | Value::Maybe(_), Some(value)) => Some(raw::text(value)),
            (Value::Needed(_), None) => {
                let missing = || format!("option '--{spelling}' requires an argument");
                Some(self.next_value(missing)?)
            }
        };
        self.push(flag, value);
        Ok(())
    }

    fn shorts(&mut self, group: &[u8]) -> Result<(), Failure> {
        for (at, byte) in group.iter().enumerate() {
            let short = char::from(*byte);
            let Some(flag) = rows(self.options.command).find(|f| f.short == Some(short)) else {
                return Err(self.fail(format!("invalid option -- '{short}'")));
            };
            let rest = &group[at + 1..];
            let value = match flag.value {
                Value::No => {
                    self.push(flag, None);
                    continue;
                }
                Value::Maybe(_) if rest.is_empty() => None,
                Value::Needed(_) if rest.is_empty() => {
                    let missing = || format!("option requires an argument -- '{short}'");
                    Some(self.next_value(missing)?)
                }
                Value::Needed(_) | Value::Maybe(_) => Some(raw::text(rest)),
            };
            self.push(flag, value);
            break;
        }
        Ok(())
    }

    /// A long name: in full, or the beginning of the names of one row only. `whole` is what was written, with its value.
    fn find_long(&self, name: &str, whole: &str) -> Result<(&'static str, &'static Flag), Failure> {
        let all = || rows(self.options.command).flat_map(|f| f.longs().map(move |long| (long, f)));
        if let Some(exact) = all().find(|(long, _)| *long == name) {
            return Ok(exact);
        }
        let begun: Vec<_> = all().filter(|(long, _)| long.starts_with(name)).collect();
        match begun.as_slice() {
            [] => {
                let longs = rows(self.options.command).flat_map(Flag::longs);
                let hint = nearest(name, longs);
                let hint = hint.map(|meant| format!("Did you mean --{meant}?\n"));
                let mut failure = self.fail(format!("unrecognized option '--{whole}'"));
                failure.text.push_str(&hint.unwrap_or_default());
                Err(failure)
            }
            [first, rest @ ..] if rest.iter().all(|(_, f)| std::ptr::eq(*f, first.1)) => Ok(*first),
            several => {
                let mut longs: Vec<&str> = several.iter().map(|(long, _)| *long).collect();
                longs.sort_unstable();
                let names: String = longs.iter().map(|long| format!(" '--{long}'")).collect();
                Err(self.fail(format!(
                    "option '--{whole}' is ambiguous; possibilities:{names}"
                )))
            }
        }
    }

    fn next_value(&mut self, missing: impl Fn() -> String) -> Result<String, Failure> {
        match self.args.next() {
            Some(value) => Ok(raw::text(value.as_bytes())),
            None => Err(self.fail(missing())),
        }
    }

    fn push(&mut self, flag: &'static Flag, value: Option<String>) {
        self.options.given.push(Given {
            flag,
            value,
            source: self.source,
        });
    }

    fn fail(&self, what: String) -> Failure {
        let command = self.options.command;
        // Slurm's two commands of the record say no more.
        let more = if matches!(command, Command::Sacct | Command::Sstat) {
            String::new()
        } else {
            format!("Try \"{command} --help\" for more information\n")
        };
        let text = format!("{command}: {what}\n{more}");
        Failure {
            text,
            code: command.usage_code(),
        }
    }
}
