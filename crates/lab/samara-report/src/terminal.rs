//! Pages and tables as text for a terminal of a given width.

use unicode_width::UnicodeWidthChar;

use crate::section::{Look, Page, Row, Summary, Table};
use crate::words::MISSING;

/// Width of a text that no window limits.
pub const WIDTH: usize = 80;
/// Spaces between two columns of a table.
const GAP: usize = 2;
/// Minimum width of a text column in a narrow window.
const TEXT_MIN: usize = 4;

/// Breaks a line at spaces, so that each part has at most `width` columns. All parts except the first
/// start with `hang` spaces. A word that is longer has a line of its own.
pub fn wrapped(line: &str, width: usize, hang: usize) -> String {
    let (mut text, mut column, mut rest) = (String::new(), 0, line);
    while !rest.is_empty() {
        let gap = rest.len() - rest.trim_start_matches(' ').len();
        let end = rest[gap..].find(' ').map_or(rest.len(), |at| gap + at);
        let word = columns(&rest[gap..end]);
        if column > hang && column + gap + word > width {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', hang));
            text += &rest[gap..end];
            column = hang + word;
        } else {
            text += &rest[..end];
            column += gap + word;
        }
        rest = &rest[end..];
    }
    text
}

/// Returns the width of a text in a terminal, without its colours.
fn columns(text: &str) -> usize {
    let mut is_colour = false;
    let width = |c: char| match c {
        '\u{1b}' => {
            is_colour = true;
            0
        }
        _ if is_colour => {
            is_colour = c != 'm';
            0
        }
        _ => c.width().unwrap_or(0),
    };
    text.chars().map(width).sum()
}

/// Breaks a cell into lines of at most `width` columns. A word that is longer breaks behind the last dot,
/// or else behind another sign, or else anywhere.
fn cell_lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for part in wrapped(text, width, 0).split('\n') {
        let mut line = String::new();
        for c in part.chars() {
            if columns(&line) + c.width().unwrap_or(0) > width {
                let end = line.rfind('.').or_else(|| line.rfind(['_', '-', '/', ':']));
                let rest = line.split_off(end.map_or(line.len(), |end| end + 1));
                lines.push(std::mem::replace(&mut line, rest));
            }
            line.push(c);
        }
        lines.push(line);
    }
    lines
}

impl Page {
    /// Renders the first sentence, the title, the tables, the other sentences and the notes.
    pub fn terminal(&self, width: usize) -> String {
        let Summary { sentences, legend, table, more, notes } = &self.summary;
        let lines = |lines: &[String]| {
            let lines = lines.iter().filter(|line| !line.is_empty());
            lines.map(|line| wrapped(&line.replace('\n', " "), width, 0) + "\n").collect::<String>()
        };
        let (first, others) = sentences.split_at(sentences.len().min(1));
        let drawn = |table: &Table| table.terminal(width, "in the report");
        let head = lines(&[self.title.clone(), legend.clone()]) + &drawn(table);
        let blocks = [lines(first), head].into_iter().chain(more.iter().map(drawn));
        let blocks = blocks.chain([lines(others), lines(notes)]).filter(|block| !block.is_empty());
        blocks.collect::<Vec<_>>().join("\n")
    }
}

