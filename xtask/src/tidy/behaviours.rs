//! The table of Slurm's behaviours (`docs/behaviours.md`): every row names tests or recordings that are there.
//!
//! A test is named by its crate and module, as `spur-core::job::step::tests::NAME` or `spur-agent::launch::streams::NAME` (a file in `src/`
//! or in `tests/`), and `cluster::steps::NAME` is short for those of `vm-tests/tests/cluster/`. A recording is named as `golden: NAME`.

use super::{File, lexer};
use std::collections::BTreeSet;

const PAGE: &str = "docs/behaviours.md";

/// Fewest rows.
const ROWS_MIN: usize = 120;

/// What comes behind this heading is what spur does otherwise: nothing shows it.
const DIFFERS: &str = "## Differs";

/// Where the scenes of recordings are written down.
const SCENES: &str = "vm-tests/src/golden/scene";

/// Recordings in these lists do not match.
const LISTS: [&str; 2] = [
    "vm-tests/src/golden/intended.tsv",
    "vm-tests/src/golden/known.tsv",
];

/// A row of the table.
struct Row<'a> {
    line: usize,
    situation: &'a str,
    proofs: &'a str,
}

pub(super) fn check(files: &[File], found: &mut Vec<String>) {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return found.push(format!("{PAGE} is missing"));
    };
    let rows = rows(&page.text, found);
    if rows.len() < ROWS_MIN {
        found.push(format!(
            "{PAGE}: {} rows, fewer than {ROWS_MIN}",
            rows.len()
        ));
    }
    let mut seen = BTreeSet::new();
    for row in &rows {
        let at = format!("{PAGE}:{}", row.line);
        if !seen.insert(row.situation) {
            found.push(format!("{at}: {} is there twice", row.situation));
        }
        let proofs: Vec<&str> = row
            .proofs
            .split(',')
            .map(|proof| proof.trim().trim_matches('`'))
            .filter(|proof| !proof.is_empty())
            .collect();
        if proofs.is_empty() {
            found.push(format!("{at}: no test"));
        }
        let wrong = proofs.iter().filter_map(|proof| wrong(files, proof));
        found.extend(wrong.map(|why| format!("{at}: {why}")));
    }
}

/// The rows above the last section. What has not three cells is a breach.
fn rows<'a>(text: &'a str, found: &mut Vec<String>) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let lines = (1..).zip(text.lines());
    for (line, text) in lines.take_while(|(_, text)| *text != DIFFERS) {
        let Some(inner) = text.strip_prefix('|') else {
            continue;
        };
        let cells = cells(inner);
        match cells[..] {
            ["situation", ..] => {}
            [first, ..] if first.starts_with("---") => {}
            [situation, happens, proofs] if !situation.is_empty() && !happens.is_empty() => {
                rows.push(Row {
                    line,
                    situation,
                    proofs,
                });
            }
            _ => found.push(format!(
                "{PAGE}:{line}: a row has a situation, what happens, and a test"
            )),
        }
    }
    rows
}

/// The cells of a row without its first bar; `\|` is no bar.
fn cells(row: &str) -> Vec<&str> {
    let (mut cells, mut from) = (Vec::new(), 0);
    for (at, _) in row.match_indices('|') {
        if !row[..at].ends_with('\\') {
            cells.push(row[from..at].trim());
            from = at + 1;
        }
    }
    cells
}

/// What is wrong with a name of a test or recording.
fn wrong(files: &[File], proof: &str) -> Option<String> {
    if let Some(name) = proof.strip_prefix("golden: ") {
        return wrong_recording(files, name);
    }
    let (module, name) = proof.rsplit_once("::").unwrap_or(("", proof));
    let places = places(module);
    let homes = files.iter().filter(|file| places.contains(&file.path));
    let verdicts: Vec<Verdict> = homes.map(|file| test_in(&file.text, name)).collect();
    if verdicts.contains(&Verdict::Runs) {
        return None;
    }
    Some(if verdicts.contains(&Verdict::Ignored) {
        format!("{proof} is not run")
    } else {
        format!("{proof} is no test")
    })
}

fn wrong_recording(files: &[File], name: &str) -> Option<String> {
    let played = format!("\"{name}\"");
    let in_scene = |file: &&File| file.path.starts_with(SCENES) && file.text.contains(&played);
    if !files.iter().any(|file| in_scene(&file)) {
        return Some(format!("no scene plays the recording {name}"));
    }
    let listed = format!("{name}\t");
    let differs = |file: &File| file.text.lines().any(|line| line.starts_with(&listed));
    let mut lists = files
        .iter()
        .filter(|file| LISTS.contains(&file.path.as_str()));
    lists
        .any(differs)
        .then(|| format!("the recording {name} does not match"))
}

