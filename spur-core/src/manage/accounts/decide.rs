//! `sacctmgr add`, `modify` and `delete`.

use super::super::{Change, Changes, Manage, Verb, invalid, list, refuse};
use super::{Account, AccountChange, Accounts, Association, Qos, User, flags, limits, settings};
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::manage::{Entity, Sign};

/// Most accounts, users and associations together.
const ROWS_MAX: usize = 200_000;

/// Reads a request about accounts. Rows that are made in it count for those that follow.
pub(in crate::manage) fn decide(cluster: &Cluster, request: &Manage) -> Result<Changes, Refusal> {
    let draft = draft(&cluster.managed.accounts, Some(cluster), request)?;
    let changes = draft.changes.into_iter().map(Change::Accounts).collect();
    Ok((changes, draft.names))
}

/// What a request does, as `sacctmgr` tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Accounts, users or qualities that are added, changed or deleted, by name.
    pub names: Vec<String>,
    /// Associations that are added, changed or deleted, as they become or were.
    pub rows: Vec<Association>,
}

/// Says what a request would do, if no job stands in its way.
pub fn preview(accounts: &Accounts, request: &Manage) -> Result<Preview, Refusal> {
    Ok(draft(accounts, None, request)?.told)
}

/// Does it in a copy of the accounts.
fn draft<'a>(
    accounts: &Accounts,
    cluster: Option<&'a Cluster>,
    request: &Manage,
) -> Result<Draft<'a>, Refusal> {
    let mut draft = Draft {
        cluster,
        accounts: accounts.clone(),
        changes: Vec::new(),
        names: Vec::new(),
        told: Preview::default(),
    };
    for name in &request.names {
        let name = name.trim();
        let legal = |c: char| !c.is_whitespace() && !c.is_control() && c != ',' && c != '=';
        if name.is_empty() || !name.chars().all(legal) {
            return Err(invalid(format!(" {name:?} is no name")));
        }
        match (request.entity, request.verb) {
            (Entity::Account, Verb::Create) => draft.add_account(name, request)?,
            (Entity::Account, Verb::Update) => draft.change_account(name, request)?,
            (Entity::Account, Verb::Delete) => draft.drop_account(name)?,
            (Entity::Qos, verb) => draft.qos(name, verb, request)?,
            (_, Verb::Create) => draft.add_user(name, request)?,
            (_, Verb::Update) => draft.change_user(name, request)?,
            (_, Verb::Delete) => draft.drop_user(name, request)?,
        }
    }
    Ok(draft)
}

/// What was decided so far.
struct Draft<'a> {
    /// Whose jobs may stand in the way.
    cluster: Option<&'a Cluster>,
    accounts: Accounts,
    changes: Vec<AccountChange>,
    names: Vec<String>,
    told: Preview,
}

