//! Renders a page as one self-contained HTML file, without network access, fonts or libraries.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use serde_json::json;

use crate::draw::HUES;
use crate::section::{
    Arrival, Card, Drawing, Explorer, Figure, Look, Page, Panel, Part, Row, Section, Table,
};
use crate::words::capitalised;

/// Maximum number of curves drawn on the right. Of more curves, every n-th is drawn.
const CURVES_MAX: usize = 1000;
/// Maximum deadline that has a line in a figure, as a multiple of the last arrival.
pub const DEADLINE_MAX: f64 = 1.5;
/// Maximum number of rows of bars in half of a page.
const BARS_MAX: usize = 14;
/// The packed time of an arrival that did not happen, and the packed number of an unknown sender.
const NEVER: u16 = u16::MAX;
/// Minimum step of packed times.
const STEP_NANOS_MIN: u64 = 50_000;

impl Page {
    /// The page as one HTML file.
    pub fn html(&self) -> String {
        let mut figures = Figures(Vec::new());
        let hero = self.figure.as_ref().map(|figure| figures.figure(figure, true));
        // A count of failures says little without the first failure.
        let is_count = self.is_bad && self.findings.first().is_some_and(|first| first.ends_with(" fail."));
        let (first, others) = self.findings.split_at(self.findings.len().min(1 + usize::from(is_count)));
        let sections: Vec<Markup> = self.sections.iter().map(|section| figures.section(section)).collect();
        let places = self.places();
        let page = html! {
            (PreEscaped("<!doctype html>\n"))
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title) " · Samara" }
                    style { (PreEscaped(include_str!("page/page.css"))) }
                }
                body {
                    header {
                        p.kind { "Samara · " (self.kind) }
                        h1 { (unbroken(&self.title)) }
                        @if !self.changes.is_empty() {
                            p.changed { strong { "Changed" } @for change in &self.changes { " " code { (change) } } }
                        }
                        section.headline.bad[self.is_bad] aria-label="Key findings" {
                            @for sentence in first { p.finding { (unbroken(sentence)) } }
                            (hero.unwrap_or_default())
                            @if !others.is_empty() { ul { @for sentence in others { li { (unbroken(sentence)) } } } }
                        }
                        @if !self.provenance.is_empty() { (provenance(&self.provenance)) }
                        @if !self.links.is_empty() {
                            p.links { @for (name, address) in &self.links { a href=(address) { (name) } " " } }
                        }
                    }
                    nav aria-label="Contents" {
                        ul {
                            @for (id, heading) in &places { li { a href=(format!("#{id}")) { (heading) } } }
                            @if self.has_race() { li { a href="#race" { "The race" } } }
                        }
                    }
                    main {
                        @if !self.description.trim().is_empty() { (self.about()) }
                        @for (content, (id, _)) in sections.iter().zip(places.iter().skip(self.has_about())) {
                            section id=(id) { (content) }
                        }
                    }
                    (figures.data())
                }
            }
        };
        page.into_string()
    }

    fn has_race(&self) -> bool {
        let mut parts = self.sections.iter().flat_map(|section| &section.parts);
        parts.any(|part| matches!(part, Part::Explorer(_)))
    }

    fn has_about(&self) -> usize {
        usize::from(!self.description.trim().is_empty())
    }

    fn places(&self) -> Vec<(String, String)> {
        let about = (self.has_about() > 0).then_some("About this scenario");
        let mut places: Vec<(String, String)> = Vec::new();
        for heading in about.into_iter().chain(self.sections.iter().map(|section| section.heading.as_str())) {
            let mut id = anchor(heading);
            while places.iter().any(|(other, _)| *other == id) {
                id.push('-');
            }
            places.push((id, heading.to_owned()));
        }
        places
    }

    fn about(&self) -> Markup {
        let paragraphs = self.description.split("\n\n").filter(|text| !text.trim().is_empty());
        html! {
            details.about id=(anchor("About this scenario")) {
                summary { "About this scenario" }
                @for paragraph in paragraphs { p { (prose(&paragraph.replace('\n', " "))) } }
            }
        }
    }
}

