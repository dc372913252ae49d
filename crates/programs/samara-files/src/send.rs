//! The sender: it offers its file, and broadcasts the pieces that receivers miss.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::Bytes;
use samara_net::ring::{Event, Events, Group, Options, Payload, Refusal};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::MissedTickBehavior;

use crate::receipts::Receipts;
use crate::receivers::Receivers;
use crate::store::digest_of;
use crate::wire::{self, Control, FileId, read_control};
use crate::{TransferError, broadcast, leave};

/// Time between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Pieces between the reader and the group: enough that neither waits for the other.
const READ_AHEAD: usize = 8;
/// Time whose bytes a sender with a rate may catch up on.
const CREDIT: Duration = Duration::from_millis(100);
/// The reasons of refused links that an operator can mend: another secret or none, another name of the
/// group, other options.
const REFUSALS: [&str; 4] = ["unauthenticated", "handshake", "other_group", "other_options"];

/// What a sender needs.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The member of the sender.
    pub group: Options,
    /// The file.
    pub path: PathBuf,
    /// Number of receivers to wait for at the start, and to have the file at the end. A member that
    /// sends is no receiver.
    pub members: usize,
    /// Maximum time without any progress, once enough receivers are there: the time that a receiver that
    /// died has to come back.
    pub patience: Duration,
    /// Maximum bytes of the file per second, without what the wire adds; without one, as fast as the
    /// group takes them.
    pub rate: Option<f64>,
    /// Whether the sender stays for later receivers until it is stopped.
    pub keeps_on: bool,
}

/// The state of a receiver, as the sender knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has so many bytes.
    Receiving(u64),
    /// It has the file, verified.
    Done,
    /// It does not take the file.
    Failed(String),
    /// It left or died before it had the file.
    Left,
}

/// A report of the sender, every second and when a receiver changes its state.
#[derive(Clone, Debug)]
pub struct Sending {
    /// Length of the file in bytes.
    pub size: u64,
    /// Whether enough receivers were there. Before, the sender waits for them.
    pub has_begun: bool,
    /// Number of receivers that are there: they take pieces, have the file, or do not take it.
    pub there: usize,
    /// Bytes that were broadcast, with those that were repeated for late receivers.
    pub sent_bytes: u64,
    /// Time since the first piece.
    pub elapsed: Duration,
    /// Number of receivers that have the file.
    pub done: usize,
    /// The receivers by address: those in the group, and those seen last.
    pub members: BTreeMap<String, MemberState>,
    /// Number of receivers that are gone and not in `members` any more, which has at most 1,024.
    pub forgotten: usize,
    /// How often the bytes of a receiver were complete and wrong, of those with any. They go again.
    pub corrupt: BTreeMap<String, u32>,
    /// The last hosts whose nodes the sender refused, by the reason: `unauthenticated` (another
    /// secret), `handshake` (no secret), `other_group` and `other_options`.
    pub refusals: Vec<Refusal>,
    /// The reason why receipts were not read or are not kept.
    pub receipts_failure: Option<String>,
}

impl Sending {
    /// Returns the receiver that gets the file and has the fewest bytes, with them.
    pub fn slowest(&self) -> Option<(&str, u64)> {
        let getting = self.members.iter().filter_map(|(name, state)| match state {
            MemberState::Receiving(bytes) => Some((*bytes, name)),
            MemberState::Done | MemberState::Failed(_) | MemberState::Left => None,
        });
        let (bytes, name) = getting.min()?;
        Some((name, bytes))
    }
}

/// The end of a transfer.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Whether as many receivers as the sender waited for have the file.
    pub is_complete: bool,
    /// Whether the sender was stopped.
    pub is_stopped: bool,
    /// The last report.
    pub last: Sending,
    /// BLAKE3 of the file; absent if it was not known at the end.
    pub digest: Option<String>,
}

struct Sender<'a> {
    group: Group,
    plain: &'a Plain,
    digest: Option<blake3::Hash>,
    members: usize,
    receivers: Receivers,
    receipts: Receipts,
    keeps_on: bool,
    /// Whether enough receivers were there at one time.
    has_begun: bool,
    /// The number of receivers in the last [`Control::Waiting`], if nobody joined since.
    announced: Option<usize>,
    /// Whether receivers have got the file since the last [`Control::Release`].
    owes_release: bool,
    refusals: Vec<Refusal>,
    /// The end of the last piece that was handed to the reader.
    cursor: u64,
    sent_bytes: u64,
    pacer: Pacer,
    /// The time of the first piece.
    begun: Option<Instant>,
    /// The last change of any state.
    moved: Instant,
    report: &'a mut (dyn FnMut(&Sending) + Send),
}

