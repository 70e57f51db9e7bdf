//! What `--json[=PARSER]` and `--yaml[=PARSER]` ask for.

use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::output;

/// A version of the shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parser {
    /// `v0.0.40`, of Slurm 23.11.
    V40,
    /// `v0.0.41`, of Slurm 24.05.
    V41,
    /// `v0.0.42`, of Slurm 24.11 and the one that counts if none is named.
    V42,
}

impl Parser {
    /// `data_parser/v0.0.42`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V40 => "data_parser/v0.0.40",
            Self::V41 => "data_parser/v0.0.41",
            Self::V42 => "data_parser/v0.0.42",
        }
    }
}

/// The order in which `=list` names them.
const LISTED: [Parser; 3] = [Parser::V42, Parser::V40, Parser::V41];

/// How the text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `--json`.
    Json,
    /// `--yaml`.
    Yaml,
}

/// A wish for structured output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// How the text looks.
    pub style: Style,
    /// Which version of the shapes.
    pub parser: Parser,
    /// Numbers that may be unset are `null`, `Infinity` or the number instead of an object (`+complex`).
    pub complex: bool,
}

/// What the options ask for: the last of `--json` and `--yaml`. `=list` prints the versions and ends the command, as a failure
/// without words and with code 0.
pub fn asked(options: &Options) -> Result<Option<Asked>, Failure> {
    let is = |long: &str| matches!(long, "json" | "yaml");
    let Some(given) = options.given().iter().rfind(|given| is(given.flag.long)) else {
        return Ok(None);
    };
    let style = if given.flag.long == "json" {
        Style::Json
    } else {
        Style::Yaml
    };
    let wanted = given.value.as_deref().unwrap_or_default();
    if wanted.eq_ignore_ascii_case("list") {
        output::complain(&["Possible data_parser plugins:".to_owned()]);
        let names: String = LISTED
            .iter()
            .map(|parser| format!("{}\n", parser.name()))
            .collect();
        output::print(&names);
        return Err(Failure::silent(0));
    }
    let known = read(wanted, style);
    known
        .map(Some)
        .ok_or_else(|| unknown(options, wanted, style))
}

/// Reads `v0.0.42`, `data_parser/v0.0.42` or `latest`, each with `+FLAG`s, of which only `complex` changes anything.
fn read(wanted: &str, style: Style) -> Option<Asked> {
    let mut words = wanted.split('+');
    let name = words.next().unwrap_or_default();
    let name = name.strip_prefix("data_parser/").unwrap_or(name);
    let parser = match name.to_ascii_lowercase().as_str() {
        "" | "latest" => Parser::V42,
        "v0.0.40" => Parser::V40,
        "v0.0.41" => Parser::V41,
        "v0.0.42" => Parser::V42,
        _ => return None,
    };
    let complex = words.any(|flag| flag.eq_ignore_ascii_case("complex"));
    Some(Asked {
        style,
        parser,
        complex,
    })
}

fn unknown(options: &Options, wanted: &str, style: Style) -> Failure {
    let kind = match style {
        Style::Json => "application/json",
        Style::Yaml => "application/x-yaml",
    };
    let name = wanted.strip_prefix("data_parser/").unwrap_or(wanted);
    let why = format!(
        "load_plugins: unable to find plugin: data_parser/{name}\n\
         data_parser_g_new: failure loading plugins: Plugin has invalid format or unable to be loaded\n\
         {kind} output not supported by {}",
        Parser::V42.name()
    );
    Failure::error(options.command, why)
}
