//! What `KEY=VALUE` says of associations and users.

use super::super::{changed_list, invalid, refuse};
use super::{Accounts, Association, User, limits};
use crate::api::{Refusal, RefusalKind};
use crate::manage::{Entity, Manage, Setting, Sign, Verb};

/// The value of a key, in any case.
pub(super) fn given<'s>(settings: &'s [Setting], keys: &[&str]) -> Option<&'s str> {
    let named = |setting: &&Setting| keys.iter().any(|key| setting.key.eq_ignore_ascii_case(key));
    settings
        .iter()
        .rev()
        .find(named)
        .map(|setting| setting.value.as_str())
}

/// Settings that say which rows are made, or are read apart. What is changed is said behind `where`, so it is none of them then.
fn apart(request: &Manage) -> &'static [&'static str] {
    match (request.entity, request.verb) {
        (Entity::Account, Verb::Create) => &[
            "account",
            "accounts",
            "acct",
            "cluster",
            "clusters",
            "desc",
            "description",
            "name",
            "names",
            "org",
            "organization",
            "parent",
        ],
        (Entity::Account, _) => &[
            "desc",
            "description",
            "org",
            "organization",
            "parent",
            "rawusage",
        ],
        (Entity::Qos, Verb::Create) => &["desc", "description", "name", "names"],
        (Entity::Qos, _) => &["desc", "description", "rawusage"],
        (_, Verb::Create) => &[
            "account",
            "accounts",
            "acct",
            "admin",
            "adminlevel",
            "cluster",
            "clusters",
            "defaultaccount",
            "defaultwckey",
            "name",
            "names",
            "partition",
            "partitions",
            "user",
            "users",
        ],
        (_, _) => &[
            "admin",
            "adminlevel",
            "defaultaccount",
            "defaultwckey",
            "rawusage",
        ],
    }
}

/// Whether a setting says which rows are made, or is read apart.
pub(super) fn is_apart(request: &Manage, key: &str) -> bool {
    apart(request)
        .iter()
        .any(|apart| key.eq_ignore_ascii_case(apart))
}

/// A key in small letters and how it ends.
pub(super) fn signed(key: &str) -> (String, Sign) {
    let lower = key.to_ascii_lowercase();
    match (lower.strip_suffix('+'), lower.strip_suffix('-')) {
        (Some(word), _) => (word.to_owned(), Sign::Plus),
        (None, Some(word)) => (word.to_owned(), Sign::Minus),
        (None, None) => (lower, Sign::Is),
    }
}

/// A list of qualities, all of which there are.
pub(super) fn qualities(
    accounts: &Accounts,
    old: &[String],
    (sign, value): (Sign, &str),
) -> Result<Vec<String>, Refusal> {
    let new = match value {
        "-1" => Vec::new(),
        value => changed_list(old, sign, value),
    };
    let known = |name: &String| accounts.quality(name).is_some();
    match new.iter().find(|name| !known(name)) {
        Some(unknown) => Err(invalid(format!(
            " You gave a bad qos '{unknown}'.  Use 'list qos' to get a complete list."
        ))),
        None => Ok(new),
    }
}

/// What settings say of an association.
pub(super) fn set(
    accounts: &Accounts,
    own: &mut Association,
    request: &Manage,
) -> Result<(), Refusal> {
    for setting in &request.settings {
        let ((key, sign), value) = (signed(&setting.key), setting.value.as_str());
        match key.as_str() {
            "qos" | "qoslevel" => {
                own.qos = qualities(accounts, &accounts.qualities(own), (sign, value))?;
            }
            // Only lists become longer and shorter.
            _ if sign != Sign::Is => return Err(unknown(request, setting)),
            "fairshare" | "shares" => {
                let bad = |_| invalid(format!(" Bad fairshare value: {value}"));
                own.shares = match value {
                    "-1" | "" => 1,
                    "parent" => u32::MAX,
                    value => value.parse().map_err(bad)?,
                };
            }
            "defaultqos" | "defqos" => {
                let name = if value == "-1" { "" } else { value };
                if !name.is_empty() && accounts.quality(name).is_none() {
                    return Err(refuse(RefusalKind::InvalidQos, name));
                }
                name.clone_into(&mut own.default_qos);
            }
            "comment" => value.clone_into(&mut own.comment),
            key if is_apart(request, key) => {}
            key if limits::set(&mut own.limits, key, value)? => {}
            _ => return Err(unknown(request, setting)),
        }
    }
    Ok(())
}

/// A setting that nothing knows.
pub(super) fn unknown(request: &Manage, setting: &Setting) -> Refusal {
    let more = match request.verb {
        Verb::Update => "\n Use keyword 'where' to modify condition",
        Verb::Create | Verb::Delete => "",
    };
    invalid(format!(
        " Unknown option: {}={}{more}",
        setting.key, setting.value
    ))
}

/// The rights of a user, if the settings say anything of them.
pub(super) fn level(user: &mut User, settings: &[Setting]) -> Result<(), Refusal> {
    let Some(text) = given(settings, &["adminlevel", "admin"]) else {
        return Ok(());
    };
    let lower = text.to_ascii_lowercase();
    let known = ["None", "Operator", "Administrator"];
    let found = known
        .iter()
        .find(|full| !lower.is_empty() && full.to_ascii_lowercase().starts_with(&lower));
    let bad = || {
        invalid(format!(
            " Invalid admin level: {text} (None, Operator or Administrator)"
        ))
    };
    user.admin_level = (*found.ok_or_else(bad)?).to_owned();
    Ok(())
}
