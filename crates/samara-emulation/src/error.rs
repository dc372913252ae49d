//! Reasons why a relay cannot run here.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// What is missing for a relay, and what to do about it.
#[derive(Debug, Error)]
pub enum Unavailable {
    #[error(
        "emulated links need Linux (a TUN device); found {0}. Use the simulator, or a Linux machine or container"
    )]
    Platform(&'static str),
    /// The file that devices are made with is not there.
    #[error(
        "{0}: not found; it is needed to emulate links. Load the module (`modprobe tun`); in a container pass the \
         device on (`--device /dev/net/tun`)"
    )]
    NoTunFile(PathBuf),
    /// The file that devices are made with may not be opened.
    #[error(
        "{path}: cannot be opened for reading and writing ({source}); it is needed to emulate links. Run as root, or let \
         an administrator allow it (`chmod 0666 {path}`, the default of most distributions)"
    )]
    TunFile { path: PathBuf, source: io::Error },
    #[error(
        "no right to create a network device (CAP_NET_ADMIN is missing). Run as root, give the program the capability \
         (`setcap cap_net_admin+ep PROGRAM`; in a container `--cap-add NET_ADMIN`), or run it in a network of its own \
         (`unshare --user --net --map-current-user --keep-caps PROGRAM`)"
    )]
    NotPermitted,
    #[error(
        "no network namespace of its own for this process ({0}). Run as root, or let an administrator allow user \
         namespaces (`sysctl user.max_user_namespaces`; Debian: `kernel.unprivileged_userns_clone`; Ubuntu: \
         `kernel.apparmor_restrict_unprivileged_userns`)"
    )]
    NoNamespace(#[source] io::Error),
    /// A namespace can be entered before threads start only.
    #[error("a network of its own must be entered before threads start; found {0} threads, expected 1")]
    Threads(usize),
    /// A step that should have succeeded with these rights.
    #[error("{step}: {source}")]
    System { step: &'static str, source: io::Error },
}
