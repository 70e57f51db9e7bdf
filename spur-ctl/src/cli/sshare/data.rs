//! `sshare --json`.

use super::super::render::data::{Asked, Document, Meta, Number};
use super::norm;
use spur_core::manage::accounts::{Accounts, Association};

/// Every resource that Slurm lists, whether anything is counted of it or not.
const TRES: [&str; 11] = [
    "cpu",
    "mem",
    "energy",
    "node",
    "billing",
    "fs/disk",
    "vmem",
    "pages",
    "gres/gpu",
    "gres/gpumem",
    "gres/gpuutil",
];

/// What Slurm shows as the part of the root, which shares with nobody: one by the number that stands for none (`NO_VAL`).
const UNSHARED: f64 = 1.0 / 4_294_967_294.0;

/// Prints it.
pub(super) fn print(
    asked: Asked,
    cluster: &str,
    accounts: &Accounts,
    shows: impl Fn(&Association) -> bool,
) {
    let mut doc = Document::begin(asked);
    doc.map("shares", |doc| {
        let rows = accounts.tree().into_iter().filter(|own| shows(own));
        doc.list("shares", rows, |doc, own| {
            doc.item(|doc| share(doc, cluster, accounts, own));
        });
        doc.int("total_shares", 0);
    });
    let words = vec!["sshare".to_owned(), String::new()];
    doc.finish(&Meta::of_process(cluster, words), &[], &[]);
}

fn share(doc: &mut Document, cluster: &str, accounts: &Accounts, own: &Association) {
    let root = own.account == "root" && own.user.is_empty();
    let user = !own.user.is_empty();
    doc.count("id", u64::from(own.id));
    doc.text("cluster", cluster);
    doc.text("name", if user { &own.user } else { &own.account });
    doc.text("parent", if user { &own.account } else { &own.parent });
    doc.text("partition", &own.partition);
    let part = if root { UNSHARED } else { norm(accounts, own) };
    doc.number("shares_normalized", Number::Fraction(part));
    let shares = if root {
        Number::Unset
    } else {
        Number::Is(u64::from(own.shares))
    };
    doc.number("shares", shares);
    doc.map("tres", |doc| {
        values(doc, "run_seconds", Number::Is(0));
        values(doc, "group_minutes", Number::Infinite);
        doc.list("usage", TRES, |doc, name| {
            doc.item(|doc| {
                doc.text("name", name);
                doc.float("value", 0.0);
            });
        });
    });
    let effective = if root { 1.0 } else { 0.0 };
    doc.number("effective_usage", Number::Fraction(effective));
    let usage = if root {
        Number::UnsetFraction
    } else {
        Number::Fraction(0.0)
    };
    doc.number("usage_normalized", usage);
    doc.int("usage", 0);
    doc.map("fairshare", |doc| {
        doc.number("factor", Number::Fraction(if user { 1.0 } else { 0.0 }));
        // Without bound, with a fraction: the one number of this shape.
        doc.map("level", |doc| {
            doc.bool("set", false);
            doc.bool("infinite", !root);
            doc.float("number", 0.0);
        });
    });
    doc.texts("type", [if user { "USER" } else { "ASSOCIATION" }]);
}

fn values(doc: &mut Document, key: &str, number: Number) {
    doc.list(key, TRES, |doc, name| {
        doc.item(|doc| {
            doc.text("name", name);
            doc.number("value", number);
        });
    });
}
