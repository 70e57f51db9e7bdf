//! Completions for shells, from the rows: `spur completion bash|zsh|fish`.

mod bash;
mod fish;
mod zsh;

#[cfg(test)]
mod tests;

/// Shells that completions can be made for.
pub const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The words after `spur` that are no command of the table.
pub const OTHER_WORDS: [&str; 7] = ["why", "stats", "sim", "node", "dev", "completion", "man"];

/// What follows such a word, where that is told.
pub const WORDS_OF: [(&str, &[&str]); 4] = [
    ("completion", &SHELLS),
    ("dev", &["up", "down"]),
    (
        "node",
        &["found", "token", "withdraw", "list", "show", "remove"],
    ),
    ("sim", &["place", "queue", "whatif"]),
];

/// The script for a shell; `None` for a shell that is not known.
pub fn script(shell: &str) -> Option<String> {
    match shell {
        "bash" => Some(bash::script()),
        "zsh" => Some(zsh::script()),
        "fish" => Some(fish::script()),
        _ => None,
    }
}

/// A text in single quotes, for any of the shells.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
