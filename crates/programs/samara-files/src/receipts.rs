//! Receipts: the receivers that have verified a file, in a hidden file beside it. A sender that starts
//! again counts them, although they have ended.

use std::fs;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::receivers::RECEIVERS_MAX;

/// Maximum length of the file that is read: longer than one with the longest addresses.
const RECEIPTS_BYTES_MAX: u64 = 128 << 10;

/// The receipts of one file.
pub(crate) struct Receipts {
    path: PathBuf,
    /// The reason why receipts were not read or are not kept.
    failure: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// BLAKE3 of the file in hexadecimal.
    digest: String,
    receivers: Vec<SocketAddr>,
}

impl Receipts {
    /// Returns the receipts of the file of this name.
    pub(crate) fn beside(file: &Path, name: &str) -> Self {
        Self { path: file.with_file_name(format!(".{name}.receipts")), failure: None }
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the receivers that have the file with this digest, at most [`RECEIVERS_MAX`].
    pub(crate) fn read(&mut self, digest: &blake3::Hash) -> Vec<String> {
        match kept(&self.path) {
            Ok(Some(kept)) if kept.digest == digest.to_hex().as_str() => {
                kept.receivers.iter().take(RECEIVERS_MAX).map(ToString::to_string).collect()
            }
            // Those of an earlier file of this name say nothing.
            Ok(_) => Vec::new(),
            Err(error) => {
                let why = format!("{error}; receivers that had the file before do not count");
                self.failure = Some(format!("{}: {why}", self.path.display()));
                Vec::new()
            }
        }
    }

    /// Replaces the receipts. The group does without if they cannot be written.
    pub(crate) fn write<'a>(&mut self, digest: &blake3::Hash, receivers: impl Iterator<Item = &'a str>) {
        let receivers = receivers.filter_map(|name| name.parse().ok()).take(RECEIVERS_MAX).collect();
        let kept = Kept { digest: digest.to_hex().to_string(), receivers };
        self.failure = replace(&self.path, &kept).err().map(|error| {
            let cost = "a sender that starts again does not know who has the file";
            format!("{}: {error}; {cost}", self.path.display())
        });
    }

    /// Removes the receipts: all receivers have the file.
    pub(crate) fn remove(&self) {
        // None were written, or the directory cannot be written, which was reported.
        let _ = fs::remove_file(&self.path);
    }
}

fn kept(path: &Path) -> io::Result<Option<Kept>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(found) if !found.is_file() => return Err(io::Error::other("is no plain file")),
        Ok(_) => {}
    }
    let mut text = Vec::new();
    fs::File::open(path)?.take(RECEIPTS_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > RECEIPTS_BYTES_MAX {
        let why = format!("more than {RECEIPTS_BYTES_MAX} bytes; remove it");
        return Err(io::Error::other(why));
    }
    Ok(Some(serde_json::from_slice(&text)?))
}

fn replace(path: &Path, kept: &Kept) -> io::Result<()> {
    let new = path.with_extension("receipts-new");
    let written = fs::write(&new, serde_json::to_vec(kept)?).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch;

    #[test]
    fn receipts_are_bounded_and_count_for_one_digest() {
        let directory = scratch("receipts-bounded");
        let (one, other) = (blake3::hash(b"1"), blake3::hash(b"2"));
        let names: Vec<String> = (0..2 * RECEIVERS_MAX)
            .map(|at| format!("[2001:db8:1111:2222:3333:4444:5555:{at:x}]:65535"))
            .collect();
        let mut receipts = Receipts::beside(&directory.join("a.bin"), "a.bin");
        assert_eq!(receipts.read(&one), [""; 0], "none are there");
        receipts.write(&one, names.iter().map(String::as_str));
        assert_eq!(receipts.read(&one), names[..RECEIVERS_MAX], "{:?}", receipts.failure());
        assert_eq!(receipts.read(&other), [""; 0]);
        assert_eq!(receipts.failure(), None);
        receipts.remove();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn receipts_of_others_are_named_and_ignored() {
        let directory = scratch("receipts-wrong");
        let digest = blake3::hash(b"1");
        let long = " ".repeat(RECEIPTS_BYTES_MAX as usize + 1);
        for text in ["", "{}", &long, r#"{"digest":"1","receivers":["no address"]}"#] {
            fs::write(directory.join(".a.receipts"), text).unwrap();
            let mut receipts = Receipts::beside(&directory.join("a"), "a");
            assert_eq!(receipts.read(&digest), [""; 0]);
            assert!(receipts.failure().is_some_and(|why| why.contains(".a.receipts")), "{text:.20}");
            receipts.write(&digest, ["127.0.0.1:1"].into_iter());
            assert_eq!((receipts.read(&digest).len(), receipts.failure()), (1, None));
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let directory = scratch("receipts-unwritable");
        let mut receipts = Receipts::beside(&directory.join("absent/a"), "a");
        receipts.write(&blake3::hash(b"1"), ["127.0.0.1:1"].into_iter());
        assert!(receipts.failure().is_some_and(|why| why.contains("absent/.a.receipts")));
    }
}
