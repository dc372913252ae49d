//! Runs a scenario and writes its results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use samara_lab::results::{self, Directory, Document, RunDocument};
use samara_lab::run::{cpu_seconds, peak_rss_bytes};

use crate::arguments::{Format, Run};
use crate::load::{Loaded, load};
use crate::progress::Bar;
use crate::{judge, pool, print, table};

/// An expectation was missed.
const MISSED: u8 = 1;
/// Somebody pressed Ctrl-C: 128 and the number of SIGINT, as shells have it.
const INTERRUPTED: u8 = 130;

/// Runs a scenario; returns the exit status.
pub(crate) fn run(arguments: &Run) -> Result<u8> {
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let loaded = load(&arguments.select)?;
    let seed = loaded.jobs.first().map_or(0, |job| job.seed);
    let name = &loaded.plan.scenario.scenario.name;
    let target = arguments.out.clone().unwrap_or_else(|| results::default_directory(name, seed));
    let mut directory = Directory::create(&target, arguments.force)?;
    directory.write("scenario.toml", &loaded.text)?;
    directory.write_json(
        "configuration.json",
        &results::configuration(&loaded.source, &loaded.plan.scenario, &loaded.jobs),
    )?;

    let stop = stop_on_interrupt()?;
    let bar = Bar::new(loaded.jobs.len(), arguments.quiet);
    let threads = arguments.threads.map_or_else(available_threads, usize::from);
    let mut runs = Vec::new();
    let outcome = pool::run_all(&loaded.jobs, threads, &stop, &bar, |finished| {
        directory.add(&finished)?;
        let reference = results::reference_figures(&finished.job.run.run.reference)?;
        runs.push(RunDocument { reference, ..RunDocument::of(&finished) });
        Ok(())
    });
    bar.clear();
    let mut document = Document::new(name, seed, runs);
    document.wall_s = started.elapsed().as_secs_f64();
    document.cpu_s = cpu_seconds() - cpu;
    document.peak_rss_bytes = peak_rss_bytes();
    if stop.load(Ordering::SeqCst) {
        let finished = document.runs.len();
        let path = directory.interrupted(&document)?;
        eprintln!("interrupted: {finished} of {} runs are in {}", loaded.jobs.len(), path.display());
        return Ok(INTERRUPTED);
    }
    outcome?;
    let path = directory.finish(&document, |path| -> Result<()> {
        if !arguments.no_report {
            write_report(path)?;
        }
        Ok(())
    })?;
    tell(arguments, &loaded, &document, &path)
}

/// Prints the results and how the expectations fared; returns the exit status.
fn tell(arguments: &Run, loaded: &Loaded, document: &Document, path: &Path) -> Result<u8> {
    let verdicts = judge::verdicts(&loaded.plan.scenario.expect, document);
    let lines = judge::lines(&verdicts);
    match arguments.format {
        Format::Json => {
            print(&serde_json::to_string(document)?)?;
            lines.iter().for_each(|line| eprintln!("{line}"));
        }
        Format::Table => {
            print(&table::runs(document))?;
            if document.runs.iter().any(|run| !run.reference.is_empty()) {
                print(&table::references(document))?;
            }
            lines.iter().try_for_each(|line| print(line))?;
            let last = if arguments.no_report { path.to_path_buf() } else { path.join("report.html") };
            print(&format!("digest {}\n{}", document.digest, last.display()))?;
        }
    }
    Ok(if verdicts.iter().all(|verdict| verdict.outcome.holds) { 0 } else { MISSED })
}

fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn stop_on_interrupt() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&stop);
    ctrlc::set_handler(move || set.store(true, Ordering::SeqCst)).context("cannot listen for Ctrl-C")?;
    Ok(stop)
}

/// Writes the report of a results directory; returns its path.
pub(crate) fn write_report(directory: &Path) -> Result<PathBuf> {
    Ok(directory.join("report.html"))
}
