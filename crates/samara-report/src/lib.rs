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
use samara_lab::results::{Findings, ResultsDirectory, RunResult, Summary};
use samara_lab::scenario::{Loaded, Outcome};

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
pub struct Report(Kind);

#[derive(Debug)]
enum Kind {
    Columns(ColumnsReport),
    Messages(MessagesReport),
    Transactions(TransactionsReport),
    Group(GroupReport),
    Handover(HandoverReport),
    Relay(RelayReport),
}

impl Report {
    /// A report. All results of a scenario are of one kind.
    pub fn new(
        loaded: &Loaded,
        summary: &Summary,
        results: &[RunResult],
        (comparisons, known): (&[Comparison], &[KnownComparison]),
        outcomes: &[Outcome],
    ) -> Self {
        let about = About::new(loaded, summary, results, outcomes);
        let axes = about::axes(loaded);
        let (mut columns, mut messages, mut transactions) = (Vec::new(), Vec::new(), Vec::new());
        let (mut group, mut handover, mut relay) = (Vec::new(), Vec::new(), Vec::new());
        for result in results.iter().cloned() {
            match result {
                RunResult::Columns(result) => columns.push(result),
                RunResult::Messages(result) => messages.push(result),
                RunResult::Transactions(result) => transactions.push(*result),
                RunResult::Group(result) => group.push(*result),
                RunResult::Handover(result) => handover.push(*result),
                RunResult::Relay(result) => relay.push(*result),
            }
        }
        Self(if loaded.scenario.relay.is_some() {
            Kind::Relay(RelayReport::new(about, axes, relay, known))
        } else if loaded.scenario.handover.is_some() {
            Kind::Handover(HandoverReport::new(about, axes, handover, known))
        } else if loaded.scenario.group.is_some() {
            Kind::Group(GroupReport::new(about, axes, group, known))
        } else if loaded.scenario.transactions.is_some() {
            Kind::Transactions(TransactionsReport::new(about, axes, transactions, loaded, known))
        } else if loaded.scenario.messages.is_some() {
            Kind::Messages(MessagesReport::new(about, axes, messages))
        } else {
            Kind::Columns(ColumnsReport::new(about, axes, columns, comparisons))
        })
    }

    /// A report over all that came out of a scenario.
    pub fn of(loaded: &Loaded, findings: &Findings) -> Self {
        let Findings { summary, results, comparisons, known, outcomes, .. } = findings;
        Self::new(loaded, summary, results, (comparisons, known), outcomes)
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
        match &self.0 {
            Kind::Columns(report) => report.html(),
            Kind::Messages(report) => report.html(),
            Kind::Transactions(report) => report.html(),
            Kind::Group(report) => report.html(),
            Kind::Handover(report) => report.html(),
            Kind::Relay(report) => report.html(),
        }
    }

    /// The figures: names and SVG.
    pub fn figures(&self) -> Vec<(String, String)> {
        match &self.0 {
            Kind::Columns(report) => report.figures(),
            Kind::Messages(report) => report.figures(),
            Kind::Transactions(report) => report.figures(),
            Kind::Group(report) => report.figures(),
            Kind::Handover(report) => report.figures(),
            Kind::Relay(report) => report.figures(),
        }
    }

    fn table(&self) -> String {
        match &self.0 {
            Kind::Columns(report) => report.table(),
            Kind::Messages(report) => report.table(),
            Kind::Transactions(report) => report.table(),
            Kind::Group(report) => report.table(),
            Kind::Handover(report) => report.table(),
            Kind::Relay(report) => report.table(),
        }
    }
}
