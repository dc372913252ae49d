//! The orders of a run that are known before it begins, for hosts that no coordinator can reach.

use samara_engine::Time;
use samara_scenario::Point;

use super::{Order, check, line};
use crate::experiment::{Commands, Experiment};
use crate::run::{Course, RunError, RunOptions};

/// Steps in which the end of a run is sought, and the longest run.
const STEP_NANOS: u64 = 100_000_000;
const LONGEST_NANOS: u64 = 24 * 3_600 * 1_000_000_000;

/// Returns the script of a point.
pub type ScriptOf = fn(&Point, RunOptions<'_>) -> Result<Script, RunError>;

/// The commands of a run, and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The orders to carry out commands, by host.
    pub commands: Vec<Vec<String>>,
    /// The latest end of the run.
    pub end: Time,
}

/// Returns the script of a point.
pub(crate) fn script<E: Experiment>(point: &Point, options: RunOptions<'_>) -> Result<Script, RunError> {
    let Course { mut experiment, setup, .. } = Course::<E>::in_processes(point, options)?;
    check(&point.scenario).map_err(RunError::Failed)?;
    let mut commands = Commands(Vec::new());
    experiment.start(&mut commands);
    let ends = |at: &u64| experiment.progress(Time::from_nanos(*at)).share >= 1.0;
    let end = (0..LONGEST_NANOS).step_by(STEP_NANOS as usize).find(ends).filter(|end| *end > 0);
    let Some(end) = end.filter(|_| !commands.0.is_empty()) else {
        let section = point.scenario.family().section;
        return Err(RunError::Failed(format!(
            "{section}: its commands follow from events of the run, so they are not known before it"
        )));
    };
    let mut by_host = vec![Vec::new(); setup.hosts.configs.len()];
    for (at, host, command) in commands.0 {
        by_host[host as usize].push(line(&Order::Command { at_ns: at.as_nanos(), command })?);
    }
    Ok(Script { commands: by_host, end: Time::from_nanos(end) })
}
