use std::fs;

use super::*;
use crate::results::Headline;
use crate::toy::{self, Toy};

/// A small run that tests write.
struct Work {
    loaded: Loaded,
    measured: Box<dyn Measured>,
    outcome: Outcome,
}

impl Work {
    fn new() -> Self {
        let loaded = toy::loaded(&["batch"]);
        let measured = Box::new(Toy::new(&loaded.points[0]));
        let outcome = measured.outcome();
        Self { loaded, measured, outcome }
    }

    fn write(&self, path: &Path, digest: &str, force: bool) -> Result<(), DirectoryError> {
        let directory = ResultsDirectory::create(path, &self.loaded, force)?;
        directory.run(&*self.measured, &self.outcome)?;
        directory.summary(&summary(digest))?;
        directory.text("report.html", digest)?;
        directory.finish(&summary(digest), true)
    }
}

fn summary(digest: &str) -> Summary {
    Summary {
        scenario: "s".to_owned(),
        version: "1".to_owned(),
        seed: 1,
        nodes: 1,
        digest: digest.to_owned(),
        headline: Headline::default(),
        wall_s: 0.0,
        cpu_s: 0.0,
        peak_rss_bytes: 0,
        steps: 0,
        processes: Vec::new(),
        runs: Vec::new(),
        published: Vec::new(),
    }
}

/// An unused path, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("samara-directory-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the paths of all files below a directory, except the lock and the mark `unfinished`.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![path.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                directories.push(entry);
            } else if ![UNFINISHED, LOCK].iter().any(|name| entry.ends_with(name)) {
                files.push(entry.strip_prefix(path).unwrap().to_path_buf());
            }
        }
    }
    files.sort();
    files
}

/// Returns the digest of a complete result. Panics if files are missing or belong to another
/// result.
fn whole(path: &Path, expected: &[PathBuf]) -> Option<String> {
    let digest = fs::read_to_string(path.join(COMPLETE)).ok()?.trim().to_owned();
    assert_eq!(files_of(path), expected);
    assert_eq!(fs::read_to_string(path.join("report.html")).unwrap(), digest);
    assert!(fs::read_to_string(path.join("summary.json")).unwrap().contains(&format!("\"{digest}\"")));
    Some(digest)
}

/// Kills a run after each of its changes of the file system. `begin` writes what the run finds, and
/// `has_old` says whether that is a complete result.
fn kill_everywhere(name: &str, has_old: bool, begin: fn(&Work, &Path)) {
    let work = Work::new();
    let scratch = Scratch::new(name);
    let path = &scratch.0;
    work.write(path, "old", false).unwrap();
    let expected = files_of(path);
    assert!(expected.len() >= 9, "{expected:?}");
    let mut steps = 0;
    loop {
        let _ = fs::remove_dir_all(path);
        begin(&work, path);
        let is_killed = files::kill::after(steps, || drop(work.write(path, "new", true)));
        let context = format!("killed after {steps} changes");
        match whole(path, &expected) {
            Some(digest) => {
                assert!(digest == "new" || digest == "old" && has_old, "{context}");
                let again = work.write(path, "next", false);
                assert!(matches!(again, Err(DirectoryError::Finished(_))), "{context}: {again:?}");
            }
            None => {
                work.write(path, "next", false).unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(!path.join(UNFINISHED).exists() && !path.join(LOCK).exists(), "{context}");
                assert_eq!(whole(path, &expected).as_deref(), Some("next"), "{context}");
            }
        }
        if !is_killed {
            break;
        }
        steps += 1;
    }
    assert!(steps > 20, "{steps} steps");
}

#[test]
fn run_killed_in_an_empty_directory_leaves_a_complete_or_replaceable_result() {
    kill_everywhere("kill-empty", false, |_, _| {});
}

#[test]
fn run_killed_over_an_unfinished_result_leaves_a_complete_or_replaceable_result() {
    kill_everywhere("kill-unfinished", false, |work, path| {
        assert!(files::kill::after(9, || drop(work.write(path, "old", false))));
    });
}

