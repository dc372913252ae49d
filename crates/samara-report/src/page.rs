//! One self-contained HTML file: no network, no fonts, no libraries.

use std::fmt::Write as _;

use crate::about::About;

/// A whole page: heading, key sentences, the body of the job, and how to run it again.
pub(crate) fn document(about: &About, headline: &[String], body: &str, script: &str) -> String {
    let mut page = String::new();
    let _ = write!(
        page,
        "<header><p class=\"kind\">Samara · {}</p><h1>{}</h1>",
        text(&about.summary.scenario),
        text(&about.title)
    );
    for paragraph in about.description.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let _ = write!(page, "<p class=\"lead\">{}</p>", prose(&paragraph.replace('\n', " ")));
    }
    page.push_str("</header><main>");
    if !headline.is_empty() {
        page.push_str("<section class=\"headline\" aria-label=\"Key findings\"><ul>");
        for sentence in headline {
            let _ = write!(page, "<li>{}</li>", text(sentence));
        }
        page.push_str("</ul></section>");
    }
    page.push_str(body);
    configuration(about, &mut page);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{} · Samara</title>\
         <style>{}</style></head><body>{page}</main>{script}</body></html>\n",
        text(&about.title),
        include_str!("page.css"),
    )
}

/// Text as HTML shows it.
pub(crate) fn text(raw: &str) -> String {
    let mut escaped = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Text with names between backticks set as such.
pub(crate) fn prose(raw: &str) -> String {
    let parts = raw
        .split('`')
        .enumerate()
        .map(|(i, part)| if i % 2 == 1 { format!("<code>{}</code>", text(part)) } else { text(part) });
    parts.collect()
}

/// An SVG document as part of a page.
pub(crate) fn inline(svg: &str) -> &str {
    svg.find("<svg").map_or(svg, |start| &svg[start..])
}

/// Which expectations hold.
pub(crate) fn expectations(about: &About, body: &mut String) {
    if about.outcomes.is_empty() {
        return;
    }
    let missed: Vec<_> = about.outcomes.iter().filter(|outcome| !outcome.holds).collect();
    let _ = write!(
        body,
        "<section><h2>Expectations</h2><p>{} of {} hold.</p>",
        about.outcomes.len() - missed.len(),
        about.outcomes.len()
    );
    if !missed.is_empty() {
        body.push_str("<ul class=\"missed\">");
        for outcome in missed {
            let found = outcome.found.map_or("not measured".to_owned(), |found| format!("{found:.4}"));
            let _ =
                write!(body, "<li>✗ {}: {}, found {found}</li>", text(&outcome.run), text(&outcome.expected));
        }
        body.push_str("</ul>");
    }
    body.push_str("</section>");
}

fn configuration(about: &About, body: &mut String) {
    let summary = &about.summary;
    let only: String = about.only.iter().map(|run| format!(" --only {}", text(run))).collect();
    let _ = write!(
        body,
        "<section><h2>To run it again</h2><p><code>samara run scenario.toml{only} --out again</code> in the folder of this file, \
         with Samara {}. Digest <code>{}</code>: the same scenario, seed and version give the same digest on any number of \
         threads.</p><details><summary>The whole scenario ({})</summary><pre>{}</pre></details></section>",
        text(&summary.version),
        text(&summary.digest),
        text(&about.scenario),
        text(&about.toml)
    );
}
