//! The origin of a result: how, when and where a command made it.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::DateTime;
use serde::{Deserialize, Serialize};

use crate::usage::processors;

/// The origin of a result, which the summary and the report show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The command as typed, with quotes for a shell.
    pub command: String,
    /// The commit from which the program was built; empty if it is unknown.
    #[serde(default)]
    pub commit: String,
    /// The end of the command, in seconds since 1970-01-01 UTC.
    pub finished_unix_s: u64,
    /// The processor and the number of threads that it runs at a time.
    pub machine: String,
}

impl Origin {
    /// Returns the origin of results that a command has just finished.
    pub fn now(command: String, commit: &str) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let finished_unix_s = since.map_or(0, |since| since.as_secs());
        Self { command, commit: commit.to_owned(), finished_unix_s, machine: machine() }
    }

    pub fn lines(&self, version: &str) -> Vec<(String, String)> {
        let version = match self.commit.as_str() {
            "" => version.to_owned(),
            commit => format!("{version} ({commit})"),
        };
        let lines = [
            ("Command", format!("`{}`", self.command)),
            ("Version", version),
            ("Date", utc(self.finished_unix_s)),
            ("Machine", self.machine.clone()),
        ];
        lines.into_iter().map(|(label, value)| (label.to_owned(), value)).collect()
    }
}

/// The name of this machine's processor and the number of its threads.
pub fn machine() -> String {
    let threads = processors();
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let name = name.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    format!("{threads} × {name}")
}

/// Formats a time as a date in UTC, such as `2026-03-01 09:05 UTC`.
pub fn utc(unix_s: u64) -> String {
    let time = i64::try_from(unix_s).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    time.map_or_else(String::new, |time| time.format("%Y-%m-%d %H:%M UTC").to_string())
}
