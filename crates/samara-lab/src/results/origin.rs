//! The origin of a result: how, when and where a command made it.

use serde::{Deserialize, Serialize};

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
    /// The lines of a page: labels and values.
    pub(crate) fn lines(&self, version: &str) -> Vec<(String, String)> {
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
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let name = name.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    format!("{threads} × {name}")
}

/// Formats a time as a date in UTC, such as `2026-03-01 09:05 UTC`.
pub fn utc(unix_s: u64) -> String {
    let (days, minutes) = (unix_s / 86_400, unix_s % 86_400 / 60);
    // Days since 0000-03-01, so that leap days end years: 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn dates_follow_the_calendar() {
        for (unix_s, date) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(utc(unix_s), date);
        }
    }
}
