//! Limits processes to a number of processors each, like slower machines, by control groups of
//! Linux, version 1 or 2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The mount point of control groups (cgroups(7)).
const ROOT: &str = "/sys/fs/cgroup";
/// Interval at which the kernel renews a process's quota, in microseconds: the shortest in which 1
/// % is the minimum quota of the kernel (1 ms).
const PERIOD_US: u64 = 100_000;
/// From this part of a processor on, a tenth of the interval suffices, which shortens waits.
const SHORT_FROM: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Version 1: `cpu.cfs_quota_us`, in a separate hierarchy.
    One,
    /// Version 2: `cpu.max`, in the unified hierarchy.
    Two,
}

/// A group for each process. Dropping it removes the groups, after the processes have ended.
#[derive(Debug)]
pub(crate) struct Quota {
    version: Version,
    base: PathBuf,
    groups: Vec<PathBuf>,
}

impl Quota {
    /// Creates quotas without any process.
    ///
    /// # Errors
    /// This machine has no control groups for processors, or they cannot be created; that usually
    /// requires root. The error occurs here rather than after minutes of work.
    pub(crate) fn new() -> io::Result<Self> {
        let (version, base) = find(Path::new(ROOT)).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                format!("found no control group for processors below {ROOT}"),
            )
        })?;
        remove_abandoned(&base);
        let mut quota = Self { version, base, groups: Vec::new() };
        quota.group("probe", 1.0)?;
        Ok(quota)
    }

    /// Limits a process, with all its threads, to this number of processors from now on (0.1 is a tenth of
    /// one).
    ///
    /// # Errors
    /// Those of [`new`](Self::new), or the process is gone.
    pub(crate) fn limit(&mut self, name: &str, pid: u32, processors: f64) -> io::Result<()> {
        let file = self.group(name, processors)?.join("cgroup.procs");
        fs::write(&file, pid.to_string()).map_err(with_path(&file))
    }

    /// Creates a group with the part that its processes may use.
    fn group(&mut self, name: &str, processors: f64) -> io::Result<PathBuf> {
        let group = self.base.join(format!("samara-{}-{name}", std::process::id()));
        match fs::create_dir(&group) {
            // The group belongs to the process before a restart.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done.map_err(with_path(&group))?,
        }
        if !self.groups.contains(&group) {
            self.groups.push(group.clone());
        }
        for (file, value) in settings(self.version, processors) {
            let file = group.join(file);
            fs::write(&file, value).map_err(with_path(&file))?;
        }
        Ok(group)
    }
}

fn with_path(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let path = path.display().to_string();
    move |error| io::Error::new(error.kind(), format!("{path}: {error}"))
}

impl Drop for Quota {
    fn drop(&mut self) {
        for group in &self.groups {
            // A group with a process that does not end cannot be removed, which affects no other
            // process.
            let _ = fs::remove_dir(group);
        }
    }
}

/// Removes the groups of killed testbeds, which nothing else removes.
fn remove_abandoned(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix("samara-").and_then(|rest| rest.split_once('-')?.0.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
            // The kernel keeps a group that still has a process.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn find(root: &Path) -> Option<(Version, PathBuf)> {
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if controllers.split_whitespace().any(|controller| controller == "cpu") {
        return Some((Version::Two, root.to_owned()));
    }
    let names = ["cpu", "cpu,cpuacct"].map(|name| root.join(name));
    names.into_iter().find(|path| path.join("cgroup.procs").exists()).map(|path| (Version::One, path))
}

/// Files of a group with their content.
fn settings(version: Version, processors: f64) -> Vec<(&'static str, String)> {
    let period = if processors < SHORT_FROM { PERIOD_US } else { PERIOD_US / 10 };
    let quota = (processors * period as f64).round() as u64;
    match version {
        Version::One => {
            vec![("cpu.cfs_period_us", period.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
        }
        Version::Two => vec![("cpu.max", format!("{quota} {period}"))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_at_least_a_millisecond() {
        for percent in 1..=400 {
            let settings = settings(Version::One, f64::from(percent) / 100.0);
            let [period, quota] = [0, 1].map(|i: usize| settings[i].1.parse::<u64>().unwrap());
            assert!(quota >= 1000 && period >= 10_000, "{percent} %: {settings:?}");
            assert!((quota as f64 / period as f64 * 100.0 - f64::from(percent)).abs() < 1e-9);
        }
        assert_eq!(settings(Version::Two, 0.25), [("cpu.max", "2500 10000".to_owned())]);
    }

    #[test]
    fn both_versions_are_detected_by_their_files() {
        let root = std::env::temp_dir().join(format!("samara-quota-{}", std::process::id()));
        fs::create_dir_all(root.join("cpu,cpuacct")).unwrap();
        assert_eq!(find(&root), None);
        fs::write(root.join("cpu,cpuacct/cgroup.procs"), "").unwrap();
        assert_eq!(find(&root), Some((Version::One, root.join("cpu,cpuacct"))));
        fs::write(root.join("cgroup.controllers"), "cpuset cpu io\n").unwrap();
        assert_eq!(find(&root), Some((Version::Two, root.clone())));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_process_joins_its_group_and_groups_are_removed() {
        let mut quota = match Quota::new() {
            Ok(quota) => quota,
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let limited = quota.limit("sleeper", sleeper.id(), 0.25);
        let members = limited.map(|()| fs::read_to_string(quota.groups[1].join("cgroup.procs")).unwrap());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_eq!(members.unwrap().trim(), sleeper.id().to_string());
        // One group of a process that has ended, and one of a running process.
        let others = [sleeper.id(), 1].map(|owner| quota.base.join(format!("samara-{owner}-7")));
        others.iter().for_each(|group| fs::create_dir(group).unwrap());
        let other_quota = Quota::new().unwrap();
        let left = others.each_ref().map(|group| group.exists());
        let _ = fs::remove_dir(&others[1]);
        assert_eq!(left, [false, true]);
        drop(other_quota);
        let groups = quota.groups.clone();
        assert_eq!(groups.len(), 2);
        drop(quota);
        assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
    }
}
