//! The receiver: offers, pieces, and the end.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use samara_net::ring::{Event, Group, Member, Options, Payload};
use tokio::sync::mpsc::{Sender, UnboundedSender, channel, unbounded_channel};
use tokio::time::MissedTickBehavior;

use crate::store::{Fact, Job, Store, compare, other_contents};
use crate::wire::{Control, FileId, PIECE_MESSAGE_MAX, file_of_piece, listed, read_control};
use crate::{Ranges, TransferError, broadcast, leave};

/// Time between two reports, to the owner and to the sender.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of files that arrive at a time. Further offers are refused.
const FILES_MAX: usize = 16;
/// Maximum number of files that a receiver remembers. Then it forgets the oldest one that has come to
/// an end.
const KNOWN_MAX: usize = 1024;
/// Pieces that wait for the disk, for each file; then the group waits.
const JOBS_MAX: usize = 32;

/// What a receiver needs.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// The member of the receiver.
    pub group: Options,
    /// The directory for the files.
    pub directory: PathBuf,
    /// Whether a file replaces another one of its name.
    pub overwrites: bool,
    /// Whether the receiver goes on after the first file.
    pub keeps_on: bool,
    /// Time for a sender to come, or to come back.
    pub patience: Duration,
}

/// A report of the receiver about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiving {
    /// The name of the file.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes that were on disk when this process began.
    pub had_bytes: u64,
    /// Time since the offer.
    pub elapsed: Duration,
    /// Whether the file is verified and has its name.
    pub is_done: bool,
    /// The reason why the file was refused or is lost.
    pub failure: Option<String>,
}

/// The end of a receiver.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The last 1,024 files, in the order of their offers.
    pub files: Vec<Receiving>,
    /// Number of files before them.
    pub forgotten: usize,
}

impl Received {
    /// Returns true if there is a file, and all are verified.
    pub fn is_complete(&self) -> bool {
        !self.files.is_empty() && self.files.iter().all(|file| file.is_done)
    }
}

/// A file of which a sender has told.
struct Incoming {
    /// The process that offers it. One that starts again is another member at the same address.
    sender: Member,
    report: Receiving,
    begun: Instant,
    /// The thread that writes it; `None` once it is done or failed.
    jobs: Option<Sender<Job>>,
    /// Whether the sender has ended.
    has_ended: bool,
    /// Whether the sender was out of the group since it told of the file: it knows nothing of what
    /// this receiver misses.
    was_cut: bool,
    /// How often the digest was wrong.
    corrupt: u32,
}

struct Receiver<'a> {
    group: Group,
    directory: PathBuf,
    overwrites: bool,
    files: BTreeMap<FileId, Incoming>,
    order: VecDeque<FileId>,
    forgotten: usize,
    facts: UnboundedSender<(FileId, Fact)>,
    /// The last time when a sender was there.
    heard: Instant,
    report: &'a mut (dyn FnMut(&Receiving) + Send),
}

/// Receives files of the members of a group. Returns when the sender of the first has ended, or the
/// time is over.
///
/// # Errors
/// The directory cannot be used, or the member of the group ends.
pub async fn receive(
    options: ReceiveOptions,
    report: &mut (dyn FnMut(&Receiving) + Send),
) -> Result<Received, TransferError> {
    let ReceiveOptions { group, directory, overwrites, keeps_on, patience } = options;
    if directory.exists() && !directory.is_dir() {
        return Err(TransferError::Unfit { path: directory, why: "is no directory; name one for the files" });
    }
    fs::create_dir_all(&directory).map_err(TransferError::file(&directory))?;
    let (group, mut events) = Group::join(group).await?;
    let (facts, mut fact_queue) = unbounded_channel();
    let mut receiver = Receiver {
        group,
        directory,
        overwrites,
        files: BTreeMap::new(),
        order: VecDeque::new(),
        forgotten: 0,
        facts,
        heard: Instant::now(),
        report,
    };
    let mut tick = tokio::time::interval(REPORT_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => receiver.observe(event).await?,
                None => return Err(TransferError::Ended("the group has ended".to_owned())),
            },
            Some((file, fact)) = fact_queue.recv() => receiver.note(file, fact).await?,
            _ = tick.tick() => receiver.tell_all(),
        }
        let is_late = receiver.heard.elapsed() > patience && !keeps_on;
        if receiver.is_over(keeps_on) || is_late {
            break;
        }
    }
    leave(&receiver.group, &mut events).await?;
    let Receiver { mut files, order, forgotten, .. } = receiver;
    let files = order.iter().filter_map(|id| Some(files.remove(id)?.report)).collect();
    Ok(Received { files, forgotten })
}

