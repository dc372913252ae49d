//! The sender: it offers its file, and broadcasts the pieces that receivers miss.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::Bytes;
use samara_net::ring::{Event, Events, Group, Options, Payload};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::MissedTickBehavior;

use crate::receivers::Receivers;
use crate::store::digest_of;
use crate::wire::{self, Control, FileId, read_control};
use crate::{TransferError, broadcast, leave};

/// Time between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Pieces between the reader and the group: enough that neither waits for the other.
const READ_AHEAD: usize = 8;

/// What a sender needs.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The member of the sender.
    pub group: Options,
    /// The file.
    pub path: PathBuf,
    /// Number of receivers to wait for at the start, and to have the file at the end.
    pub members: usize,
    /// Maximum time without any progress, once enough receivers are there: the time that a receiver that
    /// died has to come back.
    pub patience: Duration,
    /// Maximum bytes of the file per second; without one, as fast as the group takes them.
    pub rate: Option<f64>,
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
    /// Whether pieces are on their way. Before, the sender waits for receivers.
    pub has_begun: bool,
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
}

impl Sending {
    /// Returns the bytes of the receiver that has the fewest.
    pub fn slowest_bytes(&self) -> u64 {
        let of = |state: &MemberState| match state {
            MemberState::Receiving(bytes) => Some(*bytes),
            MemberState::Done => Some(self.size),
            MemberState::Failed(_) | MemberState::Left => None,
        };
        self.members.values().filter_map(of).min().unwrap_or(0)
    }
}

/// The end of a transfer.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Whether as many receivers as the sender waited for have the file.
    pub is_complete: bool,
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
    /// Whether enough receivers were there at one time.
    were_enough: bool,
    /// The end of the last piece that was handed to the reader.
    cursor: u64,
    sent_bytes: u64,
    rate: Option<f64>,
    begun: Option<Instant>,
    /// The last change of any state.
    moved: Instant,
    report: &'a mut (dyn FnMut(&Sending) + Send),
}

/// Sends a file to the members of a group. Returns once all receivers have it or do not take it, or the
/// time is over.
///
/// # Errors
/// The file cannot be read or changes, or the member of the group ends.
pub async fn send(
    options: SendOptions,
    report: &mut (dyn FnMut(&Sending) + Send),
) -> Result<Sent, TransferError> {
    let SendOptions { group, path, members, patience, rate } = options;
    let plain = Plain::open(&path)?;
    let (group, mut events) = Group::join(group).await?;
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
        were_enough: false,
        cursor: 0,
        sent_bytes: 0,
        rate,
        begun: None,
        moved: Instant::now(),
        report,
    };
    let is_complete = sender.run(&mut events, digests, patience).await;
    let is_complete = is_complete.and_then(|is_complete| plain.check_unchanged().map(|()| is_complete));
    let end = Control::End { file: plain.id, is_complete: matches!(is_complete, Ok(true)) };
    broadcast(&sender.group, &end).await?;
    leave(&sender.group, &mut events).await?;
    let digest = sender.digest.map(|digest| digest.to_hex().to_string());
    Ok(Sent { is_complete: is_complete?, last: sender.snapshot(), digest })
}

impl Sender<'_> {
    async fn run(
        &mut self,
        events: &mut Events,
        mut digests: tokio::task::JoinHandle<io::Result<blake3::Hash>>,
        patience: Duration,
    ) -> Result<bool, TransferError> {
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
            if self.is_over() {
                return Ok(self.receivers.done() >= self.members);
            }
            // One that does not take the file holds up nobody.
            let there = self.receivers.asked() + self.receivers.refused();
            let has_begun = self.begun.is_some() || there >= self.members;
            let next = self.receivers.next_piece(self.cursor).filter(|_| has_begun);
            let rest = next.map_or(Duration::ZERO, |_| self.rest());
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.observe(event).await?,
                    None => return Err(TransferError::Ended("the group has ended".to_owned())),
                },
                digest = &mut digests, if self.digest.is_none() => {
                    let digest = digest.map_err(|error| TransferError::Ended(error.to_string()))?;
                    self.digest = Some(digest.map_err(TransferError::file(&plain.path))?);
                    self.offer().await?;
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
                _ = tick.tick() => {
                    if self.were_enough && self.moved.elapsed() > patience {
                        return Ok(self.receivers.done() >= self.members);
                    }
                    self.tell();
                }
            }
        }
    }

    /// Returns whether enough receivers have the file or do not take it, and no other one is getting it.
    fn is_over(&self) -> bool {
        self.receivers.done() + self.receivers.refused() >= self.members && !self.receivers.is_any_getting()
    }

    /// Returns the time until the next piece may leave.
    fn rest(&self) -> Duration {
        let (Some(rate), Some(begun)) = (self.rate, self.begun) else { return Duration::ZERO };
        Duration::from_secs_f64(self.sent_bytes as f64 / rate).saturating_sub(begun.elapsed())
    }

    fn sent(&mut self, offset: u64, len: usize) {
        let end = offset + len as u64;
        self.begun.get_or_insert_with(Instant::now);
        self.moved = Instant::now();
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
                self.were_enough |= self.receivers.present() >= self.members;
                self.offer().await?;
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
        let control = read_control(from, payload).filter(|control| control.file() == id);
        let is_request = matches!(control, Some(Control::Want { .. }));
        let Some((state, is_change)) = control.and_then(|control| self.receivers.note(from, control, size))
        else {
            return;
        };
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
            has_begun: self.begun.is_some(),
            sent_bytes: self.sent_bytes,
            elapsed: self.begun.map_or(Duration::ZERO, |begun| begun.elapsed()),
            done: self.receivers.done(),
            members: self.receivers.states(),
            forgotten: self.receivers.forgotten(),
        }
    }

    fn tell(&mut self) {
        let snapshot = self.snapshot();
        (self.report)(&snapshot);
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
        let unfit = |why| TransferError::Unfit { path: path.to_owned(), why };
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
