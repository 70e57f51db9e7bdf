use super::*;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn document() -> String {
    fs::read_to_string(root().join(DOCUMENT)).expect("the document is there")
}

#[test]
fn the_table_in_the_document_is_that_of_the_tests() {
    let document = document();
    let wanted = renewed(&document).expect("the document has both marks");
    assert!(document == wanted, "run: cargo xtask escapes --write");
}

#[test]
fn forty_two_rows_of_which_few_wait() {
    assert_eq!(ROWS.len(), rows::COUNT);
    let later = ROWS
        .iter()
        .filter(|row| matches!(row.verdict, Verdict::Later(..)))
        .count();
    assert!(later <= LATER_MAX, "{later} rows wait for later issues");
    for row in ROWS {
        let needs_tests = matches!(row.verdict, Verdict::Closed(_) | Verdict::NeedsHardware(_));
        assert!(
            !needs_tests || !row.verdict.tests().is_empty(),
            "{} has no test",
            row.title
        );
    }
}

#[test]
fn every_section_that_a_row_names_is_there() {
    let document = document();
    let headings: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches(['#', ' ']))
        .collect();
    for row in ROWS {
        if let Verdict::Limit(section, _) = &row.verdict {
            assert!(
                headings.contains(section),
                "{}: no section {section:?} in {DOCUMENT}",
                row.title
            );
        }
    }
}

/// Every Rust file below a folder.
fn sources(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(fs::read_to_string(&path).expect("a source can be read"));
        }
    }
}

/// Whether some file has that test function, with the attribute that makes it one.
fn has_test(texts: &[String], name: &str) -> bool {
    let function = format!("fn {name}()");
    texts.iter().any(|text| {
        let found = text.find(&function).map(|at| &text[..at]);
        found.is_some_and(|before| {
            before
                .trim_end_matches(|c: char| c != '\n')
                .trim_end()
                .lines()
                .rev()
                .take(6)
                .any(|line| line.trim() == "#[test]")
        })
    })
}

#[test]
fn every_test_that_a_row_names_is_there() {
    let guest: Vec<&str> = crate::guest::names().collect();
    let mut of_crates: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (package, name) in tests() {
        match package {
            None => assert!(guest.contains(&name), "the guest has no test {name}"),
            Some(package) => {
                let texts = of_crates.entry(package).or_insert_with(|| {
                    let mut found = Vec::new();
                    sources(&root().join(package), &mut found);
                    found
                });
                assert!(has_test(texts, name), "{package} has no test {name}");
            }
        }
    }
}

#[test]
fn a_test_that_failed_or_did_not_run_opens_its_row() {
    let row = Row {
        title: "x",
        verdict: Verdict::Closed(&["a", "c::b"]),
    };
    let state = |text: &str, whole| judge_row(&row, &Results::read(text), whole);
    assert_eq!(
        state("6.1 a ok\nhost c::b ok\n5.10 a skipped no guard\n", true),
        ("closed  [6.1 host]".to_owned(), true)
    );
    assert_eq!(
        state("6.1 a ok\n6.12 a FAILED\nhost c::b ok\n", true),
        ("OPEN: a on 6.12".to_owned(), false)
    );
    assert_eq!(
        state("5.10 a skipped\nhost c::b ok\n", true),
        ("NOT RUN: a".to_owned(), false)
    );
    assert_eq!(
        state("host c::b ok\n", false),
        ("NOT RUN: a".to_owned(), true)
    );
    // Held as a whole only where no part of it was left out.
    assert_eq!(
        state(
            "6.1 a ok\n6.1 c::b ok\n5.10 a ok\n5.10 c::b skipped no guard\n",
            true
        ),
        ("closed  [6.1]".to_owned(), true)
    );
    assert_eq!(anchor("Root's jobs"), "roots-jobs");
}
