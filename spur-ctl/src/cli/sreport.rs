//! `sreport`: what was used, added up from the accounting record.

mod sums;

use super::failure::Failure;
use super::flags::getopt::Options;
use super::render::clock::Clock;
use super::table::{self, Column, Parting, Table};
use super::{link, output, process};
use spur_core::api::{AccountFilter, AccountedJob, Reply, Request, RunKey};
use spur_core::slurm::timespec::begin;
use spur_core::time::Millis;
use sums::{Sums, Tres, Unit};

/// Runs that are asked for at once.
const PAGE: u32 = 10_000;
/// Users in `user topusage` unless said otherwise.
const TOP: usize = 10;
const RULE: &str =
    "--------------------------------------------------------------------------------\n";

/// Reports of the cluster.
pub(super) const CLUSTER_REPORTS: [&str; 3] = [
    "AccountUtilizationByUser",
    "UserUtilizationByAccount",
    "Utilization",
];

/// What the words ask for.
struct Asked {
    from: Millis,
    /// Not included.
    until: Millis,
    format: Option<String>,
    top: usize,
    users: Vec<String>,
    accounts: Vec<String>,
}

fn error(text: impl std::fmt::Display) -> Failure {
    Failure::plain(text, 1)
}

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let words: Vec<String> = options
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let is = |at: usize, full: &str, least: usize| {
        words.get(at).is_some_and(|word| {
            let begun = full
                .get(..word.len())
                .is_some_and(|part| part.eq_ignore_ascii_case(word));
            begun && word.len() >= least
        })
    };
    let clock = process::clock();
    let asked = || read(words.get(2..).unwrap_or_default(), &clock);
    match () {
        () if words.is_empty() => Err(error(
            "sreport: say what to report, for example `sreport cluster utilization`",
        )),
        () if is(0, "cluster", 1) && is(1, "utilization", 2) => {
            utilization(options, &asked()?, &clock)
        }
        () if is(0, "cluster", 1) && is(1, "accountutilizationbyuser", 1) => by_user(
            options,
            &asked()?,
            &clock,
            "Cluster/Account/User Utilization",
            Order::Account,
        ),
        () if is(0, "cluster", 1) && is(1, "userutilizationbyaccount", 5) => by_user(
            options,
            &asked()?,
            &clock,
            "Cluster/User/Account Utilization",
            Order::User,
        ),
        () if is(0, "user", 1) && is(1, "topusage", 1) => {
            let asked = asked()?;
            let title = format!("Top {} Users", asked.top);
            by_user(options, &asked, &clock, &title, Order::Top)
        }
        () if is(0, "job", 1)
            || is(0, "reservation", 1)
            || is(1, "userutilizationbywckey", 18)
            || is(1, "wckeyutilizationbyuser", 1) =>
        {
            Err(Failure::error(
                "sreport",
                format!("{} is not available: see `sacct`", words.join(" ")),
            ))
        }
        () if is(0, "version", 7) => {
            output::print(&format!("{}\n", super::scontrol::SLURM_VERSION));
            Ok(0)
        }
        () => Err(no_report(&words, is(0, "cluster", 1), is(0, "user", 1))),
    }
}

/// What there is instead of a report that there is not.
fn no_report(words: &[String], of_cluster: bool, of_user: bool) -> Failure {
    let (of, what) = (words[0].as_str(), words.get(1).map_or("", String::as_str));
    let reports: &[&str] = match (of_cluster, of_user) {
        (true, _) => &CLUSTER_REPORTS,
        (false, true) => &["TopUsage"],
        (false, false) => {
            let known = ["cluster", "user", "version"];
            return error(format!("invalid keyword: {of}")).nearest(of, known);
        }
    };
    let list: Vec<String> = reports.iter().map(|name| format!("\"{name}\"")).collect();
    let text = format!(
        "Not valid report {what}\nValid {of} reports are, {}",
        list.join(", ")
    );
    error(text).nearest(what, reports.iter().copied())
}

