//! The directory of a sweep. Finished points survive failures of the processes that work on it.
//!
//! ```text
//! scenario.toml   the scenario with all axes and seeds        sweep.parquet   a row for each point
//! sweep.json      the version and the programs that ran it    summary.json    the same, and means over seeds
//! points/         <id>.json and <id>.parquet of each point    report.html, figures/
//! failures/       output of points that failed                complete        exists if nothing is missing
//! inputs/         copies of the files of the scenario         inputs.json     their digests
//! ```
//!
//! A point is finished when its `.json` exists: it is written last, and atomically. If the scenario has
//! files, `points` has its text with their original names, which are part of the ids of points.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use samara_document::{file, keys};
use samara_scenario::Loaded;
use serde::{Deserialize, Serialize};

use super::{Planned, PointRecord, SweepSummary, VERSION, points_table};
use crate::files::inputs::{COPIES, INPUTS, Stored};
use crate::files::{self, At, FileError, Kind, LOCK, Lock};
use crate::results::tables;

const ABOUT: &str = "sweep.json";
const COMPLETE: &str = "complete";
const SCENARIO: &str = "scenario.toml";
const POINTS: &str = "points";
const FIGURES: &str = "figures";
const FAILURES: &str = "failures";
/// The entries that this module writes, with their kinds.
const PARTS: [(&str, Kind); 14] = [
    (ABOUT, Kind::File),
    (COMPLETE, Kind::File),
    (SCENARIO, Kind::File),
    (LOCK, Kind::File),
    (INPUTS, Kind::File),
    (COPIES, Kind::Directory),
    ("sweep.parquet", Kind::File),
    ("summary.json", Kind::File),
    ("report.html", Kind::File),
    ("means.csv", Kind::File),
    ("means.md", Kind::File),
    (POINTS, Kind::Directory),
    (FIGURES, Kind::Directory),
    (FAILURES, Kind::Directory),
];
/// Maximum size of the description of a sweep and of a point's record.
const RECORD_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of changed keys that an error names.
const CHANGES_MAX: usize = 5;

