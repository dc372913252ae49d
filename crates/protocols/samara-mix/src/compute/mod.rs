//! Processing of slots: jobs that the engine requests, and that the driver runs wherever it likes.
//!
//! A job contains everything it needs. Running it has no effect except its result, which returns to
//! the engine with [`Command::Computed`](crate::Command::Computed). So the engine stays
//! deterministic: a runtime runs jobs on all cores ([`Pool`]), and a simulator runs them at once
//! and charges their time.

mod cmix;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use samara_engine::By;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::group::with_field;
use crate::round::{Cause, Half, Phase};
use crate::{Group, Secret, SenderId, sender};
use cmix::{Entry, admit, entries, pop_code};

/// A number that is not an element of the group: its sender violates the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the number is not an element of the group")]
pub struct BadElement;

/// The position of a node in the team of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) position: u16,
    pub(crate) team: u16,
}

impl Seat {
    pub(crate) const fn is_first(self) -> bool {
        self.position == 0
    }

    pub(crate) const fn is_last(self) -> bool {
        self.position + 1 == self.team
    }

    /// Returns the number of codes of a slot that arrives at this seat for real-time decryption.
    pub(crate) const fn codes(self) -> usize {
        (self.team - self.position) as usize
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// New slots: all elements are 1.
    Ones,
    /// Only these slots.
    Some {
        elements: Bytes,
        /// Only for [`Phase::Decrypt`].
        credentials: Bytes,
    },
    /// All slots of the batch, from which the permutation selects.
    All { elements: Bytes },
}

pub(crate) struct Slots {
    pub(crate) round: u64,
    pub(crate) phase: Phase,
    /// The index of the first outgoing slot.
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) input: Input,
    /// The secret shared with the sender of each slot, if it is known. Only for [`Phase::Decrypt`].
    pub(crate) shared: Vec<Option<Secret>>,
}

impl Slots {
    /// Returns the elements of an incoming slot in a batch, or in a piece of it.
    pub(crate) fn slot<'a>(&self, group: Group, elements: &'a [u8], index: usize) -> &'a [u8] {
        let width = self.phase.elements() * group.element_bytes();
        &elements[index * width..(index + 1) * width]
    }
}

samara_engine::names! {
    /// The cause of a voided slot, for which only its sender is responsible.
    pub enum Voided {
        UnknownSender = "unknown_sender",
        /// The code is wrong: another round, another sender, or changed elements.
        WrongCode = "wrong_code",
        BadElement = "bad_element",
        /// The salt was repeated in the round: the slot is a copy of another one.
        Repeated = "repeated",
    }
}

#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) elements: Vec<u8>,
    pub(crate) credentials: Vec<u8>,
    pub(crate) voided: By<Voided>,
    /// The senders of valid payloads; only for [`Phase::Decrypt`]. Neighbours are different.
    pub(crate) senders: Vec<SenderId>,
}

impl Output {
    /// Notes the sender of a valid payload.
    pub(crate) fn admit(&mut self, sender: SenderId) {
        // Slots of one sender often follow each other.
        if self.senders.last() != Some(&sender) {
            self.senders.push(sender);
        }
    }
}

/// The secrets of one node for one round. They are erased when dropped.
pub(crate) trait Vault: Send + Sync {
    /// Raises a share of the team's key by this node's exponent. A share that went through all
    /// nodes is the key, which is stored.
    fn share(&self, key: &[u8], is_complete: bool) -> Result<Vec<u8>, BadElement>;

    fn work(&self, slots: &Slots) -> Result<Output, BadElement>;
}

/// Draws the secrets of a round from its seed.
pub(crate) fn generate(group: Group, seat: Seat, batch: u32, seed: &Secret) -> Arc<dyn Vault> {
    with_field!(group, F => F::vault(group, seat, batch, seed), model => Arc::new(Model::new(seat, batch, seed)))
}

pub(crate) enum Task {
    Generate {
        seat: Seat,
        batch: u32,
        seed: Secret,
    },
    Share {
        vault: Arc<dyn Vault>,
        origin: u16,
        key: Bytes,
        is_complete: bool,
    },
    /// Processes slots.
    Slots {
        vault: Arc<dyn Vault>,
        seat: Seat,
        slots: Slots,
    },
}

