//! The structure of a page, independent of its topic, and its tables as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::draw::{Bars, Boxes, Lines, Maps, small_png};
use crate::words::plural;

/// Maximum number of rows in a table that is not folded.
const ROWS_MAX: usize = 24;

/// A page: rendered as HTML, as figures, and as text for a terminal.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The kind of page, shown above the title.
    pub kind: String,
    pub title: String,
    /// Paragraphs below the title, separated by empty lines.
    pub description: String,
    /// The key findings, one sentence each.
    pub findings: Vec<String>,
    /// Whether the key findings report a failure.
    pub is_bad: bool,
    /// The keys that differ from those of the scenario, one sentence each.
    pub changes: Vec<String>,
    /// The main figure, below the first key finding.
    pub figure: Option<Figure>,
    /// The origin of the results, such as command, version and date: labels and values.
    pub provenance: Vec<(String, String)>,
    /// Links to files beside the page and to documentation: names and addresses.
    pub links: Vec<(String, String)>,
    /// All sections below the key findings.
    pub sections: Vec<Section>,
    /// The part that a terminal shows.
    pub summary: Summary,
}

impl Page {
    /// The figures of all sections: names and SVG.
    pub fn figures(&self) -> Vec<(String, String)> {
        let parts = self.sections.iter().flat_map(|section| &section.parts);
        let figures = parts.flat_map(|part| match part {
            Part::Figures(figures) => figures.as_slice(),
            Part::Explorer(explorer) => explorer.figures.as_slice(),
            _ => &[],
        });
        self.figure.iter().chain(figures).map(|figure| (figure.name.clone(), figure.svg())).collect()
    }

    /// The files of the page: names and contents. A figure that is too large for PNG is written as
    /// SVG only, and so is one that cannot be drawn: the second part has the reason for each of these.
    pub fn files(&self) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
        let mut files = vec![("report.html".to_owned(), self.html().into_bytes())];
        let mut failed = Vec::new();
        for (name, svg) in self.figures() {
            match small_png(&svg) {
                Ok(png) => files.extend(png.map(|png| (format!("figures/{name}.png"), png))),
                Err(error) => failed.push(format!("{name}.png is left out: {error}")),
            }
            files.push((format!("figures/{name}.svg"), svg.into_bytes()));
        }
        (files, failed)
    }
}

/// The table that a terminal shows, and the lines around it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Sentences on the results. The first one stands above the title, the others below the tables.
    pub sentences: Vec<String>,
    /// The meaning of the columns.
    pub legend: String,
    /// The headline metrics. A narrow terminal leaves out the last columns.
    pub table: Table,
    /// Further tables below the first one.
    pub more: Vec<Table>,
    /// Remarks below all tables and sentences.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Section {
    pub heading: String,
    /// A paragraph below the heading; names between backticks are set as code.
    pub text: String,
    /// The parts of the section, below the text.
    pub parts: Vec<Part>,
}

impl Section {
    pub fn new(heading: impl Into<String>, text: impl Into<String>, part: impl Into<Part>) -> Self {
        Self { heading: heading.into(), text: text.into(), parts: vec![part.into()] }
    }
}

#[derive(Clone, Debug)]
pub enum Part {
    Table(Table),
    /// Figures side by side.
    Figures(Vec<Figure>),
    /// Terms and their descriptions.
    Terms(Vec<(String, String)>),
    /// Failures, introduced by a sentence that may be empty.
    Failures(String, Vec<String>),
    /// A folded file: its name and its text.
    Source(String, String),
    /// Curves that readers can explore.
    Explorer(Box<Explorer>),
    /// Links to other pages, each with a verdict and a figure.
    Cards(Vec<Card>),
}

/// A link to the page of a result.
#[derive(Clone, Debug)]
pub struct Card {
    pub title: String,
    /// The kind of result, such as the scenario's name.
    pub kind: String,
    /// The address of the page; `None` if it has none.
    pub address: Option<String>,
    /// The address of a figure.
    pub figure: Option<String>,
    pub verdict: String,
    pub is_bad: bool,
    /// The key finding.
    pub text: String,
    /// Date, version and other facts.
    pub lines: Vec<String>,
}

/// A table. The first columns (`texts`) are text and aligned left, all others are numbers.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The headings of all columns except that of the bars.
    pub headings: Vec<String>,
    /// Number of text columns at the left.
    pub texts: usize,
    /// The heading of a column of bars after the text columns. Empty without such a column.
    pub bars: String,
    pub rows: Vec<Row>,
    /// For a table that can be folded: its summary line, and whether it is open at first.
    pub fold: Option<(String, bool)>,
}

