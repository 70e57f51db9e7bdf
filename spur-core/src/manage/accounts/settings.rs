//! What `KEY=VALUE` says of associations and users.

use super::super::{changed_list, invalid, refuse};
use super::{Accounts, Association, User, limits};
use crate::api::{Refusal, RefusalKind};
use crate::manage::{Setting, Sign};

/// The value of a key, in any case.
pub(super) fn given<'s>(settings: &'s [Setting], keys: &[&str]) -> Option<&'s str> {
    let named = |setting: &&Setting| keys.iter().any(|key| setting.key.eq_ignore_ascii_case(key));
    settings
        .iter()
        .rev()
        .find(named)
        .map(|setting| setting.value.as_str())
}

/// Settings that say which rows are meant, or are read apart.
pub(super) fn is_apart(key: &str) -> bool {
    const APART: [&str; 22] = [
        "account",
        "accounts",
        "acct",
        "adminlevel",
        "admin",
        "cluster",
        "clusters",
        "coordinator",
        "defaultaccount",
        "defaultwckey",
        "description",
        "name",
        "names",
        "organization",
        "parent",
        "partition",
        "partitions",
        "user",
        "users",
        "desc",
        "org",
        "rawusage",
    ];
    APART.iter().any(|apart| key.eq_ignore_ascii_case(apart))
}

/// What settings say of an association.
pub(super) fn set(
    accounts: &Accounts,
    own: &mut Association,
    settings: &[Setting],
) -> Result<(), Refusal> {
    for setting in settings {
        let (key, value) = (setting.key.to_ascii_lowercase(), setting.value.as_str());
        let sign = match key.chars().last() {
            Some('+') => Sign::Plus,
            Some('-') => Sign::Minus,
            Some(_) | None => Sign::Is,
        };
        match key.trim_end_matches(['+', '-']) {
            "fairshare" | "shares" => {
                let bad = |_| invalid(format!(" Bad fairshare value: {value}"));
                own.shares = match value {
                    "-1" | "" => 1,
                    "parent" => u32::MAX,
                    value => value.parse().map_err(bad)?,
                };
            }
            "qos" | "qoslevel" => {
                let now = accounts.qualities(own);
                let new = changed_list(&now, sign, value);
                let known = |name: &String| accounts.quality(name).is_some();
                if let Some(unknown) = new.iter().find(|name| !known(name)) {
                    return Err(invalid(format!(
                        " You gave a bad qos '{unknown}'.  Use 'list qos' to get a complete list."
                    )));
                }
                own.qos = new;
            }
            "defaultqos" | "defqos" => {
                let name = if value == "-1" { "" } else { value };
                if !name.is_empty() && accounts.quality(name).is_none() {
                    return Err(refuse(RefusalKind::InvalidQos, name));
                }
                name.clone_into(&mut own.default_qos);
            }
            "comment" => value.clone_into(&mut own.comment),
            key if is_apart(key) => {}
            key if limits::set(&mut own.limits, key, value)? => {}
            _ => return Err(unknown(setting)),
        }
    }
    Ok(())
}

/// A setting that nothing knows.
pub(super) fn unknown(setting: &Setting) -> Refusal {
    invalid(format!(
        " Unknown option: {}={}",
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