/// A piece of work. [`run`](Self::run) it anywhere, and return the result to the engine.
pub struct Job {
    pub(crate) round: u64,
    pub(crate) group: Group,
    pub(crate) task: Task,
}

pub(crate) enum Answer {
    Generated(Arc<dyn Vault>),
    Shared { origin: u16, key: Bytes, is_complete: bool },
    Slots { phase: Phase, first: u32, count: u32, output: Output },
}

pub struct Done {
    pub(crate) round: u64,
    pub(crate) answer: Result<Answer, Cause>,
}

/// Returns the processor time of this thread, or the time since the first call where the system
/// does not know it.
fn thread_time() -> Duration {
    #[cfg(unix)]
    if let Ok(time) = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID) {
        return time.into();
    }
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

impl Job {
    /// Runs the job on this thread. The result depends only on the job. If the work panics, the
    /// round fails and the caller continues.
    pub fn run(self) -> Done {
        let round = self.round;
        // A panic leaves nothing behind that others use: the round drops its secrets.
        let answer = catch_unwind(AssertUnwindSafe(|| self.answer()));
        answer.map_or_else(
            |_| Done::panicked(round),
            |answer| Done { round, answer: answer.map_err(|BadElement| Cause::BadElement) },
        )
    }

    /// Runs the job as [`run`](Self::run). Also returns the processor time that it took, or the time
    /// where the system does not know that of a thread.
    pub fn run_timed(self) -> (Done, Duration) {
        let start = thread_time();
        let done = self.run();
        (done, thread_time().saturating_sub(start))
    }

    fn answer(self) -> Result<Answer, BadElement> {
        match self.task {
            Task::Generate { seat, batch, seed } => {
                Ok(Answer::Generated(generate(self.group, seat, batch, &seed)))
            }
            Task::Share { vault, origin, key, is_complete } => vault
                .share(&key, is_complete)
                .map(|key| Answer::Shared { origin, key: key.into(), is_complete }),
            Task::Slots { vault, slots, .. } => vault.work(&slots).map(|output| Answer::Slots {
                phase: slots.phase,
                first: slots.first,
                count: slots.count,
                output,
            }),
        }
    }

    pub const fn round(&self) -> u64 {
        self.round
    }

    /// Returns the phase of the job, or `None` for the keys at the start of a round.
    pub const fn phase(&self) -> Option<Phase> {
        match &self.task {
            Task::Slots { slots, .. } => Some(slots.phase),
            _ => None,
        }
    }

    pub const fn half(&self) -> Half {
        match &self.task {
            Task::Slots { slots, .. } => slots.phase.half(),
            _ => Half::Precomputation,
        }
    }

    pub const fn is_share(&self) -> bool {
        matches!(self.task, Task::Share { .. })
    }

    /// Returns true if it processes slots at the last node of the team, which has more to do in
    /// some phases.
    pub fn is_last(&self) -> bool {
        matches!(&self.task, Task::Slots { seat, .. } if seat.is_last())
    }

    pub const fn slots(&self) -> u32 {
        match &self.task {
            Task::Slots { slots, .. } => slots.count,
            _ => 0,
        }
    }

    /// Returns the bytes of slots that it keeps in memory, alone or shared with others.
    pub(crate) fn held_bytes(&self) -> u64 {
        match &self.task {
            Task::Slots { slots: Slots { input: Input::Some { elements, credentials }, .. }, .. } => {
                (elements.len() + credentials.len()) as u64
            }
            _ => 0,
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.task {
            Task::Generate { .. } => "generate",
            Task::Share { .. } => "share",
            Task::Slots { slots, .. } => slots.phase.name(),
        };
        write!(f, "Job(round {}, {name}, {} slots)", self.round, self.slots())
    }
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = self.answer.as_ref().map_or_else(|cause| cause.name(), |_| "ok");
        write!(f, "Done(round {}, {answer})", self.round)
    }
}

impl Done {
    /// Returns the result of a job whose work panicked: its round fails.
    pub const fn panicked(round: u64) -> Self {
        Self { round, answer: Err(Cause::Panicked) }
    }

    pub const fn round(&self) -> u64 {
        self.round
    }
}

/// Threads that run jobs. The engine limits the number of running jobs and starts real-time ones
/// first, so the pool needs no order of its own.
#[derive(Debug)]
pub struct Pool(ThreadPool);

