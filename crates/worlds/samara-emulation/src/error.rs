//! Reasons why a relay cannot run here.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A missing requirement of a relay, and the remedy.
#[derive(Debug, Error)]
pub enum Unavailable {
    #[error(
        "emulated links need Linux (a TUN device); found {0}. Use the simulator, or a Linux machine or container"
    )]
    Platform(&'static str),
    /// The file for creating devices does not exist.
    #[error(
        "{0}: not found; it is needed to emulate links. Load the module (`modprobe tun`); in a container pass the \
         device on (`--device /dev/net/tun`)"
    )]
    NoTunFile(PathBuf),
    /// The file for creating devices cannot be opened.
    #[error(
        "{path}: cannot open it for reading and writing ({source}); it is needed to emulate links. Run as root, or let \
         an administrator allow it (`chmod 0666 {path}`, the default of most distributions)"
    )]
    TunFile { path: PathBuf, source: io::Error },
    #[error(
        "no right to create a network device (CAP_NET_ADMIN is missing). Run as root, give the program the capability \
         (`setcap cap_net_admin+ep PROGRAM`; in a container `--cap-add NET_ADMIN`), or run it in its own network namespace \
         (`unshare --user --net --map-current-user --keep-caps PROGRAM`)"
    )]
    NotPermitted,
    #[error(
        "cannot create a network namespace for this process ({0}). Run as root, or let an administrator allow user \
         namespaces (`sysctl user.max_user_namespaces`; Debian: `kernel.unprivileged_userns_clone`; Ubuntu: \
         `kernel.apparmor_restrict_unprivileged_userns`)"
    )]
    NoNamespace(#[source] io::Error),
    /// A namespace can be entered before threads start only.
    #[error(
        "the process must enter its network namespace before threads start; found {0} threads, expected 1"
    )]
    Threads(usize),
    /// A step that should have succeeded with these rights.
    #[error("{step}: {source}")]
    System { step: &'static str, source: io::Error },
}
