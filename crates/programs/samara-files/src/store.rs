//! A file that arrives: a hidden file with what has come, a journal of its ranges, and the verification.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use samara_net::ring::Payload;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Receiver, UnboundedSender};

use crate::wire::{FileId, Message};
use crate::{Ranges, TransferError};

/// Time between two writes of the journal. A process that ends loses what it wrote since, and gets it
/// again.
const JOURNAL_EVERY: Duration = Duration::from_secs(1);
/// Bytes in a block of `Metadata::blocks`.
const BLOCK_BYTES: u64 = 512;
/// Bytes that one read of a verification takes.
const READ_BYTES: usize = 1 << 20;

/// An order to the thread of a file.
pub(crate) enum Job {
    /// Write the piece in this message.
    Piece(Payload),
    /// Verify the file if all of it has arrived.
    Digest(blake3::Hash),
    /// Report what is missing.
    Missing,
}

/// What the thread of a file reports.
#[derive(Debug)]
pub(crate) enum Fact {
    /// Number of bytes on disk.
    Written(u64),
    /// What has not arrived.
    Missing(Ranges),
    /// The file has its name.
    Done,
    /// All has arrived, and the digest is another one: the file begins again.
    Corrupt,
    /// The file cannot be written.
    Failed(io::Error),
}

/// The journal beside a file that arrives.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    file: FileId,
    size: u64,
    present: Vec<(u64, u64)>,
}

/// A file that arrives.
#[derive(Debug)]
pub(crate) struct Store {
    id: FileId,
    size: u64,
    target: PathBuf,
    part: PathBuf,
    journal: PathBuf,
    file: File,
    present: Ranges,
    journalled: Instant,
    /// The digest of the first bytes, as far as they came in order, and their number.
    hasher: (blake3::Hasher, u64),
    digest: Option<blake3::Hash>,
}

