//! Tables on the command line, numbers for people.

mod common;

use samara_report::model::{Better, Cell, Column, Row, Table};
use samara_report::number::{bytes, fixed, millis, percent, short};
use samara_report::terminal::{Terminal, draw};

#[test]
fn plain_tables_have_no_lines_and_no_escapes() {
    let text = draw(&common::table("batch"), Terminal::PLAIN);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    assert!(!text.contains('─'));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("batch"), "{text}");
    assert!(text.contains("6,812 ± 20") && text.contains("2,171*") && text.contains('–'), "{text}");
    assert!(!text.contains("1,150*"), "alone in its group: {text}");
    assert!(lines.iter().all(|line| line.trim_end() == *line));
}

#[test]
fn terminals_get_lines_and_bold_letters() {
    let text = draw(&common::table("batch"), Terminal { width: None, is_tty: true });
    assert!(text.contains('─') && text.contains("\u{1b}[1m"), "{text:?}");
}

#[test]
fn narrow_terminals_wrap_columns() {
    let wide =
        draw(&common::table("a rather long name of a run"), Terminal { width: Some(120), is_tty: false });
    let narrow =
        draw(&common::table("a rather long name of a run"), Terminal { width: Some(50), is_tty: false });
    let longest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    assert!(longest(&wide) <= Some(120) && longest(&narrow) <= Some(50), "{narrow}");
    assert!(narrow.lines().count() > wide.lines().count());
}

#[test]
fn equal_numbers_are_not_best() {
    let cells = |value: f64| Row { cells: vec!["run".into(), value.into()], ..Row::default() };
    let column = Column::number("copies", "", 1).better(Better::Lower);
    let mut table = Table {
        caption: String::new(),
        columns: vec![Column::text("run"), column],
        rows: vec![cells(6.01), cells(6.04), cells(6.02)],
    };
    assert!((0..3).all(|row| !table.is_best(row, 1)), "they print the same");
    table.rows.push(Row { cells: vec!["run".into(), Cell::Interval(5.5, 1.0)], ..Row::default() });
    assert_eq!((0..4).map(|row| table.is_best(row, 1)).collect::<Vec<_>>(), [false, false, false, true]);
    table.columns[1].better = Better::Higher;
    assert_eq!((0..4).map(|row| table.is_best(row, 1)).collect::<Vec<_>>(), [true, true, true, false]);
}

#[test]
fn numbers_are_written_for_people() {
    assert_eq!(fixed(1_234_567.891, 1), "1,234,567.9");
    assert_eq!([fixed(-1234.0, 0), fixed(-0.04, 1), fixed(f64::NAN, 2)], ["−1,234", "0.0", "–"]);
    assert_eq!([short(0.1234), short(1.5), short(12.34), short(123.4)], ["0.123", "1.5", "12.3", "123"]);
    assert_eq!(
        [millis(7.25), millis(978.4), millis(9_999.0)],
        ["7.2\u{a0}ms", "978\u{a0}ms", "9,999\u{a0}ms"]
    );
    assert_eq!([millis(12_340.0), millis(f64::INFINITY)], ["12.3\u{a0}s", "–"]);
    assert_eq!([bytes(999.0), bytes(17_051.0), bytes(2.5e9)], ["999\u{a0}B", "17.1\u{a0}kB", "2.5\u{a0}GB"]);
    assert_eq!(
        [percent(0.5), percent(0.9987), percent(1.0), percent(0.0042)]
            .map(|text| text.replace('\u{a0}', " ")),
        ["50 %", "99.87 %", "100 %", "0.42 %"]
    );
}
