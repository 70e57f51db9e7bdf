//! For people.

use super::role;
use crate::cli::render::clock::Clock;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use spur_core::mesh::{Member, MeshBook, MeshKey, MeshPrefix};
use std::fmt::Write;

pub(super) fn key(key: MeshKey) -> String {
    STANDARD.encode(key.0)
}

pub(super) fn network(prefix: MeshPrefix) -> String {
    format!("{}/64", prefix.host(0))
}

fn places(member: &Member) -> String {
    let places: Vec<String> = member.endpoints.iter().map(ToString::to_string).collect();
    if places.is_empty() {
        "not known".to_owned()
    } else {
        places.join(",")
    }
}

/// Members, and open tokens where there are any.
pub(super) fn book(clock: &Clock, book: &MeshBook) -> String {
    if book.members.is_empty() {
        return "The mesh is not founded.\n".to_owned();
    }
    let member = |member: &Member| {
        vec![
            member.name.to_string(),
            role(member.role).to_owned(),
            member.v4().to_string(),
            member.v6(book.prefix).to_string(),
            places(member),
        ]
    };
    let head = ["NAME", "ROLE", "IPV4", "IPV6", "ENDPOINTS"];
    let mut text = columns(&head, book.members.iter().map(member));
    if !book.tokens.is_empty() {
        let tokens = book.tokens.iter().map(|token| {
            let name = token.name.as_ref().map(ToString::to_string);
            vec![
                token.id.to_string(),
                role(token.role).to_owned(),
                name.unwrap_or_else(|| "any".to_owned()),
                clock.stamp(token.expires),
            ]
        });
        text.push('\n');
        text += &columns(&["TOKEN", "ROLE", "NAME", "EXPIRES"], tokens);
    }
    text
}

fn columns<const N: usize>(head: &[&str; N], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head = head.iter().map(ToString::to_string).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let widths: Vec<usize> = (0..N)
        .map(|at| {
            rows.iter()
                .filter_map(|row| row.get(at))
                .map(String::len)
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// All of one member.
pub(super) fn member(clock: &Clock, prefix: MeshPrefix, member: &Member) -> String {
    let mut text = String::new();
    let mut line = |what: &str, value: String| {
        // Writing to a string cannot fail.
        writeln!(text, "{what:<12}{value}").ok();
    };
    line("Name", member.name.to_string());
    line("Number", member.id.to_string());
    line("Role", role(member.role).to_owned());
    line("Key", key(member.key));
    if let Some(old) = member.previous.filter(|old| clock.now < old.until) {
        let until = clock.stamp(old.until);
        line("Key before", format!("{} until {until}", key(old.key)));
    }
    line("IPv4", member.v4().to_string());
    line("IPv6", member.v6(prefix).to_string());
    line("Endpoints", places(member));
    line("Since", clock.stamp(member.since));
    text
}

pub(super) fn founded(book: &MeshBook) -> String {
    let network = network(book.prefix);
    let first = book.members.iter().map(|member| member.name.to_string());
    let first: Vec<String> = first.collect();
    format!("The mesh {network} is founded, with {}.\n", first.join(","))
}