impl Store {
    /// Opens a file of the directory, with what an earlier process has received of it.
    pub(crate) fn open(directory: &Path, id: FileId, name: &str, size: u64) -> Result<Self, TransferError> {
        let (part, journal) =
            (directory.join(format!(".{name}.part")), directory.join(format!(".{name}.journal")));
        check_space(directory, &part, size)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&part);
        let file = file.map_err(TransferError::file(&part))?;
        lock(&file, &part)?;
        let present = read_journal(&journal, &part, id, size).unwrap_or_default();
        if present.is_empty() {
            file.set_len(0).map_err(TransferError::file(&part))?;
        }
        Ok(Self {
            id,
            size,
            target: directory.join(name),
            part,
            journal,
            file,
            present,
            journalled: Instant::now(),
            hasher: (blake3::Hasher::new(), 0),
            digest: None,
        })
    }

    /// Returns the bytes that have not arrived.
    pub(crate) fn missing(&self) -> Ranges {
        self.present.gaps(self.size)
    }

    pub(crate) fn written(&self) -> u64 {
        self.present.bytes()
    }

    /// Carries out orders until there are no more, or the file is done or cannot be written.
    pub(crate) fn work(mut self, mut jobs: Receiver<Job>, facts: &UnboundedSender<(FileId, Fact)>) {
        let id = self.id;
        let report = |fact| facts.send((id, fact)).is_ok();
        loop {
            let fact = match jobs.blocking_recv() {
                Some(job) => self.take(job),
                None => break,
            };
            let (fact, is_end) = match fact {
                Ok(fact) => (fact, false),
                Err(error) => (Some(self.failed(&error)), true),
            };
            let is_done = matches!(fact, Some(Fact::Done));
            let is_heard = fact.is_none_or(report);
            if is_done {
                return;
            }
            if !is_heard || is_end {
                break;
            }
        }
        // The process ends, and a later one goes on.
        let _ = self.write_journal();
        report(Fact::Written(self.written()));
    }

    fn failed(&self, error: &io::Error) -> Fact {
        let directory = self.part.parent().unwrap_or(&self.part).display();
        let rest = self.missing().bytes();
        let remedy = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                format!("; {rest} B more are needed in {directory}: {FREE_AND_REPEAT}")
            }
            _ => format!("; what has come stays in {directory}: give the same command again"),
        };
        Fact::Failed(io::Error::new(error.kind(), format!("{error}{remedy}")))
    }

    fn take(&mut self, job: Job) -> io::Result<Option<Fact>> {
        match job {
            Job::Piece(payload) => self.write(&payload)?,
            Job::Digest(digest) => self.digest = Some(digest),
            Job::Missing => return Ok(Some(Fact::Missing(self.missing()))),
        }
        let Some(digest) = self.digest.filter(|_| self.missing().is_empty()) else {
            if self.journalled.elapsed() < JOURNAL_EVERY {
                return Ok(None);
            }
            self.write_journal()?;
            return Ok(Some(Fact::Written(self.written())));
        };
        if self.finish_digest()? == digest {
            self.file.sync_data()?;
            fs::rename(&self.part, &self.target)?;
            remove(&self.journal)?;
            return Ok(Some(Fact::Done));
        }
        self.present = Ranges::default();
        self.hasher = (blake3::Hasher::new(), 0);
        self.write_journal()?;
        Ok(Some(Fact::Corrupt))
    }

    /// Writes a piece. Nothing is written beyond the end of the file, and nothing twice.
    fn write(&mut self, payload: &Payload) -> io::Result<()> {
        let Ok(Message::Piece { offset, data, .. }) = Message::read(&payload.to_bytes()) else {
            return Ok(());
        };
        let end = offset + data.len() as u64;
        if end > self.size || self.present.iter().any(|own| own.start <= offset && end <= own.end) {
            return Ok(());
        }
        self.file.write_all_at(&data, offset)?;
        if self.hasher.1 == offset {
            self.hasher.0.update(&data);
            self.hasher.1 = end;
        }
        self.present.insert(offset..end);
        Ok(())
    }

    /// Returns the digest of all bytes, of which those that came in order are not read again.
    fn finish_digest(&mut self) -> io::Result<blake3::Hash> {
        let (hasher, at) = &mut self.hasher;
        let mut buffer = vec![0; READ_BYTES];
        while *at < self.size {
            let len = buffer.len().min((self.size - *at) as usize);
            self.file.read_exact_at(&mut buffer[..len], *at)?;
            hasher.update(&buffer[..len]);
            *at += len as u64;
        }
        Ok(hasher.finalize())
    }

    /// Replaces the journal. It claims nothing that is not written, so that a crash of the process
    /// loses no more than the last second; after one of the system, the digest decides.
    fn write_journal(&mut self) -> io::Result<()> {
        self.journalled = Instant::now();
        let present = self.present.iter().map(|range| (range.start, range.end)).collect();
        let journal = Journal { file: self.id, size: self.size, present };
        let new = self.journal.with_extension("journal-new");
        let written =
            fs::write(&new, serde_json::to_vec(&journal)?).and_then(|()| fs::rename(&new, &self.journal));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }
}

/// The way out of a full disk.
const FREE_AND_REPEAT: &str = "free them, and give the same command again";

/// Refuses a file that the directory has no room for. A directory that does not know its room has
/// some.
fn check_space(directory: &Path, part: &Path, size: u64) -> Result<(), TransferError> {
    let Ok(found) = nix::sys::statvfs::statvfs(directory) else { return Ok(()) };
    if found.blocks() == 0 {
        return Ok(());
    }
    let free = found.blocks_available().saturating_mul(found.fragment_size());
    // What has come is a part of the file, or makes room for it.
    let own = fs::symlink_metadata(part).map_or(0, |part| part.blocks() * BLOCK_BYTES);
    if size <= free.saturating_add(own) {
        return Ok(());
    }
    let missing = size - free.saturating_add(own);
    let why = format!("{missing} B more are needed in {}: {FREE_AND_REPEAT}", directory.display());
    Err(TransferError::File { path: part.to_owned(), error: io::Error::new(io::ErrorKind::StorageFull, why) })
}

