//! One simulation in several processes: each has a part of the hosts, and packets are exchanged at the borders of windows.
//!
//! Hosts are independent within a window, so that it makes no difference where they are simulated: the digest is that of one process.

mod packets;

use std::collections::VecDeque;

use samara_engine::{Engine, Time};
use thiserror::Error;

pub use packets::{FrameCodec, Reader};

use crate::simulation::{Record, Simulation};
use packets::{read_packet, write_packet};

/// The processes of a simulation. Each calls the same methods in the same order, and waits in them for all others.
pub trait Ranks {
    /// The number of this process.
    fn rank(&self) -> usize;

    /// How many processes there are.
    fn count(&self) -> usize;

    /// The least of the values of all processes.
    ///
    /// # Errors
    /// Another process is gone.
    fn least(&mut self, value: u64) -> Result<u64, RankError>;

    /// Sends bytes to each process, this one included, and returns what each sent to this one. Empties what it is given.
    ///
    /// # Errors
    /// Another process is gone.
    fn exchange(&mut self, outgoing: &mut [Vec<u8>]) -> Result<Vec<Vec<u8>>, RankError>;

    /// Ends the other processes, if they would wait for this one, which cannot go on.
    fn give_up(&mut self) {}
}

/// Why processes cannot go on together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RankError {
    /// Another process is gone, or cannot be reached.
    #[error("another process of the simulation is gone: {0}")]
    Gone(String),
    /// What another process sent cannot be read: it is of another version.
    #[error("process {from} sent what is no packet; all processes must run the same program")]
    Garbled {
        /// Which.
        from: usize,
    },
}

/// The hosts of one of several processes: those of a network, as evenly as there are whole ones.
pub fn part_of(hosts: u32, rank: usize, ranks: usize) -> std::ops::Range<u32> {
    let border = |rank: usize| (u64::from(hosts) * rank as u64 / ranks as u64) as u32;
    border(rank)..border(rank + 1)
}

impl<N: Engine> Simulation<N> {
    /// Like [`run_until`](Simulation::run_until), in step with the other processes: all call it with the same time. The observer gets the records
    /// of this part.
    ///
    /// # Errors
    /// Another process is gone.
    ///
    /// # Panics
    /// If the parts of the processes are not those of [`part_of`].
    pub fn run_until_together(
        &mut self,
        until: Time,
        ranks: &mut dyn Ranks,
        codec: &dyn FrameCodec<N::Frame>,
        mut observer: impl FnMut(Record<N::Event>),
    ) -> Result<(), RankError> {
        assert_eq!(
            self.part(),
            part_of(self.world_size(), ranks.rank(), ranks.count()),
            "the part of a process"
        );
        let until = until.as_nanos();
        if self.start_part() {
            self.exchange(ranks, codec)?;
            self.hand_over(&mut observer);
        }
        loop {
            let start = ranks.least(self.next())?;
            if start >= until {
                break;
            }
            self.run_window(start, until);
            self.exchange(ranks, codec)?;
            self.hand_over(&mut observer);
        }
        self.reach(until);
        Ok(())
    }

    /// Sends packets to hosts of other parts, and takes theirs.
    fn exchange(&mut self, ranks: &mut dyn Ranks, codec: &dyn FrameCodec<N::Frame>) -> Result<(), RankError> {
        let (hosts, count) = (self.world_size(), ranks.count());
        let mut outgoing = vec![Vec::new(); count];
        let borders: Vec<u32> = (0..count).map(|rank| part_of(hosts, rank, count).end).collect();
        for packet in self.away() {
            let to = borders.partition_point(|end| *end <= packet.heading.host());
            write_packet(&packet, codec, &mut outgoing[to]);
        }
        for (from, bytes) in ranks.exchange(&mut outgoing)?.into_iter().enumerate() {
            let mut reader = Reader::new(&bytes);
            while !reader.is_empty() {
                let packet = read_packet(&mut reader, codec)
                    .filter(|packet| self.part().contains(&packet.heading.host()) && packet.src < hosts);
                self.take_packet(packet.ok_or(RankError::Garbled { from })?);
            }
        }
        Ok(())
    }
}

/// A process that is alone: for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Ranks for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn count(&self) -> usize {
        1
    }

    fn least(&mut self, value: u64) -> Result<u64, RankError> {
        Ok(value)
    }

    fn exchange(&mut self, outgoing: &mut [Vec<u8>]) -> Result<Vec<Vec<u8>>, RankError> {
        Ok(outgoing.iter_mut().map(std::mem::take).collect())
    }
}

/// Processes that are threads of one: what tests use in the place of a cluster.
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    senders: Vec<std::sync::mpsc::Sender<(usize, Vec<u8>)>>,
    receiver: std::sync::mpsc::Receiver<(usize, Vec<u8>)>,
    /// What came from processes that are further on than this one.
    early: Vec<VecDeque<Vec<u8>>>,
}

impl Threads {
    /// So many of them.
    pub fn new(count: usize) -> Vec<Self> {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| std::sync::mpsc::channel()).unzip();
        let of = |(rank, receiver)| Self {
            rank,
            senders: senders.clone(),
            receiver,
            early: vec![VecDeque::new(); count],
        };
        receivers.into_iter().enumerate().map(of).collect()
    }
}

impl Ranks for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        self.senders.len()
    }

    fn least(&mut self, value: u64) -> Result<u64, RankError> {
        let mut outgoing = vec![value.to_le_bytes().to_vec(); self.count()];
        let all = self.exchange(&mut outgoing)?;
        let value = |bytes: &Vec<u8>| bytes.as_slice().try_into().map_or(u64::MAX, u64::from_le_bytes);
        Ok(all.iter().map(value).min().unwrap_or(u64::MAX))
    }

    fn exchange(&mut self, outgoing: &mut [Vec<u8>]) -> Result<Vec<Vec<u8>>, RankError> {
        let gone = || RankError::Gone("its thread has ended".to_owned());
        for (sender, bytes) in self.senders.iter().zip(outgoing) {
            sender.send((self.rank, std::mem::take(bytes))).map_err(|_| gone())?;
        }
        while self.early.iter().any(VecDeque::is_empty) {
            let (from, bytes) = self.receiver.recv().map_err(|_| gone())?;
            self.early[from].push_back(bytes);
        }
        Ok(self.early.iter_mut().filter_map(VecDeque::pop_front).collect())
    }
}