impl Pool {
    /// Creates a pool of this many threads, or of one for each core if `threads` is 0.
    ///
    /// # Errors
    /// Returns an error if the system cannot start the threads.
    pub fn new(threads: usize) -> Result<Self, ThreadPoolBuildError> {
        let named = |index| format!("mix-{index}");
        // The panic hook has reported it. Without a handler, rayon aborts the process.
        let survive = |_| {};
        let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(named);
        builder.panic_handler(survive).build().map(Self)
    }

    pub fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    /// Runs any function on some thread, such as a job with additional work. A panic of the
    /// function ends nothing else.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.0.spawn(work);
    }

    /// Runs a job on some thread, and calls `done` there with the result.
    pub fn run(&self, job: Job, done: impl FnOnce(Done) + Send + 'static) {
        self.0.spawn(move || done(job.run()));
    }
}

struct Model {
    seat: Seat,
    permutation: Zeroizing<Vec<u32>>,
}

impl Model {
    fn new(seat: Seat, batch: u32, seed: &Secret) -> Self {
        let permutation = seed.stream("permutation", 0).permutation(batch);
        Self { seat, permutation: Zeroizing::new(permutation) }
    }

    fn decrypt(&self, slots: &Slots) -> Output {
        let mut out = Output::default();
        for (elements, credentials, shared) in entries(Group::Model, self.seat, slots) {
            let entry = admit(self.seat, slots.round, shared, elements, credentials, &mut out.voided);
            let is_void = !matches!(entry, Entry::Admitted(_));
            if let Entry::Admitted(admitted) = &entry {
                out.admit(admitted.sender);
            }
            match entry {
                Entry::Void => out.elements.extend(sender::void(Group::Model)),
                Entry::Admitted(_) | Entry::WasVoid => out.elements.extend_from_slice(elements),
            }
            pop_code(self.seat, credentials, is_void, &mut out.credentials);
        }
        out
    }
}

impl Vault for Model {
    fn share(&self, key: &[u8], _is_complete: bool) -> Result<Vec<u8>, BadElement> {
        Ok(key.to_vec())
    }

    fn work(&self, slots: &Slots) -> Result<Output, BadElement> {
        // After the permutation, the last node sends only ciphertexts: half of what arrived.
        let width = match slots.phase {
            Phase::PrecomputePermute if self.seat.is_last() => Group::Model.slot_bytes(),
            Phase::Reveal if self.seat.is_last() => 0,
            phase => phase.elements() * Group::Model.element_bytes(),
        };
        let mut out = Output::default();
        match &slots.input {
            _ if slots.phase == Phase::Decrypt => out = self.decrypt(slots),
            Input::Ones => out.elements.resize(slots.count as usize * width, 0),
            Input::Some { elements, .. } if width > 0 => out.elements.extend_from_slice(elements),
            Input::Some { .. } => {}
            Input::All { elements } => {
                for slot in slots.first..slots.first + slots.count {
                    let from = self.permutation[slot as usize] as usize;
                    out.elements.extend_from_slice(&slots.slot(Group::Model, elements, from)[..width]);
                }
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    struct Panics;

    impl Vault for Panics {
        fn share(&self, _: &[u8], _: bool) -> Result<Vec<u8>, BadElement> {
            panic!("a bug")
        }

        fn work(&self, _: &Slots) -> Result<Output, BadElement> {
            panic!("a bug")
        }
    }

    #[test]
    fn panic_in_a_job_ends_neither_the_pool_nor_the_process() {
        let pool = Pool::new(1).expect("it starts");
        let (sender, results) = channel();
        let seat = Seat { position: 0, team: 2 };
        let tasks = [
            Task::Share { vault: Arc::new(Panics), origin: 0, key: Bytes::new(), is_complete: false },
            Task::Generate { seat, batch: 1, seed: Secret::new([0; 32]) },
        ];
        // The functions of drivers around jobs may panic too.
        pool.spawn(|| panic!("a bug"));
        for (round, task) in (0..).zip(tasks) {
            let sender = sender.clone();
            let job = Job { round, group: Group::Model, task };
            pool.run(job, move |done| sender.send(done).expect("the test waits"));
        }
        let results: Vec<String> = results.iter().take(2).map(|done| format!("{done:?}")).collect();
        assert_eq!(results, ["Done(round 0, panicked)", "Done(round 1, ok)"]);
    }
}