/// `start=`, `end=`, `format=` and the like. The day before, unless said otherwise.
fn read(words: &[String], clock: &Clock) -> Result<Asked, Failure> {
    let offset = clock.utc_offset(clock.now);
    let moment = |text: &str| {
        begin::parse_past(text, clock.now, offset).map_err(|why| Failure::plain(why, 1))
    };
    let today = moment("00:00")?;
    let mut asked = Asked {
        from: Millis(today.0.saturating_sub(86_400_000)),
        until: today,
        format: None,
        top: TOP,
        users: Vec::new(),
        accounts: Vec::new(),
    };
    let mut ended = false;
    let names = |text: &str| text.split(',').map(str::to_owned).collect();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            continue;
        };
        let key = key.to_ascii_lowercase();
        let begins = |full: &str, least: usize| full.starts_with(&key) && key.len() >= least;
        match () {
            () if begins("start", 1) => asked.from = moment(value)?,
            () if begins("end", 1) => (asked.until, ended) = (moment(value)?, true),
            () if begins("format", 2) => asked.format = Some(value.to_owned()),
            () if begins("users", 1) => asked.users = names(value),
            () if begins("accounts", 1) => asked.accounts = names(value),
            () if begins("topcount", 4) => {
                let bad = |_| Failure::error("sreport", format!("TopCount={value}: give a number"));
                asked.top = value.parse().map_err(bad)?;
            }
            // There is one cluster.
            () if begins("clusters", 1) => {}
            () => {
                let known = [
                    "accounts", "clusters", "end", "format", "start", "topcount", "users",
                ];
                let unknown = error(format!(" Unknown condition: {word}"));
                return Err(unknown.nearest(&key, known));
            }
        }
    }
    // A day that has begun ends now, as the present is as far as the record goes.
    if asked.until <= asked.from && !ended {
        asked.until = clock.now;
    }
    if asked.until <= asked.from {
        return Err(error(format!(
            "sreport: the period ends ({}) before it begins ({})",
            clock.stamp(asked.until),
            clock.stamp(asked.from)
        )));
    }
    Ok(asked)
}

/// The record's runs in the window.
fn load(asked: &Asked) -> Result<Vec<AccountedJob>, Failure> {
    let filter = AccountFilter {
        since: Some(asked.from),
        until: Some(asked.until),
        duplicates: true,
        ..AccountFilter::default()
    };
    let mut all: Vec<AccountedJob> = Vec::new();
    loop {
        let after = all.last().map(|run| RunKey {
            submitted: run.job.submitted,
            job: run.job.id,
            restarts: run.job.restarts,
        });
        let request = Request::Accounting {
            filter: Box::new(filter.clone()),
            after,
            limit: PAGE,
        };
        let page = match link::question(&request) {
            Ok(Reply::Accounting(page)) => page,
            Ok(_) => return Err(Failure::error("sreport", link::unexpected().text())),
            Err(trouble) => return Err(Failure::error("sreport", trouble.text())),
        };
        let last = page.len() < PAGE as usize;
        all.extend(page);
        if last {
            return Ok(all);
        }
    }
}

fn cluster() -> Result<String, Failure> {
    match link::question(&Request::Ping) {
        Ok(Reply::Pong { cluster, .. }) => Ok(cluster),
        Ok(_) => Err(Failure::error("sreport", link::unexpected().text())),
        Err(trouble) => Err(Failure::error("sreport", trouble.text())),
    }
}

/// The lines above a report, unless it is for programs.
fn heading(options: &Options, title: &str, asked: &Asked, clock: &Clock, unit: Unit) -> String {
    if options.on("noheader") || options.on("parsable") || options.on("parsable2") {
        return String::new();
    }
    let last = Millis(asked.until.0.saturating_sub(1000));
    let secs = asked.until.secs_since(asked.from);
    let span = if secs.is_multiple_of(86_400) && secs > 0 && title.starts_with("Top")
        || title.contains('/')
    {
        format!(" ({secs} secs)")
    } else {
        String::new()
    };
    format!(
        "{RULE}{title} {} - {}{span}\nUsage reported in {}\n{RULE}",
        clock.stamp(asked.from),
        clock.stamp(last),
        unit.words(options.on("tres"))
    )
}

