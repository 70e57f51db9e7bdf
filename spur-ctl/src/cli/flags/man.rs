//! Man pages, from the rows: `spur man DIR` writes `DIR/man1/NAME.1`.

use super::help::spelled;
use super::{Command, Flag, Status, prose, rows, topics, verbs};
use std::fmt::Write as _;

/// The name of a command's page.
pub fn name(command: Command) -> String {
    if Command::OWN.contains(&command) {
        format!("spur-{}", command.name())
    } else {
        command.name().to_owned()
    }
}

/// The page of a command, in the man macros of roff.
pub fn page(command: Command) -> String {
    let prose = prose::of(command);
    let mut page = Page::default();
    let title = name(command).to_ascii_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    page.raw(&format!(".TH {title} 1 \"\" \"spur {version}\" \"spur\""));
    page.section("NAME");
    page.text(&format!("{} - {}", name(command), command.purpose()));
    page.section("SYNOPSIS");
    page.raw(&format!(".B {}", escaped(&command.to_string())));
    page.text(&format!("[OPTION...] {}", command.operands()));
    page.section("DESCRIPTION");
    for paragraph in prose.text {
        page.raw(".PP");
        page.text(paragraph);
    }
    let verbs = verbs::of(command);
    if !verbs.is_empty() {
        page.section("COMMANDS");
        forms(&mut page, verbs);
    }
    page.section("OPTIONS");
    let mut sorted: Vec<&Flag> = rows(command).collect();
    sorted.sort_by_key(|flag| (flag.long.to_ascii_lowercase(), flag.long));
    for flag in sorted {
        option(&mut page, flag);
    }
    for topic in topics::of(command) {
        page.section(topic.title);
        page.text(topic.lead);
        forms(&mut page, topic.forms);
    }
    variables(&mut page, command);
    page.section("EXIT STATUS");
    page.text(prose.exit);
    if !prose.examples.is_empty() {
        page.section("EXAMPLES");
        forms(&mut page, prose.examples);
    }
    page.section("SEE ALSO");
    let others = Command::ALL.into_iter().filter(|other| *other != command);
    let others: Vec<String> = others.map(|other| format!("{}(1)", other.name())).collect();
    page.text(&others.join(", "));
    page.0
}

/// What is written, each with what it means.
fn forms(page: &mut Page, forms: &[(&str, &str)]) {
    for (form, what) in forms {
        page.raw(".TP");
        page.raw(&format!(".B {}", escaped(form)));
        page.text(what);
    }
}

fn option(page: &mut Page, flag: &Flag) {
    page.raw(".TP");
    let short = flag
        .short
        .map(|short| format!("-{short}, "))
        .unwrap_or_default();
    page.raw(&format!(
        ".B {}{}",
        escaped(&short),
        escaped(&spelled(flag))
    ));
    page.text(flag.help);
    match flag.status {
        Status::Supported => {}
        Status::Implied(why) => page.text(&format!("(Already so: {why}.)")),
        Status::Ineffective { why, .. } => page.text(&format!("(No effect: {why}.)")),
        Status::Refused(why) => page.text(&format!("(Not available: {why}.)")),
    }
    if !flag.aliases.is_empty() {
        let also: Vec<String> = flag
            .aliases
            .iter()
            .map(|alias| format!("--{alias}"))
            .collect();
        page.text(&format!("Also {}.", also.join(", ")));
    }
}

fn variables(page: &mut Page, command: Command) {
    page.section("ENVIRONMENT");
    page.raw(".TP");
    page.raw(".B SPUR_CONTROLLER");
    page.text("Where the controller is, as unix:/PATH.");
    for flag in rows(command) {
        let names = flag.env_names(command);
        if !names.is_empty() {
            page.raw(".TP");
            page.raw(&format!(".B {}", escaped(&names.join(", "))));
            page.text(&format!("As --{}.", flag.long));
        }
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn raw(&mut self, line: &str) {
        writeln!(self.0, "{line}").expect("a string grows");
    }

    fn section(&mut self, title: &str) {
        self.raw(&format!(".SH {title}"));
    }

    /// A line of text; a dot or a quote at its beginning would be a request.
    fn text(&mut self, text: &str) {
        let line = escaped(text);
        let guard = if line.starts_with(['.', '\'']) {
            "\\&"
        } else {
            ""
        };
        self.raw(&format!("{guard}{line}"));
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('"', "\\(dq")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_names_every_option_and_has_no_stray_requests() {
        for command in Command::all() {
            let page = page(command);
            for flag in rows(command) {
                let name = escaped(&format!("--{}", flag.long));
                assert!(page.contains(&name), "{command} {name}");
            }
            let known = [".TH", ".SH", ".PP", ".TP", ".B"];
            for line in page.lines().filter(|line| line.starts_with('.')) {
                let request = line.split(' ').next().unwrap();
                assert!(known.contains(&request), "{command}: {line}");
            }
        }
    }
}
