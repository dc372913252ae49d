//! Reads files that others may have made: regular files of a bounded size.
//!
//! A directory of somebody else may have a pipe, a device or a link to one in place of a file.
//! Reading these may have no end.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::libc::{EISDIR, O_NONBLOCK};

/// Opens a regular file, or a link to one. Never waits for the writer of a pipe, and refuses files of
/// the kernel, so that no error quotes the environment of the process.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
    match file.metadata()? {
        data if data.is_file() && is_of_kernel(path, &file) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is a file of the kernel about processes or devices; expected a file with data",
        )),
        data if data.is_file() => Ok(file),
        data if data.is_dir() => Err(io::Error::from_raw_os_error(EISDIR)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "is a pipe, a device or a socket, not a file")),
    }
}

/// Reads a regular file of at most `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    within(open(path)?, bytes_max)
}

/// Reads a regular file of UTF-8 text, of at most `bytes_max` bytes.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    as_text(read(path, bytes_max)?)
}

/// Reads a text that the user has named: as [`read_text`], but also what the user has opened for this
/// process, such as `/dev/stdin`.
pub fn read_named_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    if is_descriptor(path) {
        as_text(within(File::open(path)?, bytes_max)?)
    } else {
        read_text(path, bytes_max)
    }
}

/// Returns true for the name of a descriptor of this process, such as `/dev/stdin` and `/dev/fd/3`.
fn is_descriptor(path: &Path) -> bool {
    let number = path.file_name().and_then(|name| name.to_str());
    let is_number = number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    path == Path::new("/dev/stdin")
        || ["/dev/fd", "/proc/self/fd"].iter().any(|own| is_number && path.parent() == Some(Path::new(own)))
}

fn as_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is not UTF-8 text"))
}

fn within(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("has more than {} MiB, the maximum size of this file", bytes_max >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Returns true for an open file in a file system of the kernel, whose files describe processes and
/// devices: `/proc/self/environ` has the secrets of the environment.
fn is_of_kernel(path: &Path, file: &File) -> bool {
    let device = |path: &Path| fs::metadata(path).ok().map(|data| data.dev());
    let (own, root) = (file.metadata().ok().map(|data| data.dev()), device(Path::new("/")));
    // Canonical, since links lead to them, and by device, since they can be mounted elsewhere.
    let place = path.canonicalize().unwrap_or_default();
    ["/proc", "/sys"].iter().map(Path::new).any(|kernel| {
        let mounted = device(kernel).filter(|device| Some(*device) != root);
        place.starts_with(kernel) || (mounted.is_some() && mounted == own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let directory = std::env::temp_dir().join(format!("samara-file-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = |name: &str| directory.join(name);
        let wrong = |name: &str| read(&path(name), 4).map_err(|error| error.kind());
        fs::write(path("four"), "four").unwrap();
        fs::write(path("large"), "large").unwrap();
        std::os::unix::fs::symlink("four", path("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(wrong("four"), Ok(b"four".to_vec()));
        assert_eq!(wrong("link"), Ok(b"four".to_vec()));
        assert_eq!(wrong("large"), Err(io::ErrorKind::FileTooLarge));
        assert_eq!(wrong("pipe"), Err(io::ErrorKind::InvalidInput), "without a writer, and without waiting");
        assert_eq!(wrong("zero"), Err(io::ErrorKind::InvalidInput));
        assert_eq!(wrong("."), Err(io::ErrorKind::IsADirectory));
        assert_eq!(wrong("absent"), Err(io::ErrorKind::NotFound));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn files_of_the_kernel_are_recognised_through_links() {
        let directory = std::env::temp_dir().join(format!("samara-kernel-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (link, plain) = (directory.join("link"), directory.join("plain"));
        std::os::unix::fs::symlink("/proc/self/environ", &link).unwrap();
        fs::write(&plain, "").unwrap();
        let environment = Path::new("/proc/self/environ");
        let around = Path::new("/dev/fd/../environ");
        for (path, is_refused) in [(environment, true), (around, true), (&link, true), (&plain, false)] {
            let read = read_named_text(path, 1 << 20).map_err(|error| error.to_string());
            assert_eq!(read.is_err(), is_refused, "{}", path.display());
            assert!(!is_refused || read.unwrap_err().contains("a file of the kernel"));
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
