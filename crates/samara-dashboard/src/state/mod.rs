//! The state of a run: live lines go in, and a view of it comes out.
//!
//! Lines of different sources come in any order: a file may be read later than another one that was
//! written after it. So nothing here depends on the order between sources, and nothing is shown before it
//! has a value: unknown values are `null` in the view, and the page says why.
//!
//! | file | |
//! |---|---|
//! | `sources` | the sources, and how their files were read |
//! | `rounds` | teams, rounds, phases, and the latency of slots |
//! | `network` | links, queues, throughput, errors, and pings around teams |
//! | `jobs` | progress of simulations and testbeds |

mod jobs;
mod network;
mod rounds;
mod sources;

use std::collections::BTreeMap;

use samara_trace::live::{Event, Line};
use serde_json::Value;

use jobs::Jobs;
use network::{Network, Pings};
use rounds::Rounds;
use sources::{Heard, Sources};

/// Names are cut to so many characters.
const NAME_MAX: usize = 80;

/// The state of a run.
#[derive(Debug, Default)]
pub struct State {
    sources: Sources,
    rounds: Rounds,
    pings: Pings,
    network: Network,
    jobs: Jobs,
}

/// Parts of the view by their names: what changes together is a part. The same in every view of a state that nothing was added to.
pub type View = BTreeMap<String, Value>;

impl State {
    /// Takes a line of a source.
    pub fn apply(&mut self, source: &str, line: &Line) {
        let source = short(source);
        match self.sources.take(&source, line) {
            Heard::Known => return,
            Heard::Next => {}
            Heard::Restarted => self.forget_claims(&source),
            Heard::RunRestarted => {
                let sources = std::mem::take(&mut self.sources).only(&source);
                *self = Self { sources, ..Self::default() };
            }
        }
        let at = line.at_ns;
        let who = line.node.as_deref().map_or_else(|| source.clone(), short);
        // Times of sources with clocks of their own cannot be compared.
        let domain = self.sources.domain(&source);
        match &line.event {
            Event::Team { team, members } => self.rounds.team(&domain, *team, members),
            Event::Round { .. } | Event::Phase { .. } | Event::Slots { .. } | Event::Latencies { .. } => {
                self.rounds.take(&domain, (&source, &who), at, &line.event);
            }
            Event::Ping { members, loop_ns, .. } => self.pings.take(members, at, *loop_ns),
            Event::Link { .. } | Event::Queue { .. } | Event::Throughput { .. } | Event::Errors { .. } => {
                self.network.take(&source, &who, at, &line.event);
            }
            Event::Progress(progress) => self.jobs.take(&source, &who, progress),
            Event::Finished { .. } => self.jobs.finish(&source),
            Event::Started { .. } | Event::Dropped { .. } | Event::Unknown => {}
        }
    }

    /// The file of a source is gone.
    pub fn forget(&mut self, source: &str) {
        let source = short(source);
        self.sources.forget(&source);
        self.forget_claims(&source);
    }

    /// Forgets what a source claimed of itself. Rounds are the team's.
    fn forget_claims(&mut self, source: &str) {
        self.network.forget(source);
        self.jobs.forget(source);
    }

    /// Notes what reading a file has found; `is_silent` if it has not grown for a while.
    pub fn note_reading(&mut self, source: &str, counts: samara_trace::live::ReadCounts, is_silent: bool) {
        self.sources.note_reading(&short(source), counts, is_silent);
    }

    /// Everything that is shown.
    pub fn view(&self) -> View {
        let mut view = View::new();
        view.insert("sources".to_owned(), self.sources.view());
        self.rounds.view(&mut view);
        view.insert("pings".to_owned(), self.pings.view(&self.network));
        self.network.view(&mut view);
        self.jobs.view(&mut view);
        view
    }
}

/// A name that fits on a page.
fn short(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect()
}

/// Milliseconds, to a microsecond.
fn ms(ns: f64) -> Value {
    Value::from((ns / 1e3).round() / 1e3)
}

/// Milliseconds, or null.
fn ms_or_null(ns: Option<u64>) -> Value {
    ns.map_or(Value::Null, |ns| ms(ns as f64))
}
