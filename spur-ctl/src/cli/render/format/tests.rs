use super::*;
use crate::cli::render::clock::Clock;
use spur_core::time::Millis;

struct Row(u32, &'static str);

static TABLE: &[Column<Row>] = &[
    Column {
        letter: Some('i'),
        names: &["JobId"],
        header: "JOBID",
        cell: |_, row| row.0.to_string(),
        key: Some(|row| Key::Number(row.0.into())),
    },
    Column {
        letter: Some('j'),
        names: &["Name", "JobName"],
        header: "NAME",
        cell: |_, row| row.1.to_owned(),
        key: None,
    },
];

fn view() -> View {
    View {
        clock: Clock::utc(Millis(0)),
        users: Default::default(),
        raw_sizes: false,
    }
}

fn both(layout: &Layout<Row>) -> [String; 2] {
    [layout.header(), layout.row(&view(), &Row(7, "trainer"))]
}

#[test]
fn letters_are_placed_cut_and_filled() {
    let shown = |format| both(&Layout::letters(format, TABLE));
    assert_eq!(shown("%.8i %.4j|"), ["   JOBID NAME|", "       7 trai|"]);
    assert_eq!(shown("%8i%6j"), ["JOBID   NAME  ", "7       traine"]);
    assert_eq!(shown("<%i>^^^%j"), ["<JOBID>^^^NAME", "<7>^^^trainer"]);
    assert_eq!(
        shown("\"%i\",\"%j\""),
        ["\"JOBID\",\"NAME\"", "\"7\",\"trainer\""]
    );
    assert_eq!(shown("no field"), ["no field", "no field"]);
    assert_eq!(shown("%all"), ["JOBID|NAME", "7|trainer"]);
}

#[test]
fn a_lone_percent_is_dropped_and_an_unknown_letter_is_reported_and_shown() {
    let layout = Layout::letters("%i %", TABLE);
    assert_eq!(
        (layout.header().as_str(), layout.errors.len()),
        ("JOBID ", 0)
    );
    let layout = Layout::letters("%i %5Q!", TABLE);
    assert_eq!(layout.header(), "JOBID %5Q!");
    assert_eq!(layout.errors, ["Invalid job format specification: Q"]);
}

#[test]
fn names_are_twenty_wide_unless_they_say_otherwise() {
    let shown = |list| both(&Layout::names(list, TABLE));
    assert_eq!(
        shown("jobid,NAME:.9"),
        [
            "JOBID                    NAME",
            "7                     trainer"
        ]
    );
    assert_eq!(
        shown("jobname:\u{1f},JobID:|"),
        ["NAME\u{1f}JOBID|", "trainer\u{1f}7|"]
    );
    let layout = Layout::names("ALL", TABLE);
    assert_eq!(both(&layout), ["", ""]);
    assert_eq!(layout.errors, ["Invalid job format specification: ALL"]);
}

#[test]
fn rows_are_sorted_by_several_letters() {
    let mut rows = [Row(10, "b"), Row(9, "a"), Row(11, "b")];
    sort(&mut rows, "-j,i", TABLE, &view()).unwrap();
    assert_eq!(rows.map(|row| row.0), [10, 11, 9]);
    assert_eq!(
        sort(&mut [Row(1, "")], "x", TABLE, &view()).unwrap_err(),
        "Invalid sort specification: x"
    );
}