/// Why the sender ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Enough receivers have the file or do not take it.
    Over,
    /// There was no progress.
    Late,
    Stopped,
}

/// Sends a file to the members of a group. Returns once all receivers have it or do not take it, the
/// time is over, or `stop` is ready. Receivers wait for a sender that was stopped as for one that died.
///
/// Receipts of receivers that have verified the file are in a hidden file beside it (`.NAME.receipts`)
/// until all have it, so that a sender that starts again counts them.
///
/// # Errors
/// The file cannot be read or changes, or the member of the group ends.
pub async fn send(
    options: SendOptions,
    stop: impl Future<Output = ()> + Send,
    report: &mut (dyn FnMut(&Sending) + Send),
) -> Result<Sent, TransferError> {
    let SendOptions { group, path, members, patience, rate, keeps_on } = options;
    tokio::pin!(stop);
    let plain = Plain::open(&path)?;
    let (group, mut events) = tokio::select! {
        joined = Group::join(group) => joined?,
        () = &mut stop => return Err(TransferError::Stopped),
    };
    let digests = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || digest_of(&path))
    };
    let mut sender = Sender {
        group,
        plain: &plain,
        digest: None,
        members,
        receivers: Receivers::default(),
        receipts: Receipts::beside(&path, &plain.name),
        keeps_on,
        has_begun: false,
        announced: None,
        owes_release: false,
        refusals: Vec::new(),
        cursor: 0,
        sent_bytes: 0,
        pacer: Pacer { rate, next: None },
        begun: None,
        moved: Instant::now(),
        report,
    };
    let ending = sender.run(&mut events, digests, patience, stop).await;
    let ending = ending.and_then(|ending| plain.check_unchanged().map(|()| ending));
    let is_complete = ending.is_ok() && sender.receivers.done() >= members;
    let is_stopped = matches!(ending, Ok(Ending::Stopped));
    if is_complete {
        sender.receipts.remove();
    }
    if !is_stopped {
        broadcast(&sender.group, &Control::End { file: plain.id, is_complete }).await?;
    }
    leave(&sender.group, &mut events, is_stopped).await?;
    ending?;
    let digest = sender.digest.map(|digest| digest.to_hex().to_string());
    Ok(Sent { is_complete, is_stopped, last: sender.snapshot(), digest })
}

