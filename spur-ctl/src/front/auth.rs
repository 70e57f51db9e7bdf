//! Who calls: user and group from the kernel, names and groups from the user database (NSS), which may be slow and is therefore
//! asked off the runtime's threads and remembered for a while.
//!
//! What comes through the mesh is vouched for by a member. A login host speaks for all its users. A node runs programs of users, who
//! may have got at it: it speaks for owners of jobs that it runs only, and they are no operators there.

use super::accept::Peer;
use crate::service::Service;
use spur_core::api::{Caller, Refusal, RefusalKind};
use spur_core::id::{Gid, Uid};
use spur_core::job::spec::Owner;
use spur_core::mesh::Role;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use uzers::os::unix::UserExt;

/// How long an entry of the user database is believed.
const BELIEVE: Duration = Duration::from_secs(60);
/// Most users remembered; beyond, all are asked for anew.
const USERS_MAX: usize = 10_000;

/// The caller behind a connection; refused if its host may not speak for it.
pub async fn caller(service: &Service, peer: &Peer) -> Result<Caller, Refusal> {
    let user = peer.user;
    let node = peer.member.as_ref();
    let node = node.filter(|member| member.role == Role::Node);
    if let Some(node) = node
        && (user.uid == Uid(0) || !service.runs_on(user.uid, &node.name))
    {
        return Err(Refusal {
            kind: RefusalKind::AccessDenied,
            text: format!(
                "user {} has no job on node {}, and a node speaks for owners of its jobs only",
                user.uid, node.name
            ),
        });
    }
    let by_name = async || user.uid == Uid(0) || service.users().is_operator(user.uid).await;
    Ok(Caller {
        uid: user.uid,
        gid: user.gid,
        pid: user.pid,
        operator: node.is_none() && by_name().await,
    })
}

/// The user database, remembered.
#[derive(Debug)]
pub struct Users {
    operators: BTreeSet<String>,
    known: Mutex<BTreeMap<Uid, (Instant, Arc<Owner>)>>,
}

impl Users {
    /// With the names of the operators.
    pub fn new(operators: BTreeSet<String>) -> Self {
        Self {
            operators,
            known: Mutex::default(),
        }
    }

    /// Operators whom this machine does not know: perhaps misspelt, perhaps the directory does not answer.
    pub async fn unknown_operators(&self) -> Vec<String> {
        let names = self.operators.clone();
        let unknown = move || {
            let found = |name: &String| uzers::get_user_by_name(name).is_some();
            names.into_iter().filter(|name| !found(name)).collect()
        };
        blocking(move || Some(unknown())).await.unwrap_or_default()
    }

    async fn is_operator(&self, uid: Uid) -> bool {
        !self.operators.is_empty() && self.operators.contains(&self.find(uid).await.user)
    }

    /// A user as if he called by himself.
    pub async fn caller(&self, uid: Uid) -> Caller {
        let gid = self.find(uid).await.gid;
        Caller {
            uid,
            gid,
            pid: 0,
            operator: uid == Uid(0) || self.is_operator(uid).await,
        }
    }

    /// Who a caller is, with the group that the kernel says.
    pub async fn owner(&self, caller: &Caller) -> Owner {
        let mut owner = Owner::clone(&*self.find(caller.uid).await);
        if owner.gid != caller.gid {
            owner.gid = caller.gid;
            let gid = caller.gid;
            owner.group = blocking(move || group_name(gid.0))
                .await
                .unwrap_or_else(|| gid.to_string());
        }
        owner
    }

    /// Whether the machine knows a user.
    pub async fn has_user(&self, name: &str) -> bool {
        let name = name.to_owned();
        let known = blocking(move || uzers::get_user_by_name(&name)).await;
        known.is_some()
    }

    /// The number of a group.
    pub async fn gid_of(&self, name: &str) -> Option<Gid> {
        let name = name.to_owned();
        let known = blocking(move || uzers::get_group_by_name(&name)).await;
        known.map(|group| Gid(group.gid()))
    }

    async fn find(&self, uid: Uid) -> Arc<Owner> {
        let now = Instant::now();
        if let Some((since, owner)) = self.known().get(&uid)
            && now.duration_since(*since) < BELIEVE
        {
            return Arc::clone(owner);
        }
        let owner = Arc::new(
            blocking(move || look_up(uid))
                .await
                .unwrap_or_else(|| unknown(uid)),
        );
        let mut known = self.known();
        if known.len() >= USERS_MAX {
            known.clear();
        }
        known.insert(uid, (now, Arc::clone(&owner)));
        owner
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Uid, (Instant, Arc<Owner>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the database on a thread that may block.
async fn blocking<T: Send + 'static>(
    ask: impl FnOnce() -> Option<T> + Send + 'static,
) -> Option<T> {
    tokio::task::spawn_blocking(ask).await.ok().flatten()
}

fn text(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

fn group_name(gid: u32) -> Option<String> {
    uzers::get_group_by_gid(gid).map(|group| text(group.name()))
}

fn look_up(uid: Uid) -> Option<Owner> {
    let user = uzers::get_user_by_uid(uid.0)?;
    let gid = user.primary_group_id();
    let groups = user.groups().unwrap_or_default();
    Some(Owner {
        uid,
        gid: Gid(gid),
        groups: groups.iter().map(|group| Gid(group.gid())).collect(),
        user: text(user.name()),
        group: group_name(gid).unwrap_or_else(|| gid.to_string()),
        home: text(user.home_dir().as_os_str()),
        shell: text(user.shell().as_os_str()),
    })
}

/// A user that the database does not know is still who the kernel says.
fn unknown(uid: Uid) -> Owner {
    Owner {
        uid,
        gid: Gid(uid.0),
        groups: Vec::new(),
        user: uid.to_string(),
        group: uid.to_string(),
        home: "/".to_owned(),
        shell: "/bin/sh".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: u32, gid: u32) -> Caller {
        Caller {
            uid: Uid(uid),
            gid: Gid(gid),
            pid: 1,
            operator: false,
        }
    }

    #[tokio::test]
    async fn names_come_from_the_database_and_the_group_from_the_kernel() {
        let users = Users::new(BTreeSet::from(["daemon".to_owned()]));
        let root = users.owner(&caller(0, 0)).await;
        assert_eq!((root.user.as_str(), root.group.as_str()), ("root", "root"));
        assert!(root.home.starts_with('/'));
        let other = users.owner(&caller(0, 1)).await;
        assert_eq!((other.gid, other.group.as_str()), (Gid(1), "daemon"));
        assert!(users.is_operator(Uid(1)).await);
        assert!(!users.is_operator(Uid(2)).await);
    }

    #[tokio::test]
    async fn an_unknown_user_is_its_number() {
        let users = Users::new(BTreeSet::new());
        let owner = users.owner(&caller(3_999_999_999, 3_999_999_998)).await;
        assert_eq!(
            (owner.user.as_str(), owner.group.as_str()),
            ("3999999999", "3999999998")
        );
        assert_eq!(owner.groups, []);
    }
}
