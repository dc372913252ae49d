//! What a page consists of, whatever it is about, and its tables as text.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement};

use crate::draw::{Bars, Boxes, Lines, Maps, small_png};
use crate::words::plural;

/// Tables of more rows are folded.
const ROWS_MAX: usize = 24;

/// A page: rendered as HTML, as figures, and as text for a terminal.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What kind of page it is, above the title.
    pub kind: String,
    pub title: String,
    /// Paragraphs below the title, separated by empty lines.
    pub description: String,
    /// The key sentences.
    pub findings: Vec<String>,
    /// Whether the key sentences report a failure.
    pub is_bad: bool,
    /// Everything else.
    pub sections: Vec<Section>,
    /// What a terminal shows.
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
        figures.map(|figure| (figure.name.clone(), figure.svg())).collect()
    }

    /// The files of the page: names and contents. A figure that is too large for PNG has SVG alone.
    ///
    /// # Errors
    /// A figure cannot be rendered as PNG.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        let mut files = vec![("report.html".to_owned(), self.html().into_bytes())];
        for (name, svg) in self.figures() {
            files.extend(small_png(&svg)?.map(|png| (format!("figures/{name}.png"), png)));
            files.push((format!("figures/{name}.svg"), svg.into_bytes()));
        }
        Ok(files)
    }

    /// The title, the table and the sentences that a terminal shows.
    pub fn terminal(&self) -> String {
        let lines = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let summary = &self.summary;
        let legend = if summary.legend.is_empty() { String::new() } else { format!("{}\n", summary.legend) };
        let table = summary.table.terminal();
        let more: String = summary.more.iter().map(Table::terminal).collect();
        format!("{}{}\n{legend}{table}{}{more}", lines(&summary.before), self.title, lines(&summary.after))
    }
}

/// The table that a terminal shows, with the lines around it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Lines above the title.
    pub before: Vec<String>,
    /// What the columns mean.
    pub legend: String,
    pub table: Table,
    /// Lines below the table.
    pub after: Vec<String>,
    /// Further tables.
    pub more: Vec<Table>,
}

/// A section of a page.
#[derive(Clone, Debug)]
pub struct Section {
    pub heading: String,
    /// A paragraph below the heading; names between backticks are set as code.
    pub text: String,
    /// What follows.
    pub parts: Vec<Part>,
}

impl Section {
    /// A section with one part.
    pub fn new(heading: impl Into<String>, text: impl Into<String>, part: impl Into<Part>) -> Self {
        Self { heading: heading.into(), text: text.into(), parts: vec![part.into()] }
    }
}

/// A part of a section.
#[derive(Clone, Debug)]
pub enum Part {
    Table(Table),
    /// Figures beside each other.
    Figures(Vec<Figure>),
    /// Terms and what is said of each.
    Terms(Vec<(String, String)>),
    /// Failures, introduced by a sentence that may be empty.
    Failures(String, Vec<String>),
    /// A file, folded: its name and its text.
    Source(String, String),
    /// Curves to look into.
    Explorer(Explorer),
}

/// A table. The first column and those of `texts` are aligned left, all others are numbers.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The headings of all columns but that of the bars.
    pub headings: Vec<String>,
    /// How many columns at the left are not numbers.
    pub texts: usize,
    /// The heading of a column of bars after the texts; empty if there is none.
    pub bars: String,
    pub rows: Vec<Row>,
    /// If the table can be folded: what is shown of it then, and whether it is open at first.
    pub fold: Option<(String, bool)>,
}

/// A row of a table.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// What a page calls it.
    pub label: String,
    /// What a terminal calls it.
    pub name: String,
    /// All cells but the first. What follows ` ± ` is set smaller.
    pub cells: Vec<String>,
    /// Of the column of bars: a mean, a 95th percentile and a bound, with their texts.
    pub bar: Option<[(f64, String); 3]>,
    /// How it differs from others.
    pub look: Look,
}

/// How a row differs from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    #[default]
    Plain,
    Good,
    Bad,
    /// It concludes the rows above.
    Conclusion,
    /// It is a heading of the rows below, without cells.
    Heading,
}

impl Row {
    /// A row that has one name everywhere.
    pub fn new(name: impl Into<String>, cells: Vec<String>) -> Self {
        let name = name.into();
        Self { label: name.clone(), name, cells, ..Self::default() }
    }
}

impl Table {
    /// A table, folded if it is long.
    pub fn new<H: Into<String>>(headings: impl IntoIterator<Item = H>, texts: usize, rows: Vec<Row>) -> Self {
        let fold = (rows.len() > ROWS_MAX).then(|| (plural(rows.len() as f64, "row"), false));
        let headings = headings.into_iter().map(Into::into).collect();
        Self { headings, texts, bars: String::new(), rows, fold }
    }

    /// The same table behind a line that opens it.
    #[must_use]
    pub fn folded(self, line: impl Into<String>, is_open: bool) -> Self {
        Self { fold: Some((line.into(), is_open)), ..self }
    }

    /// The table for a terminal.
    pub fn terminal(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.headings);
        for row in &self.rows {
            table.add_row(std::iter::once(&row.name).chain(&row.cells));
        }
        for column in table.column_iter_mut().skip(self.texts) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{table}\n")
    }

    /// The table as Markdown, with so many rows at most.
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

/// Text that no Markdown table takes for its own.
pub fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of its file.
    pub name: String,
    /// What it shows.
    pub caption: String,
    pub drawing: Drawing,
}

impl Figure {
    /// A figure; its name becomes one that every file system takes.
    pub fn new(name: impl AsRef<str>, caption: impl Into<String>, drawing: impl Into<Drawing>) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' };
        let name = name.as_ref().chars().map(plain).collect();
        Self { name, caption: caption.into(), drawing: drawing.into() }
    }

    /// The figure as SVG.
    pub fn svg(&self) -> String {
        match &self.drawing {
            Drawing::Lines(lines) => lines.svg(),
            Drawing::Bars(bars) => bars.svg(),
            Drawing::Boxes(boxes) => boxes.svg(),
            Drawing::Maps(maps) => maps.svg(),
        }
    }
}

/// What a figure draws.
#[derive(Clone, Debug)]
pub enum Drawing {
    /// Lines over an axis, among them cumulative distributions and histograms.
    Lines(Lines),
    /// Bars, dots and intervals below each other, with a name for each row.
    Bars(Bars),
    /// Boxes on a plane, among them timelines and schedules.
    Boxes(Boxes),
    /// Fields of numbers, the darker the more.
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

/// Curves of many runs that a reader can point at: a curve for each run, and for each run two panels
/// with a curve for each of many things.
#[derive(Clone, Debug)]
pub struct Explorer {
    /// What the axis of times shows.
    pub axis: String,
    /// Heading and text of the panels.
    pub panels_heading: (String, String),
    /// Of the left and the right panel: what a curve is of, and the caption.
    pub each: [(String, String); 2],
    /// Run by run.
    pub panels: Vec<Panel>,
    /// The same as files, for readers without scripts.
    pub figures: Vec<Figure>,
}

/// The curves of a run.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What the key calls the run.
    pub label: String,
    /// What is different about it.
    pub description: String,
    /// Key of a curve at the right, key of one at the left, and nanoseconds until both met; sorted by the first.
    pub records: Vec<(u32, u16, Option<u64>)>,
}
