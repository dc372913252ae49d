//! `samara compare`.

use std::process::ExitCode;

use samara_lab::compare::{Crossed, compare as side_by_side};
use samara_lab::results::Saved;

use crate::args::{CompareFormat, CompareOptions};

/// A threshold is crossed.
const CROSSED: u8 = 1;

pub(crate) fn compare(options: &CompareOptions) -> Result<ExitCode, String> {
    let compared = side_by_side(Saved::open(&options.a)?, Saved::open(&options.b)?)?;
    let checked: Vec<Vec<Crossed>> =
        options.thresholds.iter().map(|threshold| threshold.check(&compared)).collect::<Result<_, _>>()?;
    let crossed = checked.concat();
    if let Some(path) = &options.html {
        let page = compared.html(&crossed)?;
        std::fs::write(path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let text = match options.format {
        CompareFormat::Table => compared.table(),
        CompareFormat::Markdown => compared.markdown(&crossed),
        CompareFormat::Json => compared.json(&crossed).to_string() + "\n",
    };
    crate::print(&text)?;
    for crossed in &crossed {
        eprintln!(
            "✗ {}: {}: {}; allowed: {}",
            crossed.run, crossed.metric, crossed.change, crossed.threshold
        );
    }
    Ok(if crossed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(CROSSED) })
}
