//! `sacctmgr add`, `modify` and `delete`: what is to be changed is shown, and done once it is confirmed.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::link::{self, Trouble};
use super::super::output;
use super::conditions::{self, Rows, wanted};
use super::words::{self, Words};
use super::{is, later, told};
use spur_core::api::{RefusalKind, Reply, Request};
use spur_core::manage::accounts::{Account, Accounts, Association, Qos, preview};
use spur_core::manage::{Entity, Manage, Setting, Verb};
use std::io::{BufRead as _, IsTerminal as _};

/// What a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Rows(Entity),
    Coordinator,
    Cluster,
}

fn entity(word: Option<&String>, keyword: &str) -> Result<Named, Failure> {
    let Some(word) = word else {
        return Err(Failure::plain(
            format!("too few arguments for keyword:{keyword}"),
            1,
        ));
    };
    let is = |full: &str, least: usize| is(word, full, least);
    match () {
        () if is("accounts", 1) => Ok(Named::Rows(Entity::Account)),
        () if is("users", 1) => Ok(Named::Rows(Entity::User)),
        () if is("qos", 1) => Ok(Named::Rows(Entity::Qos)),
        () if is("coordinators", 3) => Ok(Named::Coordinator),
        () if is("clusters", 2) => Ok(Named::Cluster),
        () if is("federation", 1) || is("resource", 1) || is("wckey", 1) || is("job", 1) => {
            Err(later(word, "nothing of the kind is kept"))
        }
        () => Err(
            Failure::plain(format!("invalid entity:{word} for keyword:{keyword} "), 1)
                .nearest(word, super::ENTITIES.into_iter().take(3)),
        ),
    }
}

/// What an entity's rows are chosen by.
fn rows(of: Entity) -> Rows {
    match of {
        Entity::Account => Rows::Accounts,
        Entity::Qos => Rows::Qos,
        Entity::User | Entity::Partition | Entity::Node | Entity::Reservation => Rows::Users,
    }
}

/// What is added has settings, not conditions: the names that are meant, and the settings that are left.
fn parted(words: &Words, of: Entity) -> (Vec<String>, Vec<Setting>) {
    let keys: &[(&str, usize)] = match of {
        Entity::Account => &[("accounts", 2), ("acct", 4), ("names", 1)],
        Entity::Qos => &[("qos", 1), ("names", 1)],
        Entity::User | Entity::Partition | Entity::Node | Entity::Reservation => {
            &[("users", 1), ("names", 1)]
        }
    };
    let own = |pair: &&Setting| keys.iter().any(|(full, least)| is(&pair.key, full, *least));
    let mut all = words.names.clone();
    let named = words.pairs.iter().filter(own);
    all.extend(named.flat_map(|pair| words::names(&pair.value)));
    let rest = words.pairs.iter().filter(|pair| !own(pair));
    (all, rest.cloned().collect())
}

fn cluster_word(done: &str) -> Failure {
    later(
        &format!("{done} cluster"),
        "there is one cluster, which the controller's configuration names",
    )
}

/// `add ENTITY NAME… KEY=VALUE…`.
pub(super) fn add(options: &Options, rest: &[String]) -> Result<u8, Failure> {
    let named = entity(rest.first(), "add")?;
    let words = words::read(&rest[1..])?;
    let of = match named {
        Named::Rows(of) => of,
        Named::Coordinator => {
            return Err(later("add coordinator", "operators are named in spur.toml"));
        }
        Named::Cluster => return Err(cluster_word("add")),
    };
    let (names, settings) = parted(&words, of);
    if names.is_empty() {
        let what = match of {
            Entity::Account => "account",
            Entity::Qos => "qos",
            Entity::User | Entity::Partition | Entity::Node | Entity::Reservation => "user",
        };
        return Err(Failure::plain(format!(" Need name of {what} to add."), 1));
    }
    let request = request(of, Verb::Create, names, (Vec::new(), settings));
    carry_out(options, request)
}

