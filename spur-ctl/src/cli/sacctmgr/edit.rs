//! `sacctmgr add`, `modify` and `delete`: what is to be changed is shown, and done once it is confirmed.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::link::{self, Trouble};
use super::super::output;
use super::words::{self, Words};
use super::{is, later, told};
use spur_core::api::{RefusalKind, Reply, Request};
use spur_core::manage::accounts::preview;
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
        () => Err(Failure::plain(
            format!("invalid entity:{word} for keyword:{keyword} "),
            1,
        )),
    }
}

fn keys(of: Entity) -> &'static [(&'static str, usize)] {
    match of {
        Entity::Account => &[("accounts", 2), ("acct", 4), ("names", 1)],
        Entity::Qos => &[("qos", 1), ("names", 1)],
        Entity::User | Entity::Partition | Entity::Node | Entity::Reservation => {
            &[("users", 1), ("names", 1)]
        }
    }
}

/// The names that are meant, and the pairs that are left.
fn parted(words: &Words, of: Entity) -> (Vec<String>, Vec<Setting>) {
    let mut names = words.names.clone();
    names.extend(words.list(keys(of)));
    let own = |pair: &Setting| {
        keys(of)
            .iter()
            .any(|(full, least)| is(&pair.key, full, *least))
    };
    let rest = words
        .pairs
        .iter()
        .filter(|pair| !own(pair) && !is(&pair.key, "clusters", 1));
    (names, rest.cloned().collect())
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
    if words.set.is_empty() {
        return Err(Failure::plain(" You didn't give me anything to set", 1));
    }
    let (mut names, scope) = parted(&words, of);
    if names.is_empty() {
        names = meant(of, &scope)?;
    }
    let request = request(of, Verb::Update, names, (scope, words.set));
    carry_out(options, request)
}

/// Whoever is meant where nobody is named: all of the accounts in the scope, or all.
fn meant(of: Entity, scope: &[Setting]) -> Result<Vec<String>, Failure> {
    let accounts = super::accounts()?;
    let within: Vec<&str> = scope
        .iter()
        .filter(|pair| is(&pair.key, "accounts", 2))
        .flat_map(|pair| pair.value.split(','))
        .collect();
    let mut names: Vec<String> = match of {
        Entity::Qos => accounts.qos.iter().map(|qos| qos.name.clone()).collect(),
        Entity::Account => accounts
            .accounts
            .iter()
            .map(|known| known.name.clone())
            .collect(),
        Entity::User | Entity::Partition | Entity::Node | Entity::Reservation => {
            let rows = accounts
                .associations
                .iter()
                .filter(|own| !own.user.is_empty());
            let rows =
                rows.filter(|own| within.is_empty() || within.contains(&own.account.as_str()));
            rows.map(|own| own.user.clone()).collect()
        }
    };
    names.sort();
    names.dedup();
    Ok(names)
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
    let (mut names, scope) = parted(&words, of);
    if names.is_empty() && !scope.is_empty() {
        names = meant(of, &scope)?;
    }
    if names.is_empty() {
        return Err(Failure::plain(
            " No conditions given to remove, not executing.",
            1,
        ));
    }
    let request = request(of, Verb::Delete, names, (scope, Vec::new()));
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
