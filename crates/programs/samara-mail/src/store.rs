//! Messages as files of a directory, each under the name of its message: names of senders never become
//! paths.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Message;

/// A message on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its file.
    pub path: PathBuf,
    /// Whether an earlier receiver has stored it.
    pub was_there: bool,
}

/// Writes a message into a directory, readable for its owner only. The file has its name when it is
/// whole. A message that is there already stays.
///
/// # Errors
/// The directory cannot be written.
pub fn store(directory: &Path, message: &Message) -> io::Result<Stored> {
    let path = directory.join(message.id.to_string());
    if path.try_exists()? {
        return Ok(Stored { path, was_there: true });
    }
    let new = directory.join(format!(".{}.part", message.id));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&new)?;
    file.write_all(&message.contents)?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    Ok(Stored { path, was_there: false })
}