impl Table {
    /// Renders the table for a terminal. Text columns are wrapped. If it does not fit, a line replaces
    /// text columns with one value, and headings of the others are wrapped. Columns of numbers that
    /// do not fit even so are left out, those with one value or none in all rows first, and then the last
    /// ones; a line names them and the place `elsewhere` that has them.
    pub fn terminal(&self, width: usize, elsewhere: &str) -> String {
        let of_row = |row: &Row| std::iter::once(&row.name).chain(&row.cells).cloned().collect::<Vec<_>>();
        let is_grouped = self.rows.iter().any(|row| row.look == Look::Heading);
        let rows: Vec<(Look, Vec<String>)> = self.rows.iter().map(|row| (row.look, of_row(row))).collect();
        let plain: Vec<&Vec<String>> =
            rows.iter().filter(|(look, _)| *look != Look::Heading).map(|(_, cells)| cells).collect();
        let indent = if is_grouped { GAP } else { 0 };
        let widest = |at: usize| {
            let cells = plain.iter().filter_map(|cells| cells.get(at));
            cells.chain([&self.headings[at]]).map(|cell| columns(cell)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.headings.len()).map(widest).collect();
        for width_of in widths.iter_mut().take(self.texts) {
            *width_of = (*width_of).min(width * 2 / 5);
        }
        let mut shown: Vec<usize> = (0..widths.len()).collect();
        let total = |shown: &[usize], widths: &[usize]| {
            let all: usize = shown.iter().map(|at| widths[*at] + GAP).sum();
            all.saturating_sub(GAP) + indent
        };
        let is_nothing =
            |row: &&Vec<String>, at| row.get(at).is_none_or(|cell| cell == MISSING || cell == "0");
        let is_equal = |at: &usize| {
            plain.len() > 1 && plain.iter().all(|row| row.get(*at) == plain[0].get(*at))
                || plain.iter().all(|row| is_nothing(row, *at))
        };
        let mut common = Vec::new();
        if total(&shown, &widths) > width {
            let is_common = |at: &usize| *at < self.texts && plain.len() > 1 && is_equal(at);
            let texts = shown.iter().copied().filter(|at| *at < self.texts).count();
            common = shown.iter().copied().filter(is_common).take(texts.saturating_sub(1)).collect();
            shown.retain(|at| !common.contains(at));
        }
        if total(&shown, &widths) > width {
            for (at, width_of) in widths.iter_mut().enumerate().take(self.texts) {
                let cells = plain.iter().filter_map(|cells| cells.get(at)).map(|cell| columns(cell));
                *width_of = (*width_of).min(cells.max().unwrap_or(0).max(TEXT_MIN));
            }
        }
        while total(&shown, &widths) > width {
            let numbers = || shown.iter().rev().filter(|at| **at >= self.texts);
            let Some(dropped) = numbers().find(|at| is_equal(at)).or(numbers().next()).copied() else {
                break;
            };
            shown.retain(|at| *at != dropped);
        }
        while total(&shown, &widths) > width {
            let Some(widest) = shown.iter().copied().max_by_key(|at| widths[*at]) else { break };
            if widths[widest] <= TEXT_MIN {
                break;
            }
            widths[widest] -= 1;
        }
        // Columns of numbers that were left out leave room for texts.
        for at in shown.iter().copied().filter(|at| *at < self.texts) {
            let room = width.saturating_sub(total(&shown, &widths));
            widths[at] += room.min(widest(at).min(width * 2 / 5).saturating_sub(widths[at]));
        }
        let line = |cells: &[String]| {
            let cell =
                |at: &usize| cells.get(*at).map_or_else(Vec::new, |cell| cell_lines(cell, widths[*at]));
            let parts: Vec<Vec<String>> = shown.iter().map(cell).collect();
            let mut text = String::new();
            for number in 0..parts.iter().map(Vec::len).max().unwrap_or(0) {
                let mut line = " ".repeat(indent);
                for (at, parts) in shown.iter().zip(&parts) {
                    let part = parts.get(number).map_or("", String::as_str);
                    let pad = " ".repeat(widths[*at].saturating_sub(columns(part)));
                    let (left, right) =
                        if *at < self.texts { ("", pad.as_str()) } else { (pad.as_str(), "") };
                    line.extend([left, part, right, "  "]);
                }
                text += line.trim_end();
                text.push('\n');
            }
            text
        };
        if shown.is_empty() {
            return String::new();
        }
        let mut text = line(&self.headings);
        text += &("─".repeat(total(&shown, &widths)) + "\n");
        for (look, cells) in &rows {
            text += &if *look == Look::Heading { wrapped(&cells[0], width, GAP) + "\n" } else { line(cells) };
        }
        let same = common.iter().map(|at| format!("{} {}", self.headings[*at], plain[0][*at]));
        let same: Vec<String> = same.collect();
        if !same.is_empty() {
            text += &wrapped(&format!("In all rows: {}.", same.join(", ")), width, GAP);
            text.push('\n');
        }
        let is_hidden = |at: &usize| !shown.contains(at) && !common.contains(at);
        let hidden = self.headings.iter().enumerate().filter(|(at, _)| is_hidden(at));
        let hidden: Vec<&str> = hidden.map(|(_, heading)| heading.as_str()).collect();
        if !hidden.is_empty() {
            text += &wrapped(&format!("Not shown: {}; {elsewhere}.", hidden.join(", ")), width, GAP);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row =
            |name: &str, cells: &[&str]| Row::new(name, cells.iter().map(ToString::to_string).collect());
        let rows = vec![
            row("a run with words", &["1.5 s", "0", "12", "7"]),
            row("another-run-without-spaces", &["900 ms", "0", "13", "8"]),
        ];
        Table::new(["run", "mean", "incomplete", "copies", "bytes"], 1, rows)
    }

    #[test]
    fn lines_break_at_spaces_and_keep_the_gaps_before() {
        assert_eq!(wrapped("  one   two three four", 14, 8), "  one   two\n        three\n        four");
        assert_eq!(wrapped("\u{1b}[1mone\u{1b}[0m two", 7, 0), "\u{1b}[1mone\u{1b}[0m two");
        assert_eq!(wrapped("a path/that/is/longer/than/the/line end", 10, 0).lines().count(), 3);
    }

    #[test]
    fn columns_that_do_not_fit_are_named() {
        let wide = table().terminal(80, "in the report");
        assert!(!wide.contains("Not shown") && wide.lines().count() == 4, "{wide}");
        let narrow = table().terminal(45, "in the report");
        assert!(narrow.ends_with("Not shown: incomplete; in the report.\n"), "equal in all rows: {narrow}");
        let least = table().terminal(40, "in the report");
        assert!(least.lines().all(|line| columns(line) <= 40), "{least}");
        assert!(least.ends_with("Not shown: incomplete; in the report.\n"), "{least}");
        assert!(least.contains("\nwithout-spaces\n"), "a long word has two lines: {least}");
    }

    #[test]
    fn columns_of_a_sweep_leave_room_for_metrics() {
        let row = |degree: &str, beat: &str, mean: &str| {
            Row::new("gossip", [degree, beat, "true", mean, "5.65 ± 0.39"].map(str::to_owned).to_vec())
        };
        let rows = vec![row("8", "700 ms", "140 ± 29 ms"), row("8", "1 s", "141 ± 29 ms")];
        let headings = [
            "run",
            "protocol.degree",
            "protocol.heartbeat",
            "protocol.idontwant",
            "mean",
            "duplication_factor",
        ];
        let table = Table::new(headings, 4, rows);
        let wide = table.terminal(120, "in the report");
        assert!(!wide.contains("In all rows"), "{wide}");
        let narrow = table.terminal(72, "in the report");
        assert!(narrow.contains("141 ± 29 ms         5.65 ± 0.39\n"), "{narrow}");
        let common = "In all rows: run gossip, protocol.degree 8, protocol.idontwant true.\n";
        assert!(narrow.ends_with(common), "{narrow}");
        let least = table.terminal(50, "in the report");
        assert!(least.lines().all(|line| columns(line) <= 50) && least.contains("5.65 ± 0.39"), "{least}");
    }

    #[test]
    fn headings_get_the_room_of_columns_that_are_left_out() {
        let row = Row::new("batch", ["6", "1.46 s", "5.65 ± 0.39"].map(str::to_owned).to_vec());
        let table = Table::new(["run", "columns.blobs", "mean", "duplication_factor"], 2, vec![row]);
        let narrow = table.terminal(36, "in the report");
        assert!(narrow.starts_with("run    columns.blobs    mean\n"), "{narrow}");
    }

    #[test]
    fn long_words_break_behind_dots() {
        let lines = |text: &str, width| cell_lines(text, width);
        let parts = ["by_class.home.", "delivery_latency_ms.max"];
        assert_eq!(lines("by_class.home.delivery_latency_ms.max", 32), parts);
        assert_eq!(lines("delivery_latency_ms.max", 12), ["delivery_", "latency_ms.", "max"]);
        assert_eq!(lines("abcdefgh", 3), ["abc", "def", "gh"]);
    }

    #[test]
    fn headings_of_rows_have_a_line() {
        let mut table = table();
        table.rows.insert(0, Row { look: Look::Heading, ..Row::new("a group", Vec::new()) });
        let text = table.terminal(80, "");
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines[0] == "a group" && lines[1].starts_with("  a run with words"), "{text}");
    }

    #[test]
    fn page_starts_with_its_finding() {
        let summary = Summary {
            sentences: vec!["It is fast.".to_owned(), "It is cheap, too.".to_owned()],
            table: table(),
            notes: vec!["One note.".to_owned()],
            ..Summary::default()
        };
        let text = Page { title: "A title".to_owned(), summary, ..Page::default() }.terminal(80);
        assert!(text.starts_with("It is fast.\n\nA title\n"), "{text}");
        assert!(text.ends_with("\n\nIt is cheap, too.\n\nOne note.\n"), "{text}");
    }
}
