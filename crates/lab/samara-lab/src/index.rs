//! The index of a folder of results: a page with a card for each, newest first.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use samara_report::words::plural;
use samara_report::{Card, Page, Part, Section};
use serde::Deserialize;

use crate::results::{Headline, read_json, utc};

/// The part of a summary that a card shows.
#[derive(Deserialize)]
struct Summary {
    scenario: String,
    version: String,
    digest: String,
    #[serde(flatten)]
    headline: Headline,
}

/// Returns the page on the results in the directories of `folder`, or on that in `folder` itself.
pub fn page(folder: &Path) -> Result<Page, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| {
        format!("{}: {error}; expected a results directory, or a folder that has some", folder.display())
    })?;
    let mut directories: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    directories.retain(|path| path.is_dir());
    let mut cards: Vec<(u64, Card)> = directories.iter().filter_map(|path| card(path)).collect();
    if cards.is_empty() {
        let folder = folder.display();
        return Err(format!("{folder}: no results; expected directories of samara run, testbed or sweep"));
    }
    // Newest first; results of one second by name.
    cards.sort_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.title.cmp(&b.title)));
    let failed = cards.iter().filter(|(_, card)| card.is_bad).count();
    let count = plural(cards.len() as f64, "result");
    let finding = match failed {
        0 => format!("{count}: all pass."),
        1 => format!("1 of {count} fails or is unfinished."),
        _ => format!("{failed} of {count} fail or are unfinished."),
    };
    let cards = cards.into_iter().map(|(_, card)| card).collect();
    Ok(Page {
        kind: "results".to_owned(),
        title: format!("Results in {}", folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy()),
        findings: vec![finding],
        is_bad: failed > 0,
        sections: vec![Section::new("Results, newest first", "", Part::Cards(cards))],
        ..Page::default()
    })
}

/// The time of a result in seconds since 1970, and its card; `None` without a readable summary.
fn card(directory: &Path) -> Option<(u64, Card)> {
    let file = directory.join("summary.json");
    let summary: Summary = read_json(&file).ok()?;
    let Headline { origin, finding, figure, passes, expectations: [held, all] } = summary.headline;
    let written = || file.metadata().ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok();
    let at = origin.as_ref().map(|origin| origin.finished_unix_s);
    let at = at.or_else(|| written().map(|since| since.as_secs())).unwrap_or(0);
    let name = directory.file_name()?.to_string_lossy().into_owned();
    let is_complete = directory.join("complete").exists();
    let verdict = match (is_complete, passes) {
        (false, _) => "unfinished",
        (true, true) => "passes",
        (true, false) => "fails",
    };
    let counted = if all > 0 { format!(": {held} of {all} expectations hold") } else { String::new() };
    let verdict = format!("{verdict}{counted}");
    let has_figure = !figure.is_empty();
    let figure = format!("figures/{figure}.svg");
    let has_figure = has_figure && directory.join(&figure).exists();
    let has_page = directory.join("report.html").exists();
    let lines = [
        Some(utc(at)),
        Some(format!("Samara {}", summary.version)),
        Some(format!("digest {}", summary.digest)),
        origin.map(|origin| origin.command),
    ];
    let card = Card {
        address: has_page.then(|| format!("{}/report.html", encoded(&name))),
        figure: has_figure.then(|| format!("{}/{figure}", encoded(&name))),
        title: name,
        kind: summary.scenario,
        verdict,
        is_bad: !is_complete || !passes,
        text: finding,
        lines: lines.into_iter().flatten().collect(),
    };
    Some((at, card))
}

/// A file name as a part of an address.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~=+,".contains(&byte);
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