/// The name of a section in addresses.
fn anchor(heading: &str) -> String {
    let words = heading.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    // The prefix keeps headings apart from the names of other elements.
    format!("s-{}", words.collect::<Vec<_>>().join("-").to_lowercase())
}

fn provenance(all: &[(String, String)]) -> Markup {
    html! {
        dl.provenance {
            @for (label, value) in all { div { dt { (label) } dd { (prose(value)) } } }
        }
    }
}

/// The figures of a page, in the order of their places.
struct Figures<'a>(Vec<&'a Figure>);

impl<'a> Figures<'a> {
    fn section(&mut self, section: &'a Section) -> Markup {
        let parts: Vec<Markup> = section.parts.iter().map(|part| self.part(part)).collect();
        html! {
            h2 { (section.heading) }
            @if !section.text.is_empty() { p { (prose(&section.text)) } }
            @for part in &parts { (part) }
        }
    }

    fn part(&mut self, part: &'a Part) -> Markup {
        match part {
            Part::Figures(figures) => {
                let all: Vec<Markup> = figures.iter().map(|one| self.figure(one, false)).collect();
                html! { div.sweep { @for figure in &all { (figure) } } }
            }
            other => self::part(other),
        }
    }

    /// The place of a figure, which the page's script fills.
    fn figure(&mut self, figure: &'a Figure, is_hero: bool) -> Markup {
        let at = self.0.len();
        self.0.push(figure);
        let (title, is_wide) = (capitalised(figure.title()), figure.is_wide());
        let id = format!("figure-{}", figure.name);
        let label = format!("{title}. {}", figure.caption);
        html! {
            figure.drawn.wide[is_wide || is_hero] data-figure=(at) id=(id) {
                div.title { (title) }
                div.plot role="img" aria-label=(label.trim()) {}
                @if figure.has_legend() { div.legend {} }
                figcaption {
                    @if !figure.caption.is_empty() { span { (figure.caption) } " " }
                    span.save {
                        @for kind in ["svg", "png", "csv"] {
                            button type="button" data-save=(kind) aria-label=(format!("Save {title} as {kind}")) {
                                (kind.to_ascii_uppercase())
                            }
                        }
                        a href=(format!("#{id}")) aria-label=(format!("Link to {title}")) { "#" }
                    }
                }
            }
        }
    }

    /// The data and the scripts of the figures.
    fn data(&self) -> Markup {
        let data: Vec<serde_json::Value> = self.0.iter().map(|figure| figure.data()).collect();
        let data = serde_json::Value::Array(data).to_string().replace('<', "\\u003c");
        html! {
            @if !self.0.is_empty() {
                noscript { p { "A script draws the figures. The folder figures beside this file has them as SVG and PNG." } }
                script type="application/json" id="figure-data" { (PreEscaped(data)) }
            }
            script { (PreEscaped(SCRIPTS.concat())) }
        }
    }
}

/// The scripts of a page. They share one scope, in this order.
const SCRIPTS: [&str; 8] = [
    include_str!("page/scales.js"),
    include_str!("page/draw.js"),
    include_str!("page/figures.js"),
    include_str!("page/tables.js"),
    include_str!("page/panels.js"),
    include_str!("page/explorer.js"),
    include_str!("page/path.js"),
    include_str!("page/race.js"),
];

impl Figure {
    fn is_wide(&self) -> bool {
        match &self.drawing {
            Drawing::Maps(maps) => maps.is_wide(),
            Drawing::Bars(bars) => bars.rows.len() > BARS_MAX,
            _ => false,
        }
    }

    fn has_legend(&self) -> bool {
        match &self.drawing {
            Drawing::Lines(lines) => lines.has_key && lines.lines.len() > 1,
            Drawing::Bars(bars) => bars.key.len() > 1,
            Drawing::Boxes(boxes) => boxes.key.len() > 1,
            Drawing::Maps(_) => false,
        }
    }
}

