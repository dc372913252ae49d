//! Replays recorded lines of hosts as if they came now.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use samara_document::file;
use samara_engine::Time;
use samara_lab::processes::{Brief, Fleet, Order, Report};
use samara_lab::run::RunError;
use samara_sim::HostStats;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{DATA, FILE_BYTES_MAX, LOOKS_NS, ORDERS_FILE, TEMPLATE, of_host};
use crate::TestbedError;

/// Hosts whose lines are recorded.
pub(super) struct Recorded {
    /// Events and frames of all hosts, the earliest first.
    lines: VecDeque<(u64, u32, String)>,
    /// The counters of each host, the earliest first, and the number of those that were read.
    looks: Vec<(Vec<Value>, usize)>,
    /// Answers that nobody has heard.
    answers: VecDeque<(u32, String)>,
    /// The time until which somebody has listened.
    now: u64,
}

impl Recorded {
    /// Reads what each host of an export wrote to its standard output.
    pub(super) fn read(exported: &Path, hosts: u32) -> Result<Self, TestbedError> {
        let (mut lines, mut looks) = (Vec::new(), Vec::new());
        for host in 0..hosts {
            let directory = of_host(&exported.join(DATA), host);
            let path = output(&directory)?;
            let at = |error| TestbedError::Io { what: path.display().to_string(), source: error };
            let (mut own, mut is_ready) = (Vec::new(), false);
            for (number, line) in (1..).zip(BufReader::new(File::open(&path).map_err(at)?).lines()) {
                let line = line.map_err(at)?;
                let wrong =
                    |what: &str| TestbedError::Scenario(format!("{}:{number}: {what}", path.display()));
                match serde_json::from_str::<Report<IgnoredAny, Value>>(&line) {
                    Ok(Report::Event { at_ns, .. }) => lines.push((at_ns, host, line)),
                    Ok(Report::Frame(moved)) => lines.push((moved.at_ns, host, line)),
                    Ok(Report::Looked(_)) => own.push(serde_json::from_str(&line).unwrap_or_default()),
                    Ok(Report::Ready { host: said }) if said == host && !is_ready => is_ready = true,
                    Ok(Report::Ready { host: said }) => {
                        return Err(wrong(&format!("is of host {said}, expected host {host}")));
                    }
                    Ok(Report::Synced(_)) => {}
                    Err(error) => return Err(wrong(&format!("is no line of a host: {error}"))),
                }
            }
            let (found, expected) = (own.len(), looks_of(exported, host)?);
            if !is_ready || found != expected {
                return Err(TestbedError::Scenario(format!(
                    "{}: has the counters of {found} moments, expected {expected}: the host ended early; read its \
                     standard error beside it",
                    path.display()
                )));
            }
            looks.push((own, 0));
        }
        // Those of a host keep their order.
        lines.sort_by_key(|(at, ..)| *at);
        Ok(Self { lines: lines.into(), looks, answers: VecDeque::new(), now: 0 })
    }

    /// Returns the last counters that a host reported until now, with what it noted since the last time.
    fn look(&mut self, host: u32) -> Option<Value> {
        let (own, read) = self.looks.get_mut(host as usize)?;
        let (first, every) = LOOKS_NS;
        let due = 1 + self.now.saturating_sub(first) / every;
        let until = (due as usize).clamp(1, own.len()).max(*read);
        let late = own[*read..until].iter().filter_map(|look| look["looked"]["late_ns"].as_array());
        let late: Vec<Value> = late.flatten().cloned().collect();
        *read = until;
        let mut look = own[until - 1].clone();
        look["looked"]["late_ns"] = late.into();
        Some(look)
    }
}

/// Returns how often the orders of a host ask for its counters.
fn looks_of(exported: &Path, host: u32) -> Result<usize, TestbedError> {
    let path = of_host(&exported.join(TEMPLATE), host).join(ORDERS_FILE);
    let text = file::read_text(&path, FILE_BYTES_MAX);
    let text = text.map_err(TestbedError::io(path.display().to_string()))?;
    Ok(text.lines().filter(|line| *line == "\"look\"").count())
}

/// Returns the file of what a host wrote to its standard output.
fn output(directory: &Path) -> Result<PathBuf, TestbedError> {
    let at = || TestbedError::io(format!("{} (was the run complete?)", directory.display()));
    let mut files = fs::read_dir(directory).map_err(at())?.filter_map(|entry| Some(entry.ok()?.path()));
    let file = files.find(|path| path.extension().is_some_and(|extension| extension == "stdout"));
    file.ok_or_else(|| TestbedError::Scenario(format!("{}: found no .stdout", directory.display())))
}

fn cannot(what: &str) -> RunError {
    RunError::Failed(format!("hosts under Shadow cannot be {what} during the run"))
}

impl Fleet for Recorded {
    fn is_foreign(&self, _: u32) -> bool {
        false
    }

    fn begin(&mut self, _: Vec<Option<Brief>>) -> Result<(), RunError> {
        Ok(())
    }

    fn limit(&mut self, processors: Vec<Option<f64>>) -> Result<(), RunError> {
        if processors.iter().any(Option::is_some) { Err(cannot("limited")) } else { Ok(()) }
    }

    fn confine(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    fn processors(&mut self) -> Result<Option<Vec<u64>>, RunError> {
        Ok(None)
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    fn order(&mut self, host: u32, line: &str) -> Result<(), RunError> {
        let order: Order<IgnoredAny> =
            serde_json::from_str(line).map_err(|error| RunError::Failed(error.to_string()))?;
        let answer = match order {
            Order::Sync(number) => serde_json::to_string(&Report::<(), ()>::Synced(number)).ok(),
            Order::Look => self.look(host).map(|look| look.to_string()),
            // Commands that are known before the run are in the files of hosts.
            Order::Command { .. } if self.now == 0 => None,
            Order::Command { .. } => return Err(cannot("commanded")),
            _ => None,
        };
        self.answers.extend(answer.map(|answer| (host, answer)));
        Ok(())
    }

    fn heard(&mut self, until: Time) -> Result<Option<(u32, String)>, RunError> {
        if let Some(answer) = self.answers.pop_front() {
            return Ok(Some(answer));
        }
        match self.lines.front() {
            Some((at, ..)) if *at <= until.as_nanos() => {
                self.now = self.now.max(*at);
                Ok(self.lines.pop_front().map(|(_, host, line)| (host, line)))
            }
            _ => {
                self.now = self.now.max(until.as_nanos());
                Ok(None)
            }
        }
    }

    fn kill(&mut self, _: u32, _: bool) -> Result<(), RunError> {
        Err(cannot("killed"))
    }

    fn freeze(&mut self, _: u32) -> Result<(), RunError> {
        Err(cannot("stopped"))
    }

    fn start(&mut self, _: u32, _: Option<Brief>) -> Result<(), RunError> {
        Err(cannot("started"))
    }

    fn cut(&mut self, _: &[(u32, u32)], _: bool) -> Result<(), RunError> {
        Err(cannot("cut off"))
    }

    fn set_rates(&mut self, _: u32, _: [u64; 2]) -> Result<(), RunError> {
        Err(cannot("slowed down"))
    }

    fn packets(&mut self) -> Result<Option<Vec<HostStats>>, RunError> {
        Ok(None)
    }

    fn failed(&mut self, host: u32, why: &str) -> RunError {
        RunError::Failed(format!("host {host}: {why}"))
    }
}
