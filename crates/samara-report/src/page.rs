//! One self-contained HTML file: no network, no fonts, no libraries.

use std::fmt::Write as _;

use samara_lab::reference::KnownComparison;
use samara_lab::scenario::ExpectationResult;
use samara_lab::statistics::Statistics;

use crate::about::About;
use crate::terminal::number;
use crate::words::{MISSING, percent, short_ms, signed_percent};

/// A whole page: heading, key sentences, the body of the job, and how to run it again.
pub(crate) fn document(about: &About, headline: &[String], body: &str, script: &str) -> String {
    let mut body = body.to_owned();
    configuration(about, &mut body);
    let lead = Lead::new(headline, &about.checked, about.is_incomplete);
    shell(&about.summary.scenario, (&about.title, &about.description), &lead, &body, script)
}

/// The key sentences of a page.
pub(crate) struct Lead {
    sentences: Vec<String>,
    /// Whether it reports a failure: its edge is not green then.
    is_bad: bool,
}

impl Lead {
    /// The key sentences, after how many expectations fail.
    pub(crate) fn new(sentences: &[String], outcomes: &[ExpectationResult], is_bad: bool) -> Self {
        let missed = outcomes.iter().filter(|outcome| !outcome.holds).count();
        let failure = (missed > 0).then(|| format!("{missed} of {} expectations fail.", outcomes.len()));
        Self {
            is_bad: is_bad || missed > 0,
            sentences: failure.into_iter().chain(sentences.to_vec()).collect(),
        }
    }
}

/// A whole page of any kind: what it is of, title and description, key sentences, and sections.
pub(crate) fn shell(
    kind: &str,
    (title, description): (&str, &str),
    lead: &Lead,
    body: &str,
    script: &str,
) -> String {
    let mut page = String::new();
    let _ = write!(page, "<header><p class=\"kind\">Samara · {}</p><h1>{}</h1>", text(kind), text(title));
    for paragraph in description.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let _ = write!(page, "<p class=\"lead\">{}</p>", prose(&paragraph.replace('\n', " ")));
    }
    page.push_str("</header><main>");
    if !lead.sentences.is_empty() {
        let class = if lead.is_bad { "headline bad" } else { "headline" };
        let _ = write!(page, "<section class=\"{class}\" aria-label=\"Key findings\"><ul>");
        for sentence in &lead.sentences {
            let _ = write!(page, "<li>{}</li>", text(sentence));
        }
        page.push_str("</ul></section>");
    }
    page.push_str(body);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{} · Samara</title>\
         <style>{}</style></head><body>{page}</main>{script}</body></html>\n",
        text(title),
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