fn part(part: &Part) -> Markup {
    match part {
        Part::Table(table) => self::table(table),
        // The caller numbers the figures of a page.
        Part::Figures(_) => Markup::default(),
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
        Part::Cards(cards) => html! { div.cards { @for card in cards { (self::card(card)) } } },
    }
}

fn card(card: &Card) -> Markup {
    html! {
        article.card.bad[card.is_bad] {
            p.kind { (card.kind) " · " strong { (card.verdict) } }
            h3 {
                @match &card.address { Some(address) => { a href=(address) { (card.title) } }, None => (card.title) }
            }
            @if !card.text.is_empty() { p { (card.text) } }
            @if let Some(figure) = &card.figure { img src=(figure) alt=(format!("Figure of {}", card.title)) loading="lazy"; }
            p.note { (card.lines.join(" · ")) }
        }
    }
}

/// Renders text, with names between backticks as code.
fn prose(text: &str) -> Markup {
    html! {
        @for (i, part) in text.split('`').enumerate() {
            @if i % 2 == 1 { code { (part) } } @else { (unbroken(part)) }
        }
    }
}

/// Units that stand behind a number in texts.
const UNITS: [&str; 17] = [
    "%", "s", "ms", "µs", "min", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "bit/s", "kbit/s", "Mbit/s",
    "Gbit/s", "MB/s",
];

/// Returns a text in which a number and its unit stay on one line.
fn unbroken(text: &str) -> String {
    let mut unbroken = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let is_unit = || {
            let rest = &text[at + 1..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '/' && c != '%').unwrap_or(rest.len());
            UNITS.contains(&&rest[..end])
        };
        let is_bound = c == ' ' && text[..at].ends_with(|c: char| c.is_ascii_digit()) && is_unit();
        unbroken.push(if is_bound { '\u{a0}' } else { c });
    }
    unbroken
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
                            th.n[at >= table.texts] scope="col" { (breakable(&if at == 0 { capitalised(heading) } else { heading.clone() })) }
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
    let nodes: BTreeSet<u32> =
        explorer.panels.iter().flat_map(|panel| &panel.arrivals).map(|one| one.node).collect();
    let panels: Vec<Packed> = explorer.panels.iter().map(|panel| Packed::of(panel, &nodes)).collect();
    let each = explorer.each.each_ref().map(|(name, _)| name);
    let data: Vec<&serde_json::Value> = panels.iter().map(|panel| &panel.data).collect();
    let last = explorer.panels.iter().flat_map(|panel| &panel.arrivals).filter_map(|one| one.nanos).max();
    let last_ms = last.map_or(f64::INFINITY, |nanos| nanos as f64 / 1e6);
    // An axis up to a distant deadline would have no room for the curves.
    let deadline = explorer.deadline.as_ref().map(|(ms, name)| (*ms, name, *ms <= DEADLINE_MAX * last_ms));
    let line = deadline.filter(|(.., is_near)| *is_near).map(|(ms, name, _)| (ms, name));
    let region = nodes.iter().map(|node| explorer.regions.1.get(*node as usize));
    let region: Vec<u16> = region.map_while(|region| region.copied()).collect();
    let data = json!({
        "axis": explorer.axis,
        "each": each,
        "panels": data,
        "deadline": line,
        "bounds": explorer.bounds.iter().map(|(_, times)| times).collect::<Vec<_>>(),
        "nodes": nodes,
        "regions": explorer.regions.0,
        "region": region,
    });
    html! {
        div.controls data-item=(each[0]) {
            @for (at, name) in each.iter().enumerate() {
                label { (name) " " input type="number" id=(format!("key{at}")) min="0"; } " "
            }
            button id="clear" type="button" { "clear" } " "
            label { input type="checkbox" id="same"; " same time scale" } " "
            output id="description" aria-live="polite" {}
        }
        canvas data-kind="runs" tabindex="0" role="img" aria-label="a curve for each run" {}
        div.legend {
            @for (at, panel) in explorer.panels.iter().enumerate() {
                button type="button" data-run=(at) aria-pressed="true" {
                    i.dashed[panel.colour >= HUES] style=(format!("color:var(--c{})", panel.colour % HUES)) {}
                    (panel.label)
                }
            }
            @for (name, _) in &explorer.bounds {
                span { i.lower {} (name) }
            }
            @if let Some((_, name, is_near)) = deadline {
                span { i.deadline {} (name) @if !is_near { ", right of the figure" } }
            }
        }
        div.path id="path" hidden {}
        (race(explorer))
        h2 { (explorer.panels_heading.0) }
        p { (explorer.panels_heading.1) }
        ul.key {
            li { i.rank {} "first complete … last complete" }
            li { i.middle {} "median" }
            li { i.range {} "5th and 95th percentile" }
        }
        @for (at, (panel, packed)) in explorer.panels.iter().zip(&panels).enumerate() {
            article.pair {
                h3 { (panel.label) }
                p {
                    (panel.description)
                    @if packed.every > 1 { " One " (each[1]) " in " (packed.every) " is drawn." }
                }
                div.panels {
                    @for (kind, (name, caption)) in explorer.each.iter().enumerate() {
                        figure {
                            figcaption { (caption) }
                            canvas data-panel=(at) data-kind=(kind) tabindex="0" role="img" aria-label=(
                                format!("{}: {} curves, one for each {name}", panel.label, packed.curves[kind])
                            ) {}
                        }
                    }
                }
            }
        }
        noscript {
            p {
                "A script draws these curves. Figures are in the folder figures beside this file, as SVG and PNG."
            }
        }
        script type="application/json" id="run-data" { (PreEscaped(data.to_string().replace('<', "\\u003c"))) }
    }
}

