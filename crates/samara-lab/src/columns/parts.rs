//! A network of columns in one process, or in several that each have a part of its hosts.

use std::ops::Range;
use std::sync::Arc;

use samara_engine::Time;
use samara_gossipsub::rpc::{Rpc, RpcFrame};
use samara_gossipsub::wire::{self, Limits};
use samara_sim::{FrameCodec, HostStats, RankError, Ranks, Reader, Record, Simulation, digest_of};

use crate::columns::app::{Columns, ColumnsNode, Told};
use crate::run::RunError;

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The run was interrupted, in some process.
    Interrupted,
    /// It is over.
    Over,
    /// It goes on.
    On,
}

/// A network, or a part of it. The methods are called by all processes in the same order; what the first one gets is of the whole network.
pub(crate) struct Parts<'a> {
    pub(crate) sim: Simulation<ColumnsNode>,
    /// The other processes, if there are any, and how frames travel to them.
    others: Option<(&'a mut dyn Ranks, Codec)>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(
        sim: Simulation<ColumnsNode>,
        ranks: Option<&'a mut dyn Ranks>,
        columns: &Arc<Columns>,
    ) -> Self {
        Self { sim, others: ranks.map(|ranks| (ranks, Codec(Arc::clone(columns)))) }
    }

    /// Whether this process gets the results.
    pub(crate) fn is_first(&self) -> bool {
        self.others.as_ref().is_none_or(|(ranks, _)| ranks.rank() == 0)
    }

    /// Whether this process has all hosts.
    pub(crate) fn is_alone(&self) -> bool {
        self.others.is_none()
    }

    /// The hosts of this process.
    pub(crate) fn hosts(&self) -> Range<u32> {
        self.sim.part()
    }

    /// Simulates until a time. The first process is told what nodes told.
    pub(crate) fn run_until(
        &mut self,
        until: u64,
        mut observer: impl FnMut(u64, u32, Told),
    ) -> Result<(), RunError> {
        let until = Time::from_nanos(until);
        let Some((ranks, codec)) = &mut self.others else {
            self.sim.run_until(until, |record| observer(record.at.as_nanos(), record.host, record.event));
            return Ok(());
        };
        let mut told = Vec::new();
        self.sim
            .run_until_together(until, *ranks, codec, |record| write_told(&record, &mut told))
            .map_err(together)?;
        let mut records = Vec::new();
        for (from, bytes) in self.gather(told)?.into_iter().enumerate() {
            let mut reader = Reader::new(&bytes);
            while !reader.is_empty() {
                let record = read_told(&mut reader);
                records.push(record.ok_or(RankError::Garbled { from }).map_err(together)?);
            }
        }
        records.sort_by_key(|(at, host, _)| (*at, *host));
        records.into_iter().for_each(|(at, host, told)| observer(at, host, told));
        Ok(())
    }

    /// What all processes do: the first one says whether the run is over, and any may have been interrupted.
    pub(crate) fn next(&mut self, own: Next) -> Result<Next, RunError> {
        let is_first = self.is_first();
        let Some((ranks, _)) = &mut self.others else { return Ok(own) };
        let own = match own {
            Next::Interrupted => 0,
            Next::Over if is_first => 1,
            Next::Over | Next::On => 2,
        };
        Ok(match ranks.least(own).map_err(together)? {
            0 => Next::Interrupted,
            1 => Next::Over,
            _ => Next::On,
        })
    }

    /// Sums over all processes, at the first.
    pub(crate) fn sum<const N: usize>(&mut self, own: [u64; N]) -> Result<[u64; N], RunError> {
        let mut sums = [0; N];
        for bytes in self.gather(own.iter().flat_map(|value| value.to_le_bytes()).collect())? {
            let mut reader = Reader::new(&bytes);
            sums.iter_mut().for_each(|sum| *sum += reader.u64().unwrap_or(0));
        }
        Ok(sums)
    }

    /// The values of one process, which others leave empty, at the first.
    pub(crate) fn of_one(&mut self, own: &[f64]) -> Result<Vec<f64>, RunError> {
        let bytes = self.gather(own.iter().flat_map(|value| value.to_bits().to_le_bytes()).collect())?;
        Ok(bytes
            .concat()
            .as_chunks()
            .0
            .iter()
            .map(|bits| f64::from_bits(u64::from_le_bytes(*bits)))
            .collect())
    }

    /// What all hosts did, at the first.
    pub(crate) fn traffic(&mut self, own: &[HostStats]) -> Result<Vec<HostStats>, RunError> {
        let mut bytes = Vec::new();
        own.iter().for_each(|stats| stats.write(&mut bytes));
        let mut all = Vec::new();
        for bytes in self.gather(bytes)? {
            let mut reader = Reader::new(&bytes);
            all.extend(std::iter::from_fn(|| HostStats::read(&mut reader)));
        }
        Ok(all)
    }

    /// The digest of the run, at the first.
    pub(crate) fn digest(&mut self) -> Result<u64, RunError> {
        let own = self.sim.digests().flat_map(u64::to_le_bytes).collect();
        let all = self.gather(own)?.concat();
        Ok(digest_of(all.as_chunks().0.iter().map(|digest| u64::from_le_bytes(*digest))))
    }

    /// Sends bytes to the first process, which gets those of all in their order; others get nothing.
    fn gather(&mut self, own: Vec<u8>) -> Result<Vec<Vec<u8>>, RunError> {
        let Some((ranks, _)) = &mut self.others else { return Ok(vec![own]) };
        let mut outgoing = vec![Vec::new(); ranks.count()];
        outgoing[0] = own;
        ranks.exchange(&mut outgoing).map_err(together)
    }
}

