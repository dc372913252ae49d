//! A TUN device: packets that the kernel routes into it are read from a file, packets written to the file arrive.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;

use crate::unavailable::Unavailable;

/// The file that TUN devices are made with (Linux, `Documentation/networking/tuntap.rst`).
pub(crate) const TUN_FILE: &str = "/dev/net/tun";

/// What devices are called; the kernel puts the first free number behind it.
const NAME_PATTERN: &[u8] = b"samara%d";

/// A device that lives as long as its file is open, in this process or none: the kernel removes it, with its routes, even
/// if the process is killed.
#[derive(Debug)]
pub(crate) struct Tun {
    pub(crate) file: File,
    pub(crate) name: String,
    pub(crate) index: u32,
}

impl Tun {
    /// Makes a device: whole IPv4 packets of at most the device's MTU, without any header before them. Neither
    /// `IFF_VNET_HDR` nor `TUNSETOFFLOAD` is used, so that the kernel cuts segments and computes checksums itself.
    pub(crate) fn create(path: &Path) -> Result<Self, Unavailable> {
        let file = open(path)?;
        let name = set_interface(&file).map_err(|errno| match errno {
            Errno::EPERM | Errno::EACCES => Unavailable::NotPermitted,
            _ => Unavailable::System { step: "creating a TUN device (TUNSETIFF)", source: errno.into() },
        })?;
        let index = nix::net::if_::if_nametoindex(name.as_str()).map_err(|errno| Unavailable::System {
            step: "looking up the new device",
            source: errno.into(),
        })?;
        Ok(Self { file, name, index })
    }
}

/// Whether a [`Relay`](super::Relay) can be started by this process: makes a device and removes it.
///
/// # Errors
/// What is missing and what to do.
pub fn availability() -> Result<(), Unavailable> {
    Tun::create(Path::new(TUN_FILE)).map(drop)
}

fn open(path: &Path) -> Result<File, Unavailable> {
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened.map_err(|source| {
        let path = PathBuf::from(path);
        // ENODEV and ENXIO: the file is there, the module is not.
        let no_device =
            [Errno::ENODEV, Errno::ENXIO].iter().any(|e| source.raw_os_error() == Some(*e as i32));
        if source.kind() == io::ErrorKind::NotFound || no_device {
            Unavailable::NoTunFile { path }
        } else {
            Unavailable::TunFile { path, source }
        }
    })
}

#[expect(unsafe_code, reason = "there is no safe wrapper of TUNSETIFF; one call, explained where it is made")]
fn set_interface(file: &File) -> Result<String, Errno> {
    // The kernel writes the name that it has chosen back into the request.
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
    // SAFETY: the descriptor is open for the whole call, as `file` is borrowed. TUNSETIFF reads and writes one `ifreq`,
    // which `request` is, completely initialised and not shared.
    unsafe { tun_set_iff(file.as_raw_fd(), &mut request) }?;
    let name = request.ifr_name.map(|c| c as u8);
    let name = CStr::from_bytes_until_nul(&name).map_err(|_| Errno::ENAMETOOLONG)?;
    Ok(name.to_string_lossy().into_owned())
}