/// `modify ENTITY where … set …`.
pub(super) fn modify(options: &Options, rest: &[String]) -> Result<u8, Failure> {
    let named = entity(rest.first(), "modify")?;
    let words = words::read(&rest[1..])?;
    let of = match named {
        Named::Rows(of) => of,
        Named::Coordinator => {
            return Err(later(
                "modify coordinator",
                "operators are named in spur.toml",
            ));
        }
        Named::Cluster => return Err(cluster_word("modify")),
    };
    let words = conditions::read(words, rows(of))?;
    if words.set.is_empty() {
        return Err(Failure::plain(" You didn't give me anything to set", 1));
    }
    let names = meant(of, &words)?;
    let request = request(of, Verb::Update, names, (scope(&words), words.set));
    carry_out(options, request)
}

/// Within which accounts and partitions a user's rows are meant; what else was said chose the names.
fn scope(words: &Words) -> Vec<Setting> {
    let within = |pair: &&Setting| matches!(pair.key.as_str(), "accounts" | "partitions");
    words.pairs.iter().filter(within).cloned().collect()
}

/// Whoever is meant: those that are named, or all, if they meet the conditions.
fn meant(of: Entity, words: &Words) -> Result<Vec<String>, Failure> {
    if words.pairs.is_empty() && !words.names.is_empty() {
        return Ok(words.names.clone());
    }
    let shown_only = |pair: &&Setting| matches!(pair.key.as_str(), "ids" | "parents" | "qos");
    if let Some(pair) = words
        .pairs
        .iter()
        .find(shown_only)
        .filter(|_| rows(of) == Rows::Users)
    {
        // A change reaches all rows of a user within accounts and partitions, which would be more than was meant.
        let what = format!("a change of users where {}={}", pair.key, pair.value);
        return Err(later(&what, "name the account, the partition or the user"));
    }
    if !conditions::here(words, &super::cluster()?) {
        return Ok(Vec::new());
    }
    Ok(chosen(of, words, &super::accounts()?))
}

/// The names of all rows that meet the conditions, each once.
fn chosen(of: Entity, words: &Words, accounts: &Accounts) -> Vec<String> {
    let list = |name: &str| words.list(name);
    let own = |own: &&Association| {
        wanted(&list("accounts"), &own.account)
            && wanted(&list("partitions"), &own.partition)
            && wanted(&list("parents"), &own.parent)
            && wanted(&list("ids"), &own.id.to_string())
            && (list("qos").is_empty()
                || accounts
                    .qualities(own)
                    .iter()
                    .any(|qos| wanted(&list("qos"), qos)))
    };
    let mut names: Vec<String> = match of {
        Entity::Qos => {
            let meet = |qos: &&Qos| {
                wanted(&list("ids"), &qos.id.to_string())
                    && wanted(&list("descriptions"), &qos.description)
            };
            let rows = accounts.qos.iter().filter(meet);
            rows.map(|qos| qos.name.clone()).collect()
        }
        Entity::Account => {
            let users = list("users");
            let of_user = |own: &&Association| {
                users.is_empty() == own.user.is_empty() && wanted(&users, &own.user)
            };
            let rows = accounts.associations.iter().filter(own).filter(of_user);
            let within: Vec<&str> = rows.map(|own| own.account.as_str()).collect();
            let meet = |account: &&Account| {
                within.contains(&account.name.as_str())
                    && wanted(&list("descriptions"), &account.description)
                    && wanted(&list("organizations"), &account.organization)
            };
            let rows = accounts.accounts.iter().filter(meet);
            rows.map(|account| account.name.clone()).collect()
        }
        Entity::User | Entity::Partition | Entity::Node | Entity::Reservation => {
            let meet = |own: &&Association| {
                let user = accounts.user(&own.user);
                user.is_some_and(|user| {
                    wanted(&list("adminlevel"), &user.admin_level)
                        && wanted(&list("defaultaccount"), &user.default_account)
                })
            };
            let rows = accounts.associations.iter().filter(own).filter(meet);
            rows.map(|own| own.user.clone()).collect()
        }
    };
    names.sort();
    names.dedup();
    names.retain(|name| wanted(&words.names, name));
    names
}

