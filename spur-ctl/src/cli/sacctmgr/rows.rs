//! Rows of `sacctmgr list`, field by field.

use super::fields::Field;
use spur_core::manage::accounts::{Account, Accounts, Association, Qos, User, limits};

/// What a row is about; what is absent has empty fields.
#[derive(Clone, Copy, Default)]
pub(super) struct Row<'a> {
    pub(super) cluster: &'a str,
    pub(super) account: Option<&'a Account>,
    pub(super) user: Option<&'a User>,
    pub(super) association: Option<&'a Association>,
    pub(super) qos: Option<&'a Qos>,
}

/// The cell of a field.
pub(super) fn cell(accounts: &Accounts, row: &Row<'_>, field: Field) -> String {
    let own = row.association;
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    match field {
        Field::Account => match (own, row.account) {
            (Some(own), _) => own.account.clone(),
            (None, account) => text(account.map(|account| &account.name)),
        },
        Field::User => match (own, row.user) {
            (Some(own), None) => own.user.clone(),
            (_, user) => text(user.map(|user| &user.name)),
        },
        Field::Name => match (row.qos, row.account, row.user) {
            (Some(qos), ..) => qos.name.clone(),
            (None, Some(account), _) => account.name.clone(),
            (None, None, user) => text(user.map(|user| &user.name)),
        },
        Field::Cluster => match (row.qos, own, row.account, row.user) {
            (None, None, None, None) | (None, Some(_), ..) => row.cluster.to_owned(),
            _ => String::new(),
        },
        Field::AdminLevel => text(row.user.map(|user| &user.admin_level)),
        Field::DefaultAccount => text(row.user.map(|user| &user.default_account)),
        Field::Coordinators => row
            .user
            .map(|user| user.coordinates.join(","))
            .unwrap_or_default(),
        Field::Description => match row.qos {
            Some(qos) => qos.description.clone(),
            None => text(row.account.map(|account| &account.description)),
        },
        Field::Organization => text(row.account.map(|account| &account.organization)),
        Field::Comment => text(own.map(|own| &own.comment)),
        Field::DefaultQos => text(own.map(|own| &own.default_qos)),
        Field::Lineage => own.map(|own| accounts.lineage(own)).unwrap_or_default(),
        Field::ParentName => text(own.map(|own| &own.parent)),
        Field::Partition => text(own.map(|own| &own.partition)),
        Field::Qos => own
            .map(|own| accounts.qualities(own).join(","))
            .unwrap_or_default(),
        Field::Share => own.map(share).unwrap_or_default(),
        Field::Flags => row.qos.map(|qos| qos.flags.join(",")).unwrap_or_default(),
        Field::Id => match (row.qos, own) {
            (Some(qos), _) => qos.id.to_string(),
            (None, own) => own.map(|own| own.id.to_string()).unwrap_or_default(),
        },
        Field::Priority => match (row.qos, own) {
            (Some(qos), _) => qos.priority.to_string(),
            (None, own) => own
                .map_or("", |own| limits::value(&own.limits, "Priority"))
                .to_owned(),
        },
        Field::Limit(name) => limit(row, name),
        Field::ControlHost | Field::ControlPort | Field::Rpc | Field::Type | Field::Nothing => {
            String::new()
        }
    }
}

fn share(own: &Association) -> String {
    match own.shares {
        u32::MAX => "parent".to_owned(),
        shares => shares.to_string(),
    }
}

/// A limit, or `NAME:PART` for an amount of one.
fn limit(row: &Row<'_>, name: &str) -> String {
    let own = row.association.map(|own| &own.limits);
    let Some(set) = row.qos.map(|qos| &qos.limits).or(own) else {
        return String::new();
    };
    let (name, part) = name.split_once(':').unwrap_or((name, ""));
    let value = limits::value(set, name);
    if !part.is_empty() {
        let mut amounts = value.split(',').filter_map(|amount| amount.split_once('='));
        let found = amounts.find(|(own, _)| *own == part);
        return found.map_or_else(String::new, |(_, amount)| amount.to_owned());
    }
    // What Slurm shows of a quality that says nothing.
    let usual = match name {
        _ if row.qos.is_none() => "",
        "GraceTime" => "00:00:00",
        "PreemptMode" => "cluster",
        "UsageFactor" => "1.000000",
        _ => "",
    };
    let shown = if value.is_empty() { usual } else { value };
    shown.to_owned()
}