/// What real nodes used, how exactly they were told what to do, and every reason to distrust them.
pub(crate) fn real_nodes(about: &About, body: &mut String) {
    let runs: Vec<_> = about.summary.runs.iter().filter_map(|run| Some((run, run.real.as_ref()?))).collect();
    if runs.is_empty() {
        return;
    }
    body.push_str(
        "<section><h2>Real nodes</h2><p>Every node was a process of its own. Ready is the time until links and meshes were there; late is how \
         much later than planned publications were made; of nodes, the mean and the most.</p><div class=\"scroll\"><table><thead><tr><th>Run</th>\
         <th>Nodes were</th><th class=\"n\">Ready</th><th class=\"n\">Late: p50, most</th><th class=\"n\">Processor of a node</th>\
         <th class=\"n\">Memory of a node</th><th class=\"n\">Open files</th><th class=\"n\">Emulation: of a processor, late p99</th></tr></thead><tbody>",
    );
    for (run, real) in &runs {
        let time = |ms: Option<f64>| ms.map_or_else(|| MISSING.to_owned(), short_ms);
        let two =
            |statistics: &Option<Statistics>, first: fn(&Statistics) -> f64, shown: fn(f64) -> String| {
                let both = |s: &Statistics| format!("{}, {}", shown(first(s)), shown(s.max));
                statistics.as_ref().map_or_else(|| MISSING.to_owned(), both)
            };
        let emulation = real.relay_cpu_share.map_or_else(
            || "none".to_owned(),
            |share| format!("{}, {}", percent(share, 0), time(real.relay_late_p99_ms)),
        );
        let cells = [
            short_ms(real.ready_s * 1e3),
            two(&real.publish_error_ms, |s| s.p50, short_ms),
            two(&real.node_cpu_s, |s| s.mean, |seconds| short_ms(seconds * 1e3)),
            two(&real.node_peak_rss_bytes, |s| s.mean, |bytes| format!("{:.1} MB", bytes / 1e6)),
            two(&real.node_open_fds, |s| s.mean, |files| format!("{files:.0}")),
            emulation,
        ];
        let _ = write!(
            body,
            "<tr><th scope=\"row\">{}, seed {}</th><td>{}</td>",
            text(&run.name),
            run.parameters.get("seed").map_or_else(String::new, ToString::to_string),
            text(&real.programs.join(", "))
        );
        for cell in cells {
            let _ = write!(body, "<td class=\"n\">{cell}</td>");
        }
        body.push_str("</tr>");
    }
    body.push_str("</tbody></table></div>");
    let doubts: Vec<String> = runs
        .iter()
        .flat_map(|(run, real)| {
            real.doubts.iter().map(|doubt| format!("<li>{}: {}</li>", text(&run.name), text(doubt)))
        })
        .collect();
    if !doubts.is_empty() {
        let _ = write!(
            body,
            "<p>Reasons to distrust these figures:</p><ul class=\"missed\">{}</ul>",
            doubts.concat()
        );
    }
    body.push_str("</section>");
}

/// Which expectations hold.
pub(crate) fn expectations(about: &About, body: &mut String) {
    outcomes(&about.checked, body);
}

/// The same without a report.
pub(crate) fn outcomes(outcomes: &[ExpectationResult], body: &mut String) {
    if outcomes.is_empty() {
        return;
    }
    let missed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.holds).collect();
    let _ = write!(
        body,
        "<section><h2>Expectations</h2><p>{} of {} hold.</p>",
        outcomes.len() - missed.len(),
        outcomes.len()
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

/// Our figures beside those that others have published or measured.
pub(crate) fn known(figures: &[KnownComparison], body: &mut String) {
    if figures.is_empty() {
        return;
    }
    body.push_str(
        "<section><h2>Beside figures of others</h2><div class=\"scroll\"><table><thead><tr><th>Run</th><th>Metric</th><th>Source</th>\
         <th class=\"n\">Theirs</th><th class=\"n\">Ours</th><th class=\"n\">Difference</th></tr></thead><tbody>",
    );
    for figure in figures {
        let _ = write!(
            body,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            text(&figure.run),
            text(&figure.metric),
            text(&figure.source),
            number(figure.known),
            number(figure.ours),
            signed_percent(figure.deviation())
        );
    }
    body.push_str("</tbody></table></div></section>");
}

fn configuration(about: &About, body: &mut String) {
    let summary = &about.summary;
    let only: String = about.only.iter().map(|run| format!(" --only {}", text(run))).collect();
    let real = summary.runs.iter().any(|run| run.real.is_some());
    let verb = if real { "testbed" } else { "run" };
    let same = if real {
        "Real nodes never do exactly the same twice.".to_owned()
    } else {
        format!(
            "Digest <code>{}</code>: the same scenario, seed and version give the same digest on any number of threads.",
            text(&summary.digest)
        )
    };
    let _ = write!(
        body,
        "<section><h2>To run it again</h2><p><code>samara {verb} scenario.toml{only} --out again</code> in the folder of this file, \
         with Samara {}. {same}</p><details><summary>The whole scenario ({})</summary><pre>{}</pre></details></section>",
        text(&summary.version),
        text(&about.scenario),
        text(&about.toml)
    );
}