impl Sender<'_> {
    async fn run(
        &mut self,
        events: &mut Events,
        mut digests: tokio::task::JoinHandle<io::Result<blake3::Hash>>,
        patience: Duration,
        mut stop: std::pin::Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Result<Ending, TransferError> {
        let plain = self.plain;
        let (orders, order_queue) = channel::<(u64, usize)>(READ_AHEAD);
        let (pieces, mut piece_queue) = channel(READ_AHEAD);
        let reader = plain.reader(order_queue, pieces);
        std::thread::Builder::new()
            .name("read".to_owned())
            .spawn(reader)
            .map_err(TransferError::file(&plain.path))?;
        let group = self.group.clone();
        // A task of its own: a sender that waits for room still takes its events.
        let mut pump = tokio::spawn(async move {
            while let Some(piece) = piece_queue.recv().await {
                group.broadcast(piece?).await.map_err(|error| io::Error::other(error.to_string()))?;
            }
            Ok::<(), io::Error>(())
        });
        let mut tick = tokio::time::interval(REPORT_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.announce().await?;
            if !self.keeps_on && self.is_over() {
                return Ok(Ending::Over);
            }
            if self.keeps_on && self.owes_release && !self.receivers.is_any_getting() {
                self.owes_release = false;
                broadcast(&self.group, &Control::Release { file: plain.id }).await?;
            }
            let next = self.receivers.next_piece(self.cursor).filter(|_| self.has_begun);
            let rest = next.map_or(Duration::ZERO, |_| self.pacer.rest(Instant::now()));
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.observe(event).await?,
                    None => return Err(TransferError::Ended("the group has ended".to_owned())),
                },
                digest = &mut digests, if self.digest.is_none() => {
                    let digest = digest.map_err(|error| TransferError::Ended(error.to_string()))?;
                    let digest = digest.map_err(TransferError::file(&plain.path))?;
                    self.digest = Some(digest);
                    for name in self.receipts.read(&digest) {
                        self.receivers.note_receipt(name);
                    }
                    self.offer().await?;
                    self.tell();
                }
                () = tokio::time::sleep(rest), if !rest.is_zero() => {}
                Ok(order) = orders.reserve(), if next.is_some() && rest.is_zero() => {
                    let Some((offset, len)) = next else { continue };
                    order.send((offset, len));
                    self.sent(offset, len);
                }
                failed = &mut pump => {
                    let error = match failed {
                        Ok(Ok(())) => io::Error::other("the reader ended"),
                        Ok(Err(error)) => error,
                        Err(error) => io::Error::other(error.to_string()),
                    };
                    return Err(TransferError::file(&plain.path)(error));
                }
                () = &mut stop => return Ok(Ending::Stopped),
                _ = tick.tick() => {
                    if self.has_begun && !self.keeps_on && self.moved.elapsed() > patience {
                        return Ok(Ending::Late);
                    }
                    self.refusals = self.group.status().await?.refusals;
                    self.refusals.retain(|refusal| REFUSALS.contains(&refusal.cause));
                    self.tell();
                }
            }
        }
    }

    /// Tells the receivers how many are there, until enough are. One that does not take the file holds
    /// up nobody.
    async fn announce(&mut self) -> Result<(), TransferError> {
        let (there, wanted) = (self.receivers.there(), self.members);
        if self.has_begun || self.announced == Some(there) {
            return Ok(());
        }
        if there >= wanted {
            (self.has_begun, self.moved) = (true, Instant::now());
        }
        self.announced = Some(there);
        broadcast(&self.group, &Control::Waiting { file: self.plain.id, there, wanted }).await
    }

    /// Returns whether enough receivers have the file or do not take it, and no other one is getting it.
    fn is_over(&self) -> bool {
        self.receivers.done() + self.receivers.refused() >= self.members && !self.receivers.is_any_getting()
    }

    fn sent(&mut self, offset: u64, len: usize) {
        let end = offset + len as u64;
        let now = Instant::now();
        self.begun.get_or_insert(now);
        self.pacer.sent(len, now);
        self.moved = now;
        self.cursor = end;
        self.sent_bytes += len as u64;
        self.receivers.sent(offset, end);
    }

    async fn observe(&mut self, event: Event) -> Result<(), TransferError> {
        let own = self.group.address().to_string();
        match event {
            Event::View(view) => {
                let others = view.members.iter().map(ToString::to_string).filter(|name| *name != own);
                if self.receivers.note_view(&others.collect::<Vec<_>>()) {
                    self.moved = Instant::now();
                }
                self.offer().await?;
                // For those that joined.
                self.announced = None;
                self.tell();
            }
            // The pieces of this sender come back to it.
            Event::Delivered { origin, payload, .. } => match origin.to_string() {
                from if from == own => {}
                from => self.receive(&from, &payload),
            },
            _ => {}
        }
        Ok(())
    }

    fn receive(&mut self, from: &str, payload: &Payload) {
        let Plain { id, size, .. } = *self.plain;
        let control = read_control(from, payload);
        if matches!(control, Some(Control::Offer { .. })) {
            return self.receivers.note_sender(from);
        }
        let control = control.filter(|control| control.file() == id);
        let (is_request, is_done) =
            (matches!(control, Some(Control::Want { .. })), matches!(control, Some(Control::Done { .. })));
        let done = self.receivers.done();
        let Some((state, is_change)) = control.and_then(|control| self.receivers.note(from, control, size))
        else {
            return;
        };
        self.owes_release |= is_done;
        if let Some(digest) = self.digest.filter(|_| self.receivers.done() != done) {
            self.receipts.write(&digest, self.receivers.with_file());
        }
        if is_change || is_request {
            self.moved = Instant::now();
        }
        if is_change && !matches!(state, MemberState::Receiving(_)) {
            self.tell();
        }
    }

    async fn offer(&mut self) -> Result<(), TransferError> {
        let Plain { id: file, ref name, size, .. } = *self.plain;
        broadcast(&self.group, &Control::Offer { file, name: name.clone(), size }).await?;
        match self.digest {
            Some(digest) => {
                let digest = digest.to_hex().to_string();
                broadcast(&self.group, &Control::Digest { file, digest }).await
            }
            None => Ok(()),
        }
    }

    fn snapshot(&self) -> Sending {
        Sending {
            size: self.plain.size,
            has_begun: self.has_begun,
            there: self.receivers.there(),
            sent_bytes: self.sent_bytes,
            elapsed: self.begun.map_or(Duration::ZERO, |begun| begun.elapsed()),
            done: self.receivers.done(),
            members: self.receivers.states(),
            forgotten: self.receivers.forgotten(),
            corrupt: self.receivers.corrupt(),
            refusals: self.refusals.clone(),
            receipts_failure: self.receipts.failure().map(str::to_owned),
        }
    }

    fn tell(&mut self) {
        let snapshot = self.snapshot();
        (self.report)(&snapshot);
    }
}

