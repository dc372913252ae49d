//! The receiver: offers, pieces, and the end.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use samara_net::ring::{Event, Group, Member, Options, Payload};
use tokio::sync::mpsc::{Sender, UnboundedSender, channel, unbounded_channel};
use tokio::time::{MissedTickBehavior, timeout};

use crate::store::{Fact, Job, Store, compare, other_contents};
use crate::wire::{Control, FileId, PIECE_MESSAGE_MAX, file_of_piece, listed, read_control};
use crate::{Ranges, STOP_WITHIN, TransferError, broadcast, leave};

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
    /// Whether the receiver goes on after the first file. Otherwise it takes files of the first sender
    /// only.
    pub keeps_on: bool,
    /// Time for a sender to come, or to come back.
    pub patience: Duration,
}

/// A report of the receiver about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiving {
    /// The name of the file.
    pub name: String,
    /// The address of its sender.
    pub sender: String,
    /// Its length in bytes.
    pub size: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes that were on disk when this process began.
    pub had_bytes: u64,
    /// Time since the offer.
    pub elapsed: Duration,
    /// Number of receivers that are there, and of those that the sender waits for before it begins.
    pub waits_for: Option<(usize, usize)>,
    /// Time since the sender left or died, if it is not back.
    pub sender_gone: Option<Duration>,
    /// How often all bytes were there and their digest was wrong. They are received again, once.
    pub corrupt: u32,
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
    /// Whether the receiver was stopped.
    pub is_stopped: bool,
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
    /// Orders to the thread that writes or compares it; `None` once it is done or failed.
    jobs: Option<Sender<Job>>,
    /// The thread that writes it.
    writer: Option<JoinHandle<()>>,
    /// Whether the sender has ended.
    has_ended: bool,
    /// Since when the sender is out of the group, if it has not told of the file again: it knows
    /// nothing of what this receiver misses.
    cut: Option<Instant>,
}

struct Receiver<'a> {
    group: Group,
    directory: PathBuf,
    overwrites: bool,
    keeps_on: bool,
    files: BTreeMap<FileId, Incoming>,
    order: VecDeque<FileId>,
    forgotten: usize,
    facts: UnboundedSender<(FileId, Fact)>,
    /// The last time when a sender was there.
    heard: Instant,
    report: &'a mut (dyn FnMut(&Receiving) + Send),
}

/// Receives files of the members of a group. Returns when the sender of the first has ended, the time
/// is over, or `stop` is ready. What has come is on disk then.
///
/// # Errors
/// The directory cannot be used, or the member of the group ends.
pub async fn receive(
    options: ReceiveOptions,
    stop: impl Future<Output = ()> + Send,
    report: &mut (dyn FnMut(&Receiving) + Send),
) -> Result<Received, TransferError> {
    let ReceiveOptions { group, directory, overwrites, keeps_on, patience } = options;
    tokio::pin!(stop);
    prepare(&directory)?;
    let (group, mut events) = tokio::select! {
        joined = Group::join(group) => joined?,
        () = &mut stop => return Err(TransferError::Stopped),
    };
    let (facts, mut fact_queue) = unbounded_channel();
    let mut receiver = Receiver {
        group,
        directory,
        overwrites,
        keeps_on,
        files: BTreeMap::new(),
        order: VecDeque::new(),
        forgotten: 0,
        facts,
        heard: Instant::now(),
        report,
    };
    let mut tick = tokio::time::interval(REPORT_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let is_stopped = loop {
        tokio::select! {
            () = &mut stop => break true,
            event = events.next() => match event {
                Some(event) => receiver.observe(event).await?,
                None => return Err(TransferError::Ended("the group has ended".to_owned())),
            },
            Some((file, fact)) = fact_queue.recv() => receiver.note(file, fact).await?,
            _ = tick.tick() => receiver.tell_all(),
        }
        let is_late = receiver.heard.elapsed() > patience && !keeps_on;
        if receiver.is_over() || is_late {
            break false;
        }
    };
    let Receiver { group, mut files, order, forgotten, .. } = receiver;
    // The threads end with their orders, once all is written.
    files.values_mut().for_each(|file| file.jobs = None);
    let writers: Vec<_> = files.values_mut().filter_map(|file| file.writer.take()).collect();
    let end = move || writers.into_iter().for_each(|writer| drop(writer.join()));
    if timeout(STOP_WITHIN, tokio::task::spawn_blocking(end)).await.is_err() {
        tracing::warn!("the disk is slow: what came last may be lost, and comes again");
    }
    while let Ok((id, fact)) = fact_queue.try_recv() {
        let Some(Incoming { report, .. }) = files.get_mut(&id) else { continue };
        match fact {
            Fact::Written(bytes) => report.bytes = bytes,
            Fact::Done => {
                (report.is_done, report.bytes) = (true, report.size);
                let _ = group.try_broadcast(Control::Done { file: id }.write());
            }
            Fact::Failed(error) => report.failure = Some(error.to_string()),
            Fact::Missing(_) | Fact::Corrupt => {}
        }
    }
    leave(&group, &mut events, is_stopped).await?;
    let files = order.iter().filter_map(|id| Some(files.remove(id)?.report)).collect();
    Ok(Received { files, forgotten, is_stopped })
}

/// Makes the directory, but none above it: a path with a slip would fill a disk that nobody meant.
fn prepare(directory: &Path) -> Result<(), TransferError> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(TransferError::unfit(directory, "is no directory; name one for the files"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = directory.parent().unwrap_or(directory).display();
            Err(TransferError::unfit(directory, format!("{above} does not exist; create it first")))
        }
        made => made.map_err(TransferError::file(directory)),
    }
}