/// The resources that `-T` lists; CPUs without it.
fn tres(options: &Options) -> Result<Vec<Tres>, Failure> {
    let list = options.value("tres").map(Tres::list);
    list.unwrap_or_else(|| Ok(vec![Tres::Cpu]))
}

/// Columns of a report, as its `format=` says.
fn columns(
    options: &Options,
    asked: &Asked,
    known: &[(&str, &str, i32)],
) -> Result<Vec<(Column, usize)>, Failure> {
    let all: Vec<&str> = known.iter().map(|(name, ..)| *name).collect();
    // Which resource is told only where they were chosen, and energy only where they were not.
    let usual = |name: &&&str| match **name {
        "TresName" => options.on("tres"),
        "Energy" => !options.on("tres"),
        _ => true,
    };
    let usual: Vec<&str> = all.iter().filter(usual).copied().collect();
    let list = asked.format.clone().unwrap_or_else(|| usual.join(","));
    let mut chosen = Vec::new();
    for (name, width) in table::fields(&list) {
        let begins = |full: &str| {
            full.get(..name.len())
                .is_some_and(|part| part.eq_ignore_ascii_case(name))
        };
        let at = known.iter().position(|(full, ..)| begins(full));
        let unknown =
            || error(format!(" Unknown field '{name}'")).nearest(name, all.iter().copied());
        let at = at.ok_or_else(unknown)?;
        let (_, header, usual) = known[at];
        let header = header.to_owned();
        let width = width.unwrap_or(usual);
        chosen.push((Column { header, width }, at));
    }
    Ok(chosen)
}

fn parting(options: &Options) -> Parting {
    match () {
        () if options.on("parsable2") => Parting::Between,
        () if options.on("parsable") => Parting::Ended,
        () => Parting::Widths,
    }
}

fn print(options: &Options, heading: &str, columns: &[(Column, usize)], rows: &[Vec<String>]) {
    let table = Table {
        columns: columns.iter().map(|(column, _)| column.clone()).collect(),
        parting: parting(options),
    };
    let mut text = heading.to_owned();
    if !options.on("noheader") {
        text.push_str(&table.heading());
    }
    for row in rows {
        let cells: Vec<&str> = columns.iter().map(|(_, at)| row[*at].as_str()).collect();
        text.push_str(&table.row(&cells));
    }
    output::print(&text);
}

/// `cluster utilization`: a row if the record has anything of that time.
fn utilization(options: &Options, asked: &Asked, clock: &Clock) -> Result<u8, Failure> {
    const COLUMNS: [(&str, &str, i32); 8] = [
        ("Cluster", "Cluster", 9),
        ("TresName", "TRES Name", 14),
        ("Allocated", "Allocate", 8),
        ("Down", "Down", 8),
        // Slurm 24.11 has the same header above what is down and what is planned.
        ("PlannedDown", "Planned", 8),
        ("Idle", "Idle", 8),
        ("Planned", "Planned", 8),
        ("Reported", "Reported", 8),
    ];
    let unit = Unit::of(options.value("time"))?;
    let tres = tres(options)?;
    let columns = columns(options, asked, &COLUMNS)?;
    let runs = load(asked)?;
    let mut rows = Vec::new();
    if !runs.is_empty() {
        let Ok(Reply::Nodes(nodes)) = link::question(&Request::Nodes) else {
            return Err(Failure::error("sreport", "cannot list the nodes"));
        };
        let (until, cluster) = (asked.until.min(clock.now), cluster()?);
        for tres in tres {
            let each = nodes.iter().map(|view| tres.of_node(&view.node.inventory));
            let all = each
                .sum::<u64>()
                .saturating_mul(until.secs_since(asked.from));
            let sums = Sums::of(&runs, (asked.from, until), tres);
            let used = sums.all().min(all);
            let shown = |secs: u64| unit.shown(secs, all);
            rows.push(vec![
                cluster.clone(),
                tres.name().to_owned(),
                shown(used),
                shown(0),
                shown(0),
                shown(all - used),
                shown(0),
                shown(all),
            ]);
        }
    }
    let heading = heading(options, "Cluster Utilization", asked, clock, unit);
    print(options, &heading, &columns, &rows);
    Ok(0)
}

