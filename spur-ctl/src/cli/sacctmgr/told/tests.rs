use super::*;
use spur_core::manage::accounts::{Account, User, preview};

fn accounts() -> Accounts {
    let account = |name: &str| Account {
        name: name.to_owned(),
        ..Account::default()
    };
    let row = |id, account: &str, user: &str, parent: &str| Association {
        id,
        account: account.to_owned(),
        user: user.to_owned(),
        parent: parent.to_owned(),
        shares: 1,
        ..Association::default()
    };
    Accounts {
        accounts: vec![account("ml"), account("root")],
        users: vec![User {
            name: "alice".to_owned(),
            default_account: "ml".to_owned(),
            ..User::default()
        }],
        associations: vec![
            row(1, "root", "", ""),
            row(2, "ml", "", "root"),
            row(3, "ml", "alice", ""),
        ],
        ..Accounts::default()
    }
}

fn settings(pairs: &[(&str, &str)]) -> Vec<Setting> {
    let setting = |(key, value): &(&str, &str)| Setting {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    pairs.iter().map(setting).collect()
}

fn said(
    entity: Entity,
    verb: Verb,
    name: &str,
    scope: &[(&str, &str)],
    set: &[(&str, &str)],
) -> String {
    let request = Manage {
        entity,
        verb,
        names: vec![name.to_owned()],
        scope: settings(scope),
        settings: settings(set),
    };
    if let Err(failure) = check("base", &accounts(), &request) {
        return failure.text;
    }
    match text("base", &request, &preview(&accounts(), &request).unwrap()).as_str() {
        "" => nothing("base", &request),
        text => text.to_owned(),
    }
}

#[test]
fn what_is_added_is_told_as_slurm_does() {
    let add = |entity, name: &str, set: &[(&str, &str)]| said(entity, Verb::Create, name, &[], set);
    assert_eq!(
        add(Entity::Account, "research", &[]),
        " Adding Account(s)\n  research\n Settings\n  Description     = Account Name\n\
         \x20 Organization    = Parent/Account Name\n Associations =\n\
         \x20 C = base       A = research            \n"
    );
    assert_eq!(
        add(
            Entity::Account,
            "vision",
            &[
                ("description", "sees"),
                ("parent", "ml"),
                ("fairshare", "3"),
                ("grptres", "cpu=4")
            ]
        ),
        " Adding Account(s)\n  vision\n Settings\n  Description     = sees\n\
         \x20 Organization    = Parent/Account Name\n Associations =\n\
         \x20 C = base       A = vision              \n Settings\n  Fairshare     = 3\n\
         \x20 GrpTRES       = cpu=4\n  Parent        = ml\n"
    );
    assert_eq!(
        add(Entity::Account, "ml", &[]),
        " Already existing account ml on cluster base\n"
    );
    assert_eq!(
        add(Entity::Account, "x", &[("parent", "nope")]),
        " error: No parent account 'nope' on cluster 'base'\n"
    );
    assert_eq!(
        add(Entity::User, "bob", &[("account", "ml"), ("maxjobs", "5")]),
        " Adding User(s)\n  bob\n Settings\n Associations =\n\
         \x20 C = base       A = ml                   U = bob      \n\
         \x20Non Default Settings\n  MaxJobs       = 5\n"
    );
    assert_eq!(
        add(Entity::User, "bob", &[("account", "nope")]),
        "No account nope on cluster base, skipping.\nNothing added.\nMake sure the accounts \
         requested here have been added to the system/cluster. (sacctmgr add account...)\n"
    );
    assert_eq!(
        add(Entity::User, "bob", &[]),
        " Need name of account or wckey to add.\n"
    );
    assert_eq!(
        add(Entity::Qos, "high", &[("priority", "10")]),
        " Adding QOS(s)\n  high\n Settings\n  Description    = high\n  Priority                 = 10\n"
    );
}

#[test]
fn what_is_changed_and_deleted_is_told_as_slurm_does() {
    let set = |entity, name: &str, set: &[(&str, &str)]| said(entity, Verb::Update, name, &[], set);
    assert_eq!(
        set(Entity::User, "alice", &[("maxjobs", "4")]),
        " Modified user associations...\n  C = base       A = ml                   U = alice    \n"
    );
    assert_eq!(
        set(Entity::User, "alice", &[("adminlevel", "Operator")]),
        " Modified users...\n  alice\n"
    );
    assert_eq!(
        set(
            Entity::Account,
            "ml",
            &[("organization", "x"), ("grpjobs", "2")]
        ),
        " Modified accounts...\n  ml\n Modified account associations...\n  C = base       A = ml of root\n"
    );
    assert_eq!(
        set(Entity::User, "nobody", &[("maxjobs", "4")]),
        " Nothing modified\n"
    );
    assert_eq!(
        set(Entity::Qos, "nope", &[("priority", "4")]),
        " Nothing modified\n"
    );
    let gone = |entity, name, scope: &[(&str, &str)]| said(entity, Verb::Delete, name, scope, &[]);
    assert_eq!(
        gone(Entity::User, "alice", &[]),
        " Deleting users...\n  alice\n"
    );
    assert_eq!(
        gone(Entity::User, "alice", &[("account", "ml")]),
        " Deleting user associations...\n  C = base       A = ml         U = alice    \n\
         \x20Deleting users (No Associations)...\n  alice\n"
    );
    assert_eq!(
        gone(Entity::Account, "ml", &[]),
        " Deleting accounts...\n  ml\n"
    );
    assert_eq!(gone(Entity::User, "nobody", &[]), " Nothing deleted\n");
}
