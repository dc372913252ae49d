//! Devices, networks and real-time priority, which the kernel grants to a process.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use super::netlink::Netlink;
use crate::error::Unavailable;

/// The loopback device is the first one of every network namespace.
const LOOPBACK: u32 = 1;

/// The lowest real-time priority (`sched(7)`: 1 to 99): above all ordinary threads, below all
/// threads that an administrator has made more urgent.
const LOWEST_REALTIME: libc::c_int = 1;

/// The file for creating TUN devices (Linux, `Documentation/networking/tuntap.rst`).
pub(crate) const TUN_FILE: &str = "/dev/net/tun";

/// The pattern of device names. The kernel replaces `%d` by the first free number.
const NAME_PATTERN: &[u8] = b"samara%d";

/// A device that exists as long as its file is open: the kernel removes it, with its routes, even
/// if the process is killed.
#[derive(Debug)]
pub(crate) struct Tun {
    pub(crate) file: File,
    pub(crate) name: String,
    pub(crate) index: u32,
}

impl Tun {
    /// Creates a device for whole IPv4 packets of at most the device's MTU, without a header in
    /// front. It uses neither `IFF_VNET_HDR` nor `TUNSETOFFLOAD`, so that the kernel cuts segments
    /// and computes checksums itself.
    pub(crate) fn create(path: &Path) -> Result<Self, Unavailable> {
        let file = open(path)?;
        let name = set_interface(&file).map_err(|errno| match errno {
            Errno::EPERM | Errno::EACCES => Unavailable::NotPermitted,
            _ => Unavailable::System { step: "creating a TUN device (TUNSETIFF)", source: errno.into() },
        })?;
        let index = nix::net::if_::if_nametoindex(name.as_str()).map_err(io::Error::from);
        let index = system("looking up the new device", index)?;
        Ok(Self { file, name, index })
    }
}

/// Checks that this process can start a [`Relay`](super::Relay): creates a device and removes it.
pub fn availability() -> Result<(), Unavailable> {
    Tun::create(Path::new(TUN_FILE)).map(drop)
}

fn open(path: &Path) -> Result<File, Unavailable> {
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened.map_err(|source| {
        let path = PathBuf::from(path);
        // ENODEV and ENXIO: the file exists, but the module is not loaded.
        let no_device =
            [Errno::ENODEV, Errno::ENXIO].iter().any(|e| source.raw_os_error() == Some(*e as i32));
        if source.kind() == io::ErrorKind::NotFound || no_device {
            Unavailable::NoTunFile(path)
        } else {
            Unavailable::TunFile { path, source }
        }
    })
}

#[expect(unsafe_code, reason = "there is no safe wrapper of TUNSETIFF; one call, explained where it is made")]
fn set_interface(file: &File) -> Result<String, Errno> {
    // The kernel writes the chosen name back into the request.
    nix::ioctl_readwrite_bad!(tun_set_iff, libc::TUNSETIFF, libc::ifreq);

    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME_PATTERN) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the descriptor is open for the whole call, as `file` is borrowed. TUNSETIFF reads and
    // writes one `ifreq`, which `request` is, completely initialised and not shared.
    unsafe { tun_set_iff(file.as_raw_fd(), &mut request) }?;
    let name = request.ifr_name.map(|c| c as u8);
    let name = CStr::from_bytes_until_nul(&name).map_err(|_| Errno::ENAMETOOLONG)?;
    Ok(name.to_string_lossy().into_owned())
}

/// Moves this process into its own network namespace, where it may create devices. Without
/// `CAP_SYS_ADMIN`, it also enters a user namespace, with the same user and group. Children started
/// later are in it as well.
///
/// The namespace has only the loopback device: no route to the machine's network, and no clash with
/// its addresses. TCP settings under `/proc/sys/net/ipv4` are the namespace's own.
///
/// # Errors
/// Other threads run already (they would stay behind), or the system does not allow it.
pub fn enter_private_network() -> Result<(), Unavailable> {
    let threads = system("counting threads (/proc/self/task)", fs::read_dir("/proc/self/task"))?.count();
    if threads != 1 {
        return Err(Unavailable::Threads(threads));
    }
    let (user, group) = (geteuid(), getegid());
    match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) => (),
        Err(Errno::EPERM) => {
            unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
                .map_err(|errno| Unavailable::NoNamespace(errno.into()))?;
            // The kernel prescribes this order for unprivileged processes (Linux,
            // `user_namespaces(7)`).
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
        Err(errno) => return Err(Unavailable::NoNamespace(errno.into())),
    }
    let loopback = Netlink::new().and_then(|mut netlink| netlink.bring_up(LOOPBACK, None, None));
    system("bringing up the loopback device", loopback)
}

pub(crate) fn system<T>(step: &'static str, result: io::Result<T>) -> Result<T, Unavailable> {
    result.map_err(|source| Unavailable::System { step, source })
}

/// Lets the calling thread run as soon as it is due, before all ordinary threads (`SCHED_FIFO`).
/// The kernel always leaves 5 % of the time to others (`/proc/sys/kernel/sched_rt_runtime_us`).
///
/// # Errors
/// The thread lacks `CAP_SYS_NICE`, as in user namespaces.
#[expect(
    unsafe_code,
    reason = "no safe wrapper of pthread_setschedparam in the crates used; explained where it is made"
)]
pub(crate) fn take_precedence() -> io::Result<()> {
    // SAFETY: `sched_param` consists of integers (and, with some C libraries, reserved ones), for
    // which zero is a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = LOWEST_REALTIME;
    // SAFETY: `pthread_self` is the calling thread, which exists; the parameters are only read,
    // during the call.
    let errno = unsafe { libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_FIFO, &parameters) };
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}
