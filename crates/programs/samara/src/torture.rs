//! `samara torture`: a search for scenarios in which a protocol breaks its promises.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use samara_lab::results::write_inside;
use samara_lab::torture::{Options, Source, Tally, Violation, search};
use samara_lab::usage::processors;

use crate::args::TortureOptions;
use crate::session::{INTERRUPTED, NOT_MET, stop_on_interrupt};
use crate::terminal::{fitted_inside, print};

/// Number of runs without `--runs` and `--time`, and for a scenario in place of a family.
const RUNS: u64 = 300;

pub(crate) fn run(options: &TortureOptions) -> Result<ExitCode, String> {
    let sources = Source::named(options.what.as_deref())?;
    let stop = &*stop_on_interrupt()?;
    let mut found = 0;
    for source in &sources {
        found += torture(source, options, stop)?;
        if stop.load(Ordering::SeqCst) {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        if found > 0 && !options.goes_on {
            break;
        }
    }
    Ok(if found > 0 { ExitCode::from(NOT_MET) } else { ExitCode::SUCCESS })
}

/// Searches one source, and returns the number of violations.
fn torture(source: &Source, options: &TortureOptions, stop: &AtomicBool) -> Result<u64, String> {
    let runs = match (options.runs, options.time, source) {
        (Some(runs), ..) => runs,
        (None, Some(_), _) => u64::MAX,
        // First of all, a scenario runs as it is.
        (None, None, Source::Scenario(loaded)) => loaded.points.len() as u64,
        (None, None, Source::Family(_)) => RUNS,
    };
    let search_options = Options {
        runs,
        time: options.time.map(|time| Duration::from_nanos(time.nanos())),
        seed: options.seed,
        threads: options.threads.map_or_else(processors, usize::from),
        goes_on: options.goes_on,
        shrinks: true,
        stop,
    };
    let begun = Instant::now();
    let shown = Mutex::new((Instant::now(), 0, None));
    let watch = |tally: &Tally, violation: Option<&Violation>| {
        let mut shown = shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (at, found, failure) = &mut *shown;
        if let Some(violation) = violation {
            *found += 1;
            if let Err(error) = report(source, violation, options) {
                failure.get_or_insert(error);
                stop.store(true, Ordering::SeqCst);
            }
        } else if std::io::stderr().is_terminal() && at.elapsed() > Duration::from_millis(500) {
            *at = Instant::now();
            eprint!("\r{}: {} runs ", source.name(), tally.runs);
        }
    };
    let tally = search(source, &search_options, &watch);
    let (_, found, failure) = shown.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(failure) = failure {
        return Err(failure);
    }
    if std::io::stderr().is_terminal() {
        eprint!("\r");
    }
    let Tally { runs, virtual_nanos, faults, frames, repeated, .. } = tally;
    let text = format!(
        "{}: {runs} runs in {:.0} s, {:.2} h of virtual time, {faults} faults, {frames} frames, {repeated} runs repeated on three threads: {found} violations{}\n",
        source.name(),
        begun.elapsed().as_secs_f64(),
        virtual_nanos as f64 / 3.6e12,
        if stop.load(Ordering::SeqCst) { " (interrupted)" } else { "" },
    );
    print(&fitted_inside(&text))?;
    Ok(found)
}

/// Prints a violation, and keeps its scenario.
fn report(source: &Source, violation: &Violation, options: &TortureOptions) -> Result<(), String> {
    let file = options.out.join(format!("{}-{}-{}.toml", source.name(), options.seed, violation.run));
    std::fs::create_dir_all(&options.out).map_err(|error| {
        let out = options.out.display();
        format!("{out}: the directory cannot be created ({error}); choose another directory with --out")
    })?;
    write_inside(&file, &violation.text)?;
    let mut text = format!("{}: run {} breaks promises:\n", source.name(), violation.run);
    violation.broken.iter().for_each(|broken| text += &format!("  \u{2717} {broken}\n"));
    text += &format!("After {} smaller scenarios, this one still does:\n", violation.tried);
    violation.smallest.iter().for_each(|broken| text += &format!("  \u{2717} {broken}\n"));
    text = fitted_inside(&text);
    // Lines of the scenario stay whole, so that they can be copied.
    text += &violation.text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    text += &format!("Repeat it with: {} torture {}\n", crate::program(), file.display());
    print(&text).map(drop)
}
