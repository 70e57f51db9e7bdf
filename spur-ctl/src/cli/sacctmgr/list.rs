//! `sacctmgr list`.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::render::data::{self, Meta};
use super::super::table::{Column, Parting, Table};
use super::super::{output, process};
use super::conditions::{self, Rows, wanted};
use super::data as shapes;
use super::fields::{self, Shown};
use super::rows::{Row, cell};
use super::words::{self, Words};
use super::{accounts, cluster, is, later};
use spur_core::manage::accounts::{Account, Accounts, Association};

const ASSOCIATIONS: &str = "Cluster,Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmit,MaxWall,MaxTRESMins,QOS,DefaultQOS,GrpTRESRunMins";
const NO_LIMITS: &str = "Cluster,Account,User,Partition";
/// What `withassoc` shows besides.
const WITH: &str = "Cluster,Account,Partition,Share,Priority,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxTRESMins,QOS,DefaultQOS";
const WITH_ACCOUNT: &str = "Cluster,ParentName,User,Share,Priority,GrpJobs,GrpNodes,GrpCPUs,GrpMem,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxTRESMins,QOS,DefaultQOS";
const QOS: &str = "Name,Priority,GraceTime,Preempt,PreemptExemptTime,PreemptMode,Flags%40,UsageThres,UsageFactor,GrpTRES,GrpTRESMins,GrpTRESRunMins,GrpJobs,GrpSubmit,GrpWall,MaxTRES,MaxTRESPerNode,MaxTRESMins,MaxWall,MaxTRESPU,MaxJobsPU,MaxSubmitPU,MaxTRESPA,MaxTRESRunMinsPA,MaxTRESRunMinsPU,MaxJobsPA,MaxSubmitPA,MinTRES";
const CLUSTERS: &str = "Cluster,ControlHost,ControlPort,RPC,Share,GrpJobs,GrpTRES,GrpSubmit,MaxJobs,MaxTRES,MaxSubmit,MaxWall,QOS,DefaultQOS";

/// Resources as Slurm numbers them.
const TRES: [(&str, &str, &str); 9] = [
    ("cpu", "", "1"),
    ("mem", "", "2"),
    ("energy", "", "3"),
    ("node", "", "4"),
    ("billing", "", "5"),
    ("fs", "disk", "6"),
    ("vmem", "", "7"),
    ("pages", "", "8"),
    ("gres", "gpu", "1001"),
];

/// Lists an entity.
pub(super) fn main(options: &Options, words: &[String]) -> Result<u8, Failure> {
    let Some((entity, rest)) = words.split_first() else {
        return Err(Failure::plain("too few arguments for keyword:list", 1));
    };
    let words = words::read(rest)?;
    let is = |full: &str, least: usize| is(entity, full, least);
    let of = |words, rows| conditions::read(words, rows);
    match () {
        () if is("accounts", 2) => of_accounts(options, &of(words, Rows::Accounts)?),
        () if is("associations", 2) => of_associations(options, &of(words, Rows::Associations)?),
        () if is("users", 1) => of_users(options, &of(words, Rows::Users)?),
        () if is("qos", 1) => of_qos(options, &of(words, Rows::Qos)?),
        () if is("clusters", 2) => of_clusters(options, &of(words, Rows::Clusters)?),
        () if is("tres", 1) => {
            output::print(&tres(options, &of(words, Rows::Tres)?));
            Ok(0)
        }
        () if is("runawayjobs", 2) => {
            output::print(&format!(
                "Runaway Jobs: No runaway jobs found on cluster {}\n",
                cluster()?
            ));
            Ok(0)
        }
        () if is("configuration", 3) => configuration(),
        () if is("coordinators", 3) => {
            Err(later("list coordinators", "see `list users withcoord`"))
        }
        () if is("events", 1) || is("transactions", 1) => Err(later(
            entity,
            "what nodes went through is in the controller's log",
        )),
        () if is("federation", 1)
            || is("instances", 1)
            || is("problem", 1)
            || is("reservations", 3)
            || is("resource", 3)
            || is("stats", 1)
            || is("jobs", 1)
            || is("wckeys", 1) =>
        {
            Err(later(
                &format!("list {entity}"),
                "nothing of the kind is kept",
            ))
        }
        () => Err(
            Failure::plain(format!("invalid entity:{entity} for keyword:list "), 1)
                .nearest(entity, super::ENTITIES),
        ),
    }
}

/// The table that the options ask for.
pub(super) fn table(options: &Options, shown: &[Shown]) -> Table {
    let columns: Vec<Column> = shown.iter().map(|shown| shown.column.clone()).collect();
    let parting = if options.on("parsable2") {
        Parting::Between
    } else if options.on("parsable") {
        Parting::Ended
    } else {
        Parting::Widths
    };
    Table { columns, parting }
}

