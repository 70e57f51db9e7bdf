//! Accounts as JSON and YAML, in Slurm's shapes.

use super::super::render::data::{Asked, Document, Meta, Number};
use spur_core::manage::Setting;
use spur_core::manage::accounts::{Account, Accounts, Association, Qos, User, limits};

/// A limit that counts; without bound if it is not set.
fn bound(doc: &mut Document, key: &str, limits: &[Setting], name: &str) {
    let value = limits::value(limits, name);
    let number = value.parse().map_or(Number::Infinite, Number::Is);
    doc.number(key, number);
}

/// A limit of time, in minutes.
fn minutes(doc: &mut Document, key: &str, limits: &[Setting], name: &str) {
    use spur_core::slurm::timespec;
    use spur_core::time::TimeLimit;
    let number = match timespec::parse_limit(limits::value(limits, name)) {
        Ok(TimeLimit::Secs(secs)) => Number::Is(secs / 60),
        Ok(TimeLimit::Unlimited) | Err(_) => Number::Infinite,
    };
    doc.number(key, number);
}

/// Amounts: `[{type, name, id, count}]`.
fn amounts(doc: &mut Document, key: &str, limits: &[Setting], name: &str) {
    const IDS: [(&str, u32); 9] = [
        ("cpu", 1),
        ("mem", 2),
        ("energy", 3),
        ("node", 4),
        ("billing", 5),
        ("fs/disk", 6),
        ("vmem", 7),
        ("pages", 8),
        ("gres/gpu", 1001),
    ];
    let value = limits::value(limits, name);
    let parts = value.split(',').filter_map(|part| part.split_once('='));
    doc.list(key, parts, |doc, (what, amount)| {
        doc.item(|doc| {
            let (kind, name) = what.split_once('/').unwrap_or((what, ""));
            doc.text("type", kind);
            doc.text("name", name);
            let id = IDS.iter().find(|(known, _)| *known == what);
            doc.int("id", id.map_or(0, |(_, id)| *id));
            doc.count("count", amount.parse().unwrap_or(0));
        });
    });
}

/// `sacctmgr show assoc`.
pub(super) fn associations(asked: Asked, meta: &Meta, accounts: &Accounts, own: &[&Association]) {
    let mut doc = Document::begin(asked);
    doc.list("associations", own, |doc, own| {
        doc.item(|doc| association(doc, &meta.cluster, accounts, own));
    });
    doc.finish(meta, &[], &[]);
}

fn association(doc: &mut Document, cluster: &str, accounts: &Accounts, own: &Association) {
    let set = &own.limits;
    doc.texts("accounting", []);
    doc.text("account", &own.account);
    doc.text("cluster", cluster);
    doc.text("comment", &own.comment);
    doc.map("default", |doc| doc.text("qos", &own.default_qos));
    doc.texts("flags", []);
    doc.map("max", |doc| maxima(doc, set));
    // Slurm tells the number elsewhere.
    doc.int("id", 0);
    doc.bool("is_default", is_default(accounts, own));
    doc.text("lineage", &accounts.lineage(own));
    doc.map("min", |doc| {
        bound(doc, "priority_threshold", set, "MinPrioThresh")
    });
    doc.text("parent_account", &own.parent);
    doc.text("partition", &own.partition);
    bound(doc, "priority", set, "Priority");
    let qualities = accounts.qualities(own);
    doc.texts("qos", qualities.iter().map(String::as_str));
    doc.count("shares_raw", u64::from(own.shares));
    doc.text("user", &own.user);
}

/// Whether it is the one that its user's jobs are charged to, or an account's that some user's are.
fn is_default(accounts: &Accounts, own: &Association) -> bool {
    let is = |user: &User| user.default_account == own.account;
    match own.user.as_str() {
        "" => own.account != "root" && accounts.users.iter().any(is),
        name => accounts.user(name).is_some_and(is),
    }
}

fn maxima(doc: &mut Document, set: &[Setting]) {
    doc.map("jobs", |doc| {
        doc.map("per", |doc| {
            bound(doc, "count", set, "MaxJobs");
            bound(doc, "accruing", set, "MaxJobsAccrue");
            bound(doc, "submitted", set, "MaxSubmitJobs");
            minutes(doc, "wall_clock", set, "MaxWall");
        });
        bound(doc, "active", set, "GrpJobs");
        bound(doc, "accruing", set, "GrpJobsAccrue");
        bound(doc, "total", set, "GrpSubmitJobs");
    });
    doc.map("tres", |doc| {
        amounts(doc, "total", set, "GrpTRES");
        doc.map("group", |doc| {
            amounts(doc, "minutes", set, "GrpTRESMins");
            amounts(doc, "active", set, "GrpTRESRunMins");
        });
        doc.map("minutes", |doc| {
            amounts(doc, "total", set, "GrpTRESMins");
            doc.map("per", |doc| amounts(doc, "job", set, "MaxTRESMins"));
        });
        doc.map("per", |doc| {
            amounts(doc, "job", set, "MaxTRES");
            amounts(doc, "node", set, "MaxTRESPerNode");
        });
    });
    doc.map("per", |doc| {
        doc.map("account", |doc| minutes(doc, "wall_clock", set, "GrpWall"));
    });
}