fn race(explorer: &Explorer) -> Markup {
    let button = |kind: &str, words: &str| html! { button type="button" data-race=(kind) { (words) } " " };
    html! {
        div.race id="race" {
            h3 { "The race" }
            p {
                "A dot for each node, in the order of its completion, which lights up when it has everything. "
                "Click a dot to follow the node."
            }
            div.clock {
                (button("play", "Play"))
                input type="range" data-race="clock" min="0" max="1000" value="1000" aria-label="Time"; " "
                output data-race="now" {} " "
                label {
                    "Order "
                    select data-race="order" {
                        option value="time" { "completion" }
                        option value="hop" { "hops, then completion" }
                        @if !explorer.regions.0.is_empty() { option value="region" { "regions, then completion" } }
                        option value="node" { "number of the node" }
                    }
                } " "
                (button("save-one", "SVG"))
                (button("save-all", "SVG frames"))
            }
            p.note data-race="groups" {}
            div.lanes {
                @for panel in &explorer.panels {
                    div {
                        div.lane-name { span { (panel.label) } " " output {} }
                        canvas role="img" aria-label=(format!("{}: a dot for each node", panel.label)) {}
                    }
                }
            }
        }
    }
}

/// The arrivals of a run for the script.
struct Packed {
    data: serde_json::Value,
    /// The number of curves of the left and the right panel.
    curves: [usize; 2],
    /// The step between nodes with curves.
    every: usize,
}