fn print(options: &Options, shown: &[Shown], accounts: &Accounts, rows: &[Row<'_>]) {
    let table = table(options, shown);
    let mut text = String::new();
    if !options.on("noheader") {
        text.push_str(&table.heading());
    }
    for row in rows {
        let cells = shown.iter().map(|shown| cell(accounts, row, shown.field));
        text.push_str(&table.row(&cells.collect::<Vec<_>>()));
    }
    output::print(&text);
}

fn shown(words: &Words, usual: &str) -> Result<Vec<Shown>, Failure> {
    fields::read(words.format.as_deref().unwrap_or(usual))
}

/// Conditions that rows of associations must meet.
struct Conditions {
    accounts: Vec<String>,
    users: Vec<String>,
    partitions: Vec<String>,
    parents: Vec<String>,
    ids: Vec<String>,
    qos: Vec<String>,
    default_qos: Vec<String>,
    here: bool,
}

impl Conditions {
    fn of(words: &Words, cluster: &str) -> Self {
        Self {
            accounts: words.list("accounts"),
            users: words.list("users"),
            partitions: words.list("partitions"),
            parents: words.list("parents"),
            ids: words.list("ids"),
            qos: words.list("qos"),
            default_qos: words.list("defaultqos"),
            here: conditions::here(words, cluster),
        }
    }

    fn meet(&self, accounts: &Accounts, own: &Association) -> bool {
        let mut qualities = accounts.qualities(own).into_iter();
        self.here
            && wanted(&self.accounts, &own.account)
            && wanted(&self.users, &own.user)
            && wanted(&self.partitions, &own.partition)
            && wanted(&self.parents, &own.parent)
            && wanted(&self.ids, &own.id.to_string())
            && wanted(&self.default_qos, &own.default_qos)
            && (self.qos.is_empty() || qualities.any(|qos| wanted(&self.qos, &qos)))
    }

    /// Whether there are conditions that only an association can meet.
    fn any(&self) -> bool {
        let lists = [
            &self.accounts,
            &self.partitions,
            &self.parents,
            &self.ids,
            &self.qos,
        ];
        lists.iter().any(|list| !list.is_empty())
    }
}

fn of_associations(options: &Options, words: &Words) -> Result<u8, Failure> {
    let (cluster, accounts) = (cluster()?, accounts()?);
    let mut conditions = Conditions::of(words, &cluster);
    // What stands alone is the number of an association.
    conditions.ids.extend(words.names.iter().cloned());
    let tree = accounts.tree();
    let own: Vec<&Association> = tree
        .into_iter()
        .filter(|own| conditions.meet(&accounts, own))
        .collect();
    if let Some(asked) = data::asked(options)? {
        shapes::associations(asked, &meta(options, &cluster), &accounts, &own);
        return Ok(0);
    }
    let usual = if words.has("wolimits") || words.has("woplimits") {
        NO_LIMITS
    } else {
        ASSOCIATIONS
    };
    let shown = shown(words, usual)?;
    let row = |own: &&Association| -> Row<'_> {
        Row {
            cluster: &cluster,
            association: accounts
                .associations
                .iter()
                .find(|known| known.id == own.id),
            ..Row::default()
        }
    };
    let rows: Vec<Row<'_>> = own.iter().map(row).collect();
    print(options, &shown, &accounts, &rows);
    Ok(0)
}

pub(super) fn meta(options: &Options, cluster: &str) -> Meta {
    // Slurm does not count the first word.
    let words = options.operands.iter().skip(1);
    let words = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    Meta::of_process(cluster, words)
}

fn of_accounts(options: &Options, words: &Words) -> Result<u8, Failure> {
    let (cluster, accounts) = (cluster()?, accounts()?);
    let conditions = Conditions::of(words, &cluster);
    let (descriptions, organizations) = (words.list("descriptions"), words.list("organizations"));
    // Users and parents are those of its associations.
    let within = |account: &Account| {
        let mut own = accounts.associations.iter();
        own.any(|own| own.account == account.name && conditions.meet(&accounts, own))
    };
    let kept = accounts.accounts.iter().filter(|account| {
        within(account)
            && wanted(&words.names, &account.name)
            && wanted(&descriptions, &account.description)
            && wanted(&organizations, &account.organization)
    });
    if let Some(asked) = data::asked(options)? {
        shapes::accounts(asked, &meta(options, &cluster), &cluster, &accounts, kept);
        return Ok(0);
    }
    let with = words.has("withassoc") || options.on("associations");
    let usual = if with {
        format!("Account,Description,Organization,{WITH_ACCOUNT}")
    } else {
        "Account,Description,Organization".to_owned()
    };
    let shown = shown(words, &usual)?;
    let mut rows = Vec::new();
    for account in kept {
        let bare = Row {
            cluster: &cluster,
            account: Some(account),
            ..Row::default()
        };
        if !with {
            rows.push(bare);
            continue;
        }
        let own = accounts
            .associations
            .iter()
            .filter(|own| own.account == account.name);
        rows.extend(own.map(|own| Row {
            association: Some(own),
            ..bare
        }));
    }
    print(options, &shown, &accounts, &rows);
    Ok(0)
}

