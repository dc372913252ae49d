//! The live lines of a node or of the scheduler, which dashboards read: in memory, and in a file.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use samara_mix::{Event, Half, Mark, RoundState};
use samara_net::mix::{Happened, LinkStatus, Status, What};
use samara_trace::live::{self, Clock, Edge, Event as Line, LiveWriter, Outcome, Step};
use samara_trace::{unix_ns, unix_ns_of};

use crate::live::Live;
use crate::metrics::mix_errors;

/// Returns the name of a node or the scheduler in live files.
pub(super) fn name(number: u32, nodes: usize) -> String {
    if number as usize == nodes { "scheduler".to_owned() } else { format!("node-{number}") }
}

/// The lines of a node.
pub(super) struct Lines {
    live: Live,
    file: Option<File>,
    nodes: usize,
    /// Teams of unfinished rounds.
    teams: BTreeMap<u64, u64>,
}

/// The live file.
pub(super) struct File {
    writer: LiveWriter,
    met: Met,
    last_ns: u64,
}

impl File {
    pub(super) fn create(directory: &Path, name: &str, role: &str, nodes: usize) -> io::Result<Self> {
        let writer = LiveWriter::create(directory, name)?;
        let mut file = Self { writer, met: Met::new(nodes), last_ns: 0 };
        let started = unix_ns();
        file.say(
            started,
            Line::Started { role: role.to_owned(), clock: Clock::Wall, started_unix_ns: started, run: None },
        );
        Ok(file)
    }

    /// Writes a line. Times never go back, even if the machine's clock does.
    fn say(&mut self, at_ns: u64, line: Line) {
        self.last_ns = self.last_ns.max(at_ns);
        // The writer counts the lines for which it has no room, and reports them.
        self.writer.say(self.last_ns, line);
    }

    /// Writes the current counts, a few times a second.
    pub(super) fn look(&mut self, status: &Status) {
        let now = unix_ns();
        let counts = self.met.counts(status).into_iter().chain(mix_errors(status));
        counts.for_each(|line| self.say(now, line));
    }
}

impl Lines {
    pub(super) fn new(live: Live, file: Option<File>, nodes: usize) -> Self {
        Self { live, file, nodes, teams: BTreeMap::new() }
    }

    fn say(&mut self, at_ns: u64, line: Line) {
        if let Some(file) = &mut self.file {
            file.say(at_ns, line.clone());
        }
        self.live.push(at_ns, line);
    }

    pub(super) fn file(&mut self) -> Option<&mut File> {
        self.file.as_mut()
    }

    fn names(&self, nodes: &[u32]) -> Vec<String> {
        nodes.iter().map(|node| name(*node, self.nodes)).collect()
    }

    pub(super) fn note(&mut self, happened: &Happened) {
        let at = unix_ns_of(happened.at);
        let What::Event(event) = &happened.what else { return };
        match event {
            Event::Drawn { team, nodes } => {
                let members = self.names(nodes);
                self.say(at, Line::Team { team: *team as u64, members });
            }
            Event::Made { team, plan } => {
                self.teams.insert(plan.round, *team as u64);
            }
            Event::Round { round, state } => self.round(at, *round, *state),
            Event::Failed { round, failure } => {
                // A failure at a node is its own report. The state of the round is the scheduler's.
                let known = self.teams.remove(round);
                if known.is_none() {
                    return;
                }
                let cause = Some(failure.cause.name().to_owned());
                let state = live::RoundState::Failed;
                self.say(at, Line::Round { round: *round, state, team: None, slots: None, cause });
            }
            Event::Mark { round, phase, mark } => {
                let edge = match mark {
                    Mark::FirstReceived => Edge::Begin,
                    Mark::LastFinished => Edge::End,
                    Mark::LastReceived if phase.half() == Half::RealTime && phase.next().is_none() => {
                        Edge::End
                    }
                    Mark::LastReceived | Mark::FirstFinished => return,
                };
                self.say(at, Line::Phase { round: *round, phase: phase.name().to_owned(), edge });
            }
            Event::Entered { round, slots } => {
                self.teams.insert(*round, 0);
                self.say(at, Line::Slots { round: *round, step: Step::Entered, slots: (*slots).into() });
            }
            // Only the node at which payloads entered reports that they left.
            Event::Delivered { round, outcomes } if self.teams.remove(round).is_some() => {
                self.say(at, Line::Slots { round: *round, step: Step::Left, slots: outcomes.len() as u64 });
            }
            Event::Looped { team, took } => {
                let (members, loop_ns) = (self.names(team), took.map(|took| took.as_nanos() as u64));
                self.say(at, Line::Ping { team: None, members, loop_ns });
            }
            _ => {}
        }
    }

