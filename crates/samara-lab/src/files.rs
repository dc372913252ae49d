//! Changes of a directory that leave it usable wherever a kill interrupts them, and the lock of its writer.

use std::error::Error;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file or directory that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct FileError {
    path: PathBuf,
    source: Box<dyn Error + Send + Sync>,
}

/// Says which path an error is about.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, FileError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> At<T> for Result<T, E> {
    fn at(self, path: &Path) -> Result<T, FileError> {
        self.map_err(|source| FileError { path: path.to_path_buf(), source: source.into() })
    }
}

/// The file that the process that writes a directory has locked.
pub(crate) const LOCK: &str = "lock";
/// The end of the names of files that are being written.
const TEMPORARY: &str = ".tmp";

/// Makes one change of the file system. All of them come here, so that tests can end the process before each.
fn change<T>(change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    #[cfg(test)]
    kill::point()?;
    change()
}

pub(crate) fn create_dir_all(path: &Path) -> Result<(), FileError> {
    change(|| fs::create_dir_all(path)).at(path)
}

/// Removes a file, or a directory with all that is in it.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    change(|| if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }).at(path)
}

/// Writes a mark: a short file that a kill leaves whole or not at all.
pub(crate) fn mark(path: &Path, text: &str) -> Result<(), FileError> {
    change(|| fs::write(path, text)).at(path)
}

/// Writes a file, whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut new = NewFile::create(path)?;
    new.file.write_all(bytes).at(path)?;
    new.finish()
}

/// Removes the files of a directory that killed processes did not finish.
pub(crate) fn remove_temporary(directory: &Path) -> Result<(), FileError> {
    for name in entries(directory)? {
        if name.ends_with(TEMPORARY) {
            remove(&directory.join(name))?;
        }
    }
    Ok(())
}

pub(crate) fn entries(directory: &Path) -> Result<Vec<String>, FileError> {
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    fs::read_dir(directory).and_then(|entries| entries.map(name).collect::<io::Result<_>>()).at(directory)
}

/// Returns the name that a file gets when it is whole.
pub(crate) fn final_name(name: &str) -> &str {
    let parts = name.strip_suffix(TEMPORARY).and_then(|rest| rest.rsplit_once('.'));
    parts.map_or(name, |(whole, _process)| whole)
}

/// A file that has a temporary name until [`finish`](Self::finish), so that no half of it is ever taken for the whole.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) file: File,
    path: PathBuf,
    temporary: PathBuf,
}

impl NewFile {
    /// Creates it. The temporary name has the number of the process: others may write the same file.
    pub(crate) fn create(path: &Path) -> Result<Self, FileError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}{TEMPORARY}", std::process::id()));
        let file = change(|| File::create(&temporary)).at(path)?;
        Ok(Self { file, path: path.to_owned(), temporary: temporary.into() })
    }

    pub(crate) fn finish(self) -> Result<(), FileError> {
        change(|| fs::rename(&self.temporary, &self.path)).at(&self.path)
    }
}

/// The exclusive right to write a directory. The kernel takes it back when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Locks a directory; `None` if another process, or another thread, has locked it.
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
                // Some file systems that are mounted from elsewhere have no locks.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let lock = Self { file, path: path.to_path_buf() };
            // The last owner may have removed the file before it was locked here.
            if lock.is_current()? {
                return Ok(Some(lock));
            }
        }
    }

    /// Whether the locked file is still the one with this name.
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
        // Removed before the lock goes with the file. A file that stays is in nobody's way.
        if self.is_current().is_ok_and(|is_current| is_current) {
            let _ = remove(&self.path);
        }
    }
}

/// Ends of the process as tests see them: no change is made any more, not even by destructors.
#[cfg(test)]
pub(crate) mod kill {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        /// Changes until the kill; below zero after it.
        static LEFT: Cell<i64> = const { Cell::new(i64::MAX) };
    }

    /// Fails after the kill.
    pub(super) fn point() -> io::Result<()> {
        let left = LEFT.get() - 1;
        LEFT.set(left.max(-1));
        if left < 0 { Err(io::Error::other("killed")) } else { Ok(()) }
    }

    /// Runs `work` as a process that is killed after so many changes; returns whether it was.
    pub(crate) fn after(changes: i64, work: impl FnOnce()) -> bool {
        LEFT.set(changes);
        work();
        LEFT.replace(i64::MAX) < 0
    }
}

#[cfg(test)]
mod tests;
