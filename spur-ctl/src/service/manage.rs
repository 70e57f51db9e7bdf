//! What operators manage, as far as it takes the machine's users and groups or the configuration file; and what follows from that
//! for those who submit jobs.

use super::owners::owned;
use super::{Act, Service, operators_only, refuse};
use crate::config::Config;
use crate::readers::View;
use spur_core::api::{Caller, Refusal, RefusalKind, Request};
use spur_core::job::array::JobTarget;
use spur_core::job::change::JobChange;
use spur_core::job::spec::JobSpec;
use spur_core::manage::{Entity, Manage, Setting, Verb};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// What the service needs of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The file, to read it again.
    pub file: PathBuf,
    /// Jobs of an account that their user has no association with are refused.
    pub associations: bool,
    /// Jobs of a quality of service that does not exist are refused.
    pub qos: bool,
    /// What everybody may know of the configuration.
    pub shown: Vec<Setting>,
}

impl Service {
    /// A request of an operator. The owner of a reservation that says so (`USER_DELETE`) may take it away.
    pub(super) async fn manage(
        &self,
        view: &View,
        caller: &Caller,
        request: Box<Manage>,
    ) -> Result<Act, Refusal> {
        if !(caller.operator || self.is_own_reservation(view, caller, &request).await) {
            operators_only(caller)?;
        }
        if request.entity == Entity::Reservation {
            self.users_exist(&request.settings).await?;
        }
        Ok(Act::Manage(request))
    }

    async fn is_own_reservation(&self, view: &View, caller: &Caller, request: &Manage) -> bool {
        if (request.entity, request.verb) != (Entity::Reservation, Verb::Delete) {
            return false;
        }
        let user = self.users.owner(caller).await.user;
        request.names.iter().all(|name| {
            let mut known = view.reservations.iter();
            let known = known.find(|known| known.name == *name);
            known.is_some_and(|known| known.has("USER_DELETE") && known.users.contains(&user))
        })
    }

    async fn users_exist(&self, settings: &[Setting]) -> Result<(), Refusal> {
        for setting in settings {
            let key = setting
                .key
                .trim_end_matches(['+', '-'])
                .to_ascii_lowercase();
            let names = setting
                .value
                .split(',')
                .map(|name| name.trim_start_matches('-'));
            for name in names.filter(|name| !name.is_empty()) {
                if !key.is_empty() && "users".starts_with(&key) && !self.users.has_user(name).await
                {
                    return Err(refuse(
                        RefusalKind::Invalid,
                        format!("Invalid user id: {name}"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The configuration file, read again. What is not of partitions, nodes and topology takes a restart.
    pub(super) async fn reconfigure(&self, caller: &Caller) -> Result<Act, Refusal> {
        operators_only(caller)?;
        let file = self.settings.file.clone();
        let read = tokio::task::spawn_blocking(move || Config::read(&file)).await;
        let failed = |why: &dyn std::fmt::Display| refuse(RefusalKind::Invalid, why.to_string());
        let config = read
            .map_err(|why| failed(&why))?
            .map_err(|why| failed(&why))?;
        tracing::info!(uid = %caller.uid, file = %self.settings.file.display(), "configuration read again");
        Ok(Act::Configure(Box::new(config.event())))
    }

    /// Whether the owner of a job may use the partition and the account that it names.
    pub(super) async fn may_use(&self, caller: &Caller, spec: &JobSpec) -> Result<(), Refusal> {
        let view = self.readers.view();
        let named = |known: &&spur_core::partition::Partition| match spec.partition.as_str() {
            "" => known.default,
            name => known.name == name,
        };
        let partition = view.partitions.iter().find(named);
        let groups = partition.map_or(&[][..], |known| &known.allow_groups);
        if !groups.is_empty() && !caller.operator && !self.is_in_one(spec, groups).await {
            let text = format!("its groups are {}", groups.join(","));
            return Err(refuse(RefusalKind::GroupNotPermitted, text));
        }
        let accounts = &view.accounts;
        let user = &spec.owner.user;
        let default = accounts
            .user(user)
            .map_or("", |known| &known.default_account);
        let account = if spec.account.is_empty() {
            default
        } else {
            &spec.account
        };
        if self.settings.associations && !accounts.may_charge(user, account) {
            let text = format!("user {user} has no association with account {account:?}");
            return Err(refuse(RefusalKind::InvalidAccount, text));
        }
        if self.settings.qos && !spec.qos.is_empty() && accounts.quality(&spec.qos).is_none() {
            return Err(refuse(RefusalKind::InvalidQos, spec.qos.clone()));
        }
        Ok(())
    }

    /// Whether the owners of jobs may use the partition, account and quality of service that a change puts them into.
    pub(super) async fn may_change(
        &self,
        view: &View,
        caller: &Caller,
        (jobs, change): (&[JobTarget], &JobChange),
    ) -> Result<(), Refusal> {
        if change.partition.is_none() && change.account.is_none() && change.qos.is_none() {
            return Ok(());
        }
        let rows = jobs.iter().flat_map(|target| view.records(target.job));
        let specs = rows.map(|row| Arc::clone(&row.spec));
        // Jobs of one owner in one place are alike here.
        let mut seen = BTreeSet::new();
        for known in specs {
            let place = (known.owner.uid, known.partition.clone());
            if !seen.insert((place, known.account.clone(), known.qos.clone())) {
                continue;
            }
            let mut spec = (*known).clone();
            change.apply(&mut spec)?;
            self.may_use(caller, &spec).await?;
        }
        Ok(())
    }

    async fn is_in_one(&self, spec: &JobSpec, groups: &[String]) -> bool {
        let owner = &spec.owner;
        for name in groups {
            let gid = self.users.gid_of(name).await;
            let own = |gid| owner.gid == gid || owner.groups.contains(&gid);
            if *name == owner.group || gid.is_some_and(own) {
                return true;
            }
        }
        false
    }
}

/// What `scontrol update` changes: one's own jobs, and for operators everything.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "`decide` names every request and passes only these"
)]
pub(super) fn changed(view: &View, caller: &Caller, request: Request) -> Result<Act, Refusal> {
    match request {
        Request::UpdateJob {
            job,
            time_limit,
            name,
            comment,
            partition,
            priority,
        } => {
            let change = JobChange {
                time_limit,
                name,
                comment,
                partition,
                priority,
                ..JobChange::default()
            };
            Ok(Act::UpdateJob(owned(view, caller, job)?, Box::new(change)))
        }
        Request::UpdateNode {
            nodes,
            admin,
            reason,
        } => {
            operators_only(caller)?;
            Ok(Act::UpdateNode {
                nodes,
                admin,
                reason,
            })
        }
        Request::UpdatePartition { name, state } => {
            operators_only(caller)?;
            Ok(Act::UpdatePartition(name, state))
        }
        other => Err(refuse(
            RefusalKind::Invalid,
            format!("no change: {other:?}"),
        )),
    }
}
