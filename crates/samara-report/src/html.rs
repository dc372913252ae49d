//! Renders a page as one self-contained HTML file, without network access, fonts or libraries.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use serde_json::json;

use crate::draw::COLOURS;
use crate::section::{Drawing, Explorer, Figure, Look, Page, Panel, Part, Row, Section, Table};

/// Maximum number of curves drawn on the right. Of more curves, every n-th is drawn.
const CURVES_MAX: usize = 1000;
/// Maximum deadline that has a line in a figure, as a multiple of the last arrival.
pub const DEADLINE_MAX: f64 = 1.5;
/// The packed time of an arrival that did not happen.
const NEVER: u32 = 0x00ff_ffff;

impl Page {
    /// The page as one HTML file.
    pub fn html(&self) -> String {
        let paragraphs = self.description.split("\n\n").filter(|text| !text.trim().is_empty());
        let page = html! {
            (PreEscaped("<!doctype html>\n"))
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title) " · Samara" }
                    style { (PreEscaped(include_str!("page.css"))) }
                }
                body {
                    header {
                        p.kind { "Samara · " (self.kind) }
                        h1 { (self.title) }
                        @for paragraph in paragraphs { p.lead { (prose(&paragraph.replace('\n', " "))) } }
                    }
                    main {
                        @if !self.findings.is_empty() {
                            section.headline.bad[self.is_bad] aria-label="Key findings" {
                                ul { @for sentence in &self.findings { li { (sentence) } } }
                            }
                        }
                        @for section in &self.sections { (self::section(section)) }
                    }
                }
            }
        };
        page.into_string()
    }
}

fn section(section: &Section) -> Markup {
    html! {
        section {
            h2 { (section.heading) }
            @if !section.text.is_empty() { p { (prose(&section.text)) } }
            @for part in &section.parts { (self::part(part)) }
        }
    }
}

fn part(part: &Part) -> Markup {
    match part {
        Part::Table(table) => self::table(table),
        Part::Figures(figures) => html! { div.sweep { @for figure in figures { (self::figure(figure)) } } },
        Part::Terms(terms) => html! {
            dl { @for (term, text) in terms { dt { (term) } dd { (prose(text)) } } }
        },
        Part::Failures(introduction, failures) => html! {
            @if !introduction.is_empty() { p { (introduction) } }
            ul.missed { @for failure in failures { li { (failure) } } }
        },
        Part::Source(name, text) => html! {
            details { summary { "The whole scenario (" (name) ")" } pre { (text) } }
        },
        Part::Explorer(explorer) => self::explorer(explorer),
    }
}

/// Renders text, with names between backticks as code.
fn prose(text: &str) -> Markup {
    html! {
        @for (i, part) in text.split('`').enumerate() {
            @if i % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn figure(figure: &Figure) -> Markup {
    let svg = figure.svg();
    let svg = svg.find("<svg").map_or(svg.as_str(), |start| &svg[start..]);
    let is_wide = matches!(&figure.drawing, Drawing::Maps(maps) if maps.is_wide());
    html! {
        figure.static.wide[is_wide] {
            (PreEscaped(svg))
            @if !figure.caption.is_empty() { figcaption { (figure.caption) } }
        }
    }
}

fn table(table: &Table) -> Markup {
    let has_bars = !table.bars.is_empty();
    let scale = table.rows.iter().flat_map(|row| row.bar.iter().flatten()).map(|(value, _)| *value);
    let most = scale.filter(|value| value.is_finite()).fold(1.0, f64::max);
    let content = html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for (at, heading) in table.headings.iter().enumerate() {
                            @if has_bars && at == table.texts { th.bars scope="col" { (table.bars) } }
                            th.n[at >= table.texts] scope="col" { (breakable(heading)) }
                        }
                    }
                }
                tbody { @for row in &table.rows { (self::row(table, row, most)) } }
            }
        }
    };
    match &table.fold {
        None => content,
        Some((line, is_open)) => html! { details open[*is_open] { summary { (line) } (content) } },
    }
}

fn row(table: &Table, row: &Row, most: f64) -> Markup {
    let columns = table.headings.len() + usize::from(!table.bars.is_empty());
    let class = match row.look {
        Look::Plain => None,
        Look::Good => Some("best"),
        Look::Bad => Some("worse"),
        Look::Conclusion => Some("difference"),
        Look::Heading => {
            return html! { tr.group { th scope="rowgroup" colspan=(columns) { (row.label) } } };
        }
    };
    html! {
        tr class=[class] {
            th scope="row" { (row.label) }
            @for (at, cell) in row.cells.iter().enumerate() {
                @if let Some(bar) = row.bar.as_ref().filter(|_| at + 1 == table.texts) {
                    td.bars {
                        (self::bar(bar, most, !row.remark.is_empty()))
                        @if !row.remark.is_empty() { small { (row.remark) } }
                    }
                }
                @if at + 1 >= table.texts {
                    td.n {
                        @match cell.split_once(" ± ") {
                            Some((mean, half)) => { (mean) " " small { "± " (half) } }
                            None => (cell),
                        }
                    }
                } @else {
                    td.wide[cell.len() > 60] { (cell) }
                }
            }
        }
    }
}