/// In which order users are listed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Account,
    User,
    Top,
}

impl Order {
    /// Accounts and users in this order, as far as they are asked for.
    fn of(self, asked: &Asked, sums: Option<&Sums>) -> Vec<(String, String)> {
        let wanted =
            |list: &[String], name: &str| list.is_empty() || list.iter().any(|own| own == name);
        let entries = sums.into_iter().flat_map(Sums::entries);
        let mut entries: Vec<(String, String, u64)> = entries
            .filter(|(account, user, _)| {
                wanted(&asked.accounts, account) && wanted(&asked.users, user)
            })
            .collect();
        match self {
            Self::Account => entries.sort(),
            Self::User => entries.sort_by(|a, b| (&a.1, &a.0).cmp(&(&b.1, &b.0))),
            Self::Top => {
                entries.sort_by_key(|(_, _, secs)| std::cmp::Reverse(*secs));
                entries.truncate(asked.top);
            }
        }
        entries
            .into_iter()
            .map(|(account, user, _)| (account, user))
            .collect()
    }
}

fn by_user(
    options: &Options,
    asked: &Asked,
    clock: &Clock,
    title: &str,
    order: Order,
) -> Result<u8, Failure> {
    let known: &[(&str, &str, i32)] = match order {
        Order::Account => &[
            ("Cluster", "Cluster", 9),
            ("Accounts", "Account", 15),
            ("Login", "Login", 9),
            ("Proper", "Proper Name", 15),
            ("TresName", "TRES Name", 14),
            ("Used", "Used", 8),
            ("Energy", "Energy", 8),
        ],
        Order::User | Order::Top => &[
            ("Cluster", "Cluster", 9),
            ("Login", "Login", 9),
            ("Proper", "Proper Name", 15),
            ("Accounts", "Account", 15),
            ("TresName", "TRES Name", 14),
            ("Used", "Used", 8),
            ("Energy", "Energy", 8),
        ],
    };
    let unit = Unit::of(options.value("time"))?;
    let tres = tres(options)?;
    let columns = columns(options, asked, known)?;
    let runs = load(asked)?;
    let window = (asked.from, asked.until.min(clock.now));
    let sums = tres
        .into_iter()
        .map(|tres| (tres, Sums::of(&runs, window, tres)));
    let sums: Vec<(Tres, Sums)> = sums.collect();
    let cluster = cluster()?;
    let mut rows = Vec::new();
    // Who comes first is decided by the first resource.
    for (account, user) in order.of(asked, sums.first().map(|(_, sums)| sums)) {
        for (tres, sums) in &sums {
            let all = sums.all();
            let used = unit.shown(sums.of_user(&account, &user), all);
            let energy = unit.shown(0, all);
            let (cluster, account, user) = (cluster.clone(), account.clone(), user.clone());
            let mut row = match order {
                Order::Account => vec![cluster, account, user.clone(), user],
                Order::User | Order::Top => vec![cluster, user.clone(), user, account],
            };
            row.extend([tres.name().to_owned(), used, energy]);
            rows.push(row);
        }
    }
    let heading = heading(options, title, asked, clock, unit);
    print(options, &heading, &columns, &rows);
    Ok(0)
}