impl Packed {
    /// Packs the arrivals of a run. Of more than [`CURVES_MAX`] nodes, every n-th has a curve. `nodes`
    /// are those of all runs.
    ///
    /// A record is the item (u16), the time in steps and the sender (both u16, all ones if there is
    /// none), little-endian. `counts` has the node, the number of its records, and 1 if they are only
    /// for the paths of others. `done` has three bytes for each node: time and hops of the arrival
    /// that completes it.
    fn of(panel: &Panel, nodes: &BTreeSet<u32>) -> Self {
        let rows: Vec<&[Arrival]> = panel.arrivals.chunk_by(|one, other| one.node == other.node).collect();
        let every = rows.len().div_ceil(CURVES_MAX).max(1);
        let last = panel.arrivals.iter().filter_map(|one| one.nanos).max().unwrap_or(0);
        let step = (last / u64::from(NEVER - 1) + 1).max(STEP_NANOS_MIN);
        let time = |nanos: Option<u64>| nanos.map_or(NEVER, |nanos| (nanos / step) as u16);
        let sender = |from: u32| u16::try_from(from).unwrap_or(NEVER);
        let (mut bytes, mut counts) = (Vec::new(), Vec::new());
        let mut add = |node: u32, arrivals: &[&Arrival], is_extra: bool| {
            counts.push((node, arrivals.len(), u8::from(is_extra)));
            for one in arrivals {
                let from = if one.nanos.is_some() { sender(one.from) } else { NEVER };
                bytes.extend([one.item, time(one.nanos), from].iter().flat_map(|word| word.to_le_bytes()));
            }
        };
        let drawn = || rows.iter().step_by(every);
        drawn().for_each(|row| add(row[0].node, &row.iter().collect::<Vec<_>>(), false));
        for (node, arrivals) in ancestors(panel, drawn().copied(), every) {
            add(node, &arrivals, true);
        }
        let mut done = Vec::new();
        let complete: BTreeMap<u32, &Arrival> =
            rows.iter().filter_map(|row| Some((row[0].node, completing(row)?))).collect();
        for node in nodes {
            let arrival = complete.get(node);
            done.extend(time(arrival.and_then(|one| one.nanos)).to_le_bytes());
            done.push(arrival.map_or(0, |one| one.hops.min(255) as u8));
        }
        let items: BTreeSet<u16> = panel.arrivals.iter().map(|one| one.item).collect();
        let data = json!({
            "label": panel.label,
            "colour": panel.colour,
            "counts": counts,
            "data": STANDARD.encode(bytes),
            "done": STANDARD.encode(done),
            "step_ms": step as f64 / 1e6,
            "last_ms": last as f64 / 1e6,
            "publishers": panel.publishers.iter().collect::<Vec<_>>(),
        });
        Self { data, curves: [items.len(), drawn().count()], every }
    }
}

/// The last arrival at a node; one that never came is the last.
fn completing(row: &[Arrival]) -> Option<&Arrival> {
    row.iter().max_by_key(|one| (one.nanos.is_none(), one.nanos))
}

/// The arrivals at nodes without curves on the ways of those that completed the drawn ones.
fn ancestors<'a>(
    panel: &'a Panel,
    drawn: impl Iterator<Item = &'a [Arrival]>,
    every: usize,
) -> BTreeMap<u32, Vec<&'a Arrival>> {
    let mut found: BTreeMap<u32, Vec<&Arrival>> = BTreeMap::new();
    if every == 1 {
        return found;
    }
    let all: BTreeMap<(u32, u16), &Arrival> =
        panel.arrivals.iter().map(|one| ((one.node, one.item), one)).collect();
    let mut seen: BTreeSet<(u32, u16)> = BTreeSet::new();
    for row in drawn {
        seen.extend(row.iter().map(|one| (one.node, one.item)));
    }
    let starts: Vec<(u32, u16)> = seen.iter().copied().collect();
    for start in starts {
        let mut at = all.get(&start);
        while let Some(arrival) = at.filter(|one| one.nanos.is_some()) {
            at = all.get(&(arrival.from, arrival.item));
            match at {
                Some(next) if seen.insert((next.node, next.item)) => {
                    found.entry(next.node).or_default().push(next)
                }
                _ => break,
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_their_units_stay_on_one_line() {
        assert_eq!(
            unbroken("826 ms in 10 s, 5 seeds: 3.1 %."),
            "826\u{a0}ms in 10\u{a0}s, 5 seeds: 3.1\u{a0}%."
        );
        assert_eq!(unbroken("run 3 sends µ 2 µs"), "run 3 sends µ 2\u{a0}µs");
        let page = Page {
            title: "Sent in 10 s".to_owned(),
            findings: vec!["Done after 826 ms.".to_owned()],
            ..Page::default()
        };
        let html = page.html();
        assert!(html.contains("<h1>Sent in 10\u{a0}s</h1>") && html.contains("after 826\u{a0}ms."), "{html}");
    }
}
