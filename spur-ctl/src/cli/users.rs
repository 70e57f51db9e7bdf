//! Names and numbers of users: `/etc/passwd` first, then whatever `getent` knows (LDAP and the like).

use spur_core::id::Uid;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// The number of a user, by name or by number.
pub fn uid_of(user: &str) -> Option<Uid> {
    let by_name = |line: &str| line.split(':').next() == Some(user);
    if let Some(line) = entry(by_name, user) {
        return uid_in(&line);
    }
    user.parse().ok().map(Uid)
}

/// The names of these users, as far as they are known.
pub fn names(uids: impl IntoIterator<Item = Uid>) -> BTreeMap<u32, String> {
    let mut names = BTreeMap::new();
    for uid in uids {
        if names.contains_key(&uid.0) {
            continue;
        }
        let by_uid = |line: &str| uid_in(line) == Some(uid);
        if let Some(line) = entry(by_uid, &uid.to_string()) {
            names.insert(uid.0, line.split(':').next().unwrap_or_default().to_owned());
        }
    }
    names
}

/// The name of a user; the number if it has none.
pub fn name(uid: u32) -> String {
    let found = names([Uid(uid)]).remove(&uid);
    found.unwrap_or_else(|| uid.to_string())
}

/// The name of a group; the number if it has none.
pub fn group_name(gid: u32) -> String {
    let number = gid.to_string();
    let is_it = |line: &str| line.split(':').nth(2) == Some(number.as_str());
    let line = entry_of("group", is_it, &number);
    let name = line.and_then(|line| line.split(':').next().map(str::to_owned));
    name.unwrap_or(number)
}

fn uid_in(line: &str) -> Option<Uid> {
    line.split(':').nth(2)?.parse().ok().map(Uid)
}

fn entry(is_it: impl Fn(&str) -> bool, key: &str) -> Option<String> {
    entry_of("passwd", is_it, key)
}

/// The line of a table: of the file in `/etc` first.
fn entry_of(table: &str, is_it: impl Fn(&str) -> bool, key: &str) -> Option<String> {
    let file = std::fs::read_to_string(format!("/etc/{table}")).unwrap_or_default();
    let local = file.lines().find(|line| is_it(line)).map(str::to_owned);
    local.or_else(|| getent(table, key).filter(|line| is_it(line)))
}

fn getent(table: &str, key: &str) -> Option<String> {
    if key.starts_with('-') {
        return None;
    }
    let asked = Command::new("getent")
        .args([table, key])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(asked.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_by_name_and_number() {
        assert_eq!(uid_of("root"), Some(Uid(0)));
        assert_eq!(uid_of("4711"), Some(Uid(4711)));
        assert_eq!(uid_of("no such user"), None);
        assert_eq!(
            names([Uid(0), Uid(0)]).get(&0).map(String::as_str),
            Some("root")
        );
    }
}
