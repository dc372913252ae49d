//! `samara run` in several processes that simulate one network.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use samara_engine::Reader;
use samara_lab::results::{Measured, Outcome, ProcessUse};
use samara_lab::run::{RunError, RunOptions as Options, check_distributed, run_distributed};
use samara_lab::usage;
use samara_scenario::Loaded;
use samara_sim::{RankError, Ranks, hosts_of_rank};
use sha2::{Digest, Sha256};

use crate::args::RunOptions;
use crate::session::{BAR_STEPS, Session, on_interrupt, progress_bar};

/// Environment variables with the number of processes, set by Open MPI, MPICH and Slurm's PMI.
const LAUNCHERS: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE"];

/// Returns an error if MPI started this program, which has no MPI.
///
/// Each process would do the same work and write to the same directory.
pub(crate) fn reject_mpi_launch() -> Result<(), String> {
    let launched = |name: &&&str| {
        std::env::var(name).ok().and_then(|count| count.parse::<u32>().ok()).is_some_and(|count| count > 1)
    };
    match LAUNCHERS.iter().find(launched) {
        None => Ok(()),
        Some(name) => Err(format!(
            "started as one of several processes ({name}), but this program has no MPI; build crates/programs/samara-mpi and start its \
             `samara` instead (docs/guides/large.md)"
        )),
    }
}

/// Wraps a set of processes and counts the bytes sent and the time spent waiting.
struct Counted<'a> {
    ranks: &'a mut dyn Ranks,
    waited: Duration,
    sent: u64,
}

impl Ranks for Counted<'_> {
    fn rank(&self) -> usize {
        self.ranks.rank()
    }

    fn count(&self) -> usize {
        self.ranks.count()
    }

    fn least(&mut self, value: u64) -> Result<u64, RankError> {
        let start = Instant::now();
        let least = self.ranks.least(value);
        self.waited += start.elapsed();
        least
    }

    fn exchange(&mut self, outgoing: &mut [Vec<u8>]) -> Result<Vec<Vec<u8>>, RankError> {
        let own = self.rank();
        let others = outgoing.iter().enumerate().filter(|(to, _)| *to != own);
        self.sent += others.map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        let start = Instant::now();
        let incoming = self.ranks.exchange(outgoing);
        self.waited += start.elapsed();
        incoming
    }

    fn give_up(&mut self) {
        self.ranks.give_up();
    }
}

/// Runs a scenario in all processes; the first one writes the results.
pub(crate) fn run(options: &RunOptions, ranks: &mut dyn Ranks) -> Result<ExitCode, String> {
    let mut ranks = Counted { ranks, waited: Duration::ZERO, sent: 0 };
    if ranks.rank() == 0 { first(options, &mut ranks) } else { other(options, &mut ranks) }
}

/// Values of the vote of all processes before the run starts.
const READY: u64 = 1;
const FAILED: u64 = 0;

fn first(options: &RunOptions, ranks: &mut Counted<'_>) -> Result<ExitCode, String> {
    let session = load(options).and_then(|_| Session::open(&options.scenario, &options.output));
    // Vote also after an error, or the other processes would wait forever.
    let begun =
        ranks.least(if session.is_ok() { READY } else { FAILED }).map_err(|error| error.to_string())?;
    let session = session?;
    if begun == FAILED {
        return Err("another process cannot read the scenario; does its machine have the file?".to_owned());
    }
    if !have_same_files(&session.loaded, ranks)? {
        return Err(
            "the files that the scenario names differ between processes; copy the same files to all machines"
                .to_owned(),
        );
    }
    measure(session, options, ranks).or_else(|message| {
        // Printed before `give_up`, which may end this process as well.
        crate::terminal::complain(format_args!("samara: {message}"));
        ranks.give_up();
        Ok(ExitCode::from(crate::BAD_INPUT))
    })
}

/// Returns true if all processes read the same files. With different files, they would simulate
/// different networks.
fn have_same_files(loaded: &Loaded, ranks: &mut Counted<'_>) -> Result<bool, String> {
    let mut hash = Sha256::new();
    for (_, file) in loaded.files() {
        // A missing file counts as empty here; reading it later reports the error.
        hash.update(loaded.inputs.sha256(&file).unwrap_or_default());
    }
    let own = hash.finalize().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (least, most) = (ranks.least(own), ranks.least(!own).map(|least| !least));
    Ok(least.map_err(|error| error.to_string())? == most.map_err(|error| error.to_string())?)
}