impl Receiver<'_> {
    /// Returns whether all files have come to an end, and the receiver waits for no other. It waits for
    /// nothing more once a file has failed: a person must act.
    fn is_over(&self) -> bool {
        let is_at_end = |file: &Incoming| file.has_ended || file.report.failure.is_some();
        !self.keeps_on
            && !self.files.is_empty()
            && self.files.values().all(|file| file.jobs.is_none() && is_at_end(file))
    }

    async fn observe(&mut self, event: Event) -> Result<(), TransferError> {
        match event {
            Event::View(view) => {
                for file in self.files.values_mut().filter(|file| !view.members.contains(&file.sender)) {
                    // A sender that died may come back; one with a file that is here need not.
                    file.has_ended |= file.jobs.is_none();
                    if file.cut.is_none() {
                        file.cut = Some(Instant::now());
                        if file.jobs.is_some() {
                            file.report.sender_gone = Some(Duration::ZERO);
                            (self.report)(&file.report);
                        }
                    }
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
            Control::Waiting { file, there, wanted } => {
                if let Some(incoming) = self.files.get_mut(&file).filter(|file| file.sender == *from) {
                    incoming.report.waits_for = (there < wanted).then_some((there, wanted));
                }
                Ok(())
            }
            Control::Release { file } => {
                if let Some(incoming) = self.files.get_mut(&file).filter(|file| file.sender == *from) {
                    incoming.has_ended |= incoming.report.is_done;
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
        if let Some(known) = self.files.get_mut(&id) {
            let is_same = known.sender == *from;
            // The same sender again, for others, or another one of the same file.
            if !(known.has_ended || known.cut.is_some()) && (is_same || known.jobs.is_some()) {
                return Ok(());
            }
            self.heard = Instant::now();
            // The sender is back, or its next process.
            (known.sender, known.has_ended, known.cut) = (from.clone(), false, None);
            (known.report.sender, known.report.sender_gone) = (from.to_string(), None);
            known.report.waits_for = None;
            if known.report.is_done {
                return broadcast(&self.group, &Control::Done { file: id }).await;
            }
            if let Some(jobs) = &known.jobs {
                // Behind all pieces that have come.
                let _ = jobs.send(Job::Missing).await;
                return Ok(());
            }
        }
        let mut report = Receiving {
            name: name.clone(),
            sender: from.to_string(),
            size,
            bytes: 0,
            had_bytes: 0,
            elapsed: Duration::ZERO,
            waits_for: None,
            sender_gone: None,
            corrupt: 0,
            is_done: false,
            failure: None,
        };
        if !self.files.contains_key(&id)
            && let Some(cause) = self.refusal(from)
        {
            // This receiver waits for nothing of this sender, and has not failed.
            report.failure = Some(cause.clone());
            (self.report)(&report);
            return broadcast(&self.group, &Control::Failed { file: id, cause }).await;
        }
        self.heard = Instant::now();
        self.replace(from, id, &name).await;
        let opened = self.open(id, &name, size);
        let answer = match opened {
            Ok(Opened::New(store)) => {
                report.bytes = store.written();
                report.had_bytes = report.bytes;
                let missing = listed(store.missing());
                let (jobs, job_queue) = channel(JOBS_MAX);
                let facts = self.facts.clone();
                let thread = std::thread::Builder::new().name("write".to_owned());
                let writer = thread
                    .spawn(move || store.work(job_queue, &facts))
                    .map_err(TransferError::file(&self.directory))?;
                self.add(id, from, report, Some(jobs), Some(writer));
                Control::Want { file: id, is_corrupt: false, missing }
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
                self.add(id, from, report, Some(jobs), None);
                Control::Want { file: id, is_corrupt: false, missing: Vec::new() }
            }
            Err(error) => {
                let cause = cause_of(error, &self.directory.join(&report.name));
                report.failure = Some(cause.clone());
                self.add(id, from, report, None, None);
                Control::Failed { file: id, cause }
            }
        };
        broadcast(&self.group, &answer).await
    }

    /// Returns the reason why the receiver takes no further file of a sender.
    fn refusal(&self, from: &Member) -> Option<String> {
        let other = self.files.values().find(|file| file.report.sender != from.to_string());
        if let Some(other) = other.filter(|_| !self.keeps_on) {
            let first = &other.report;
            return Some(format!(
                "this receiver takes the file of {} only ({}); one with --keep-on takes those of others",
                first.sender, first.name
            ));
        }
        let arriving = self.files.values().filter(|file| file.jobs.is_some()).count();
        (arriving >= FILES_MAX).then(|| {
            format!("{FILES_MAX} files arrive at this receiver already; send again when one is done")
        })
    }

    /// Ends the files of an earlier process at the address of a sender: it comes back no more. One of
    /// the same name makes room for the new contents.
    async fn replace(&mut self, from: &Member, id: FileId, name: &str) {
        let earlier = |(own, file): (&FileId, &Incoming)| {
            let is_earlier = file.sender != *from && file.report.sender == from.to_string();
            (*own != id && is_earlier && file.jobs.is_some()).then_some(*own)
        };
        let earlier: Vec<FileId> = self.files.iter().filter_map(earlier).collect();
        for own in earlier {
            let Some(file) = self.files.get_mut(&own) else { continue };
            file.jobs = None;
            // It writes what it still has, and then lets go of its files.
            if let Some(writer) = file.writer.take() {
                let _ = tokio::task::spawn_blocking(move || writer.join()).await;
            }
            let is_same_name = file.report.name == name;
            let why = if is_same_name {
                "its sender has other contents under this name now, which replace what has come".to_owned()
            } else {
                format!("its sender sends {name} now; what has come is kept")
            };
            file.report.failure = Some(why);
            (self.report)(&file.report);
            if is_same_name {
                self.files.remove(&own);
                self.order.retain(|other| *other != own);
            }
        }
    }

    fn open(&self, id: FileId, name: &str, size: u64) -> Result<Opened, TransferError> {
        let target = self.directory.join(name);
        let is_other = |(own, file): &(&FileId, &Incoming)| {
            **own != id && file.report.name == name && file.jobs.is_some()
        };
        if let Some((_, other)) = self.files.iter().find(is_other) {
            let why = format!("arrives from {} already, with other contents", other.report.sender);
            return Err(TransferError::unfit(target, why));
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

    fn add(
        &mut self,
        id: FileId,
        sender: &Member,
        report: Receiving,
        jobs: Option<Sender<Job>>,
        writer: Option<JoinHandle<()>>,
    ) {
        (self.report)(&report);
        let (begun, sender) = (Instant::now(), sender.clone());
        let incoming = Incoming { sender, report, begun, jobs, writer, has_ended: false, cut: None };
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
                Some(Control::Want { file: id, is_corrupt: false, missing: listed(missing) })
            }
            Fact::Done => {
                (file.report.is_done, file.report.bytes, file.jobs) = (true, file.report.size, None);
                Some(Control::Done { file: id })
            }
            // Once may be a disk that lost what a journal claims.
            Fact::Corrupt if file.report.corrupt == 0 => {
                file.report.corrupt += 1;
                file.report.bytes = 0;
                let missing = if file.report.size > 0 { vec![(0, file.report.size)] } else { Vec::new() };
                Some(Control::Want { file: id, is_corrupt: true, missing })
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
        if self.files.values().any(|file| !file.has_ended && file.cut.is_none()) {
            self.heard = Instant::now();
        }
        for (id, file) in &mut self.files {
            if file.jobs.is_some() {
                file.report.elapsed = file.begun.elapsed();
                file.report.sender_gone = file.cut.map(|at| at.elapsed());
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

/// Returns the reason why a file cannot be received, without the path of the file itself.
fn cause_of(error: TransferError, target: &Path) -> String {
    let (path, why) = match error {
        TransferError::File { path, error } => (path, error.to_string()),
        TransferError::Unfit { path, why } => (path, why),
        other => return other.to_string(),
    };
    match path.file_name().filter(|_| path != target) {
        Some(name) => format!("{}: {why}", name.display()),
        None => why,
    }
}

/// What is known of an offered file.
enum Opened {
    /// A file of this name and size is there, and may be the same.
    Present(PathBuf),
    New(Box<Store>),
}
