//! Where the controller listens: what `SPUR_CONTROLLER` says, else the configuration of this machine, else the usual place.

use crate::config::DEFAULT_PATH;
use std::path::Path;

/// The usual place.
const USUAL: &str = "unix:/run/spur/spurctld.sock";

/// The controller's address.
pub fn address() -> String {
    let told = super::process::var("SPUR_CONTROLLER").filter(|address| !address.is_empty());
    told.or_else(|| configured(Path::new(DEFAULT_PATH)))
        .unwrap_or_else(|| USUAL.to_owned())
}

/// What a configuration says, if it can be read.
fn configured(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let path = socket(&text)?;
    Some(format!("unix:{path}"))
}

/// The value of `client_socket` before the first table. Read by hand, since every command does: a whole parser is only asked where
/// quotes within the value make it necessary.
fn socket(text: &str) -> Option<String> {
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            return None;
        }
        let Some(rest) = line.strip_prefix("client_socket") else {
            continue;
        };
        let Some(value) = rest.trim_start().strip_prefix('=') else {
            continue;
        };
        let value = value.trim_start();
        let quote = value
            .chars()
            .next()
            .filter(|quote| matches!(quote, '"' | '\''))?;
        let inner = value[1..].split(quote).next()?;
        if !inner.contains('\\') && !inner.is_empty() {
            return Some(inner.to_owned());
        }
        let table: toml::Table = text.parse().ok()?;
        return table.get("client_socket")?.as_str().map(str::to_owned);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::socket;

    #[test]
    fn the_socket_is_found_before_the_first_table() {
        let of = |text: &str| socket(text);
        let plain = "cluster = \"c\"\n client_socket=\"/run/x.sock\" # here\n[[partition]]\n";
        assert_eq!(of(plain).as_deref(), Some("/run/x.sock"));
        assert_eq!(of("client_socket = '/a b'\n").as_deref(), Some("/a b"));
        assert_eq!(
            of("client_socket = \"/a\\\"b\"\n").as_deref(),
            Some("/a\"b")
        );
        assert_eq!(
            of("client_sockets = 1\n[x]\nclient_socket = \"/n\"\n"),
            None
        );
        assert_eq!(of("client_socket = 3\n"), None);
    }
}