fn of_users(options: &Options, words: &Words) -> Result<u8, Failure> {
    let (cluster, accounts) = (cluster()?, accounts()?);
    let conditions = Conditions::of(words, &cluster);
    let levels = words.list("adminlevel");
    let defaults = words.list("defaultaccount");
    let kept = accounts.users.iter().filter(|user| {
        conditions.here
            && wanted(&words.names, &user.name)
            && wanted(&levels, &user.admin_level)
            && wanted(&defaults, &user.default_account)
    });
    if let Some(asked) = data::asked(options)? {
        shapes::users(asked, &meta(options, &cluster), &cluster, &accounts, kept);
        return Ok(0);
    }
    // Fields of associations ask for them, as does a condition that only they can meet.
    let of_association = conditions.any();
    let with = words.has("withassoc")
        || options.on("associations")
        || of_association && !words.has("onlydefaults");
    let usual = if with {
        format!("User,DefaultAccount,AdminLevel,{WITH}")
    } else if words.modes.iter().any(|mode| mode.starts_with("withcoord")) {
        "User,DefaultAccount,AdminLevel,Coordinators".to_owned()
    } else {
        "User,DefaultAccount,AdminLevel".to_owned()
    };
    let shown = shown(words, &usual)?;
    let mut rows = Vec::new();
    for user in kept {
        let bare = Row {
            cluster: &cluster,
            user: Some(user),
            ..Row::default()
        };
        let own = accounts
            .associations
            .iter()
            .filter(|own| own.user == user.name && conditions.meet(&accounts, own));
        let needs = shown.iter().any(needs_association);
        if with || needs {
            rows.extend(own.map(|own| Row {
                association: Some(own),
                ..bare
            }));
        } else {
            rows.push(bare);
        }
    }
    print(options, &shown, &accounts, &rows);
    Ok(0)
}

/// Fields that only an association has.
fn needs_association(shown: &Shown) -> bool {
    use fields::Field;
    matches!(
        shown.field,
        Field::Account
            | Field::Share
            | Field::Qos
            | Field::Partition
            | Field::Cluster
            | Field::Limit(_)
    )
}

fn of_qos(options: &Options, words: &Words) -> Result<u8, Failure> {
    let accounts = accounts()?;
    let (ids, descriptions) = (words.list("ids"), words.list("descriptions"));
    let kept = accounts.qos.iter().filter(|qos| {
        wanted(&words.names, &qos.name)
            && wanted(&ids, &qos.id.to_string())
            && wanted(&descriptions, &qos.description)
    });
    if let Some(asked) = data::asked(options)? {
        shapes::qos(asked, &meta(options, &cluster()?), kept);
        return Ok(0);
    }
    let shown = shown(words, QOS)?;
    let rows: Vec<Row<'_>> = kept
        .map(|qos| Row {
            qos: Some(qos),
            ..Row::default()
        })
        .collect();
    print(options, &shown, &accounts, &rows);
    Ok(0)
}

/// The one cluster.
fn of_clusters(options: &Options, words: &Words) -> Result<u8, Failure> {
    let (cluster, accounts) = (cluster()?, accounts()?);
    let shown = shown(words, CLUSTERS)?;
    let root = accounts.association("root", "", "");
    let row = Row {
        cluster: &cluster,
        association: root,
        ..Row::default()
    };
    let rows: Vec<Row<'_>> = if wanted(&words.names, &cluster) {
        vec![row]
    } else {
        Vec::new()
    };
    print(options, &shown, &accounts, &rows);
    Ok(0)
}

fn tres(options: &Options, words: &Words) -> String {
    let column = |header: &str, width| Column {
        header: header.to_owned(),
        width,
    };
    let columns = vec![column("Type", 8), column("Name", 15), column("ID", 6)];
    let table = Table {
        columns,
        ..table(options, &[])
    };
    let mut text = String::new();
    if !options.on("noheader") {
        text.push_str(&table.heading());
    }
    // What stands alone is a type.
    let mut types = words.list("types");
    types.extend(words.names.iter().cloned());
    let ids = words.list("ids");
    let meet = |(kind, _, id): &&(&str, &str, &str)| wanted(&types, kind) && wanted(&ids, id);
    for (kind, name, id) in TRES.iter().filter(meet) {
        text.push_str(&table.row(&[*kind, *name, *id]));
    }
    text
}

fn configuration() -> Result<u8, Failure> {
    let clock = process::clock();
    output::print(&format!(
        "Configuration data as of {}\nAccountingStorageHost  = {}\nAccountingStorageType  = the controller's own\nSLURM_VERSION          = 24.11.5\nClusterName            = {}\n",
        clock.stamp(clock.now),
        process::host(),
        cluster()?
    ));
    Ok(0)
}
