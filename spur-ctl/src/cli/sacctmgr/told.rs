//! What `add`, `modify` and `delete` say that they do, in Slurm's words. Pure.

use super::is;
use crate::cli::failure::Failure;
use spur_core::manage::accounts::{Accounts, Association, Preview, limits};
use spur_core::manage::{Entity, Manage, Setting, Verb};

/// Limits of an association by name and as they are headed here, in Slurm's order.
const LIMITS: [(&str, &str); 16] = [
    ("GrpJobs", "GrpJobs"),
    ("GrpJobsAccrue", "GrpJobsAccrue           "),
    ("GrpSubmitJobs", "GrpSubmitJobs"),
    ("GrpTRES", "GrpTRES"),
    ("GrpTRESMins", "GrpTRESMins"),
    ("GrpTRESRunMins", "GrpTRESRunMins"),
    ("GrpWall", "GrpWall"),
    ("MaxJobs", "MaxJobs"),
    ("MaxJobsAccrue", "MaxJobsPrioAcc"),
    ("MaxSubmitJobs", "MaxSubmitJobs"),
    ("MaxTRES", "MaxTRES"),
    ("MaxTRESPerNode", "MaxTRESPerNode"),
    ("MaxTRESMins", "MaxTRESMins"),
    ("MaxTRESRunMins", "MaxTRESRUNMins"),
    ("MaxWall", "MaxWall"),
    ("MinPrioThresh", "MinPrioThresh"),
];

/// The text; empty if nothing is done.
pub(super) fn text(cluster: &str, request: &Manage, preview: &Preview) -> String {
    let rows = |wide: bool| -> String {
        let one = |own: &Association| format!("  {}\n", row(cluster, own, wide));
        preview.rows.iter().map(one).collect()
    };
    let names: String = preview.names.iter().map(|n| format!("  {n}\n")).collect();
    let part = |title: &str, lines: &str| match lines {
        "" => String::new(),
        lines => format!(" {title}\n{lines}"),
    };
    let about = Keys::of(&request.settings);
    match (request.entity, request.verb) {
        (Entity::Account, Verb::Create) => {
            let own = part("Adding Account(s)", &names) + &part_if(&names, &about.account());
            own + &part("Associations =", &added(cluster, preview))
                + &about.limits("Settings", preview)
        }
        (Entity::Qos, Verb::Create) => {
            part("Adding QOS(s)", &names) + &part_if(&names, &about.quality(preview))
        }
        (_, Verb::Create) => {
            let own = part("Adding User(s)", &names) + &part_if(&names, &about.user());
            let rows = part("Associations =", &added(cluster, preview));
            own + &rows + &about.limits("Non Default Settings", preview)
        }
        (Entity::Account, Verb::Update) => {
            let own = if about.of_itself { names.as_str() } else { "" };
            let rows = if about.of_associations {
                rows(true)
            } else {
                String::new()
            };
            part("Modified accounts...", own) + &part("Modified account associations...", &rows)
        }
        (Entity::Qos, Verb::Update) => part("Modified qos...", &names),
        (_, Verb::Update) => {
            let own = if about.of_itself { names.as_str() } else { "" };
            let rows = if about.of_associations {
                rows(true)
            } else {
                String::new()
            };
            part("Modified users...", own) + &part("Modified user associations...", &rows)
        }
        (Entity::Account, Verb::Delete) => part("Deleting accounts...", &names),
        (Entity::Qos, Verb::Delete) => part("Deleting QOS(s)...", &names),
        (_, Verb::Delete) if request.scope.is_empty() => part("Deleting users...", &names),
        (_, Verb::Delete) => {
            let without = part("Deleting users (No Associations)...", &names);
            part("Deleting user associations...", &rows(false)) + &without
        }
    }
}

/// What is said where nothing is to be done.
pub(super) fn nothing(cluster: &str, request: &Manage) -> String {
    let known = |name: &String| format!("Already existing account {name} on cluster {cluster}\n");
    match (request.entity, request.verb) {
        (Entity::Account, Verb::Create) => {
            let all: String = request.names.iter().map(known).collect();
            format!(" {all}")
        }
        (Entity::Qos, Verb::Create) => " Nothing new added.\n".to_owned(),
        (_, Verb::Create) => "Data has not changed since time specified\n".to_owned(),
        (_, Verb::Update) => " Nothing modified\n".to_owned(),
        (_, Verb::Delete) => " Nothing deleted\n".to_owned(),
    }
}

/// Refuses what is to be added to accounts that are not there.
pub(super) fn check(cluster: &str, accounts: &Accounts, request: &Manage) -> Result<(), Failure> {
    let about = Keys::of(&request.settings);
    let unknown = |name: &&str| accounts.account(name).is_none();
    match (request.entity, request.verb) {
        (Entity::Account, Verb::Create) => {
            let parent = about.given("parent", 1).filter(unknown);
            parent.map_or(Ok(()), |parent| {
                let why = format!(" error: No parent account '{parent}' on cluster '{cluster}'");
                Err(Failure::plain(why, 1))
            })
        }
        (Entity::User, Verb::Create) => {
            let keys = [("accounts", 3), ("acct", 4), ("defaultaccount", 8)];
            let lists = keys
                .iter()
                .filter_map(|(full, least)| about.given(full, *least));
            let named: Vec<&str> = lists.flat_map(|list| list.split(',')).collect();
            if named.is_empty() {
                return Err(Failure::plain(" Need name of account or wckey to add.", 1));
            }
            let skipped = named.into_iter().filter(unknown);
            let skip = |name| format!("No account {name} on cluster {cluster}, skipping.\n");
            let mut text: String = skipped.map(skip).collect();
            if text.is_empty() {
                return Ok(());
            }
            text.push_str(
                "Nothing added.\nMake sure the accounts requested here have been added to the system/cluster. (sacctmgr add account...)",
            );
            Err(Failure::plain(text, 1))
        }
        (_, _) => Ok(()),
    }
}