fn together(error: RankError) -> RunError {
    RunError::Together(error.to_string())
}

/// Told by a copy, and its host, with whether it is the first in the highest bit.
const FIRST: u32 = 1 << 31;
/// In the place of a column: a copy that did not fit.
const LOST: u32 = u32::MAX;

fn write_told(record: &Record<Told>, out: &mut Vec<u8>) {
    let (column, from) = match record.event {
        Told::Copy { column, from, first } => (column, from | if first { FIRST } else { 0 }),
        Told::Lost => (LOST, 0),
    };
    out.extend_from_slice(&record.at.as_nanos().to_le_bytes());
    [record.host, column, from].into_iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn read_told(reader: &mut Reader<'_>) -> Option<(u64, u32, Told)> {
    let (at, host) = (reader.u64()?, reader.u32()?);
    let (column, from) = (reader.u32()?, reader.u32()?);
    let copy = Told::Copy { column, from: from & !FIRST, first: from & FIRST != 0 };
    Some((at, host, if column == LOST { Told::Lost } else { copy }))
}

/// Columns travel by their numbers, since all processes have them; everything else as on the wire.
struct Codec(Arc<Columns>);

/// Frames of nodes of the same program: no limit is ever in the way.
const LIMITS: Limits = Limits::with_frame_bytes(64 << 20);

impl FrameCodec<RpcFrame> for Codec {
    fn write(&self, frame: &RpcFrame, out: &mut Vec<u8>) {
        let rpc = frame.rpc();
        let ids: Option<Vec<u32>> =
            rpc.publish.iter().map(|message| self.0.id_of(message.topic.as_ref()?, message)).collect();
        let known = ids.unwrap_or_default();
        out.extend_from_slice(&(known.len() as u32).to_le_bytes());
        known.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        if known.is_empty() {
            wire::encode(rpc, out);
        } else {
            wire::encode(&Rpc { publish: [].into_iter().collect(), ..rpc.clone() }, out);
        }
        let len = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<RpcFrame> {
        let count = reader.u32()?;
        let ids = (0..count).map(|_| reader.u32()).collect::<Option<Vec<u32>>>()?;
        let len = reader.u32()?;
        let rest = bytes::Bytes::copy_from_slice(reader.bytes(len as usize)?);
        let mut rpc = wire::decode(rest, &LIMITS).ok()?;
        for id in ids {
            rpc.publish.push(Arc::clone(self.0.messages.get(id as usize)?));
        }
        Some(RpcFrame::new(rpc))
    }
}
