//! One simulation in several processes. Each process simulates some of the hosts, and processes
//! exchange packets at the ends of windows.
//!
//! Hosts are independent within a window, so that the results do not depend on where a host is
//! simulated: the digest is the same as with one process.

use std::collections::VecDeque;

use samara_engine::{Frame, FrameCodec, Reader};
use smallvec::SmallVec;
use thiserror::Error;

use crate::explain::Carried;
use crate::packet::{Body, Heading, Packet, Sack};
use crate::simulation::AnySimulation;

/// The processes of a simulation. Each one calls the same methods in the same order, and each call
/// waits for all processes.
pub trait Ranks {
    /// Returns the number of this process, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of processes.
    fn count(&self) -> usize;

    /// Returns the minimum of the values of all processes.
    ///
    /// # Errors
    /// Returns an error if another process is gone.
    fn least(&mut self, value: u64) -> Result<u64, RankError>;

    /// Sends bytes to each process, including this one, and returns the bytes that each process
    /// sent to this one. Empties `outgoing`.
    ///
    /// # Errors
    /// Returns an error if another process is gone.
    fn exchange(&mut self, outgoing: &mut [Vec<u8>]) -> Result<Vec<Vec<u8>>, RankError>;

    /// Ends the other processes, if they would otherwise wait for this one, which cannot continue.
    fn give_up(&mut self) {}
}

/// The reason why processes cannot continue together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RankError {
    /// Another process is gone or unreachable.
    #[error("another process of the simulation is gone: {0}")]
    Gone(String),
    /// The data of another process cannot be decoded: it runs another version.
    #[error("process {from} sent an invalid packet; all processes must run the same program")]
    Garbled {
        /// The number of that process.
        from: usize,
    },
}

/// Returns the hosts of one of several processes. The shares of all processes differ by at most one
/// host.
pub fn hosts_of_rank(hosts: u32, rank: usize, ranks: usize) -> std::ops::Range<u32> {
    let border = |rank: usize| (u64::from(hosts) * rank as u64 / ranks as u64) as u32;
    border(rank)..border(rank + 1)
}

impl<F: Frame> AnySimulation<F> {
    pub(crate) fn run_distributed(
        &mut self,
        until: u64,
        ranks: &mut dyn Ranks,
        codec: &dyn FrameCodec<F>,
        each_window: &mut dyn FnMut(),
    ) -> Result<(), RankError> {
        assert_eq!(
            self.local_hosts(),
            hosts_of_rank(self.world_size(), ranks.rank(), ranks.count()),
            "the local hosts must be those of hosts_of_rank"
        );
        let exchange = self.exchange_compiled();
        if self.start_hosts() {
            exchange(self, ranks, codec)?;
            each_window();
        }
        loop {
            let start = ranks.least(self.next())?;
            if start >= until {
                break;
            }
            self.run_window(start, until);
            exchange(self, ranks, codec)?;
            each_window();
        }
        self.reach(until);
        Ok(())
    }

    /// Sends packets to hosts of other processes, and takes the packets of those processes.
    pub(crate) fn exchange(
        &mut self,
        ranks: &mut dyn Ranks,
        codec: &dyn FrameCodec<F>,
    ) -> Result<(), RankError> {
        let (hosts, count) = (self.world_size(), ranks.count());
        let mut outgoing = vec![Vec::new(); count];
        let borders: Vec<u32> = (0..count).map(|rank| hosts_of_rank(hosts, rank, count).end).collect();
        for packet in self.take_remote() {
            let to = borders.partition_point(|end| *end <= packet.heading.host());
            write_packet(&packet, codec, &mut outgoing[to]);
        }
        for (from, bytes) in ranks.exchange(&mut outgoing)?.into_iter().enumerate() {
            let mut reader = Reader::new(&bytes);
            while !reader.is_empty() {
                let packet = read_packet(&mut reader, codec).filter(|packet| {
                    self.local_hosts().contains(&packet.heading.host()) && packet.src < hosts
                });
                self.take_packet(packet.ok_or(RankError::Garbled { from })?);
            }
        }
        Ok(())
    }
}

/// Processes that are threads of one process. Tests use them in place of a cluster.
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    senders: Vec<std::sync::mpsc::Sender<(usize, Vec<u8>)>>,
    receiver: std::sync::mpsc::Receiver<(usize, Vec<u8>)>,
    /// Data of processes that are ahead of this one.
    early: Vec<VecDeque<Vec<u8>>>,
}

impl Threads {
    /// Creates this many connected processes.
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

// ---- packets as bytes ----

/// Stands in place of the number of ranges if there are none.
const NO_SACK: u32 = u32::MAX;

/// Writes a packet of a link without layers of its own; simulations in several processes have no
/// others.
fn write_packet<F>(packet: &Packet<F>, codec: &dyn FrameCodec<F>, out: &mut Vec<u8>) {
    let Packet { arrive, src, heading, order, slot, epoch, len, ack, stamp, echo, window, sack, body } =
        packet;
    out.extend_from_slice(&arrive.to_le_bytes());
    let words = [*src, heading.host(), *order, *slot, *epoch, *len, *ack, *stamp, *echo, *window];
    words.into_iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.extend_from_slice(&sack.as_ref().map_or(NO_SACK, |sack| sack.ranges.len() as u32).to_le_bytes());
    for (from, to) in sack.iter().flat_map(|sack| sack.iter()) {
        out.extend_from_slice(&from.to_le_bytes());
        out.extend_from_slice(&to.to_le_bytes());
    }
    let mut word = |kind: u8, words: &[u32]| {
        out.push(kind);
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    };
    match body {
        Body::Data { seq, frame: None } => word(0, &[*seq]),
        Body::Data { seq, frame: Some(frame) } => {
            word(1, &[*seq]);
            codec.write(&frame.frame, out);
        }
        Body::Ack => word(2, &[]),
        Body::Hello { step, slot } => word(3, &[*step, *slot]),
        Body::Close => word(4, &[]),
        Body::Refuse { epoch } => word(5, &[*epoch]),
        Body::Stream { .. } => {
            unreachable!("connections with layers are rejected with several processes")
        }
    }
}

fn read_packet<F>(reader: &mut Reader<'_>, codec: &dyn FrameCodec<F>) -> Option<Packet<F>> {
    let arrive = reader.u64()?;
    let mut words = [0; 10];
    for word in &mut words {
        *word = reader.u32()?;
    }
    let [src, host, order, slot, epoch, len, ack, stamp, echo, window] = words;
    let sack = match reader.u32()? {
        NO_SACK => None,
        count => {
            let mut ranges = SmallVec::new();
            for _ in 0..count {
                ranges.push((reader.u32()?, reader.u32()?));
            }
            Some(Box::new(Sack { ranges }))
        }
    };
    let body = match reader.u8()? {
        0 => Body::Data { seq: reader.u32()?, frame: None },
        1 => Body::Data { seq: reader.u32()?, frame: Some(Carried::plain(codec.read(reader)?)) },
        2 => Body::Ack,
        3 => Body::Hello { step: reader.u32()?, slot: reader.u32()? },
        4 => Body::Close,
        5 => Body::Refuse { epoch: reader.u32()? },
        _ => return None,
    };
    let heading = Heading::to(host);
    Some(Packet { arrive, src, heading, order, slot, epoch, len, ack, stamp, echo, window, sack, body })
}
