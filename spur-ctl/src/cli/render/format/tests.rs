use super::*;
use crate::cli::render::clock::Clock;
use spur_core::time::Millis;

struct Row(u32, &'static str);

static COLUMNS: &[Column<Row>] = &[
    Column::new(
        Some('i'),
        &["JobId"],
        "JOBID",
        Cell::Write(|_, row: &Row, out| out.push_str(&row.0.to_string())),
    )
    .by(|row| Key::Number(row.0.into())),
    Column::new(
        Some('j'),
        &["Name", "JobName"],
        "NAME",
        Cell::Name(|row: &Row| row.1),
    ),
    Column::new(
        Some('N'),
        &["NodeList"],
        "NODELIST",
        Cell::Name(|row: &Row| row.1),
    )
    .whole_if(|_| true),
];

static TABLE: &Table<Row> = &Table {
    parts: &[COLUMNS],
    bad_letter: "Invalid job format specification",
    bad_name: "Invalid job format specification",
};

fn view() -> View {
    View {
        clock: Clock::utc(Millis(0)),
        users: Default::default(),
        raw_sizes: false,
        cluster: String::new(),
        expand_patterns: false,
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
    assert_eq!(shown("%all"), ["JOBID|NAME|NODELIST", "7|trainer|trainer"]);
    assert_eq!(shown("%.4N %4N"), ["NODELIST NODE", "trainer trai"]);
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
    assert_eq!(shown("name:-3,jobid:.-1x"), ["NAME JOBID x", "trainer 7 x"]);
    let layout = Layout::names("ALL:5", TABLE);
    assert_eq!(both(&layout), ["", ""]);
    assert_eq!(layout.errors, ["Invalid job format specification: ALL"]);
}

#[test]
fn rows_are_sorted_by_several_letters() {
    let mut rows = [Row(10, "b"), Row(9, "a"), Row(11, "b")];
    sort(&mut rows, "-j,i", TABLE, &view()).unwrap();
    assert_eq!(rows.map(|row| row.0), [10, 11, 9]);
    assert_eq!(
        sort(&mut [Row(1, "")], "ix", TABLE, &view()).unwrap_err(),
        "Invalid sort specification: x"
    );
}

#[test]
fn widths_count_bytes_and_cut_no_character() {
    let shown = |format, name| Layout::letters(format, TABLE).row(&view(), &Row(1, name));
    assert_eq!(shown("%5j|", "n\u{e4}m"), "n\u{e4}m |");
    assert_eq!(shown("%2j|", "n\u{e4}m"), "n |");
    assert_eq!(shown("%.6j|", "n\u{e4}m"), "  n\u{e4}m|");
    let bytes = spur_core::slurm::raw::text(b"a\xff\xfe");
    let name: &'static str = Box::leak(bytes.into_boxed_str());
    let line = shown("%4j|%2j|", name);
    assert_eq!(
        spur_core::slurm::raw::bytes(&line).as_ref(),
        b"a\xff\xfe |a\xff|"
    );
}