/// `delete ENTITY NAME…`.
pub(super) fn delete(options: &Options, rest: &[String]) -> Result<u8, Failure> {
    let named = entity(rest.first(), "delete")?;
    let words = words::read(&rest[1..])?;
    let of = match named {
        Named::Rows(of) => of,
        Named::Coordinator => {
            return Err(later(
                "delete coordinator",
                "operators are named in spur.toml",
            ));
        }
        Named::Cluster => return Err(cluster_word("delete")),
    };
    let words = conditions::read(words, rows(of))?;
    if words.names.is_empty() && words.pairs.is_empty() {
        return Err(Failure::plain(
            " No conditions given to remove, not executing.",
            1,
        ));
    }
    let names = meant(of, &words)?;
    let request = request(of, Verb::Delete, names, (scope(&words), Vec::new()));
    carry_out(options, request)
}

fn request(
    entity: Entity,
    verb: Verb,
    names: Vec<String>,
    (scope, settings): (Vec<Setting>, Vec<Setting>),
) -> Manage {
    Manage {
        entity,
        verb,
        names,
        scope,
        settings,
    }
}

/// Shows what is to be done, asks unless `-i`, does it. With `-i` it is done first.
fn carry_out(options: &Options, request: Manage) -> Result<u8, Failure> {
    if options.on("readonly") {
        return Err(Failure::plain(
            "Can't run this command in readonly mode.",
            1,
        ));
    }
    let (cluster, accounts) = (super::cluster()?, super::accounts()?);
    told::check(&cluster, &accounts, &request)?;
    let preview = preview(&accounts, &request)
        .map_err(|refusal| refused(&request, &Trouble::Refused(refusal)))?;
    let text = told::text(&cluster, &request, &preview);
    if text.is_empty() {
        output::print(&told::nothing(&cluster, &request));
        return Ok(1);
    }
    let at_once = options.on("immediate");
    if !at_once {
        output::print(&text);
        if !confirmed() {
            output::print(" Changes Discarded\n");
            return Ok(0);
        }
    }
    match link::question(&Request::Manage(Box::new(request.clone()))) {
        Ok(Reply::Managed(_)) => {
            if at_once && !options.on("quiet") {
                output::print(&text);
            }
            Ok(0)
        }
        Ok(_) => Err(super::unexpected()),
        Err(trouble) => Err(refused(&request, &trouble)),
    }
}

/// Slurm's words for what may not be.
fn refused(request: &Manage, trouble: &Trouble) -> Failure {
    let text = trouble.text();
    let denied = trouble.kind() == Some(RefusalKind::AccessDenied);
    match (request.entity, request.verb) {
        _ if trouble.kind() == Some(RefusalKind::Invalid) => Failure::plain(text, 1),
        (Entity::Account, Verb::Create) if denied => Failure::plain(
            " error: Only admins/operators/coordinators can add accounts",
            1,
        ),
        (Entity::Account, Verb::Create) => Failure::plain(
            format!(" error: Problem adding account associations: {text}"),
            1,
        ),
        (Entity::Qos, Verb::Create) => Failure::plain(format!(" Problem adding QOS: {text}"), 1),
        (_, Verb::Create) => Failure::plain(
            format!(" error: Problem adding user associations: {text}"),
            1,
        ),
        (_, _) => Failure::plain(format!(" Error with request: {text}"), 1),
    }
}

/// How long there is to answer, in seconds.
const ANSWER_WITHIN: i64 = 30;

/// Asks; everything but a yes is a no, and so is silence.
fn confirmed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    output::print(&format!(
        "Would you like to commit changes? (You have {ANSWER_WITHIN} seconds to decide)\n(N/y): "
    ));
    let input = std::io::stdin();
    let mut fds = [PollFd::new(&input, PollFlags::IN)];
    let within = Timespec {
        tv_sec: ANSWER_WITHIN,
        tv_nsec: 0,
    };
    if !poll(&mut fds, Some(&within)).is_ok_and(|ready| ready > 0) {
        output::print("timeout\n");
        return false;
    }
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    if !std::io::stdin().is_terminal() {
        output::print("\n");
    }
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")
}