    fn round(&mut self, at: u64, round: u64, state: RoundState) {
        let team = self.teams.get(&round).copied();
        let state = match state {
            RoundState::Pending => live::RoundState::Pending,
            RoundState::Precomputing => live::RoundState::Precomputing,
            RoundState::Standby => live::RoundState::Standby,
            RoundState::Queued => live::RoundState::Queued,
            RoundState::Realtime => live::RoundState::Realtime,
            RoundState::Completed => {
                self.teams.remove(&round);
                live::RoundState::Completed
            }
            // An event with the cause follows.
            RoundState::Failed => return,
        };
        self.say(at, Line::Round { round, state, team, slots: None, cause: None });
    }

    /// Ends the file. The lines in memory stay.
    pub(super) fn finish(&mut self) {
        let finished = Line::Finished { outcome: Outcome::Ok, message: None };
        self.say(unix_ns(), finished);
        let Some(file) = self.file.take() else { return };
        let (_, written) = file.writer.finish();
        if let Err(error) = written {
            tracing::warn!(%error, "the live file is incomplete");
        }
    }
}

/// The nodes to which this one has had a link.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// The number of nodes of the pool.
    nodes: usize,
    met: BTreeSet<u32>,
}

impl Met {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes, met: BTreeSet::new() }
    }

    /// Returns the counts of this moment, without errors.
    pub(crate) fn counts(&mut self, status: &Status) -> Vec<Line> {
        let mut counts = links(&mut self.met, &status.links, self.nodes);
        counts.push(Line::Queue { queue: "jobs".to_owned(), entries: status.jobs_out as u64, bytes: None });
        if let Some(gateway) = &status.gateway {
            let entries = gateway.counters.payloads_gathered as u64;
            counts.push(Line::Queue { queue: "payloads".to_owned(), entries, bytes: None });
            let total = gateway.counters.payloads_taken;
            counts.push(Line::Throughput { of: "payloads".to_owned(), total, bytes: None });
        }
        counts
    }
}

/// Returns a line for each link that is up, and for each node whose link has gone.
fn links(met: &mut BTreeSet<u32>, up: &[LinkStatus], nodes: usize) -> Vec<Line> {
    met.extend(up.iter().map(|link| link.node));
    let line = |node: &u32| {
        let link = up.iter().find(|link| link.node == *node);
        Line::Link {
            peer: name(*node, nodes),
            up: link.is_some(),
            round_trip_ns: link.and_then(|link| link.round_trip).map(|time| time.as_nanos() as u64),
            bytes_up: link.map(|link| link.bytes_up),
            bytes_down: link.map(|link| link.bytes_down),
            queued_frames: link.map(|link| link.owed as u64),
            queued_bytes: link.map(|link| link.owed_bytes),
        }
    };
    met.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_have_gone_are_down() {
        let link = |node| LinkStatus {
            node,
            outbound: true,
            round_trip: None,
            owed: 1,
            owed_bytes: 2,
            in_flight: 3,
            bytes_up: 4,
            bytes_down: 5,
        };
        let mut met = BTreeSet::new();
        let mut states = |up: &[LinkStatus]| -> Vec<(String, bool, Option<u64>)> {
            let state = |line| match line {
                Line::Link { peer, up, bytes_up, .. } => (peer, up, bytes_up),
                other => panic!("{other:?}"),
            };
            links(&mut met, up, 3).into_iter().map(state).collect()
        };
        let (one, two) = ("node-1".to_owned(), "scheduler".to_owned());
        let both = [(one.clone(), true, Some(4)), (two.clone(), true, Some(4))];
        assert_eq!(states(&[link(3), link(1)]), both);
        assert_eq!(states(&[link(3)]), [(one.clone(), false, None), (two.clone(), true, Some(4))]);
        assert_eq!(states(&[]), [(one, false, None), (two, false, None)]);
        assert_eq!(states(&[link(3), link(1)]), both);
    }
}
