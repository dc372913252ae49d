//! `samara point`: one point of a sweep, for whoever runs many of them.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use samara_lab::run::{RunOptions, run as run_point};
use samara_lab::scenario::{builtin, load_source};
use samara_lab::sweep::{PointRecord, SweepDirectory, point_id};
use samara_lab::usage;
use samara_scenario::Inputs;

use crate::signals::INTERRUPTED;
use crate::sweep::PointOptions;

pub(crate) fn run(options: &PointOptions) -> Result<ExitCode, String> {
    let start = Instant::now();
    if options.end_with_stdin {
        std::thread::spawn(|| {
            // Whatever comes is thrown away, up to the end or an error.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            std::process::exit(i32::from(INTERRUPTED));
        });
    }
    let loaded = match &options.files {
        Some(files) if builtin(&options.which.scenario).is_none() => {
            let source = &options.which.scenario;
            let text = std::fs::read_to_string(source).map_err(|error| format!("{source}: {error}"))?;
            let overrides = options.which.overrides(&options.grid);
            load_source(source, &text, Inputs::directory(files), &overrides)
                .map_err(|error| error.to_string())?
        }
        _ => options.which.load_with(&options.grid)?,
    };
    let [point] = loaded.points.as_slice() else {
        return Err(format!(
            "{}: {} points; --only, --seed and --grid KEY=VALUE have to choose one of them",
            loaded.source,
            loaded.points.len()
        ));
    };
    let id = point_id(point, &loaded.inputs)?;
    if let Some(wanted) = options.id.as_ref().filter(|wanted| **wanted != id) {
        return Err(format!(
            "{}: the point has the id {id}, not {wanted}: its scenario, its files or the program are not those that the sweep was \
             planned with",
            loaded.source
        ));
    }
    let stop = AtomicBool::new(false);
    let run_options =
        RunOptions { threads: usize::from(options.threads), inputs: &loaded.inputs, stop: &stop };
    let measured = run_point(point, run_options, |_| {})
        .map_err(|error| format!("{}: run {}: {error}", loaded.source, point.name()))?;
    let result = measured.outcome();
    let record = PointRecord {
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: usage::cpu_seconds(),
        peak_rss_bytes: usage::peak_rss_bytes(),
        ..PointRecord::of(id, &result.run)
    };
    match &options.out {
        Some(points) => SweepDirectory::write_point(points, &record)?,
        None => drop(crate::print_json(&record)?),
    }
    Ok(ExitCode::SUCCESS)
}