/// An association in a few words, as lists of others hold it.
fn short(doc: &mut Document, cluster: &str, own: &Association) {
    doc.item(|doc| {
        doc.text("account", &own.account);
        doc.text("cluster", cluster);
        doc.text("partition", &own.partition);
        doc.text("user", &own.user);
        doc.count("id", u64::from(own.id));
    });
}

/// `sacctmgr show account`.
pub(super) fn accounts<'a>(
    asked: Asked,
    meta: &Meta,
    cluster: &str,
    accounts: &'a Accounts,
    kept: impl Iterator<Item = &'a Account>,
) {
    let mut doc = Document::begin(asked);
    doc.list("accounts", kept, |doc, account| {
        doc.item(|doc| {
            let own = accounts.associations.iter();
            let own = own.filter(|own| own.account == account.name);
            doc.list("associations", own, |doc, own| short(doc, cluster, own));
            doc.texts("coordinators", []);
            doc.text("description", &account.description);
            doc.text("name", &account.name);
            doc.text("organization", &account.organization);
            doc.texts("flags", []);
        });
    });
    doc.finish(meta, &[], &[]);
}

/// `sacctmgr show user`.
pub(super) fn users<'a>(
    asked: Asked,
    meta: &Meta,
    cluster: &str,
    accounts: &'a Accounts,
    kept: impl Iterator<Item = &'a User>,
) {
    let mut doc = Document::begin(asked);
    doc.list("users", kept, |doc, user| {
        doc.item(|doc| {
            doc.texts("administrator_level", [user.admin_level.as_str()]);
            let own = accounts
                .associations
                .iter()
                .filter(|own| own.user == user.name);
            doc.list("associations", own, |doc, own| short(doc, cluster, own));
            doc.texts("coordinators", []);
            doc.map("default", |doc| {
                doc.text("account", &user.default_account);
                doc.text("wckey", "");
            });
            doc.texts("flags", []);
            doc.text("name", &user.name);
            doc.text("old_name", "");
            doc.texts("wckeys", []);
        });
    });
    doc.finish(meta, &[], &[]);
}

/// `sacctmgr show qos`.
pub(super) fn qos<'a>(asked: Asked, meta: &Meta, kept: impl Iterator<Item = &'a Qos>) {
    let mut doc = Document::begin(asked);
    doc.list("qos", kept, |doc, qos| {
        doc.item(|doc| {
            doc.text("description", &qos.description);
            doc.texts("flags", qos.flags.iter().map(String::as_str));
            doc.count("id", u64::from(qos.id));
            doc.map("limits", |doc| quality_limits(doc, &qos.limits));
            doc.text("name", &qos.name);
            doc.number("priority", Number::Is(u64::from(qos.priority)));
        });
    });
    doc.finish(meta, &[], &[]);
}

fn quality_limits(doc: &mut Document, set: &[Setting]) {
    doc.map("max", |doc| {
        doc.map("active_jobs", |doc| {
            bound(doc, "count", set, "GrpJobs");
        });
        doc.map("jobs", |doc| {
            doc.map("per", |doc| {
                bound(doc, "account", set, "MaxJobsPerAccount");
                bound(doc, "user", set, "MaxJobsPerUser");
            });
        });
        doc.map("tres", |doc| {
            amounts(doc, "total", set, "GrpTRES");
            doc.map("per", |doc| {
                amounts(doc, "account", set, "MaxTRESPerAccount");
                amounts(doc, "job", set, "MaxTRES");
                amounts(doc, "node", set, "MaxTRESPerNode");
                amounts(doc, "user", set, "MaxTRESPerUser");
            });
        });
        doc.map("wall_clock", |doc| {
            doc.map("per", |doc| minutes(doc, "job", set, "MaxWall"));
        });
    });
    doc.map("min", |doc| {
        doc.map("tres", |doc| {
            doc.map("per", |doc| amounts(doc, "job", set, "MinTRES"));
        });
    });
}
