//! A comparison as a comment on a pull request.

use std::fmt::Write as _;

use samara_lab::results::is_first;

use super::{Change, Compared, Crossed, Verdict};

/// Rows of a table: a comment has at most 65,536 characters.
const ROWS_MAX: usize = 150;

pub(super) fn document(compared: &Compared, crossed: &[Crossed]) -> String {
    let [a, b] = compared.names();
    let mut text = String::new();
    let count =
        |verdict: Verdict| compared.changes.iter().filter(|change| change.verdict() == verdict).count();
    if !crossed.is_empty() {
        let _ = writeln!(text, "**Thresholds are crossed:**\n");
        for crossed in crossed {
            let _ = writeln!(
                text,
                "- {}, `{}`: {}; allowed: `{}`",
                plain(&crossed.run),
                crossed.metric,
                crossed.change,
                crossed.threshold
            );
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "`{a}` against `{b}`: {} figures better, {} worse, {} changed otherwise, {} not significant, {} the same.\n",
        count(Verdict::Better),
        count(Verdict::Worse),
        count(Verdict::Changed),
        count(Verdict::Unclear),
        count(Verdict::Same)
    );
    let is_told = |change: &&Change| !change.is_same && is_first(&change.metric);
    let told: Vec<&Change> = compared.changes.iter().filter(is_told).collect();
    if !told.is_empty() {
        text += "| run | metric | before | after | change | p | |\n|---|---|--:|--:|--:|--:|---|\n";
    }
    for change in told.iter().take(ROWS_MAX) {
        let verdict = change.verdict();
        let strong = if matches!(verdict, Verdict::Better | Verdict::Worse) { "**" } else { "" };
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {} | {} | {} | {strong}{}{strong} |",
            plain(&change.name()),
            change.metric,
            change.side(change.a),
            change.side(change.b),
            change.written(),
            change.p(),
            verdict.word()
        );
    }
    if told.len() > ROWS_MAX {
        let _ = writeln!(text, "\n{} more rows are left out.", told.len() - ROWS_MAX);
    }
    text.push('\n');
    for note in &compared.notes {
        let _ = writeln!(text, "- {}", plain(note));
    }
    text
}

/// Text that no table takes for its own.
fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
