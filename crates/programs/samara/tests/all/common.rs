//! A temporary directory for each test, in which it runs the program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A directory that is removed at the end of its test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        // Tests of one process may choose the same name.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("samara-{name}-{}-{count}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_samara"));
        command.current_dir(&self.0).args(args).env_remove("SAMARA_DASHBOARD_TOKEN").env_remove("COLUMNS");
        command
    }

    pub(crate) fn samara<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn ok<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let mut command = self.command(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must print one JSON document, and returns it.
    pub(crate) fn json<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        serde_json::from_str(&self.ok(args)).expect("exactly one document")
    }

    /// Runs a command that must reject its input, and returns its error text.
    pub(crate) fn refused<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let mut command = self.command(args);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{command:?}");
        text(&output.stderr)
    }

    /// Checks that commands reject their input. Each line has arguments, and a part of the error.
    pub(crate) fn refuses(&self, table: &str) {
        for line in table.trim().lines() {
            let (args, expected) = line.split_once(" => ").expect("arguments and an error");
            let error = self.refused(args.trim().split(' '));
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The names of the files in a directory, sorted.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