#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The name of the row on a page.
    pub label: String,
    /// The name of the row in a terminal.
    pub name: String,
    /// All cells except the first. A page shows the text after ` ± ` in a smaller size.
    pub cells: Vec<String>,
    /// The bar of the row: mean, 95th percentile and bound, each with its text.
    pub bar: Option<[(f64, String); 3]>,
    /// A remark beside the bar on a page, for a bar that is about a part only. Empty without one.
    pub remark: String,
    pub look: Look,
}

/// Kinds of emphasis of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    #[default]
    Plain,
    Good,
    Bad,
    /// The row concludes the rows above.
    Conclusion,
    /// The row is a heading of the rows below, without cells.
    Heading,
}

impl Row {
    /// Creates a row with the same name everywhere.
    pub fn new(name: impl Into<String>, cells: Vec<String>) -> Self {
        let name = name.into();
        Self { label: name.clone(), name, cells, ..Self::default() }
    }
}

impl Table {
    /// Creates a table, which is folded if it is long.
    pub fn new<H: Into<String>>(headings: impl IntoIterator<Item = H>, texts: usize, rows: Vec<Row>) -> Self {
        let fold = (rows.len() > ROWS_MAX).then(|| (plural(rows.len() as f64, "row"), false));
        let headings = headings.into_iter().map(Into::into).collect();
        Self { headings, texts, bars: String::new(), rows, fold }
    }

    /// Folds the table behind a summary line.
    #[must_use]
    pub fn folded(self, line: impl Into<String>, is_open: bool) -> Self {
        Self { fold: Some((line.into(), is_open)), ..self }
    }

    /// Renders the table as Markdown, with at most this number of rows.
    pub fn markdown(&self, rows_max: usize) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let ends = (0..self.headings.len()).map(|at| if at < self.texts { "---" } else { "--:" });
        let mut text = line(&mut self.headings.iter().cloned());
        let _ = writeln!(text, "|{}|", ends.collect::<Vec<_>>().join("|"));
        for row in self.rows.iter().take(rows_max) {
            text += &line(&mut std::iter::once(&row.name).chain(&row.cells).map(|cell| plain(cell)));
        }
        if self.rows.len() > rows_max {
            let _ = writeln!(text, "\n{} more rows are left out.", self.rows.len() - rows_max);
        }
        text
    }
}

/// Returns a line of comma-separated values (RFC 4180). Spreadsheets treat a cell that starts with one of
/// `=+-@` as a formula, so that an apostrophe precedes it unless it is a number.
pub fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let cell = |cell: String| {
        let is_formula = cell.starts_with(['=', '+', '-', '@', '\t']) && cell.parse::<f64>().is_err();
        let cell = if is_formula { format!("'{cell}") } else { cell };
        if cell.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell
        }
    };
    cells.map(cell).collect::<Vec<_>>().join(",") + "\n"
}

/// Escapes a text for Markdown, which may come from somebody else's result: neither columns, nor
/// elements, links and images, and sites notify nobody. Code stays as it is.
pub fn plain(text: &str) -> String {
    let inner = text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    if inner.is_some_and(|inner| !inner.contains('`')) {
        return text.replace('|', "\\|");
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '[' | '`' => plain.extend(['\\', c]),
            '<' => plain += "&lt;",
            // Names and numbers behind these become links.
            '@' | '#' => plain.extend([c, ZERO_WIDTH_SPACE]),
            '\n' | '\r' => plain.push(' '),
            c => plain.push(c),
        }
    }
    let broken = |start: &str, end: &str| format!("{start}{ZERO_WIDTH_SPACE}{end}");
    plain.replace("://", &broken(":", "//")).replace("www.", &broken("www", "."))
}

/// Sets a text as code in Markdown.
pub fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace(['\n', '\r'], " "))
}

const ZERO_WIDTH_SPACE: char = '\u{200b}';

#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of the figure's file.
    pub name: String,
    pub caption: String,
    pub drawing: Drawing,
}

impl Figure {
    /// Creates a figure. Characters of its name that some file systems do not support are replaced.
    pub fn new(name: impl AsRef<str>, caption: impl Into<String>, drawing: impl Into<Drawing>) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' };
        let name = name.as_ref().chars().map(plain).collect();
        Self { name, caption: caption.into(), drawing: drawing.into() }
    }

    /// Renders the figure as SVG.
    pub fn svg(&self) -> String {
        match &self.drawing {
            Drawing::Lines(lines) => lines.svg(),
            Drawing::Bars(bars) => bars.svg(),
            Drawing::Boxes(boxes) => boxes.svg(),
            Drawing::Maps(maps) => maps.svg(),
        }
    }
}

