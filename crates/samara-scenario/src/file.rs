//! Reads files that others may have made: regular files of a bounded size.
//!
//! A directory of somebody else may have a pipe, a device or a link to one in place of a file.
//! Reading these may have no end.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::libc::{EISDIR, O_NONBLOCK};

/// Opens a regular file, or a link to one. Never waits for the writer of a pipe.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
    match file.metadata()? {
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

/// Reads a text that the user has named: as [`read_text`], but also from a pipe that the user has
/// opened for this process, such as `/dev/stdin`.
pub fn read_named_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let is_own = ["/dev/stdin", "/dev/fd", "/proc/self/fd"].iter().any(|own| path.starts_with(own));
    if is_own { as_text(within(File::open(path)?, bytes_max)?) } else { read_text(path, bytes_max) }
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
pub fn is_of_kernel(path: &Path, file: &File) -> bool {
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
        for (path, expected) in [(Path::new("/proc/self/environ"), true), (&link, true), (&plain, false)] {
            assert_eq!(is_of_kernel(path, &open(path).unwrap()), expected, "{}", path.display());
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
