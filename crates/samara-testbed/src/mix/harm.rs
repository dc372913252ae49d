//! Processes that are killed, and started again.

use std::time::{Duration, Instant};

use samara_lab::network;
use samara_lab::run;
use samara_lab::scenario::{FaultKind, Scenario};

use super::events::events_of;
use super::{Participants, files, spawn};
use crate::TestbedError;
use crate::client::MixEvent;
use crate::process::NodeProcess;
use crate::run::{Options, START_TIMEOUT, Stop, unix_ns};

/// A process that is to be killed.
struct Kill {
    host: u32,
    at: Duration,
    until: Option<Duration>,
    killed_unix_ns: Option<u64>,
    restarted_unix_ns: Option<u64>,
}

/// All of them. Times count from the first payloads on.
pub(super) struct FaultDriver<'a> {
    begun: Instant,
    kills: Vec<Kill>,
    /// What processes had told before they were killed.
    told: Vec<(u32, Vec<MixEvent>)>,
    options: Options<'a>,
}

impl<'a> FaultDriver<'a> {
    pub(super) fn new(scenario: &Scenario, seed: u64, options: Options<'a>, cast: &Participants) -> Self {
        let faults = scenario.faults.iter().enumerate();
        let kills = faults.flat_map(|(index, fault)| {
            let hosts = network::hit(scenario, index, seed).into_iter().filter(|host| *host < cast.nodes);
            hosts.map(move |host| Kill {
                host,
                at: fault.at.duration(),
                until: fault.until.map(|until| until.duration()),
                killed_unix_ns: None,
                restarted_unix_ns: None,
            })
        });
        Self { begun: Instant::now(), kills: kills.collect(), told: Vec::new(), options }
    }

    /// Whether a process is not there on purpose.
    pub(super) fn is_down(&self, host: u32) -> bool {
        let last = self.kills.iter().rfind(|kill| kill.host == host);
        last.is_some_and(|kill| kill.killed_unix_ns.is_some() && kill.restarted_unix_ns.is_none())
    }

    /// Does what is due. Returns whose processes were started again.
    pub(super) fn apply(&mut self, processes: &mut [NodeProcess]) -> Result<Vec<u32>, TestbedError> {
        let now = self.begun.elapsed();
        let mut restarted = Vec::new();
        for kill in &mut self.kills {
            let process = &mut processes[kill.host as usize];
            if kill.killed_unix_ns.is_none() && now >= kill.at {
                let (events, _) = events_of(process)?;
                self.told.push((kill.host, events));
                process.kill();
                kill.killed_unix_ns = Some(unix_ns());
            }
            let is_due = kill.until.is_some_and(|until| now >= until);
            if is_due && kill.killed_unix_ns.is_some() && kill.restarted_unix_ns.is_none() {
                let directory = files::directory(self.options.nodes, kill.host);
                let program = &self.options.programs[kill.host as usize % self.options.programs.len()];
                *process = spawn(kill.host, program, &directory)?;
                process.wait_ready(START_TIMEOUT, &Stop::new(self.options.stop))?;
                kill.restarted_unix_ns = Some(unix_ns());
                restarted.push(kill.host);
            }
        }
        Ok(restarted)
    }

    /// What processes had told before they were killed.
    pub(super) fn take_told(&mut self) -> Vec<(u32, Vec<MixEvent>)> {
        std::mem::take(&mut self.told)
    }

    /// What was done to whom; times count from `start`. As in the simulator, it lasts until others must have reached the process again, `pause`
    /// after it is back.
    pub(super) fn done(&self, start: u64, pause: Duration) -> Vec<run::FaultWindow> {
        let since = |at: u64| at.saturating_sub(start);
        let done = self.kills.iter().filter_map(|kill| {
            Some(run::FaultWindow {
                host: kill.host,
                kind: FaultKind::Crash,
                from: since(kill.killed_unix_ns?),
                until: kill.restarted_unix_ns.map_or(u64::MAX, |at| since(at) + pause.as_nanos() as u64),
            })
        });
        done.collect()
    }
}
