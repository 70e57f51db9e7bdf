//! Accounts, their users, and qualities of service: who may charge what to whom, kept as `sacctmgr` sees it.
//!
//! Limits and shares are kept and shown; none is enforced. There is one cluster, so an association is an account's or a user's.

mod decide;
mod flags;
pub mod limits;
mod settings;

pub(super) use decide::decide;
pub use decide::{Preview, preview};

use super::Setting;
use serde::{Deserialize, Serialize};

/// An account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Name, in small letters.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Whose it is.
    pub organization: String,
}

/// A user of accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Account of jobs that name none.
    pub default_account: String,
    /// `None`, `Operator` or `Administrator`. Kept and shown: rights come from `operators` in the configuration.
    pub admin_level: String,
    /// Accounts that the user coordinates. Kept and shown.
    pub coordinates: Vec<String>,
}

/// What binds an account, or a user within one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Association {
    /// Number, from 1 on.
    pub id: u32,
    /// The account.
    pub account: String,
    /// The user; empty: the account's own.
    pub user: String,
    /// Only in this partition; empty is all.
    pub partition: String,
    /// The account above; empty for `root` and for users.
    pub parent: String,
    /// `Fairshare`: share of what the parent has.
    pub shares: u32,
    /// Limits by Slurm's name, in order of name.
    pub limits: Vec<Setting>,
    /// Qualities of service that may be asked for; empty: the parent's.
    pub qos: Vec<String>,
    /// That of jobs which ask for none; empty if none.
    pub default_qos: String,
    /// Remark.
    pub comment: String,
}

/// A quality of service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Qos {
    /// Number, from 1 on.
    pub id: u32,
    /// Name, in small letters.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Priority.
    pub priority: u32,
    /// Flags as written.
    pub flags: Vec<String>,
    /// Limits by Slurm's name, in order of name.
    pub limits: Vec<Setting>,
}

/// All of them. Persisted: fields are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accounts {
    /// In order of name.
    pub accounts: Vec<Account>,
    /// In order of name.
    pub users: Vec<User>,
    /// In order of number.
    pub associations: Vec<Association>,
    /// In order of number.
    pub qos: Vec<Qos>,
}

/// A change of one of them. Persisted: variants are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountChange {
    /// An account is so from now on.
    Account(Account),
    /// An account is no more.
    AccountGone(String),
    /// A user.
    User(User),
    /// A user is no more.
    UserGone(String),
    /// An association.
    Association(Box<Association>),
    /// An association is no more.
    AssociationGone(u32),
    /// A quality of service.
    Qos(Qos),
    /// A quality of service is no more.
    QosGone(String),
}

impl Default for Accounts {
    /// What every cluster begins with, as in Slurm: the account and the user `root`, and the quality `normal`.
    fn default() -> Self {
        let root = || "root".to_owned();
        let association = |id, user: &str| Association {
            id,
            account: root(),
            user: user.to_owned(),
            shares: 1,
            qos: if user.is_empty() {
                vec!["normal".to_owned()]
            } else {
                Vec::new()
            },
            ..Association::default()
        };
        Self {
            accounts: vec![Account {
                name: root(),
                description: "default root account".to_owned(),
                organization: root(),
            }],
            users: vec![User {
                name: root(),
                default_account: root(),
                admin_level: "Administrator".to_owned(),
                coordinates: Vec::new(),
            }],
            associations: vec![association(1, ""), association(2, "root")],
            qos: vec![Qos {
                id: 1,
                name: "normal".to_owned(),
                description: "Normal QOS default".to_owned(),
                ..Qos::default()
            }],
        }
    }
}

impl Accounts {
    /// An account.
    #[must_use]
    pub fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|known| known.name == name)
    }

    /// A user.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|known| known.name == name)
    }

    /// A quality of service.
    #[must_use]
    pub fn quality(&self, name: &str) -> Option<&Qos> {
        self.qos.iter().find(|known| known.name == name)
    }

    /// An account's own association, or that of a user in it.
    #[must_use]
    pub fn association(&self, account: &str, user: &str, partition: &str) -> Option<&Association> {
        self.associations.iter().find(|known| {
            known.account == account && known.user == user && known.partition == partition
        })
    }

    /// Whether anybody keeps accounts here: there is another than `root`.
    #[must_use]
    pub fn in_use(&self) -> bool {
        self.accounts.len() > 1
    }

    /// Whether a user may charge an account.
    #[must_use]
    pub fn may_charge(&self, user: &str, account: &str) -> bool {
        let own = |known: &&Association| known.user == user && known.account == account;
        self.associations.iter().any(|known| own(&known))
    }

    /// Where an association stands in the tree: `/research/0-alice/`. Sorting by it shows the tree from the root on.
    #[must_use]
    pub fn lineage(&self, of: &Association) -> String {
        let mut path = Vec::new();
        let mut account = of.account.as_str();
        // As deep as there are accounts, should parents ever go in a circle.
        for _ in 0..=self.accounts.len() {
            if account == "root" || account.is_empty() {
                break;
            }
            path.push(account);
            let own = self.association(account, "", "");
            account = own.map_or("", |own| &own.parent);
        }
        let mut text: String = path.iter().rev().map(|name| format!("/{name}")).collect();
        if !of.user.is_empty() {
            text.push_str(&format!("/0-{}", of.user));
        }
        if !of.partition.is_empty() {
            text.push_str(&format!("/{}", of.partition));
        }
        text + "/"
    }

    /// All associations as the tree shows them.
    #[must_use]
    pub fn tree(&self) -> Vec<&Association> {
        let mut all: Vec<(String, &Association)> = self
            .associations
            .iter()
            .map(|own| (self.lineage(own), own))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.into_iter().map(|(_, own)| own).collect()
    }

    /// The qualities that an association may ask for: its own, or those of what is above it.
    #[must_use]
    pub fn qualities(&self, of: &Association) -> Vec<String> {
        let mut at = of;
        for _ in 0..=self.accounts.len() + 1 {
            if !at.qos.is_empty() {
                return at.qos.clone();
            }
            let above = if at.user.is_empty() {
                &at.parent
            } else {
                &at.account
            };
            match self.association(above, "", "") {
                Some(next) => at = next,
                None => break,
            }
        }
        Vec::new()
    }

    pub(super) fn apply(&mut self, change: &AccountChange) {
        match change {
            AccountChange::Account(new) => put(&mut self.accounts, new, |known| known.name.clone()),
            AccountChange::AccountGone(name) => self.accounts.retain(|known| known.name != *name),
            AccountChange::User(new) => put(&mut self.users, new, |known| known.name.clone()),
            AccountChange::UserGone(name) => self.users.retain(|known| known.name != *name),
            AccountChange::Association(new) => {
                put(&mut self.associations, new.as_ref(), |known| known.id);
            }
            AccountChange::AssociationGone(id) => self.associations.retain(|known| known.id != *id),
            AccountChange::Qos(new) => put(&mut self.qos, new, |known| known.id),
            AccountChange::QosGone(name) => self.qos.retain(|known| known.name != *name),
        }
    }
}

/// Puts a row in its place, or in that of another with the same key.
fn put<T: Clone, K: Ord>(rows: &mut Vec<T>, new: &T, key: impl Fn(&T) -> K) {
    match rows.binary_search_by_key(&key(new), &key) {
        Ok(at) => rows[at] = new.clone(),
        Err(at) => rows.insert(at, new.clone()),
    }
}
