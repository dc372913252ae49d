//! Changes of a directory that leave it usable wherever a kill interrupts them, and the lock of its writer.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file that the process that writes a directory has locked.
pub(crate) const LOCK: &str = "lock";
/// The end of the names of files that are being written.
const TEMPORARY: &str = ".tmp";

/// Makes one change of the file system. All of them come here, so that tests can end the process before each.
pub(crate) fn change<T>(change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    #[cfg(test)]
    kill::point()?;
    change()
}

/// Creates a directory and those above it.
pub(crate) fn create_dir_all(path: &Path) -> io::Result<()> {
    change(|| fs::create_dir_all(path))
}

/// Removes a file, or a directory with all that is in it.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    change(|| if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) })
}

/// Writes a file, whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Removes the files of a directory that killed processes did not finish.
pub(crate) fn remove_temporary(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(TEMPORARY) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Returns the name that a file gets when it is whole.
pub(crate) fn final_name(name: &str) -> &str {
    let parts = name.strip_suffix(TEMPORARY).and_then(|rest| rest.rsplit_once('.'));
    parts.map_or(name, |(whole, _process)| whole)
}

/// A file that has a temporary name until [`finish`](Self::finish), so that no half of it is ever taken for the whole.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    path: PathBuf,
    temporary: PathBuf,
}

impl NewFile {
    /// Creates it. The temporary name has the number of the process: others may write the same file.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}{TEMPORARY}", std::process::id()));
        let file = change(|| File::create(&temporary))?;
        Ok(Self { file, path: path.to_owned(), temporary: temporary.into() })
    }

    /// Gives it its name.
    pub(crate) fn finish(self) -> io::Result<()> {
        change(|| fs::rename(&self.temporary, &self.path))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
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
    pub(crate) fn take(directory: &Path) -> io::Result<Option<Self>> {
        let path = directory.join(LOCK);
        loop {
            let file = change(|| File::options().create(true).append(true).open(&path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                // Some file systems that are mounted from elsewhere have no locks.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let lock = Self { file, path: path.clone() };
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
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let directory = std::env::temp_dir().join(format!("samara-files-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("a.txt");
        write(&path, b"old").unwrap();
        for killed_after in 0..2 {
            assert!(kill::after(killed_after, || drop(write(&path, b"new"))));
            assert_eq!(fs::read(&path).unwrap(), b"old");
        }
        let names = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name());
        let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        assert_eq!(names.len(), 2);
        assert!(names.iter().all(|name| final_name(name) == "a.txt"), "{names:?}");
        remove_temporary(&directory).unwrap();
        assert!(!kill::after(2, || write(&path, b"new").unwrap()));
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(&directory).unwrap();
    }

    /// Threads take and release the lock of one directory: never two at once, though each owner removes the file.
    #[test]
    fn a_lock_has_one_owner_and_leaves_no_file() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let directory = std::env::temp_dir().join(format!("samara-lock-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (owners, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while taken.load(Ordering::SeqCst) < 2000 {
                        let Some(lock) = Lock::take(&directory).unwrap() else { continue };
                        taken.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0);
                        // Long enough for a second owner to be noticed.
                        std::thread::sleep(std::time::Duration::from_micros(50));
                        owners.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir_all(&directory).unwrap();
    }
}
