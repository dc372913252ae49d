//! The frame of pages of all kinds of results: title, changes, origin, links, the main figure, and the
//! colours of runs.

use std::collections::{BTreeMap, BTreeSet};

use samara_report::{Drawing, Figure, HUES, Page, Part, Section};
use samara_scenario::{Change, Loaded};

use crate::expect::ExpectationResult;
use crate::results::Origin;

/// Maximum number of seeds that a page lists.
const SEEDS_MAX: usize = 8;

pub struct Made<'a> {
    pub origin: Option<&'a Origin>,
    pub version: &'a str,
    /// The digest of all runs; `None` for real nodes.
    pub digest: Option<&'a String>,
    /// The seeds of all points; repeated ones count once.
    pub seeds: BTreeSet<u64>,
    pub files: &'a [&'a str],
}

impl Made<'_> {
    /// The part of a page that all kinds of results share: title, changes, origin and links.
    pub fn frame(&self, loaded: &Loaded, checked: &[ExpectationResult]) -> Page {
        let held = checked.iter().filter(|result| result.holds).count();
        let line = |label: &str, value: String| (label.to_owned(), value);
        let mut provenance = Vec::new();
        if !checked.is_empty() {
            provenance.push(line("Expectations", format!("{held} of {} hold", checked.len())));
        }
        provenance.extend(self.origin.into_iter().flat_map(|origin| origin.lines(self.version)));
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        let seeds = match seeds.as_slice() {
            [first, .., last] if seeds.len() > SEEDS_MAX => format!("{} from {first} to {last}", seeds.len()),
            all => all.join(", "),
        };
        provenance.push(line(if self.seeds.len() == 1 { "Seed" } else { "Seeds" }, seeds));
        provenance.extend(self.digest.map(|digest| line("Digest", format!("`{digest}`"))));
        let mut links: Vec<(String, String)> =
            self.files.iter().map(|file| line(file, (*file).to_owned())).collect();
        let docs = loaded.scenario.family().docs;
        if !docs.is_empty() {
            let address = format!("{}/blob/main/docs/{docs}", env!("CARGO_PKG_REPOSITORY"));
            links.push(("The protocol".to_owned(), address));
        }
        Page {
            title: loaded.scenario.scenario.title.clone(),
            description: loaded.scenario.scenario.description.clone(),
            changes: loaded.changes.iter().map(Change::to_string).collect(),
            provenance,
            links,
            ..Page::default()
        }
    }
}

/// Takes the first figure with lines or bars out of its section. A section without other parts goes
/// with it.
pub(crate) fn first_figure(sections: &mut Vec<Section>) -> Option<Figure> {
    let is_main = |figure: &Figure| matches!(figure.drawing, Drawing::Lines(_) | Drawing::Bars(_));
    for at in 0..sections.len() {
        for part in &mut sections[at].parts {
            let Part::Figures(figures) = part else { continue };
            let Some(place) = figures.iter().position(is_main) else { continue };
            let figure = figures.remove(place);
            sections[at].parts.retain(|part| !matches!(part, Part::Figures(figures) if figures.is_empty()));
            if sections[at].parts.is_empty() {
                sections.remove(at);
            }
            return Some(figure);
        }
    }
    None
}

/// The colour of each run of a scenario, by its name: the same in all figures, and with other runs
/// left out.
///
/// A name has its own hue where that is free among the runs before it, so that most runs keep their
/// hues in other scenarios.
pub fn colours(loaded: &Loaded) -> BTreeMap<String, usize> {
    let mut colours: BTreeMap<String, usize> = BTreeMap::new();
    let own = [loaded.scenario.scenario.name.clone()];
    let runs = loaded.scenario.runs.iter().map(|run| &run.name);
    for (at, name) in runs.chain(&own).enumerate() {
        let hash = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let turn = at / HUES * HUES;
        let hues = (0..HUES).map(|step| turn + (hash as usize + step) % HUES);
        let free = hues.into_iter().find(|hue| !colours.values().any(|taken| taken == hue));
        colours.insert(name.clone(), free.unwrap_or(turn));
    }
    colours
}
