//! `sshare`: shares of accounts and users. They are kept and shown; the queue does not go by them, and use is not counted against
//! them (see `sreport` for what was used).

mod data;

use super::failure::Failure;
use super::flags::getopt::Options;
use super::table::{self, Column, Parting, Table};
use super::{link, output, process, users};
use spur_core::api::{Reply, Request};
use spur_core::id::Uid;
use spur_core::manage::accounts::{Accounts, Association};

/// What a column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Account,
    User,
    Cluster,
    RawShares,
    NormShares,
    RawUsage,
    NormUsage,
    EffectvUsage,
    FairShare,
    LevelFs,
    Id,
    Partition,
    TresMins,
}

/// Name, the shortest beginning that is taken, width, what it shows.
const FIELDS: [(&str, usize, i32, Field); 14] = [
    ("Account", 1, -20, Field::Account),
    ("Cluster", 1, 10, Field::Cluster),
    ("EffectvUsage", 1, 13, Field::EffectvUsage),
    ("FairShare", 1, 10, Field::FairShare),
    ("GrpTRESMins", 4, 30, Field::TresMins),
    ("GrpTRESRaw", 4, 30, Field::TresMins),
    ("ID", 1, 6, Field::Id),
    ("LevelFS", 1, 10, Field::LevelFs),
    ("NormShares", 5, 11, Field::NormShares),
    ("NormUsage", 5, 11, Field::NormUsage),
    ("Partition", 1, 12, Field::Partition),
    ("RawShares", 4, 10, Field::RawShares),
    ("RawUsage", 4, 11, Field::RawUsage),
    ("User", 1, 10, Field::User),
];

const USUAL: &str = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare";
const LONG: &str = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,GrpTRESMins,GrpTRESRaw";
const USERS: &str = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare";

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    if options.on("helpformat") {
        let names: Vec<&str> = FIELDS.iter().map(|(name, ..)| *name).collect();
        output::print(&format!("{}\n", names.join("  ")));
        return Ok(0);
    }
    let failed = |trouble: link::Trouble| Failure::error("sshare", trouble.text());
    let kept = Kept::of(options);
    let Reply::Accounts(accounts) = link::question(&Request::Accounts).map_err(failed)? else {
        return Err(failed(link::unexpected()));
    };
    let Reply::Pong { cluster, .. } = link::question(&Request::Ping).map_err(failed)? else {
        return Err(failed(link::unexpected()));
    };
    if let Some(asked) = super::render::data::asked(options)? {
        data::print(asked, &cluster, &accounts, |own| kept.shows(own, false));
        return Ok(0);
    }
    print(options, &accounts, (&cluster, &kept))
}

fn print(
    options: &Options,
    accounts: &Accounts,
    (cluster, kept): (&str, &Kept),
) -> Result<u8, Failure> {
    let usual = match () {
        () if options.on("long") => LONG,
        () if options.on("Users") => USERS,
        () => USUAL,
    };
    let fields = read(options.value("format").unwrap_or(usual))?;
    let parting = match () {
        () if options.on("parsable2") => Parting::Between,
        () if options.on("parsable") => Parting::Ended,
        () => Parting::Widths,
    };
    let columns = fields.iter().map(|(column, _)| column.clone()).collect();
    let table = Table { columns, parting };
    let mut text = String::new();
    if !options.on("noheader") {
        text.push_str(&table.heading());
    }
    for own in accounts.tree() {
        if !kept.shows(own, options.on("Users")) {
            continue;
        }
        let cells = fields
            .iter()
            .map(|(_, field)| cell(accounts, own, cluster, *field));
        let cells: Vec<String> = cells.collect();
        text.push_str(&table.row(&cells));
    }
    output::print(&text);
    Ok(0)
}

/// Whose rows are shown: one's own unless others are asked for.
struct Kept {
    users: Vec<String>,
    accounts: Vec<String>,
}

impl Kept {
    fn of(options: &Options) -> Self {
        let list = |text: &str| -> Vec<String> {
            let names = text
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        };
        let named = options.value("users").map(list).unwrap_or_default();
        let users = match () {
            () if options.on("all") || named.iter().any(|name| name == "-1") => Vec::new(),
            () if !named.is_empty() => named,
            () => {
                let own = process::uid();
                let names = users::names([Uid(own)]);
                vec![names.get(&own).cloned().unwrap_or_else(|| own.to_string())]
            }
        };
        let accounts = options.value("accounts").map(list).unwrap_or_default();
        Self { users, accounts }
    }

    fn shows(&self, own: &Association, users_only: bool) -> bool {
        let user = own.user.is_empty() && !users_only
            || !own.user.is_empty() && (self.users.is_empty() || self.users.contains(&own.user));
        user && (self.accounts.is_empty() || self.accounts.contains(&own.account))
    }
}

fn read(list: &str) -> Result<Vec<(Column, Field)>, Failure> {
    let mut read = Vec::new();
    for (name, width) in table::fields(list) {
        let begins = |full: &str, least: usize| {
            let begun = full
                .get(..name.len())
                .is_some_and(|part| part.eq_ignore_ascii_case(name));
            begun && name.len() >= least
        };
        let found = FIELDS.iter().find(|(full, least, ..)| begins(full, *least));
        let unknown = || {
            let known = FIELDS.iter().map(|(full, ..)| *full);
            Failure::error("sshare", format!("Invalid field requested: \"{name}\""))
                .nearest(name, known)
        };
        let (header, _, usual, field) = found.ok_or_else(unknown)?;
        let column = Column {
            header: (*header).to_owned(),
            width: width.unwrap_or(*usual),
        };
        read.push((column, *field));
    }
    Ok(read)
}

/// How deep in the tree.
fn depth(accounts: &Accounts, own: &Association) -> usize {
    accounts
        .lineage(own)
        .split('/')
        .filter(|step| !step.is_empty())
        .count()
}

/// The part of what is shared out at its place: its shares, of all that its siblings have.
fn norm(accounts: &Accounts, own: &Association) -> f64 {
    let above = |one: &Association| match one.user.as_str() {
        "" => one.parent.clone(),
        _ => one.account.clone(),
    };
    let place = above(own);
    let siblings = accounts
        .associations
        .iter()
        .filter(|other| above(other) == place);
    let all: u64 = siblings.map(|other| u64::from(other.shares)).sum();
    if all == 0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "six digits are shown")]
    let all = all as f64;
    f64::from(own.shares) / all
}

fn cell(accounts: &Accounts, own: &Association, cluster: &str, field: Field) -> String {
    let root = own.account == "root" && own.user.is_empty();
    match field {
        Field::Account => format!("{}{}", " ".repeat(depth(accounts, own)), own.account),
        Field::User => own.user.clone(),
        Field::Cluster => cluster.to_owned(),
        Field::RawShares if root => String::new(),
        Field::RawShares if own.shares == u32::MAX => "parent".to_owned(),
        Field::RawShares => own.shares.to_string(),
        Field::NormShares if root => "0.000000".to_owned(),
        Field::NormShares => format!("{:.6}", norm(accounts, own)),
        Field::RawUsage => "0".to_owned(),
        Field::NormUsage => "0.000000".to_owned(),
        Field::EffectvUsage => if root { "1.000000" } else { "0.000000" }.to_owned(),
        Field::FairShare if own.user.is_empty() => String::new(),
        Field::FairShare => "1.000000".to_owned(),
        Field::LevelFs => if root { "" } else { "inf" }.to_owned(),
        Field::Id => own.id.to_string(),
        Field::Partition => own.partition.clone(),
        Field::TresMins => String::new(),
    }
}