/// Locks a file that arrives, so that no other process writes it. A file system without locks does
/// without.
fn lock(file: &File, part: &Path) -> Result<(), TransferError> {
    let remedy = "give each receiver a directory of its own";
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return Err(TransferError::unfit(part, format!("another receiver writes it; {remedy}")));
    }
    // Another one may have given it its name since it was opened.
    let (own, now) = (file.metadata(), fs::symlink_metadata(part));
    let is_same = own.is_ok_and(|own| now.is_ok_and(|now| (own.dev(), own.ino()) == (now.dev(), now.ino())));
    is_same
        .then_some(())
        .ok_or_else(|| TransferError::unfit(part, format!("another receiver had it; {remedy}")))
}

fn read_journal(journal: &Path, part: &Path, id: FileId, size: u64) -> Option<Ranges> {
    let known: Journal = serde_json::from_slice(&fs::read(journal).ok()?).ok()?;
    let is_same = known.file == id && known.size == size;
    let written = fs::metadata(part).ok()?.len();
    let mut present = Ranges::default();
    known
        .present
        .into_iter()
        .filter(|(_, end)| *end <= written)
        .for_each(|(start, end)| present.insert(start..end));
    is_same.then_some(present)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Compares a file that was there before with the one that is offered.
pub(crate) fn compare(existing: &Path, digest: blake3::Hash) -> Fact {
    match digest_of(existing) {
        Ok(own) if own == digest => Fact::Done,
        Ok(_) => Fact::Failed(other_contents()),
        Err(error) => Fact::Failed(error),
    }
}

pub(crate) fn other_contents() -> io::Error {
    let remedy = "remove it, choose another directory, or overwrite it (--overwrite)";
    io::Error::other(format!("exists with other contents; {remedy}"))
}

/// Returns the digest of a file.
pub(crate) fn digest_of(path: &Path) -> io::Result<blake3::Hash> {
    let (mut file, mut hasher, mut buffer) = (File::open(path)?, blake3::Hasher::new(), vec![0; READ_BYTES]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            len => hasher.update(&buffer[..len]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch;

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_file_without_room_is_refused_at_once() {
        let directory = scratch("store-room");
        let error = Store::open(&directory, FileId(1), "huge", u64::MAX).unwrap_err().to_string();
        assert!(error.contains(" B more are needed in ") && error.contains("free them"), "{error}");
        assert_eq!(names(&directory), 0, "nothing is left");
    }

    #[test]
    fn one_receiver_writes_a_file_at_a_time() {
        let directory = scratch("store-lock");
        let first = Store::open(&directory, FileId(1), "a", 9).unwrap();
        let error = Store::open(&directory, FileId(1), "a", 9).unwrap_err().to_string();
        assert!(error.contains("another receiver writes it; give each receiver"), "{error}");
        Store::open(&directory, FileId(2), "b", 9).expect("another file");
        let (part, moved) = (directory.join(".a.part"), directory.join("a"));
        fs::rename(&part, &moved).unwrap();
        assert!(lock(&first.file, &part).unwrap_err().to_string().contains("another receiver had it"));
        fs::rename(&moved, &part).unwrap();
        drop(first);
        Store::open(&directory, FileId(1), "a", 9).expect("the first one has ended");
    }

    #[test]
    fn a_journal_that_cannot_be_written_leaves_nothing() {
        let directory = scratch("store-journal");
        let mut store = Store::open(&directory, FileId(1), "a", 9).unwrap();
        // No file takes the place of a directory.
        fs::create_dir(directory.join(".a.journal")).unwrap();
        store.write_journal().unwrap_err();
        assert_eq!(names(&directory), 2, "the part and the directory");
    }
}
