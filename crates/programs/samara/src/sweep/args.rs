//! Command-line arguments of sweeps.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use samara_document::keys::{GridAxis, parse_axis};
use samara_scenario::{Loaded, POINTS_MAX};

use crate::args::{Format, ScenarioOptions, Selection, whole};

/// Options of `samara sweep`.
#[derive(Debug, clap::Args)]
pub(crate) struct SweepOptions {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Vary a key, for example network.nodes=100,200 or network.uplink="10 Mbit/s,20 Mbit/s". Can
    /// be repeated: the sweep runs all combinations. Adds an axis to the scenario's own sweep, or
    /// replaces the values of the axis with this key.
    #[arg(long, value_name = "KEY=A,B,C", value_parser = parse_axis)]
    pub(crate) grid: Vec<GridAxis>,
    /// Seeds: a number (20 means 1 to 20), a range (5..24, both included), or a list (1,4,9).
    /// Default: the scenario's.
    #[arg(long, value_parser = seeds)]
    pub(crate) seeds: Option<Seeds>,
    /// A metric of the figures and the table in place of the headlines, such as
    /// time_to_custody_ms.p95 or bytes_up_per_node; can be repeated. Finished points run no more: the
    /// same sweep with other metrics renders them anew.
    #[arg(long, value_name = "PATH")]
    pub(crate) metric: Vec<String>,
    /// Number of points that run at once, each in a separate process. Default: the number of
    /// processors; points with more than 4,000 nodes run one after the other, each on all
    /// processors. On a cluster, the maximum number of points in progress. Default: as many as the
    /// cluster has room for.
    #[arg(long, value_parser = whole(1..=4096_u16))]
    pub(crate) jobs: Option<u16>,
    /// Directory of the sweep; an existing sweep is resumed. Default: results/SCENARIO-sweep.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Remove finished points of other sweeps from the directory.
    #[arg(long)]
    pub(crate) force: bool,
    /// Where to run the points.
    #[arg(long, value_enum, default_value_t = Place::Local)]
    pub(crate) engine: Place,
    /// The Ray cluster, for example 10.0.0.1:6379, ray://10.0.0.1:10001, or auto for the one that
    /// runs on this machine. Default: starts a cluster on this machine.
    #[arg(long)]
    pub(crate) address: Option<String>,
    /// A Python interpreter with Ray.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub(crate) python: PathBuf,
    /// Print the command of each point and run none, for other schedulers.
    #[arg(long)]
    pub(crate) list: bool,
    /// Output format on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Do not show progress.
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Places to run points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Place {
    /// On this machine.
    Local,
    /// On a Ray cluster.
    Ray,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub(crate) Vec<u64>);

impl SweepOptions {
    pub(crate) fn load(&self) -> Result<Loaded, String> {
        let seeds = self.seeds.as_ref().map_or(&[][..], |seeds| &seeds.0);
        self.selection.load(seeds, &self.grid)
    }

    pub(crate) fn directory(&self, loaded: &Loaded) -> PathBuf {
        let name = &loaded.scenario.scenario.name;
        self.out.clone().unwrap_or_else(|| Path::new("results").join(format!("{name}-sweep")))
    }
}

/// Options of `samara point`.
#[derive(Debug, clap::Args)]
pub(crate) struct PointOptions {
    #[command(flatten)]
    pub(crate) which: ScenarioOptions,
    /// The value of an axis of the sweep; can be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_axis)]
    pub(crate) grid: Vec<GridAxis>,
    /// Base of relative paths in the scenario. Default: the directory of the scenario.
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,
    /// Directory for ID.json and ID.parquet. Default: print the record.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Refuse a point with another id.
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Number of threads; results do not depend on it.
    #[arg(long, value_parser = whole(1..=1024_u16), default_value_t = 1)]
    pub(crate) threads: u16,
    /// Stop when standard input closes, which happens when the parent process ends.
    #[arg(long)]
    pub(crate) end_with_stdin: bool,
}

fn seeds(text: &str) -> Result<Seeds, String> {
    let wrong = || {
        format!("\"{text}\" is not a number, range or list of seeds; expected for example 20, 1..20 or 1,4,9")
    };
    let number = |part: &str| part.trim().parse::<u64>().map_err(|_| wrong());
    let (from, to) = match (text.split_once(".."), text.contains(',')) {
        (Some((from, to)), false) => (number(from)?, number(to.trim_start_matches('='))?),
        (None, false) => (1, number(text)?),
        (None, true) => return Ok(Seeds(text.split(',').map(number).collect::<Result<_, _>>()?)),
        (Some(_), true) => return Err(wrong()),
    };
    if from > to {
        return Err(format!("\"{text}\" has no seeds"));
    }
    if to - from >= POINTS_MAX as u64 {
        return Err(format!("\"{text}\" has more than {POINTS_MAX} seeds"));
    }
    Ok(Seeds((from..=to).collect()))
}

#[cfg(test)]
mod tests;