impl Receiver<'_> {
    /// Returns whether all files have come to an end, and the receiver waits for no other. It waits for
    /// nothing more once a file has failed: a person must act.
    fn is_over(&self, keeps_on: bool) -> bool {
        let is_at_end = |file: &Incoming| file.has_ended || file.report.failure.is_some();
        !keeps_on
            && !self.files.is_empty()
            && self.files.values().all(|file| file.jobs.is_none() && is_at_end(file))
    }

    async fn observe(&mut self, event: Event) -> Result<(), TransferError> {
        match event {
            Event::View(view) => {
                for file in self.files.values_mut().filter(|file| !view.members.contains(&file.sender)) {
                    // A sender that died may come back; one with a file that is here need not.
                    file.has_ended |= file.jobs.is_none();
                    file.was_cut = true;
                }
                Ok(())
            }
            Event::Delivered { origin, payload, .. } => self.receive(&origin, payload).await,
            _ => Ok(()),
        }
    }

    async fn receive(&mut self, from: &Member, payload: Payload) -> Result<(), TransferError> {
        if from.to_string() == self.group.address().to_string() {
            return Ok(());
        }
        // The thread of the file reads a piece.
        let Some(id) = file_of_piece(payload.chunks()) else {
            return match read_control(&from.to_string(), &payload) {
                Some(control) => self.control(from, control).await,
                None => Ok(()),
            };
        };
        let file = self.files.get(&id).filter(|file| file.sender == *from);
        if let Some(jobs) = file.and_then(|file| file.jobs.as_ref())
            && payload.len() <= PIECE_MESSAGE_MAX
        {
            self.heard = Instant::now();
            // Waits for the disk. A thread that has ended has reported why.
            let _ = jobs.send(Job::Piece(payload)).await;
        }
        Ok(())
    }

    async fn control(&mut self, from: &Member, control: Control) -> Result<(), TransferError> {
        match control {
            Control::Offer { file, name, size } => self.offered(from, file, name, size).await,
            Control::Digest { file, digest } => {
                let Some(incoming) = self.files.get_mut(&file).filter(|file| file.sender == *from) else {
                    return Ok(());
                };
                let Ok(digest) = blake3::Hash::from_hex(&digest) else { return Ok(()) };
                if let Some(jobs) = &incoming.jobs {
                    let _ = jobs.send(Job::Digest(digest)).await;
                }
                Ok(())
            }
            Control::End { file, is_complete } => {
                if let Some(incoming) = self.files.get_mut(&file).filter(|file| file.sender == *from) {
                    incoming.has_ended = true;
                    if incoming.jobs.take().is_some() {
                        let why = if is_complete { "the sender has ended" } else { "the sender gave up" };
                        incoming.report.failure = Some(format!("{why}; what has come is kept"));
                        (self.report)(&incoming.report);
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn offered(
        &mut self,
        from: &Member,
        id: FileId,
        name: String,
        size: u64,
    ) -> Result<(), TransferError> {
        self.heard = Instant::now();
        if let Some(known) = self.files.get_mut(&id) {
            let is_same = known.sender == *from;
            // The same sender again, for others, or another one of the same file.
            if !(known.has_ended || known.was_cut) && (is_same || known.jobs.is_some()) {
                return Ok(());
            }
            // The sender is back, or its next process.
            (known.sender, known.has_ended, known.was_cut) = (from.clone(), false, false);
            if known.report.is_done {
                return broadcast(&self.group, &Control::Done { file: id }).await;
            }
            if let Some(jobs) = &known.jobs {
                // Behind all pieces that have come.
                let _ = jobs.send(Job::Missing).await;
                return Ok(());
            }
        } else if self.files.values().filter(|file| file.jobs.is_some()).count() >= FILES_MAX {
            let cause =
                format!("{FILES_MAX} files arrive at this receiver already; send again when one is done");
            return broadcast(&self.group, &Control::Failed { file: id, cause }).await;
        }
        let opened = self.open(id, &name, size);
        let mut report = Receiving {
            name,
            size,
            bytes: 0,
            had_bytes: 0,
            elapsed: Duration::ZERO,
            is_done: false,
            failure: None,
        };
        let answer = match opened {
            Ok(Opened::New(store)) => {
                report.bytes = store.written();
                report.had_bytes = report.bytes;
                let missing = listed(store.missing());
                let (jobs, job_queue) = channel(JOBS_MAX);
                let facts = self.facts.clone();
                let thread = std::thread::Builder::new().name("write".to_owned());
                thread
                    .spawn(move || store.work(job_queue, &facts))
                    .map_err(TransferError::file(&self.directory))?;
                self.add(id, from, report, Some(jobs));
                Control::Want { file: id, missing }
            }
            Ok(Opened::Present(existing)) => {
                let (jobs, mut job_queue) = channel(JOBS_MAX);
                let facts = self.facts.clone();
                report.bytes = size;
                report.had_bytes = size;
                tokio::task::spawn_blocking(move || {
                    while let Some(job) = job_queue.blocking_recv() {
                        let (fact, is_end) = match job {
                            Job::Piece(_) => continue,
                            Job::Missing => (Fact::Missing(Ranges::default()), false),
                            Job::Digest(digest) => (compare(&existing, digest), true),
                        };
                        if facts.send((id, fact)).is_err() || is_end {
                            return;
                        }
                    }
                });
                self.add(id, from, report, Some(jobs));
                Control::Want { file: id, missing: Vec::new() }
            }
            Err(error) => {
                let cause = error.to_string();
                report.failure = Some(cause.clone());
                self.add(id, from, report, None);
                Control::Failed { file: id, cause }
            }
        };
        broadcast(&self.group, &answer).await
    }

    fn open(&self, id: FileId, name: &str, size: u64) -> Result<Opened, TransferError> {
        let target = self.directory.join(name);
        let is_other = self
            .files
            .iter()
            .any(|(other, file)| *other != id && file.report.name == name && file.jobs.is_some());
        if is_other {
            return Err(TransferError::Unfit { path: target, why: "arrives from another sender" });
        }
        match fs::symlink_metadata(&target) {
            Ok(found) if found.is_file() && found.len() == size && !self.overwrites => {
                Ok(Opened::Present(target))
            }
            Ok(found) if !found.is_file() || !self.overwrites => {
                Err(TransferError::File { path: target, error: other_contents() })
            }
            _ => Ok(Opened::New(Box::new(Store::open(&self.directory, id, name, size)?))),
        }
    }

    fn add(&mut self, id: FileId, sender: &Member, report: Receiving, jobs: Option<Sender<Job>>) {
        (self.report)(&report);
        let (begun, sender) = (Instant::now(), sender.clone());
        let incoming = Incoming { sender, report, begun, jobs, has_ended: false, was_cut: false, corrupt: 0 };
        if self.files.insert(id, incoming).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > KNOWN_MAX {
            let is_at_end = |id: &FileId| self.files[id].jobs.is_none();
            let oldest = self.order.iter().position(is_at_end).expect("fewer arrive than are remembered");
            self.order.remove(oldest).and_then(|id| self.files.remove(&id));
            self.forgotten += 1;
        }
    }

    async fn note(&mut self, id: FileId, fact: Fact) -> Result<(), TransferError> {
        let Some(file) = self.files.get_mut(&id) else { return Ok(()) };
        file.report.elapsed = file.begun.elapsed();
        let answer = match fact {
            Fact::Written(bytes) => {
                file.report.bytes = bytes;
                None
            }
            Fact::Missing(missing) => {
                file.report.bytes = file.report.size - missing.bytes();
                Some(Control::Want { file: id, missing: listed(missing) })
            }
            Fact::Done => {
                (file.report.is_done, file.report.bytes, file.jobs) = (true, file.report.size, None);
                Some(Control::Done { file: id })
            }
            // Once may be a disk that lost what a journal claims.
            Fact::Corrupt if file.corrupt == 0 => {
                file.corrupt += 1;
                file.report.bytes = 0;
                let missing = if file.report.size > 0 { vec![(0, file.report.size)] } else { Vec::new() };
                Some(Control::Want { file: id, missing })
            }
            Fact::Corrupt => Some(file.fail(id, "the digest is wrong twice".to_owned())),
            Fact::Failed(error) => Some(file.fail(id, error.to_string())),
        };
        if answer.is_some() {
            (self.report)(&file.report);
        }
        match answer {
            Some(answer) => broadcast(&self.group, &answer).await,
            None => Ok(()),
        }
    }

    fn tell_all(&mut self) {
        // A sender in the group waits for others, or ends on its own; one that is gone may come back.
        if self.files.values().any(|file| !file.has_ended && !file.was_cut) {
            self.heard = Instant::now();
        }
        for (id, file) in &mut self.files {
            if file.jobs.is_some() {
                file.report.elapsed = file.begun.elapsed();
                (self.report)(&file.report);
                let progress = Control::Progress { file: *id, bytes: file.report.bytes };
                // The next report replaces one for which there is no room.
                let _ = self.group.try_broadcast(progress.write());
            }
        }
    }
}

impl Incoming {
    fn fail(&mut self, file: FileId, cause: String) -> Control {
        (self.jobs, self.report.failure) = (None, Some(cause.clone()));
        Control::Failed { file, cause }
    }
}

/// What is known of an offered file.
enum Opened {
    /// A file of this name and size is there, and may be the same.
    Present(PathBuf),
    New(Box<Store>),
}
