//! Configurations that cannot be emulated, and reasons why a relay cannot run here.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::config::{MAX_HOSTS, MIN_QUEUE_BYTES, MIN_RATE_BPS};

/// A value that cannot be emulated.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ConfigError {
    /// Too few or too many hosts.
    #[error("hosts: found {found}, expected 1 to {MAX_HOSTS}")]
    Hosts {
        /// How many.
        found: usize,
    },
    /// A rate is too low.
    #[error("hosts[{host}].{key}: found {found} bit/s, expected {MIN_RATE_BPS} bit/s or more")]
    Rate {
        /// Of which host.
        host: usize,
        /// Up or down.
        key: &'static str,
        /// In bits per second.
        found: u64,
    },
    /// The loss is no probability below 1.
    #[error(
        "loss: found {found}, expected a probability from 0 to below 1 (0.01 is one packet in a hundred)"
    )]
    Loss {
        /// What was given.
        found: f64,
    },
    /// A duration is too long.
    #[error("{key}: found {found:?}, expected {most:?} at the most")]
    Duration {
        /// Which.
        key: &'static str,
        /// What was given.
        found: Duration,
        /// The limit.
        most: Duration,
    },
    /// The least latency exceeds the most.
    #[error("latency: found min = {min:?} and max = {max:?}, expected min to be the smaller one")]
    LatencyOrder {
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// The latency matrix is not square.
    #[error("latency: row {row} has {found} values, expected {rows}, as many as there are rows")]
    MatrixRow {
        /// Which row, from 0.
        row: usize,
        /// Its length.
        found: usize,
        /// The number of rows.
        rows: usize,
    },
    /// A host has no row in the latency matrix.
    #[error(
        "latency: host {host} needs row {row}, the matrix has {rows} rows; add rows or change hosts[{host}]"
    )]
    MatrixSize {
        /// Which host.
        host: usize,
        /// Its region, or its number.
        row: usize,
        /// The number of rows.
        rows: usize,
    },
    /// A queue does not hold a packet.
    #[error("{key}: found {found} bytes, expected {MIN_QUEUE_BYTES} or more (one packet)")]
    Queue {
        /// Which queue.
        key: &'static str,
        /// In bytes.
        found: u64,
    },
    /// CoDel needs an interval.
    #[error("downlink_queue.interval: found 0, expected more (RFC 8289 has 100 ms)")]
    CoDelInterval,
}

/// What is missing for a relay, and what to do about it.
#[derive(Debug, Error)]
pub enum Unavailable {
    /// Not Linux.
    #[error(
        "emulated links need Linux (a TUN device); found {found}. Use the simulator, or a Linux machine or container"
    )]
    Platform {
        /// The operating system.
        found: &'static str,
    },
    /// The file that devices are made with is not there.
    #[error(
        "{path}: not found; it is needed to emulate links. Load the module (`modprobe tun`); in a container pass the \
         device on (`--device /dev/net/tun`)"
    )]
    NoTunFile {
        /// The file.
        path: PathBuf,
    },
    /// The file that devices are made with may not be opened.
    #[error(
        "{path}: cannot be opened for reading and writing ({source}); it is needed to emulate links. Run as root, or let \
         an administrator allow it (`chmod 0666 {path}`, the default of most distributions)"
    )]
    TunFile {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The right to make devices is missing.
    #[error(
        "no right to create a network device (CAP_NET_ADMIN is missing). Run as root, give the program the capability \
         (`setcap cap_net_admin+ep PROGRAM`; in a container `--cap-add NET_ADMIN`), or run it in a network of its own \
         (`unshare --user --net --map-current-user --keep-caps PROGRAM`)"
    )]
    NotPermitted,
    /// No network of its own for this process.
    #[error(
        "no network namespace of its own for this process ({source}). Run as root, or let an administrator allow user \
         namespaces (`sysctl user.max_user_namespaces`; Debian: `kernel.unprivileged_userns_clone`; Ubuntu: \
         `kernel.apparmor_restrict_unprivileged_userns`)"
    )]
    NoNamespace {
        /// The system's answer.
        source: io::Error,
    },
    /// A namespace can be entered before threads start only.
    #[error("a network of its own must be entered before threads start; found {found} threads, expected 1")]
    Threads {
        /// How many.
        found: usize,
    },
    /// A step that should have succeeded with these rights.
    #[error("{step}: {source}")]
    System {
        /// What was tried.
        step: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}
