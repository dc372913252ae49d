//! From results to something to look at: a table for the terminal, figures as SVG and PNG, and one self-contained HTML
//! file.

mod about;
mod columns;
mod compare;
mod draw;
mod group;
mod handover;
mod intervals;
mod latency;
mod lines;
mod messages;
mod page;
mod parts;
mod relay;
mod sweep;
mod transactions;
mod words;

pub mod terminal;

use samara_lab::reference::{Comparison, KnownComparison};
use samara_lab::results::{Data, Findings, Outcome, ResultsDirectory, Summary};
use samara_lab::scenario::{ExpectationResult, Loaded};

use about::About;
use columns::ColumnsReport;
use group::GroupReport;
use handover::HandoverReport;
use messages::MessagesReport;
use relay::RelayReport;
use transactions::TransactionsReport;

pub use compare::{Change, Compared, Crossed, Threshold, Verdict, compare};
pub use draw::png;
pub use sweep::SweepReport;

/// A report over the results of a scenario.
#[derive(Debug)]
pub struct Report(Box<dyn Pages>);

/// What the report of a family shows.
trait Pages: std::fmt::Debug + Send + Sync {
    /// The HTML file.
    fn html(&self) -> String;
    /// Names and SVG.
    fn figures(&self) -> Vec<(String, String)>;
    /// The table for the terminal.
    fn table(&self) -> String;
}

impl Report {
    /// A report. All results of a scenario are of one family.
    pub fn new(
        loaded: &Loaded,
        summary: &Summary,
        results: &[Outcome],
        (comparisons, known): (&[Comparison], &[KnownComparison]),
        checked: &[ExpectationResult],
    ) -> Self {
        let about = About::new(loaded, summary, results, checked);
        let axes = about::axes(loaded);
        Self(if let Some(results) = all_of(results) {
            Box::new(ColumnsReport::new(about, axes, results, comparisons))
        } else if let Some(results) = all_of(results) {
            Box::new(MessagesReport::new(about, axes, results))
        } else if let Some(results) = all_of(results) {
            Box::new(TransactionsReport::new(about, axes, results, loaded, known))
        } else if let Some(results) = all_of(results) {
            Box::new(GroupReport::new(about, axes, results, known))
        } else if let Some(results) = all_of(results) {
            Box::new(HandoverReport::new(about, axes, results, known))
        } else {
            Box::new(RelayReport::new(about, axes, all_of(results).unwrap_or_default(), known))
        })
    }

    /// A report over all that came out of a scenario.
    pub fn of(loaded: &Loaded, findings: &Findings) -> Self {
        let Findings { summary, results, comparisons, known, checked, .. } = findings;
        Self::new(loaded, summary, results, (comparisons, known), checked)
    }

    /// Writes the page and the figures into a results directory.
    ///
    /// # Errors
    /// A file cannot be written, or a figure cannot be made an image.
    pub fn write(&self, directory: &ResultsDirectory) -> Result<(), String> {
        let write =
            |name: &str, bytes: &[u8]| directory.bytes(name, bytes).map_err(|error| error.to_string());
        write("report.html", self.html().as_bytes())?;
        for (name, svg) in self.figures() {
            write(&format!("figures/{name}.svg"), svg.as_bytes())?;
            write(&format!("figures/{name}.png"), &png(&svg)?)?;
        }
        Ok(())
    }

    /// The HTML file.
    pub fn html(&self) -> String {
        self.0.html()
    }

    /// The figures: names and SVG.
    pub fn figures(&self) -> Vec<(String, String)> {
        self.0.figures()
    }

    fn table(&self) -> String {
        self.0.table()
    }
}

/// The results with the type of their data, if all of them have this type.
fn all_of<D: Data>(results: &[Outcome]) -> Option<Vec<Outcome<D>>> {
    results.iter().map(Outcome::typed).collect()
}