impl Draft<'_> {
    fn push(&mut self, change: AccountChange) {
        self.accounts.apply(&change);
        self.changes.push(change);
    }

    fn next_id(&self) -> Result<u32, Refusal> {
        if self.accounts.associations.len() + self.accounts.users.len() >= ROWS_MAX {
            let text = format!("the cluster keeps {ROWS_MAX} users and associations");
            return Err(refuse(RefusalKind::Busy, text));
        }
        Ok(self.accounts.associations.last().map_or(0, |last| last.id) + 1)
    }

    fn add_account(&mut self, name: &str, request: &Manage) -> Result<(), Refusal> {
        let name = name.to_lowercase();
        if self.accounts.account(&name).is_some() {
            return Ok(());
        }
        let settings = &request.settings;
        let parent = settings::given(settings, &["parent"])
            .unwrap_or("root")
            .to_lowercase();
        if self.accounts.account(&parent).is_none() {
            return Err(invalid(format!(
                " This parent account '{parent}' doesn't exist.\n        Contact your admin to add this account."
            )));
        }
        let described = settings::given(settings, &["description", "desc"]).unwrap_or(&name);
        let organization =
            settings::given(settings, &["organization", "org"]).unwrap_or(match parent.as_str() {
                "root" => &name,
                parent => parent,
            });
        let account = Account {
            name: name.clone(),
            description: described.to_owned(),
            organization: organization.to_owned(),
        };
        let mut own = Association {
            id: self.next_id()?,
            account: name.clone(),
            parent,
            shares: 1,
            ..Association::default()
        };
        settings::set(&self.accounts, &mut own, request)?;
        self.told.names.push(name.clone());
        self.told.rows.push(own.clone());
        self.push(AccountChange::Account(account));
        self.push(AccountChange::Association(Box::new(own)));
        self.names.push(name);
        Ok(())
    }

    fn change_account(&mut self, name: &str, request: &Manage) -> Result<(), Refusal> {
        let known = self.accounts.account(name).cloned();
        let own = self.accounts.association(name, "", "").cloned();
        let (Some(mut account), Some(mut own)) = (known, own) else {
            return Ok(());
        };
        let settings = &request.settings;
        if let Some(text) = settings::given(settings, &["description", "desc"]) {
            text.clone_into(&mut account.description);
        }
        if let Some(text) = settings::given(settings, &["organization", "org"]) {
            text.clone_into(&mut account.organization);
        }
        if let Some(parent) = settings::given(settings, &["parent"]) {
            self.check_parent(name, parent)?;
            own.parent = parent.to_owned();
        }
        settings::set(&self.accounts, &mut own, request)?;
        self.told.names.push(name.to_owned());
        self.told.rows.push(own.clone());
        self.push(AccountChange::Account(account));
        self.push(AccountChange::Association(Box::new(own)));
        self.names.push(name.to_owned());
        Ok(())
    }

    fn check_parent(&self, name: &str, parent: &str) -> Result<(), Refusal> {
        let own = self.accounts.association(parent, "", "");
        let own = own.ok_or_else(|| invalid(format!(" Parent Account {parent} doesn't exist.")))?;
        let below = self
            .accounts
            .lineage(own)
            .split('/')
            .any(|above| above == name);
        if below || name == "root" {
            let text =
                format!(" {parent} cannot be the parent of {name}: it is the same or below it");
            return Err(invalid(text));
        }
        Ok(())
    }

    /// With all that is below it.
    fn drop_account(&mut self, name: &str) -> Result<(), Refusal> {
        if name == "root" {
            return Err(invalid(
                " You are not allowed to remove the root account.\n Use remove cluster instead.",
            ));
        }
        if self.accounts.account(name).is_none() {
            return Ok(());
        }
        let inside = |own: &&Association| {
            self.accounts
                .lineage(own)
                .split('/')
                .any(|above| above == name)
        };
        let rows: Vec<Association> = self
            .accounts
            .associations
            .iter()
            .filter(inside)
            .cloned()
            .collect();
        let charged = |account: &str| {
            rows.iter()
                .any(|row| row.user.is_empty() && row.account == account)
        };
        let mut users = self.accounts.users.iter();
        if let Some(user) = users.find(|user| charged(&user.default_account)) {
            let others = self
                .accounts
                .associations
                .iter()
                .any(|row| row.user == user.name && !charged(&row.account));
            if others {
                return Err(invalid(format!(
                    " Error with request: {name} or an account below it is the default account of {}",
                    user.name
                )));
            }
        }
        let clusters = self.cluster.into_iter();
        let mut jobs = clusters.flat_map(|cluster| cluster.pending().chain(cluster.running()));
        if let Some(job) = jobs.find(|job| charged(&job.spec.account)) {
            return Err(invalid(format!(
                " Error with request: Job(s) active, cancel job(s) before remove\n  JobID = {} charges account {}",
                job.id, job.spec.account
            )));
        }
        for row in rows {
            self.push(AccountChange::AssociationGone(row.id));
            if row.user.is_empty() {
                self.push(AccountChange::AccountGone(row.account.clone()));
                self.told.names.push(row.account.clone());
                self.names.push(row.account);
            }
        }
        self.drop_users_without_account();
        Ok(())
    }

    fn drop_users_without_account(&mut self) {
        let has = |user: &&User| {
            !self
                .accounts
                .associations
                .iter()
                .any(|row| row.user == user.name)
        };
        let gone: Vec<String> = self
            .accounts
            .users
            .iter()
            .filter(has)
            .map(|user| user.name.clone())
            .collect();
        for name in gone {
            self.push(AccountChange::UserGone(name));
        }
    }

    fn add_user(&mut self, name: &str, request: &Manage) -> Result<(), Refusal> {
        let settings = &request.settings;
        let named = |keys: &[&str]| list(settings::given(settings, keys).unwrap_or_default());
        let mut accounts = named(&["account", "accounts", "acct"]);
        let default = settings::given(settings, &["defaultaccount"]);
        if let Some(default) = default.filter(|default| !accounts.iter().any(|own| own == default))
        {
            accounts.push(default.to_owned());
        }
        let old = self.accounts.user(name).cloned();
        let Some(first) = accounts.first().cloned() else {
            let text = " Need name of account to add user to.";
            return old.map_or_else(|| Err(invalid(text)), |_| Ok(()));
        };
        let mut user = old.unwrap_or_else(|| User {
            name: name.to_owned(),
            default_account: first,
            admin_level: "None".to_owned(),
            coordinates: Vec::new(),
        });
        if let Some(default) = default {
            default.clone_into(&mut user.default_account);
        }
        settings::level(&mut user, settings)?;
        let mut partitions = named(&["partition", "partitions"]);
        if partitions.is_empty() {
            partitions.push(String::new());
        }
        let mut added = Vec::new();
        for account in &accounts {
            if self.accounts.account(account).is_none() {
                return Err(invalid(format!(
                    " This account '{account}' doesn't exist.\n        Contact your admin to add this account."
                )));
            }
            for partition in &partitions {
                if self
                    .accounts
                    .association(account, name, partition)
                    .is_some()
                {
                    continue;
                }
                let mut own = Association {
                    id: self.next_id()?,
                    account: account.clone(),
                    user: name.to_owned(),
                    partition: partition.clone(),
                    shares: 1,
                    ..Association::default()
                };
                settings::set(&self.accounts, &mut own, request)?;
                self.told.rows.push(own.clone());
                self.push(AccountChange::Association(Box::new(own)));
                added.push(account.clone());
            }
        }
        if self.accounts.user(name).is_none() {
            self.told.names.push(name.to_owned());
        }
        if !added.is_empty() || self.accounts.user(name) != Some(&user) {
            self.push(AccountChange::User(user));
            self.names.push(name.to_owned());
        }
        Ok(())
    }

    fn change_user(&mut self, name: &str, request: &Manage) -> Result<(), Refusal> {
        let Some(mut user) = self.accounts.user(name).cloned() else {
            return Ok(());
        };
        let settings = &request.settings;
        if let Some(default) = settings::given(settings, &["defaultaccount"]) {
            if !self.accounts.may_charge(name, default) {
                return Err(invalid(format!(
                    " Can't modify because these users aren't associated with new default account '{default}'...\n  {name}"
                )));
            }
            default.clone_into(&mut user.default_account);
        }
        settings::level(&mut user, settings)?;
        if self.accounts.user(name) != Some(&user) {
            self.push(AccountChange::User(user));
        }
        for mut own in self.meant(name, request) {
            let old = own.clone();
            settings::set(&self.accounts, &mut own, request)?;
            self.told.rows.push(own.clone());
            if own != old {
                self.push(AccountChange::Association(Box::new(own)));
            }
        }
        self.told.names.push(name.to_owned());
        self.names.push(name.to_owned());
        Ok(())
    }

    /// The user's associations within the scope of the request.
    fn meant(&self, name: &str, request: &Manage) -> Vec<Association> {
        let within = |keys: &[&str], value: &str| {
            let wanted = list(settings::given(&request.scope, keys).unwrap_or_default());
            wanted.is_empty() || wanted.iter().any(|own| own == value)
        };
        let rows = self
            .accounts
            .associations
            .iter()
            .filter(|own| own.user == name);
        let rows = rows.filter(|own| within(&["account", "accounts", "acct"], &own.account));
        let rows = rows.filter(|own| within(&["partition", "partitions"], &own.partition));
        rows.cloned().collect()
    }

    fn drop_user(&mut self, name: &str, request: &Manage) -> Result<(), Refusal> {
        if name == "root" {
            return Err(invalid(" You are not allowed to remove the root user."));
        }
        let Some(user) = self.accounts.user(name) else {
            return Ok(());
        };
        let default = user.default_account.clone();
        let rows = self.meant(name, request);
        let all = self
            .accounts
            .associations
            .iter()
            .filter(|own| own.user == name)
            .count();
        if rows.len() < all && rows.iter().any(|own| own.account == default) {
            return Err(invalid(format!(
                " Error with request: {default} is the default account of {name}: give another first"
            )));
        }
        for own in &rows {
            self.push(AccountChange::AssociationGone(own.id));
        }
        if rows.len() == all {
            self.told.names.push(name.to_owned());
            self.push(AccountChange::UserGone(name.to_owned()));
        }
        if !rows.is_empty() || all == 0 {
            self.names.push(name.to_owned());
        }
        self.told.rows.extend(rows);
        Ok(())
    }

    fn qos(&mut self, name: &str, verb: Verb, request: &Manage) -> Result<(), Refusal> {
        let name = name.to_lowercase();
        let old = self.accounts.quality(&name).cloned();
        let mut new = match (verb, old) {
            (Verb::Delete | Verb::Update, None) | (Verb::Create, Some(_)) => return Ok(()),
            (Verb::Delete, Some(_)) => {
                self.push(AccountChange::QosGone(name.clone()));
                self.told.names.push(name.clone());
                self.names.push(name);
                return Ok(());
            }
            (Verb::Update, Some(old)) => old,
            (Verb::Create, None) => Qos {
                id: self.accounts.qos.last().map_or(0, |last| last.id) + 1,
                name: name.clone(),
                description: name.clone(),
                ..Qos::default()
            },
        };
        for setting in &request.settings {
            let ((key, sign), value) = (settings::signed(&setting.key), setting.value.as_str());
            match key.as_str() {
                "flags" => new.flags = flags::changed(&new.flags, sign, value)?,
                "preempt" => {
                    let old = list(limits::value(&new.limits, "Preempt"));
                    let chosen = settings::qualities(&self.accounts, &old, (sign, value))?;
                    limits::set(&mut new.limits, "preempt", &chosen.join(","))?;
                }
                _ if sign != Sign::Is => return Err(settings::unknown(request, setting)),
                "description" | "desc" => value.clone_into(&mut new.description),
                "priority" => {
                    let bad = |_| invalid(format!(" Bad priority value: {value}"));
                    new.priority = value.parse().map_err(bad)?;
                }
                key if settings::is_apart(request, key) => {}
                key if limits::set(&mut new.limits, key, value)? => {}
                _ => return Err(settings::unknown(request, setting)),
            }
        }
        self.push(AccountChange::Qos(new));
        self.told.names.push(name.clone());
        self.names.push(name);
        Ok(())
    }
}