#[test]
fn run_killed_over_a_finished_result_leaves_a_complete_or_replaceable_result() {
    kill_everywhere("kill-finished", true, |work, path| work.write(path, "old", false).unwrap());
}

#[test]
fn run_killed_over_a_result_with_both_marks_leaves_a_complete_or_replaceable_result() {
    kill_everywhere("kill-marks", true, |work, path| {
        work.write(path, "old", false).unwrap();
        mark_unfinished(path).unwrap();
    });
}

#[test]
fn directory_has_one_writer_at_a_time() {
    let work = Work::new();
    let scratch = Scratch::new("busy");
    let path = &scratch.0;
    let first = ResultsDirectory::create(path, &work.loaded, false).unwrap();
    let files = files_of(path);
    for force in [false, true] {
        let second = ResultsDirectory::create(path, &work.loaded, force);
        assert!(matches!(second, Err(DirectoryError::Busy(_))), "{second:?}");
    }
    assert_eq!(files_of(path), files, "the files of the first writer are unchanged");
    first.run(&*work.measured, &work.outcome).unwrap();
    first.summary(&summary("first")).unwrap();
    first.finish(&summary("first"), true).unwrap();
    assert!(matches!(ResultsDirectory::create(path, &work.loaded, true), Err(DirectoryError::Busy(_))));
    drop(first);
    assert!(!path.join(LOCK).exists() && !path.join(UNFINISHED).exists());
    work.write(path, "second", true).unwrap();
}

#[test]
fn foreign_entries_are_not_touched() {
    let work = Work::new();
    for name in [LOCK, "scenario.toml", "scenario.toml.17.tmp", "notes.17.tmp", "figures"] {
        let scratch = Scratch::new("foreign");
        fs::create_dir_all(&scratch.0).unwrap();
        fs::write(scratch.0.join(name), "mine").unwrap();
        let created = ResultsDirectory::create(&scratch.0, &work.loaded, true);
        assert!(matches!(created, Err(DirectoryError::Foreign { .. })), "{name}: {created:?}");
        assert_eq!(fs::read_to_string(scratch.0.join(name)).unwrap(), "mine");
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1, "{name}");
    }
}

/// Nothing in a directory is followed or overwritten that is of another kind than a result's.
#[test]
fn links_are_foreign() {
    let work = Work::new();
    for (name, _) in PARTS {
        let scratch = Scratch::new("links");
        let (path, mine) = (&scratch.0.join("result"), scratch.0.join("mine"));
        work.write(path, "old", false).unwrap();
        fs::write(&mine, "mine").unwrap();
        let _ = files::remove(&path.join(name));
        std::os::unix::fs::symlink("../mine", path.join(name)).unwrap();
        mark_unfinished(path).ok();
        for force in [false, true] {
            let created = ResultsDirectory::create(path, &work.loaded, force);
            assert!(created.is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine", "{name}");
        assert!(path.join(name).is_symlink(), "{name}");
    }
}

#[test]
fn long_names_are_refused_before_the_run() {
    let mut loaded = Work::new().loaded;
    let scratch = Scratch::new("long");
    loaded.points[0].sweep.insert("scenario.title".to_owned(), "v".repeat(300).into());
    let error = ResultsDirectory::create(&scratch.0, &loaded, false).unwrap_err();
    assert!(matches!(error, DirectoryError::LongName(..)), "{error}");
    assert!(!scratch.0.exists());
}

#[test]
fn runs_with_the_same_directory_are_refused() {
    let mut loaded = Work::new().loaded;
    let scratch = Scratch::new("same");
    for file in ["a b.csv", "a_b.csv"] {
        let mut point = loaded.points[0].clone();
        point.sweep.insert("network.latency".to_owned(), file.into());
        loaded.points.push(point);
    }
    let error = ResultsDirectory::create(&scratch.0, &loaded, false).unwrap_err().to_string();
    let both =
        "the runs \"batch network.latency=a b.csv\" and \"batch network.latency=a_b.csv\" would both be in";
    assert!(error.starts_with(both), "{error}");
    assert!(!scratch.0.exists());
}