impl From<FileError> for String {
    fn from(error: FileError) -> Self {
        error.to_string()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct About {
    version: String,
    /// Digests of the programs that ran points.
    programs: Vec<String>,
    /// Wall-clock time of all processes that ran points and ended, in seconds.
    #[serde(default)]
    wall_s: f64,
}

/// The directory of a sweep, used by one process at a time.
#[derive(Debug)]
pub struct SweepDirectory {
    path: PathBuf,
    about: About,
    /// Held for the lifetime of this value.
    _lock: Lock,
}

/// An opened directory, and its finished points.
#[derive(Debug)]
pub struct Opened {
    pub directory: SweepDirectory,
    pub finished: BTreeMap<String, PointRecord>,
    /// Whether another build of the program ran some of the finished points.
    pub is_of_another_program: bool,
    /// Wall-clock time of earlier processes that ran points of this sweep, in seconds.
    pub earlier_s: f64,
}

impl SweepDirectory {
    /// Creates or opens a directory for the points of a plan.
    ///
    /// `program` identifies the program that runs them. `force` removes finished points outside the
    /// plan.
    ///
    /// # Errors
    /// Returns an error if the directory contains foreign entries or points outside the plan,
    /// another process is using it, or it cannot be written.
    pub fn open(
        path: &Path,
        loaded: &Loaded,
        plan: &[Planned],
        program: &str,
        force: bool,
    ) -> Result<Opened, String> {
        let at = path.display();
        // A link would lead to files of others.
        let is_foreign =
            |(name, part): &&(&str, Kind)| files::kind(&path.join(name)).is_some_and(|found| found != *part);
        if let Some((name, _)) = PARTS.iter().find(is_foreign) {
            return Err(format!(
                "{at}: contains {name}, which is not that of a sweep; choose another directory with --out"
            ));
        }
        if path.is_dir() && !path.join(ABOUT).exists() {
            // Users who ran the commands of `samara sweep --list` may have put points here.
            let is_part = |name: &String| [LOCK, POINTS, FIGURES, ABOUT].contains(&files::final_name(name));
            if !files::entries(path)?.iter().all(is_part) {
                return Err(format!(
                    "{at}: contains entries that are not part of a sweep; choose another directory with --out"
                ));
            }
        }
        let created = files::create_dir_all(path);
        created.map_err(|error| format!("{error}; choose another directory with --out"))?;
        for part in [POINTS, FIGURES] {
            files::create_dir_all(&path.join(part))?;
        }
        let lock = Lock::take(path)?;
        let lock = lock.ok_or_else(|| {
            format!(
                "{at}: another sweep is using this directory; wait until it ends, or choose another directory with --out"
            )
        })?;
        let mut directory = Self { path: path.to_path_buf(), about: About::default(), _lock: lock };
        let (finished, strange) = directory.read(plan)?;
        let mut before: About = file::read_text(&path.join(ABOUT), RECORD_BYTES_MAX)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        if !strange.is_empty() && !force {
            let (count, why) = (strange.len(), what_changed(&before.version, &directory.scenario(), loaded));
            return Err(format!(
                "{at}: {count} finished points do not belong to this sweep: {why}; choose another directory with --out, or remove them with --force"
            ));
        }
        // Only now is it clear that the directory belongs to this sweep.
        for part in [path.to_path_buf(), directory.points()] {
            files::remove_temporary(&part)?;
        }
        // Remove the mark first, since points may be missing from here on.
        let _ = files::remove(&path.join(COMPLETE));
        for id in strange {
            for path in [directory.point(&id, "json"), directory.point(&id, "parquet")] {
                let _ = files::remove(&path);
            }
        }
        let is_of_another_program =
            !finished.is_empty() && before.programs.iter().any(|other| other != program);
        if finished.is_empty() {
            before.wall_s = 0.0;
        }
        let earlier_s = before.wall_s;
        directory.begin(loaded, before, program)?;
        Ok(Opened { directory, finished, is_of_another_program, earlier_s })
    }

    /// Writes the description of the sweep, and removes failures of earlier runs.
    fn begin(&mut self, loaded: &Loaded, mut about: About, program: &str) -> Result<(), String> {
        about.version = VERSION.to_owned();
        if !about.programs.iter().any(|other| other == program) {
            about.programs.push(program.to_owned());
        }
        // This file comes first, since it identifies the directory as a sweep's: after a kill, no
        // entry looks foreign.
        self.about = about;
        self.describe()?;
        let _ = files::remove(&self.failures());
        files::create_dir_all(&self.failures())?;
        let of_points = self.points().join(SCENARIO);
        if files::kind(&of_points).is_some() {
            files::remove(&of_points)?;
        }
        let stored = Stored::read(loaded)?;
        stored.write(&self.path)?;
        if stored.text != loaded.text {
            files::write(&of_points, loaded.text.as_bytes())?;
        }
        self.write(SCENARIO, stored.text.as_bytes())
    }

    fn describe(&self) -> Result<(), String> {
        self.write(ABOUT, serde_json::to_string_pretty(&self.about).unwrap_or_default().as_bytes())
    }

    /// Returns the finished points of a plan, and the ids of points outside the plan.
    fn read(&self, plan: &[Planned]) -> Result<(BTreeMap<String, PointRecord>, BTreeSet<String>), String> {
        let wanted: BTreeSet<&str> = plan.iter().map(|planned| planned.id.as_str()).collect();
        let (mut finished, mut strange) = (BTreeMap::new(), BTreeSet::new());
        let points = self.points();
        for name in files::entries(&points)? {
            let path = points.join(name);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_id = stem.len() == 16 && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_id {
                continue;
            }
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("json" | "parquet") if !wanted.contains(stem.as_str()) => {
                    strange.insert(stem);
                }
                Some("json") => {
                    let text = file::read_text(&path, RECORD_BYTES_MAX).at(&path)?;
                    // A record that does not parse, as after a power failure, is run again.
                    if let Ok(record) = serde_json::from_str::<PointRecord>(&text)
                        && record.id == stem
                        && self.point(&stem, "parquet").exists()
                    {
                        finished.insert(stem, record);
                    }
                }
                _ => {}
            }
        }
        Ok((finished, strange))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the scenario from which points are run.
    pub fn scenario(&self) -> PathBuf {
        let of_points = self.points().join(SCENARIO);
        if files::kind(&of_points) == Some(Kind::File) { of_points } else { self.path.join(SCENARIO) }
    }

    pub fn points(&self) -> PathBuf {
        self.path.join(POINTS)
    }

    /// Returns the directory of the output of failed points.
    pub fn failures(&self) -> PathBuf {
        self.path.join(FAILURES)
    }

    fn point(&self, id: &str, extension: &str) -> PathBuf {
        self.points().join(format!("{id}.{extension}"))
    }

    pub fn record(&self, id: &str) -> Result<PointRecord, String> {
        let path = self.point(id, "json");
        let text = file::read_text(&path, RECORD_BYTES_MAX).at(&path)?;
        Ok(serde_json::from_str(&text).at(&path)?)
    }

    /// Writes a point into a directory of points: its table, then its record, each atomically.
    pub fn write_point(points: &Path, record: &PointRecord) -> Result<(), String> {
        files::create_dir_all(points)?;
        tables::write(points, &record.id, &points_table(std::slice::from_ref(record))?)?;
        let json = serde_json::to_string(record).unwrap_or_default() + "\n";
        let path = points.join(format!("{}.json", record.id));
        Ok(files::write(&path, json.as_bytes())?)
    }

    /// Writes a file atomically.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        Ok(files::write(&self.path.join(name), bytes)?)
    }

    /// Writes the table of all points and the summary. They come before pages and figures, so that an
    /// error in these does not cost them.
    pub fn summary(&mut self, summary: &SweepSummary) -> Result<(), String> {
        self.about.wall_s = summary.wall_s;
        self.describe()?;
        if !summary.runs.is_empty() {
            tables::write(&self.path, "sweep", &points_table(&summary.runs)?)?;
        }
        let json = serde_json::to_string_pretty(summary).unwrap_or_default();
        self.write("summary.json", (json + "\n").as_bytes())
    }

    /// Writes the mark of a finished sweep, if nothing is missing.
    pub fn finish(&self, summary: &SweepSummary, is_complete: bool) -> Result<(), String> {
        if is_complete {
            self.write(COMPLETE, format!("{}\n", summary.digest).as_bytes())?;
        }
        // The directory remains only if it contains failures.
        let _ = fs::remove_dir(self.failures());
        Ok(())
    }
}

/// Explains why a directory has points outside the plan.
fn what_changed(version: &str, before: &Path, loaded: &Loaded) -> String {
    if version != VERSION && !version.is_empty() {
        return format!("they were written by version {version}");
    }
    let keys = |text: &str| -> BTreeMap<String, String> {
        let mut rows = Vec::new();
        if let Ok(table) = text.parse::<toml::Table>() {
            keys::flatten("", &toml::Value::Table(table), &mut rows);
        }
        rows.into_iter().collect()
    };
    let (old, new) =
        (keys(&file::read_text(before, RECORD_BYTES_MAX).unwrap_or_default()), keys(&loaded.text));
    let changed: Vec<&String> = old
        .keys()
        .chain(new.keys().filter(|key| !old.contains_key(*key)))
        .filter(|key| old.get(*key) != new.get(*key))
        .collect();
    if changed.is_empty() {
        return "a file that the scenario names has changed, or fewer runs were requested".to_owned();
    }
    let named: Vec<String> = changed
        .iter()
        .take(CHANGES_MAX)
        .map(|key| {
            let was =
                |keys: &BTreeMap<String, String>| keys.get(*key).map_or("nothing".to_owned(), Clone::clone);
            format!("{key} was {}, is {}", was(&old), was(&new))
        })
        .collect();
    let more = changed.len().saturating_sub(CHANGES_MAX);
    let more = if more > 0 { format!(", and {more} more keys") } else { String::new() };
    format!("the scenario has changed ({}{more})", named.join("; "))
}

#[cfg(test)]
mod tests;