fn bar([mean, p95, bound]: &[(f64, String); 3], most: f64, is_part: bool) -> Markup {
    let percent = |side: &str, value: f64| {
        let share = if value.is_finite() { (value / most * 100.0).clamp(0.0, 100.0) } else { 0.0 };
        format!("{side}:{share:.2}%")
    };
    html! {
        span.bar.part[is_part] role="img" aria-label=(format!("mean {}, 95th percentile {}, bound {}", mean.1, p95.1, bound.1)) {
            i.p95 style=(percent("width", p95.0)) {}
            i.mean style=(percent("width", mean.0)) {}
            i.bound style=(percent("left", bound.0)) {}
        }
    }
}

/// Renders a heading with optional breaks before capital letters and after underscores, since names
/// of metrics are long.
fn breakable(heading: &str) -> Markup {
    let mut pieces = vec![String::new()];
    let mut before = ' ';
    for c in heading.chars() {
        if before == '_' || c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            pieces.push(String::new());
        }
        pieces.last_mut().into_iter().for_each(|piece| piece.push(c));
        before = c;
    }
    html! { @for (at, piece) in pieces.iter().enumerate() { @if at > 0 { wbr; } (piece) } }
}

fn explorer(explorer: &Explorer) -> Markup {
    let panels: Vec<(serde_json::Value, [usize; 2], usize)> =
        explorer.panels.iter().enumerate().map(|(at, panel)| packed(at, panel)).collect();
    let each = explorer.each.each_ref().map(|(name, _)| name);
    let data: Vec<&serde_json::Value> = panels.iter().map(|(data, ..)| data).collect();
    let last = explorer.panels.iter().flat_map(|panel| &panel.records).filter_map(|record| record.2).max();
    let last_ms = last.map_or(f64::INFINITY, |nanos| nanos as f64 / 1e6);
    // An axis up to a distant deadline would have no room for the curves.
    let deadline = explorer.deadline.as_ref().map(|(ms, name)| (*ms, name, *ms <= DEADLINE_MAX * last_ms));
    let line = deadline.filter(|(.., is_near)| *is_near).map(|(ms, name, _)| (ms, name));
    let data = json!({ "axis": explorer.axis, "each": each, "panels": data, "deadline": line }).to_string();
    html! {
        div.controls {
            label { input type="checkbox" id="same" checked; " same time scale" } " "
            @for (at, name) in each.iter().enumerate() {
                label { (name) " " input type="number" id=(format!("key{at}")) min="0"; } " "
            }
            button id="clear" type="button" { "clear" } " "
            output id="told" aria-live="polite" {}
        }
        canvas data-kind="runs" tabindex="0" role="img" aria-label="a curve for each run" {}
        ul.key {
            @for (at, panel) in explorer.panels.iter().enumerate() {
                li { i style=(format!("background:{}", COLOURS[at % COLOURS.len()])) {} (panel.label) }
            }
            @if let Some((_, name, is_near)) = deadline {
                li { i.deadline {} (name) @if !is_near { ", right of the figure" } }
            }
        }
        h2 { (explorer.panels_heading.0) }
        p { (explorer.panels_heading.1) }
        ul.key {
            li { i.rank {} "first complete … last complete" }
            li { i.middle {} "median" }
            li { i.range {} "5th and 95th percentile" }
        }
        @for (at, (panel, (_, counts, every))) in explorer.panels.iter().zip(&panels).enumerate() {
            article.pair {
                h3 { (panel.label) }
                p {
                    (panel.description)
                    @if *every > 1 { " One " (each[1]) " in " (every) " is drawn." }
                }
                div.panels {
                    @for (kind, (name, caption)) in explorer.each.iter().enumerate() {
                        figure {
                            figcaption { (caption) }
                            canvas data-panel=(at) data-kind=(kind) tabindex="0" role="img" aria-label=(
                                format!("{}: {} curves, one for each {name}", panel.label, counts[kind])
                            ) {}
                        }
                    }
                }
            }
        }
        noscript {
            p {
                "A script draws these curves. The same figures are in the folder figures beside this file, \
                 as SVG and PNG."
            }
        }
        script type="application/json" id="panels" { (PreEscaped(data.replace('<', "\\u003c"))) }
        script { (PreEscaped(include_str!("explorer.js"))) }
    }
}

/// The records of a panel for the script, the number of curves on both sides, and the step between
/// those on the right.
///
/// A record is the key at the left (u16) and the time in quarters of a millisecond (u24, all ones
/// if never), both little-endian.
fn packed(at: usize, panel: &Panel) -> (serde_json::Value, [usize; 2], usize) {
    let rows: Vec<_> = panel.records.chunk_by(|one, other| one.0 == other.0).collect();
    let every = rows.len().div_ceil(CURVES_MAX).max(1);
    let (mut bytes, mut counts, mut last) = (Vec::new(), Vec::new(), 0);
    for row in rows.iter().step_by(every) {
        counts.push((row[0].0, row.len()));
        for (_, left, time) in *row {
            last = last.max(time.unwrap_or(0));
            let quarters = time.map_or(NEVER, |nanos| (nanos / 250_000).min(u64::from(NEVER - 1)) as u32);
            bytes.extend(left.to_le_bytes());
            bytes.extend(&quarters.to_le_bytes()[..3]);
        }
    }
    let mut lefts: Vec<u16> = panel.records.iter().map(|record| record.1).collect();
    lefts.sort_unstable();
    lefts.dedup();
    let sides = [lefts.len(), counts.len()];
    let data = json!({
        "label": panel.label,
        "colour": COLOURS[at % COLOURS.len()],
        "counts": counts,
        "data": STANDARD.encode(bytes),
        "last_ms": last as f64 / 1e6,
    });
    (data, sides, every)
}