/// What is said only if something else is.
fn part_if(lines: &str, then: &str) -> String {
    if lines.is_empty() {
        String::new()
    } else {
        then.to_owned()
    }
}

/// An association as one line; that of an account is said to be of its parent.
fn row(cluster: &str, own: &Association, wide: bool) -> String {
    let account = &own.account;
    if own.user.is_empty() {
        let of = if own.parent.is_empty() {
            String::new()
        } else {
            format!(" of {}", own.parent)
        };
        return format!("C = {cluster:<10} A = {account}{of}");
    }
    let account = if wide {
        format!("{account:<20}")
    } else {
        format!("{account:<10}")
    };
    let partition = match own.partition.as_str() {
        "" => String::new(),
        partition => format!(" P = {partition}"),
    };
    format!(
        "C = {cluster:<10} A = {account} U = {:<9}{partition}",
        own.user
    )
}

/// The lines of associations that are added.
fn added(cluster: &str, preview: &Preview) -> String {
    let one = |own: &Association| match own.user.as_str() {
        "" => format!("  C = {cluster:<10} A = {:<20}\n", own.account),
        _ => format!("  {}\n", row(cluster, own, true)),
    };
    preview.rows.iter().map(one).collect()
}

/// What the settings of a request are about.
struct Keys<'s> {
    settings: &'s [Setting],
    of_itself: bool,
    of_associations: bool,
}

impl<'s> Keys<'s> {
    fn of(settings: &'s [Setting]) -> Self {
        // What is kept once for an account or a user; all else is of associations.
        let own = [
            ("description", 1),
            ("organization", 1),
            ("adminlevel", 2),
            ("defaultaccount", 8),
        ];
        let scope = [
            ("accounts", 3),
            ("acct", 4),
            ("partitions", 2),
            ("clusters", 1),
        ];
        let among = |pair: &Setting, all: &[(&str, usize)]| {
            all.iter().any(|(full, least)| is(&pair.key, full, *least))
        };
        let mut rest = settings.iter();
        Self {
            settings,
            of_itself: settings.iter().any(|pair| among(pair, &own)),
            of_associations: rest.any(|pair| !among(pair, &own) && !among(pair, &scope)),
        }
    }

    fn given(&self, full: &str, least: usize) -> Option<&'s str> {
        let mut pairs = self.settings.iter().rev();
        let found = pairs.find(|pair| is(&pair.key, full, least));
        found.map(|pair| pair.value.as_str())
    }

    fn account(&self) -> String {
        format!(
            " Settings\n  Description     = {}\n  Organization    = {}\n",
            self.given("description", 1).unwrap_or("Account Name"),
            self.given("organization", 1)
                .unwrap_or("Parent/Account Name"),
        )
    }

    fn user(&self) -> String {
        let mut text = " Settings\n".to_owned();
        if let Some(account) = self.given("defaultaccount", 8) {
            text.push_str(&format!("  Default Account = {account}\n"));
        }
        if let Some(level) = self.given("adminlevel", 2) {
            text.push_str(&format!("  Admin Level     = {level}\n"));
        }
        text
    }

    /// The description of the last, and what is set.
    fn quality(&self, preview: &Preview) -> String {
        let last = preview.names.last().map_or("", String::as_str);
        let described = self.given("description", 1).unwrap_or(last);
        let mut text = format!(" Settings\n  Description    = {described}\n");
        for pair in self
            .settings
            .iter()
            .filter(|pair| !is(&pair.key, "description", 1))
        {
            let name = limits::full_name(&pair.key).unwrap_or(match pair.key.as_str() {
                "flags" => "Flags",
                "priority" => "Priority",
                other => other,
            });
            text.push_str(&format!("  {name:<25}= {}\n", pair.value));
        }
        text
    }

    /// What is set of the associations that are added.
    fn limits(&self, title: &str, preview: &Preview) -> String {
        let (Some(own), true) = (preview.rows.first(), self.of_associations) else {
            return String::new();
        };
        let mut text = format!(" {title}\n");
        let mut line = |name: &str, value: &str| {
            text.push_str(&format!("  {name:<14}= {value}\n"));
        };
        if let Some(shares) = self.given("fairshare", 1).or(self.given("shares", 2)) {
            line("Fairshare", if shares == "-1" { "NONE" } else { shares });
        }
        let qos = own.qos.join(",");
        let rest = [
            ("Parent", self.given("parent", 1).unwrap_or_default()),
            ("Priority", limits::value(&own.limits, "Priority")),
            ("QOS", &qos),
            ("DefQOS", &own.default_qos),
            ("Comment", &own.comment),
        ];
        let limits = LIMITS.map(|(name, shown)| (shown, limits::value(&own.limits, name)));
        for (name, value) in limits.into_iter().chain(rest) {
            if !value.is_empty() {
                line(name, value);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests;
