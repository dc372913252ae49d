//! Tests of the reduction of live lines to a view.

mod jobs;
mod latencies;
mod lives;
mod values;

use samara_dashboard::state::State;
use samara_trace::live::{Event, Line};

/// Numbers the lines of each source and applies them.
#[derive(Default)]
struct Lines {
    state: State,
    seq: std::collections::BTreeMap<String, u64>,
}

impl Lines {
    fn say(&mut self, source: &str, at_ns: u64, event: Event) {
        self.say_of(source, None, at_ns, event);
    }

    fn say_of(&mut self, source: &str, node: Option<&str>, at_ns: u64, event: Event) {
        let seq = self.seq.entry(source.to_owned()).or_default();
        let line = Line { v: 1, seq: *seq, at_ns, node: node.map(str::to_owned), event };
        *seq += 1;
        self.state.apply(source, &line);
    }

    fn part(&self, name: &str) -> serde_json::Value {
        self.state.view().remove(name).unwrap_or_default()
    }
}