/// Loads the scenario, and checks that several processes can run it.
fn load(options: &RunOptions) -> Result<Loaded, String> {
    let loaded = options.scenario.load()?;
    let all = loaded.points.iter().map(|point| check_distributed(&point.scenario));
    all.collect::<Result<(), _>>().map_err(|error| format!("{}: {error}", loaded.source))?;
    Ok(loaded)
}

fn measure(mut session: Session, options: &RunOptions, ranks: &mut Counted<'_>) -> Result<ExitCode, String> {
    let bar = progress_bar(session.loaded.points.len(), options.output.quiet);
    let mut done = 0;
    let progress = |name: &str, share: f64| {
        bar.set_message(name.to_owned());
        let now = (share * BAR_STEPS as f64) as u64;
        bar.inc(now.saturating_sub(done));
        done = if share >= 1.0 { 0 } else { now };
    };
    let results = points(&session.loaded, &session.stop, ranks, progress, |measured| {
        let result = measured.outcome();
        session.directory.run(measured, &result).map_err(|error| error.to_string())?;
        Ok(result)
    });
    bar.finish_and_clear();
    let results = results?;
    let hosts = session.loaded.points.first().map_or(0, |point| point.scenario.network.nodes);
    session.processes = uses(ranks, hosts)?;
    session.finish(results)
}

fn other(options: &RunOptions, ranks: &mut Counted<'_>) -> Result<ExitCode, String> {
    let loaded = load(options);
    let begun =
        ranks.least(if loaded.is_ok() { READY } else { FAILED }).map_err(|error| error.to_string())?;
    let (Ok(loaded), READY) = (loaded, begun) else {
        // The first process prints the error.
        return Ok(ExitCode::from(crate::BAD_INPUT));
    };
    if !have_same_files(&loaded, ranks)? {
        return Ok(ExitCode::from(crate::BAD_INPUT));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    on_interrupt(move || flag.store(true, Ordering::SeqCst))?;
    points(&loaded, &stop, ranks, |_, _| {}, |measured| Ok(measured.outcome()))?;
    let hosts = loaded.points.first().map_or(0, |point| point.scenario.network.nodes);
    uses(ranks, hosts)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs one point after the other and returns what `keep` makes of each. Points from the first
/// interrupted one on are `None`.
fn points(
    loaded: &Loaded,
    stop: &AtomicBool,
    ranks: &mut Counted<'_>,
    mut progress: impl FnMut(&str, f64),
    keep: impl Fn(&dyn Measured) -> Result<Outcome, String>,
) -> Result<Vec<Option<Outcome>>, String> {
    let mut results = Vec::new();
    for point in &loaded.points {
        let options = Options { stop, ..Options::new(1, &loaded.inputs) };
        let name = point.name();
        match run_distributed(point, options, ranks, |how_far| progress(&name, how_far.share)) {
            Ok(Some(measured)) => results.push(Some(keep(&*measured)?)),
            Ok(None) => {}
            Err(RunError::Interrupted) => {
                results.resize_with(loaded.points.len(), || None);
                break;
            }
            Err(RunError::Failed(error)) => {
                return Err(format!("{}: run {name}: {error}", loaded.source));
            }
        }
    }
    Ok(results)
}

/// Sends the resource use of each process to the first one.
fn uses(ranks: &mut Counted<'_>, hosts: u32) -> Result<Vec<ProcessUse>, String> {
    let own = [
        hosts_of_rank(hosts, ranks.rank(), ranks.count()).len() as u64,
        usage::cpu_seconds().to_bits(),
        ranks.waited.as_secs_f64().to_bits(),
        ranks.sent,
        usage::peak_rss_bytes(),
    ];
    let mut outgoing = vec![Vec::new(); ranks.count()];
    outgoing[0] = own.into_iter().flat_map(u64::to_le_bytes).collect();
    let all = ranks.exchange(&mut outgoing).map_err(|error| error.to_string())?;
    let read = |bytes: &Vec<u8>| -> Option<ProcessUse> {
        let mut reader = Reader::new(bytes);
        Some(ProcessUse {
            hosts: reader.u64()? as u32,
            cpu_s: f64::from_bits(reader.u64()?),
            waited_s: f64::from_bits(reader.u64()?),
            sent_bytes: reader.u64()?,
            peak_rss_bytes: reader.u64()?,
        })
    };
    Ok(all.iter().filter_map(read).collect())
}

#[cfg(test)]
mod tests;