/// The content of a figure.
#[derive(Clone, Debug)]
pub enum Drawing {
    /// Lines over an axis, such as cumulative distributions and histograms.
    Lines(Lines),
    /// Rows of bars, dots and intervals, each with a name.
    Bars(Bars),
    /// Boxes on a plane, such as timelines and schedules.
    Boxes(Boxes),
    /// Heat maps: tables of numbers with darker colours for higher numbers.
    Maps(Maps),
}

macro_rules! variants {
    ($Enum:ident: $($Variant:ident($Content:ty))*) => {
        $(impl From<$Content> for $Enum {
            fn from(content: $Content) -> Self {
                Self::$Variant(content)
            }
        })*
    };
}
variants!(Drawing: Lines(Lines) Bars(Bars) Boxes(Boxes) Maps(Maps));
variants!(Part: Table(Table) Figures(Vec<Figure>) Terms(Vec<(String, String)>));

/// Interactive curves of many runs: a comparison with one curve per run, and for each run two
/// panels with a curve for each of many items.
#[derive(Clone, Debug)]
pub struct Explorer {
    /// The label of the time axis.
    pub axis: String,
    /// A time in milliseconds that all runs share, marked by a line, and its name.
    pub deadline: Option<(f64, String)>,
    pub panels_heading: (String, String),
    /// For the left and the right panel: the kind of item that has a curve, and the caption.
    pub each: [(String, String); 2],
    pub panels: Vec<Panel>,
    /// Lower bounds of the comparison: the name of each, and the times in milliseconds before which so
    /// many items cannot be complete, sorted.
    pub bounds: Vec<(String, Vec<f64>)>,
    /// The names of regions, and the region of each node by its number; both empty without regions.
    pub regions: (Vec<String>, Vec<u16>),
    /// The same curves as figures, for readers without scripts.
    pub figures: Vec<Figure>,
}

/// The curves of a run.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The name of the run in the key.
    pub label: String,
    /// The differences of this run from others.
    pub description: String,
    /// The number of the run's colour.
    pub colour: usize,
    /// The arrivals of all items at all nodes, sorted by node.
    pub arrivals: Vec<Arrival>,
    /// The node that published each item.
    pub publishers: BTreeMap<u16, u32>,
}

/// The first arrival of an item at a node.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub node: u32,
    pub item: u16,
    /// Nanoseconds since the publication; `None` if it never arrived.
    pub nanos: Option<u64>,
    /// The node that sent it.
    pub from: u32,
    /// The number of links that it crossed.
    pub hops: u16,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;
    use crate::draw::{Bar, Scale};

    #[test]
    fn names_of_others_are_no_markdown() {
        let name = "@all <b> [a](http://b.c) ![x](y) `z` #7 www.b.c | 1\n2";
        let plain = plain(name);
        for part in ["@all", "<b>", "http://", "#7", "www.", "\n"] {
            assert!(!plain.contains(part), "{part}: {plain}");
        }
        let row = Row::new(code(name), vec![code("a.b"), name.to_owned()]);
        let table = Table::new(["run", "metric", ""], 2, vec![row]).markdown(9);
        let line = table.lines().nth(2).expect("a row");
        assert!(
            line.starts_with("| `@all <b> [a](http://b.c) ![x](y) 'z' #7 www.b.c \\| 1 2` | `a.b` | @"),
            "{line}"
        );
        assert_eq!(table.lines().count(), 3, "{table}");
    }

    #[test]
    fn cells_of_others_are_no_formulas_and_no_columns() {
        let cells = ["a, \"b\"", "=1+1", "-2.5", "-x", "two\nlines", ""].map(str::to_owned);
        assert_eq!(csv_line(cells.into_iter()), "\"a, \"\"b\"\"\",'=1+1,-2.5,'-x,\"two\nlines\",\n");
    }

    #[test]
    fn figure_that_cannot_be_drawn_costs_no_other_file() {
        let scale = || Scale::linear("", 0.0..1.0, Unit::Share);
        let bars = |title: &str| {
            let rows = vec![Bar { name: "a".to_owned(), dot: Some(0.5), ..Bar::default() }];
            Bars { title: title.to_owned(), scale: scale(), rows, key: Vec::new() }
        };
        let figures = vec![Figure::new("bad", "", bars("a\u{1}")), Figure::new("good", "", bars("a"))];
        let page = Page { sections: vec![Section::new("h", "", Part::Figures(figures))], ..Page::default() };
        let (files, failed) = page.files();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["report.html", "figures/bad.svg", "figures/good.png", "figures/good.svg"]);
        assert!(failed[0].starts_with("bad.png is left out: figure: "), "{failed:?}");
    }
}
