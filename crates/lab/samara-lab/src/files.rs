//! Changes to a directory that stay consistent if the process is killed or the power fails at any
//! point, and the lock of its writer.
//!
//! The directory may come from somebody else, with links to other files of the user. No change
//! follows a link: new files get their names by renaming, and nothing is written into existing ones.
//! Only a file that the user has named may be one that is open already.

use std::error::Error;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

pub(crate) mod inputs;

/// A file or directory that cannot be read or written, with the cause.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct FileError {
    path: PathBuf,
    source: Box<dyn Error + Send + Sync>,
}

/// Adds the path to an error.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, FileError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> At<T> for Result<T, E> {
    fn at(self, path: &Path) -> Result<T, FileError> {
        self.map_err(|source| FileError { path: path.to_path_buf(), source: source.into() })
    }
}

/// Name of the file that the process writing a directory has locked.
pub(crate) const LOCK: &str = "lock";
/// Suffix of the names of unfinished files.
const TEMPORARY: &str = ".tmp";

/// Makes one change to the file system. All changes pass here, so that tests can end the process
/// before each.
fn change<T>(change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    #[cfg(test)]
    kill::point()?;
    change()
}

pub(crate) fn create_dir_all(path: &Path) -> Result<(), FileError> {
    let created = change(|| fs::create_dir_all(path));
    created
        .map_err(|error| match path.is_file() {
            true => "is a file; expected a directory".to_owned(),
            false => format!("the directory cannot be created ({error})"),
        })
        .at(path)
}

/// Writes a file that the user has named; see [`write_named_by`].
pub fn write_named(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    write_named_by(path, |file| file.write_all(bytes.as_ref()).map_err(|error| cannot_write(path, &error)))
}

/// Writes a file with a fixed name into a directory that the user has named. The file is whole or
/// unchanged, and whatever has its name is replaced.
pub fn write_inside(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    replace(path, |file| file.write_all(bytes.as_ref()).map_err(|error| cannot_write(path, &error)))
}

/// Writes a file that the user has named, by a function, whose errors are whole messages. The file is whole or unchanged, and a link
/// with its name is replaced. Descriptors of this process such as `/dev/stdout`, links to them,
/// devices and pipes are written directly.
pub fn write_named_by<T>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, String>,
) -> Result<T, String> {
    match open_existing(path) {
        Ok(Some(mut file)) => write(&mut file),
        Ok(None) => replace(path, write),
        Err(error) => Err(cannot_write(path, &error)),
    }
}

/// The message for a file that cannot be written.
pub fn cannot_write(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: the file cannot be written ({error})", path.display())
}

/// Opens what must not be replaced: it has no name of its own, or the system needs it.
fn open_existing(path: &Path) -> io::Result<Option<File>> {
    // A new description of a regular file would overwrite what this process has written there before.
    match descriptor(path) {
        Some(1) => return io::stdout().as_fd().try_clone_to_owned().map(|file| Some(file.into())),
        Some(2) => return io::stderr().as_fd().try_clone_to_owned().map(|file| Some(file.into())),
        Some(_) => return File::options().append(true).open(path).map(Some),
        None => {}
    }
    let is_special = fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir());
    // Files of memory are usual ones.
    let is_of_system = directory_of(path).is_some_and(|directory| {
        let is_within = |system| directory.starts_with(system);
        is_within("/proc") || is_within("/dev") && !is_within("/dev/shm")
    });
    let is_kept = is_special || is_of_system && path.exists();
    is_kept.then(|| File::options().write(true).open(path)).transpose()
}

/// Returns the number of the descriptor of this process that a path leads to, over any links.
fn descriptor(path: &Path) -> Option<u32> {
    let own: Vec<PathBuf> =
        ["/proc/self/fd", "/dev/fd"].iter().filter_map(|own| Path::new(own).canonicalize().ok()).collect();
    let mut path = path.to_owned();
    // As many links as the kernel follows.
    for _ in 0..40 {
        let directory = directory_of(&path)?;
        if own.contains(&directory) {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = directory.join(fs::read_link(&path).ok()?);
    }
    None
}

/// Returns the directory of an entry, without links.
fn directory_of(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    parent.canonicalize().ok()
}

fn replace<T>(path: &Path, write: impl FnOnce(&mut File) -> Result<T, String>) -> Result<T, String> {
    let cannot = |error: &dyn std::fmt::Display| cannot_write(path, error);
    let mut new = NewFile::create(path).map_err(|error| cannot(&error.source))?;
    let written = write(&mut new.file)?;
    new.finish().map_err(|error| cannot(&error.source))?;
    Ok(written)
}

/// The kind of an entry of a directory itself, whatever a link leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    /// A symbolic link, a pipe, a device or a socket: no program writes these into results.
    Other,
}

/// Returns the kind of an entry; `None` if there is none.
pub(crate) fn kind(path: &Path) -> Option<Kind> {
    let data = fs::symlink_metadata(path).ok()?;
    Some(match data.file_type() {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Directory,
        _ => Kind::Other,
    })
}

pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    let is_directory = kind(path) == Some(Kind::Directory);
    change(|| if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) }).at(path)
}

/// Writes a mark, unless it exists: a file so short that a kill leaves it whole or absent.
pub(crate) fn mark(path: &Path, text: &str) -> Result<(), FileError> {
    let written = change(|| File::create_new(path)?.write_all(text.as_bytes()));
    match written {
        Err(_) if kind(path) == Some(Kind::File) => Ok(()),
        written => written.at(path),
    }
}

/// Writes a file atomically: it is whole or absent.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut new = NewFile::create(path)?;
    new.file.write_all(bytes).at(path)?;
    new.finish()
}

/// Removes the unfinished files of a directory, by their temporary names.
pub(crate) fn remove_temporary(directory: &Path) -> Result<(), FileError> {
    for name in entries(directory)? {
        let path = directory.join(&name);
        if final_name(&name) != name && kind(&path) == Some(Kind::File) {
            remove(&path)?;
        }
    }
    Ok(())
}

pub(crate) fn sync_names(directory: &Path) -> Result<(), FileError> {
    File::open(directory).and_then(|directory| directory.sync_all()).at(directory)
}

pub(crate) fn entries(directory: &Path) -> Result<Vec<String>, FileError> {
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    fs::read_dir(directory).and_then(|entries| entries.map(name).collect::<io::Result<_>>()).at(directory)
}

/// Returns the final name of a file, without the suffix of unfinished files.
pub(crate) fn final_name(name: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.strip_suffix(TEMPORARY).and_then(|rest| rest.rsplit_once('.'));
    parts.filter(|(_, process)| is_number(process)).map_or(name, |(whole, _)| whole)
}

/// A file with a temporary name until [`finish`](Self::finish), so that no reader takes a part for
/// the whole. Without it, as after an error, the file is removed.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) file: File,
    path: PathBuf,
    temporary: PathBuf,
    is_finished: bool,
}

impl NewFile {
    /// Creates the file. The temporary name contains the process number, since others may write the
    /// same file.
    pub(crate) fn create(path: &Path) -> Result<Self, FileError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}{TEMPORARY}", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let file = change(|| {
            // An earlier process with this number may have left a file, and a stranger a link.
            match fs::remove_file(&temporary) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => File::create_new(&temporary),
            }
        });
        Ok(Self { file: file.at(path)?, path: path.to_owned(), temporary, is_finished: false })
    }

    /// Gives the file its name, after its contents are on the disk: after a power failure, too, it is
    /// whole or absent.
    pub(crate) fn finish(mut self) -> Result<(), FileError> {
        self.file.sync_all().at(&self.path)?;
        change(|| fs::rename(&self.temporary, &self.path)).at(&self.path)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = change(|| fs::remove_file(&self.temporary));
        }
    }
}

/// The exclusive right to write a directory. The kernel releases it when the process ends for any
/// reason.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Locks a directory; `None` if another process or thread holds the lock.
    pub(crate) fn take(directory: &Path) -> Result<Option<Self>, FileError> {
        let path = directory.join(LOCK);
        Self::take_file(&path).at(&path)
    }

    fn take_file(path: &Path) -> io::Result<Option<Self>> {
        loop {
            // Neither through a link nor into a pipe.
            let mut options = File::options();
            options.create(true).append(true).custom_flags(O_NOFOLLOW | O_NONBLOCK);
            let file = change(|| options.open(path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                // Some network file systems do not support locks.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let lock = Self { file, path: path.to_path_buf() };
            // The last owner may have removed the file between opening and locking it here.
            if lock.is_current()? {
                return Ok(Some(lock));
            }
        }
    }

    /// Returns true if the locked file still has this name.
    fn is_current(&self) -> io::Result<bool> {
        let of = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        match fs::symlink_metadata(&self.path) {
            Ok(named) => Ok(of(named) == of(self.file.metadata()?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Remove the file while the lock is held. A remaining file does no harm.
        if self.is_current().is_ok_and(|is_current| is_current) {
            let _ = remove(&self.path);
        }
    }
}

/// Simulates the death of the process in tests: after it no change succeeds, not even in
/// destructors.
#[cfg(test)]
pub(crate) mod kill {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        /// Number of changes until the kill; negative afterwards.
        static LEFT: Cell<i64> = const { Cell::new(i64::MAX) };
    }

    /// Fails once the kill has happened.
    pub(super) fn point() -> io::Result<()> {
        let left = LEFT.get() - 1;
        LEFT.set(left.max(-1));
        if left < 0 { Err(io::Error::other("killed")) } else { Ok(()) }
    }

    /// Runs `work` as a process that is killed after this number of changes. Returns true if the
    /// kill happened.
    pub(crate) fn after(changes: i64, work: impl FnOnce()) -> bool {
        LEFT.set(changes);
        work();
        LEFT.replace(i64::MAX) < 0
    }
}

#[cfg(test)]
mod tests;
