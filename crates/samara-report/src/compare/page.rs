//! The page of a comparison.

use std::fmt::Write as _;

use super::{Compared, Crossed, Verdict, figures};
use crate::page::{self, Lead, inline, text};
use crate::parts;
use crate::words::plural;

pub(super) fn page(compared: &Compared, crossed: &[Crossed]) -> Result<String, String> {
    let mut body = String::new();
    thresholds(crossed, &mut body);
    if let Some((svg, left_out)) = figures::changes(compared) {
        let more = if left_out > 0 {
            format!(" {} are in the tables only.", plural(left_out as f64, "more change"))
        } else {
            String::new()
        };
        let _ = write!(
            body,
            "<section><h2>What has changed</h2><figure class=\"static\">{}<figcaption>Bars: 95 % confidence intervals of the difference (Welch), as a \
             share of the first mean; none with one seed. Changes of more than 300 % and from 0 are in the tables only.{more}</figcaption></figure></section>",
            inline(&svg)
        );
    }
    let drawn = figures::distributions(compared)?;
    if !drawn.is_empty() {
        parts::drawings("How soon", &drawn, &mut body);
    }
    tables(compared, &mut body);
    let [a, b] = compared.names();
    let title = format!("{a} against {b}");
    Ok(page::shell(
        &format!("{}, compared", compared.a.scenario),
        (&title, ""),
        &Lead::new(&headline(compared), &[], !crossed.is_empty()),
        &body,
        "",
    ))
}

fn headline(compared: &Compared) -> Vec<String> {
    let count =
        |verdict: Verdict| compared.changes.iter().filter(|change| change.verdict() == verdict).count();
    let mut sentences = vec![format!(
        "Of {}, {} are better, {} worse, {} changed in a way that is neither, {} not significant, {} the same.",
        plural(compared.changes.len() as f64, "figure"),
        count(Verdict::Better),
        count(Verdict::Worse),
        count(Verdict::Changed),
        count(Verdict::Unclear),
        count(Verdict::Same)
    )];
    sentences.extend(compared.notes.iter().map(|note| {
        let mut letters = note.chars();
        letters
            .next()
            .map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
    }));
    sentences.push(
        "± is Student's 95 % confidence interval of the mean over seeds; p is that of Welch's test, significant below 0.05.".to_owned(),
    );
    sentences
}

fn thresholds(crossed: &[Crossed], body: &mut String) {
    if crossed.is_empty() {
        return;
    }
    body.push_str("<section><h2>Thresholds that are crossed</h2><ul class=\"missed\">");
    for crossed in crossed {
        let _ = write!(
            body,
            "<li>✗ {}: {}: {}; allowed: {}</li>",
            text(&crossed.run),
            text(&crossed.metric),
            text(&crossed.change),
            text(&crossed.threshold)
        );
    }
    body.push_str("</ul></section>");
}

/// A table for each run; the first is open.
fn tables(compared: &Compared, body: &mut String) {
    let [a, b] = compared.names();
    body.push_str("<section><h2>All figures</h2>");
    let of_run = |one: &super::Change, other: &super::Change| one.name() == other.name();
    for (at, changes) in compared.changes.chunk_by(of_run).enumerate() {
        let open = if at == 0 { " open" } else { "" };
        let _ = write!(
            body,
            "<details{open}><summary>{}</summary><div class=\"scroll\"><table><thead><tr><th>Metric</th><th class=\"n\">{}</th>\
             <th class=\"n\">{}</th><th class=\"n\">Change</th><th class=\"n\">p</th><th></th></tr></thead><tbody>",
            text(&changes[0].name()),
            text(&a),
            text(&b)
        );
        for change in changes {
            let verdict = change.verdict();
            let class = match verdict {
                Verdict::Better => " class=\"best\"",
                Verdict::Worse => " class=\"worse\"",
                _ => "",
            };
            let _ = write!(
                body,
                "<tr{class}><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
                text(&change.metric),
                text(&change.side(change.a)),
                text(&change.side(change.b)),
                text(&change.written()),
                text(&change.p()),
                verdict.word()
            );
        }
        body.push_str("</tbody></table></div></details>");
    }
    body.push_str("</section>");
}
