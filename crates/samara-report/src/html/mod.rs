//! The page: one file that needs nothing else, no network and (for everything but moving about in figures) no script.
//!
//! | file | concern |
//! |---|---|
//! | `table` | tables |
//! | `figure` | figures: for scripts, without scripts, and as tables |
//! | `payload` | what scripts draw from |
//!
//! The scripts and the style sheet are files of their own in `assets/`, and are put into the page as they are.

mod figure;
mod payload;
mod table;

use std::fmt::Write;

use crate::escape::{self, prose};
use crate::model::{Block, Fact, Note, Report, Section, Tone};
use crate::style::COLOURS;

const STYLE: &str = include_str!("../../assets/report.css");
const PLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const PLOT_SCRIPT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const SCRIPTS: [&str; 4] = [
    include_str!("../../assets/base.js"),
    include_str!("../../assets/curves.js"),
    include_str!("../../assets/lines.js"),
    include_str!("../../assets/start.js"),
];

/// The winged seed of a maple.
const LOGO: &str = "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\" fill=\"none\" stroke=\"currentColor\">\
    <path d=\"M7.6 15.2C7.2 9.4 10.6 3.4 16.6 2.2c4.2-.8 6.2 2.6 4.4 6.2-2 4-6.6 6.6-11 8.4\" stroke-width=\"1.6\"/>\
    <path d=\"M9.3 14.6c1.8-4.4 4.4-7.6 8-9.8M10.6 15.2c2.6-2.6 5.2-4.6 8.4-6.2\" stroke-width=\".9\"/>\
    <circle cx=\"6.4\" cy=\"18\" r=\"4\" fill=\"currentColor\" stroke=\"none\"/></svg>";

/// Makes the page of a report.
pub fn page(report: &Report) -> String {
    let mut out = String::with_capacity(1 << 20);
    let title = escape::text(&report.title);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n<meta name=\"generator\" content=\"Samara {}\">\n\
         <title>{title}</title>\n<style>\n{PLOT_STYLE}\n{}</style>\n</head>\n<body>\n<div class=\"page\">\n",
        env!("CARGO_PKG_VERSION"),
        style(),
    );
    header(&mut out, report);
    out.push_str("<main>\n");
    let mut figures = 0;
    for (index, section) in report.sections.iter().enumerate() {
        write_section(&mut out, index, section, &mut figures);
    }
    facts(&mut out, &report.facts);
    let _ = write!(
        out,
        "</main>\n<footer><p>Made by Samara {}. This file is complete: it loads nothing. Figures in it are drawn with uPlot \
         (MIT licence, © Leon Sorokin).</p></footer>\n</div>\n",
        env!("CARGO_PKG_VERSION"),
    );
    let _ = write!(out, "<script>\n{PLOT_SCRIPT}\n</script>\n<script>\n\"use strict\";\n");
    SCRIPTS.iter().for_each(|script| out.push_str(script));
    out.push_str("</script>\n</body>\n</html>\n");
    out
}

/// The style sheet with the colours of the palette.
fn style() -> String {
    let colours = |pick: fn(&(&'static str, &'static str)) -> &'static str| {
        let each = COLOURS.iter().enumerate().map(|(index, pair)| format!("--c{index}: {};", pick(pair)));
        each.collect::<Vec<_>>().join(" ")
    };
    STYLE.replace("/*light*/", &colours(|pair| pair.0)).replace("/*dark*/", &colours(|pair| pair.1))
}

fn header(out: &mut String, report: &Report) {
    let _ = write!(
        out,
        "<header>\n<div class=\"brand\">{LOGO}Samara</div>\n<h1>{}</h1>\n",
        escape::text(&report.title)
    );
    if !report.subtitle.is_empty() {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", prose(&report.subtitle));
    }
    if !report.headline.is_empty() {
        out.push_str("<ul class=\"headline\">\n");
        for line in &report.headline {
            let _ = writeln!(
                out,
                "<li><b>{}</b> <span>{}</span></li>",
                escape::text(&line.value),
                prose(&line.text)
            );
        }
        out.push_str("</ul>\n");
    }
    let titles: Vec<&str> = report.sections.iter().map(|section| section.title.as_str()).collect();
    if titles.len() > 1 {
        out.push_str("<nav aria-label=\"Sections\"><ol>\n");
        for (index, title) in titles.iter().enumerate() {
            let _ = writeln!(out, "<li><a href=\"#section-{}\">{}</a></li>", index + 1, escape::text(title));
        }
        if !report.facts.is_empty() {
            out.push_str("<li><a href=\"#setup\">Configuration</a></li>\n");
        }
        out.push_str("</ol></nav>\n");
    }
    out.push_str("</header>\n");
}

fn write_section(out: &mut String, index: usize, section: &Section, figures: &mut usize) {
    let id = index + 1;
    let _ = writeln!(out, "<section id=\"section-{id}\">\n<h2>{}</h2>", escape::text(&section.title));
    section.text.iter().for_each(|text| paragraph(out, text));
    for block in &section.blocks {
        match block {
            Block::Text(text) => paragraph(out, text),
            Block::Note(note) => write_note(out, note),
            Block::Table(table) => table::write(out, table),
            Block::Figure(figure) => {
                *figures += 1;
                figure::write(out, *figures, figure);
            }
        }
    }
    out.push_str("</section>\n");
}

fn paragraph(out: &mut String, text: &str) {
    let _ = writeln!(out, "<p>{}</p>", prose(text));
}

fn write_note(out: &mut String, note: &Note) {
    // The sign says the same as the colour.
    let (class, sign) = match note.tone {
        Tone::Plain => ("note", ""),
        Tone::Good => ("note good", "✓ "),
        Tone::Bad => ("note bad", "✗ "),
    };
    let (title, text) = (escape::text(&note.title), prose(&note.text));
    let _ = writeln!(out, "<div class=\"{class}\"><p><b class=\"tone\">{sign}{title}</b> {text}</p></div>");
}

fn facts(out: &mut String, facts: &[Fact]) {
    if facts.is_empty() {
        return;
    }
    out.push_str("<section id=\"setup\">\n<h2>Configuration</h2>\n<dl class=\"facts\">\n");
    for fact in facts {
        let value = escape::text(&fact.value);
        let value = if fact.literal { format!("<code>{value}</code>") } else { value.into_owned() };
        let _ = writeln!(out, "<dt>{}</dt><dd>{value}</dd>", escape::text(&fact.name));
    }
    out.push_str("</dl>\n</section>\n");
}

/// An id as the name of a file: letters, digits and "-".
pub(crate) fn file_name(id: &str) -> String {
    let name: String = id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if name.is_empty() { "figure".to_owned() } else { name }
}
