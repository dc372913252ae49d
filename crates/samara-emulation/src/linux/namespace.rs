//! A network of its own for this process and its children.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use super::netlink::Netlink;
use crate::unavailable::Unavailable;

/// The loopback device is the first one of every network namespace.
const LOOPBACK: u32 = 1;

/// Moves this process into a network namespace of its own, where it may create devices; without `CAP_SYS_ADMIN` into a user
/// namespace of its own as well, with the same user and group. Children that are started later are in it, too.
///
/// In there is only the loopback device: no way to the machine's network, and no clash with its addresses. TCP settings
/// under `/proc/sys/net/ipv4` are the namespace's own.
///
/// # Errors
/// If other threads run already (they would stay behind), or if the system does not allow it.
pub fn enter_private_network() -> Result<(), Unavailable> {
    let threads = system("counting threads (/proc/self/task)", fs::read_dir("/proc/self/task"))?.count();
    if threads != 1 {
        return Err(Unavailable::Threads { found: threads });
    }
    let (user, group) = (geteuid(), getegid());
    match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) => (),
        Err(Errno::EPERM) => {
            unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
                .map_err(|errno| Unavailable::NoNamespace { source: errno.into() })?;
            // The order is prescribed for unprivileged processes (Linux, `user_namespaces(7)`).
            system("writing /proc/self/setgroups", fs::write("/proc/self/setgroups", "deny"))?;
            system(
                "writing /proc/self/uid_map",
                fs::write("/proc/self/uid_map", format!("{user} {user} 1")),
            )?;
            system(
                "writing /proc/self/gid_map",
                fs::write("/proc/self/gid_map", format!("{group} {group} 1")),
            )?;
        }
        Err(errno) => return Err(Unavailable::NoNamespace { source: errno.into() }),
    }
    let loopback = Netlink::new().and_then(|mut netlink| netlink.bring_up(LOOPBACK, None, None));
    system("bringing up the loopback device", loopback)
}

fn system<T>(step: &'static str, result: io::Result<T>) -> Result<T, Unavailable> {
    result.map_err(|source| Unavailable::System { step, source })
}