/// Spreads bytes over time. A group that has stalled does not get what it missed at once.
struct Pacer {
    /// Bytes per second.
    rate: Option<f64>,
    /// The time from which the next piece may leave.
    next: Option<Instant>,
}

impl Pacer {
    /// Returns the time until the next piece may leave.
    fn rest(&self, now: Instant) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
    }

    fn sent(&mut self, bytes: usize, now: Instant) {
        let Some(rate) = self.rate else { return };
        let from = self.next.map_or(now, |next| next.max(now.checked_sub(CREDIT).unwrap_or(now)));
        self.next = Some(from + Duration::from_secs_f64(bytes as f64 / rate));
    }
}

/// A plain file to send.
struct Plain {
    path: PathBuf,
    name: String,
    size: u64,
    id: FileId,
    file: File,
}

impl Plain {
    fn open(path: &Path) -> Result<Self, TransferError> {
        let unfit = |why| TransferError::unfit(path, why);
        let file = File::open(path).map_err(TransferError::file(path))?;
        let metadata = file.metadata().map_err(TransferError::file(path))?;
        if !metadata.is_file() {
            return Err(unfit("is no plain file; `tar` makes one of a directory"));
        }
        let name =
            path.file_name().and_then(|name| name.to_str()).ok_or_else(|| unfit("has no name in UTF-8"))?;
        wire::check_name(name).map_err(unfit)?;
        let (id, name, size) = (id_of(name, &metadata), name.to_owned(), metadata.len());
        Ok(Self { path: path.to_owned(), name, size, id, file })
    }

    fn check_unchanged(&self) -> Result<(), TransferError> {
        let metadata = fs::metadata(&self.path).map_err(TransferError::file(&self.path))?;
        let is_same = metadata.len() == self.size && id_of(&self.name, &metadata) == self.id;
        is_same.then_some(()).ok_or_else(|| TransferError::Changed { path: self.path.clone() })
    }

    /// Returns the work of a thread that reads pieces in the order of their numbers.
    fn reader(
        &self,
        mut orders: Receiver<(u64, usize)>,
        pieces: tokio::sync::mpsc::Sender<io::Result<Bytes>>,
    ) -> impl FnOnce() + Send + 'static + use<> {
        let (id, file) = (self.id, self.file.try_clone());
        move || {
            let file = match file {
                Ok(file) => file,
                Err(error) => return drop(pieces.blocking_send(Err(error))),
            };
            while let Some((offset, len)) = orders.blocking_recv() {
                let mut piece = wire::piece_header(id, offset);
                let begin = piece.len();
                piece.resize(begin + len, 0);
                let read = file.read_exact_at(&mut piece[begin..], offset).map(|()| Bytes::from(piece));
                let is_wrong = read.is_err();
                if pieces.blocking_send(read).is_err() || is_wrong {
                    return;
                }
            }
        }
    }
}

fn id_of(name: &str, metadata: &fs::Metadata) -> FileId {
    let modified =
        metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(name.as_bytes())
        .update(&metadata.len().to_le_bytes())
        .update(&modified.as_nanos().to_le_bytes());
    let digest = hasher.finalize();
    FileId(u64::from_le_bytes(digest.as_bytes()[..8].try_into().expect("eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_after_a_stall() {
        let begun = Instant::now();
        let mut pacer = Pacer { rate: Some(1000.0), next: None };
        let sent_until = |pacer: &mut Pacer, now: Instant| {
            let mut bytes = 0;
            while pacer.rest(now).is_zero() {
                pacer.sent(50, now);
                bytes += 50;
            }
            bytes
        };
        assert_eq!(sent_until(&mut pacer, begun), 50, "one piece at a time");
        assert_eq!(sent_until(&mut pacer, begun + Duration::from_millis(50)), 50);
        let late = sent_until(&mut pacer, begun + Duration::from_secs(60));
        assert!((100..=150).contains(&late), "{late} bytes after a stall of a minute");
    }
}
