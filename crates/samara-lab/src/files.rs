//! Changes to a directory that stay consistent if the process is killed or the power fails at any
//! point, and the lock of its writer.

use std::error::Error;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// Writes a file that the user has named.
pub fn write_named(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    let cannot = |error: io::Error| format!("{}: the file cannot be written ({error})", path.display());
    fs::write(path, bytes).map_err(cannot)
}

pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    change(|| if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }).at(path)
}

/// Writes a mark: a file so short that a kill leaves it whole or absent.
pub(crate) fn mark(path: &Path, text: &str) -> Result<(), FileError> {
    change(|| fs::write(path, text)).at(path)
}

/// Writes a file atomically: it is whole or absent.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut new = NewFile::create(path)?;
    new.file.write_all(bytes).at(path)?;
    new.finish()
}

pub(crate) fn remove_temporary(directory: &Path) -> Result<(), FileError> {
    for name in entries(directory)? {
        if name.ends_with(TEMPORARY) {
            remove(&directory.join(name))?;
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
    let parts = name.strip_suffix(TEMPORARY).and_then(|rest| rest.rsplit_once('.'));
    parts.map_or(name, |(whole, _process)| whole)
}

/// A file with a temporary name until [`finish`](Self::finish), so that no reader takes a part for
/// the whole.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) file: File,
    path: PathBuf,
    temporary: PathBuf,
}

impl NewFile {
    /// Creates the file. The temporary name contains the process number, since others may write the
    /// same file.
    pub(crate) fn create(path: &Path) -> Result<Self, FileError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}{TEMPORARY}", std::process::id()));
        let file = change(|| File::create(&temporary)).at(path)?;
        Ok(Self { file, path: path.to_owned(), temporary: temporary.into() })
    }

    /// Gives the file its name, after its contents are on the disk: after a power failure, too, it is
    /// whole or absent.
    pub(crate) fn finish(self) -> Result<(), FileError> {
        self.file.sync_all().at(&self.path)?;
        change(|| fs::rename(&self.temporary, &self.path)).at(&self.path)
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
            let file = change(|| File::options().create(true).append(true).open(path))?;
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
        match fs::metadata(&self.path) {
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