/// The files that may hold a module.
fn places(module: &str) -> Vec<String> {
    let whole = match module.strip_prefix("cluster::") {
        Some(rest) => format!("vm-tests::cluster::{rest}"),
        None => module.to_owned(),
    };
    let Some((folder, modules)) = whole.split_once("::") else {
        return Vec::new();
    };
    let mut paths = vec![modules.replace("::", "/")];
    // Tests may stand in the file itself.
    paths.extend(
        modules
            .strip_suffix("::tests")
            .map(|m| m.replace("::", "/")),
    );
    let file = |path: &String| ["src", "tests"].map(|home| format!("{folder}/{home}/{path}.rs"));
    paths.iter().flat_map(file).collect()
}

/// What a function is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// A test.
    Runs,
    /// A test that runs only when it is asked for.
    Ignored,
    /// None.
    No,
}

fn test_in(text: &str, name: &str) -> Verdict {
    let code = lexer::code_only(text);
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let head = format!("fn {name}(");
    let is_it = |line: &&str| line.starts_with(&head) || line.starts_with(&format!("async {head}"));
    let Some(at) = lines.iter().position(is_it) else {
        return Verdict::No;
    };
    let above = lines[..at].iter().rev();
    let attributes: Vec<&&str> = above
        .take_while(|line| !line.is_empty() && !line.ends_with(['}', '{', ';']))
        .collect();
    let has = |word: &str| attributes.iter().any(|line| line.starts_with(word));
    match (has("#[test]") || has("#[tokio::test"), has("#[ignore")) {
        (true, false) => Verdict::Runs,
        (true, true) => Verdict::Ignored,
        (false, _) => Verdict::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn breaches(page: &str) -> Vec<String> {
        let files = [
            file(PAGE, page),
            file(
                "a/src/b.rs",
                "mod tests {\n    #[test]\n    fn inline() {}\n}\n",
            ),
            file(
                "a/src/c/tests.rs",
                "#[tokio::test(flavor = \"multi_thread\")]\n#[expect(x)]\nasync fn long() {}\nfn helper() {}\n\
                 // #[test]\nfn said() {}\n#[test]\n#[ignore = \"slow\"]\nfn slow() {}\n",
            ),
            file("vm-tests/tests/cluster/d.rs", "#[test]\nfn whole() {}\n"),
            file(
                "vm-tests/src/golden/scene/e.rs",
                "Play(\"good\"), Play(\"bad\"),",
            ),
            file("vm-tests/src/golden/known.tsv", "# x\nbad\twhy\n"),
        ];
        let mut found = Vec::new();
        check(&files, &mut found);
        found
    }

    #[test]
    fn rows_name_tests_that_are_there() {
        let proofs = [
            ("`a::b::tests::inline`", ""),
            ("`a::c::tests::long`, `cluster::d::whole`", ""),
            ("`golden: good`", ""),
            ("", "no test"),
            ("`a::c::tests::helper`", "a::c::tests::helper is no test"),
            ("`a::c::tests::said`", "a::c::tests::said is no test"),
            ("`a::c::tests::slow`", "a::c::tests::slow is not run"),
            ("`a::c::inline`", "a::c::inline is no test"),
            ("`cluster::d::who`", "cluster::d::who is no test"),
            ("`golden: none`", "no scene plays the recording none"),
            ("`golden: bad`", "the recording bad does not match"),
        ];
        let lines = proofs.iter().enumerate();
        let lines = lines.map(|(n, (proof, _))| format!("| `a\\|{n}` | b | {proof} |\n"));
        let head = "# Page\n\n| situation | what happens | test |\n|---|---|---|\n";
        let rest = "\n## Differs\n\n| a | b |\n";
        let found = breaches(&format!("{head}{}{rest}", lines.collect::<String>()));
        let due = (5..).zip(proofs).filter(|(_, (_, why))| !why.is_empty());
        let due = due.map(|(line, (_, why))| format!("{PAGE}:{line}: {why}"));
        let few = format!("{PAGE}: {} rows, fewer than {ROWS_MIN}", proofs.len());
        assert_eq!(found, std::iter::once(few).chain(due).collect::<Vec<_>>());
    }

    #[test]
    fn enough_rows_that_say_something_once() {
        let row = |n: usize| format!("| {n} | b | `golden: good` |\n");
        let many: String = (0..ROWS_MIN).map(row).collect();
        assert_eq!(breaches(&many), [""; 0]);
        let found = breaches(&format!(
            "{many}{}| lonely |\n| | b | `golden: good` |\n",
            row(3)
        ));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|why| why.ends_with("3 is there twice")));
        let mut missing = Vec::new();
        check(&[], &mut missing);
        assert_eq!(missing, [format!("{PAGE} is missing")]);
    }
}
