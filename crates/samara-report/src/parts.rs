//! What reports of several jobs are put together from: figures, and tables with a row for each run.

use std::fmt::Write as _;

use crate::page::{inline, text};
use crate::terminal::draw;
use crate::words::plural;

/// Tables of more rows are folded.
const ROWS_MAX: usize = 24;

/// A figure of a page.
pub(crate) struct Figure {
    pub(crate) name: String,
    /// What it shows.
    pub(crate) caption: String,
    pub(crate) svg: String,
    /// Whether it takes the whole width of a page.
    pub(crate) wide: bool,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, caption: impl Into<String>, svg: String) -> Self {
        Self { name: name.into(), caption: caption.into(), svg, wide: false }
    }
}

/// Runs that differ in their seeds only: a row.
pub(crate) trait Runs {
    /// Their name in the scenario.
    fn run(&self) -> &str;
    /// What the scenario calls them.
    fn label(&self) -> &str;
    /// The values of the sweep's axes.
    fn point(&self) -> &[String];
}

/// A section of figures.
pub(crate) fn drawings(heading: &str, figures: &[Figure], body: &mut String) {
    let _ = write!(body, "<section><h2>{heading}</h2><div class=\"sweep\">");
    for figure in figures {
        let wide = if figure.wide { " wide" } else { "" };
        let _ = write!(
            body,
            "<figure class=\"static{wide}\">{}<figcaption>{}</figcaption></figure>",
            inline(&figure.svg),
            text(&figure.caption)
        );
    }
    body.push_str("</div></section>");
}

/// A table with a row for each run; long ones are folded. `axes` are those of the sweep: key and label.
pub(crate) fn table<'a, R: Runs>(
    axes: &[(String, String)],
    rows: &[R],
    body: &mut String,
    headings: impl IntoIterator<Item = &'a str>,
    cells: impl Fn(&R) -> Vec<String>,
) {
    let open = if rows.len() > ROWS_MAX { "" } else { " open" };
    let _ = write!(body, "<details{open}><summary>{}</summary>", plural(rows.len() as f64, "run"));
    body.push_str("<div class=\"scroll\"><table><thead><tr><th>Run</th>");
    axes.iter().for_each(|(_, label)| cell("<th>", label, "</th>", body));
    for heading in headings {
        let _ = write!(body, "<th class=\"n\">{}</th>", breakable(heading));
    }
    body.push_str("</tr></thead><tbody>");
    for row in rows {
        let _ = write!(body, "<tr><th scope=\"row\">{}</th>", text(row.label()));
        row.point().iter().for_each(|value| cell("<td>", value, "</td>", body));
        cells(row).iter().for_each(|value| cell("<td class=\"n\">", value, "</td>", body));
        body.push_str("</tr>");
    }
    body.push_str("</tbody></table></div></details>");
}

/// The same for a terminal.
pub(crate) fn terminal_table<R: Runs>(
    axes: &[(String, String)],
    rows: &[R],
    headings: &[&str],
    cells: impl Fn(&R) -> Vec<String>,
) -> String {
    let mut header: Vec<String> = vec!["run".to_owned()];
    header.extend(axes.iter().map(|(_, label)| label.clone()));
    header.extend(headings.iter().map(|heading| (*heading).to_owned()));
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| [vec![row.run().to_owned()], row.point().to_vec(), cells(row)].concat())
        .collect();
    draw(&header, &rows, 1 + axes.len())
}

pub(crate) fn cell(before: &str, value: &str, after: &str, body: &mut String) {
    body.push_str(before);
    body.push_str(&text(value));
    body.push_str(after);
}

/// A heading that may be broken before each capital letter and after each underscore: metrics have long names.
fn breakable(heading: &str) -> String {
    let mut broken = String::new();
    for c in heading.chars() {
        if c.is_ascii_uppercase() && broken.ends_with(|before: char| before.is_ascii_lowercase()) {
            broken.push_str("<wbr>");
        }
        broken.push_str(&text(c.encode_utf8(&mut [0; 4])));
        if c == '_' {
            broken.push_str("<wbr>");
        }
    }
    broken
}
