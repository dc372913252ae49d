//! A simulated network in one process, or in several that each simulate a part of its hosts.

use std::ops::Range;

use samara_apps::Codec;
use samara_engine::{Engine, Time};
use samara_sim::{Drops, HostStats, RankError, Ranks, Reader, Record, Simulation, digest_of};

use super::{Audit, RunError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Interrupted,
    Over,
    On,
}

/// A network or a part of it.
///
/// All processes call the methods in the same order. The first process receives values of the whole
/// network, the others receive none.
pub(crate) struct Net<'a, N: Engine> {
    pub(crate) sim: Simulation<N>,
    others: Option<Others<'a, N>>,
}

/// The other processes, and the codec of frames and events between them.
pub(crate) type Others<'a, N> = (&'a mut dyn Ranks, Box<dyn Codec<N>>);

impl<'a, N: Engine> Net<'a, N> {
    pub(crate) fn new(sim: Simulation<N>, others: Option<Others<'a, N>>) -> Self {
        Self { sim, others }
    }

    /// Returns the nanoseconds since the start of the run.
    pub(crate) fn now(&self) -> u64 {
        self.sim.now().as_nanos()
    }

    /// Returns true in the process that collects the results.
    pub(crate) fn is_first(&self) -> bool {
        self.others.as_ref().is_none_or(|(ranks, _)| ranks.rank() == 0)
    }

    /// Returns true if this process simulates all hosts.
    pub(crate) fn is_alone(&self) -> bool {
        self.others.is_none()
    }

    pub(crate) fn hosts(&self) -> Range<u32> {
        self.sim.local_hosts()
    }

    /// Returns the traffic of this process's hosts so far.
    pub(crate) fn stats(&self) -> Vec<HostStats> {
        self.hosts().map(|host| *self.sim.stats(host)).collect()
    }

    /// Simulates up to a time and passes the events of all hosts to the first process, ordered by
    /// time, then by host.
    pub(crate) fn run_until(
        &mut self,
        until: u64,
        mut observe: impl FnMut(Record<N::Event>),
    ) -> Result<(), RunError> {
        let until = Time::from_nanos(until);
        let Some((ranks, codec)) = &mut self.others else {
            self.sim.run_until(until, observe);
            return Ok(());
        };
        let mut own = Vec::new();
        self.sim
            .run_until_distributed(until, *ranks, &**codec, |record| {
                write_record(&**codec, &record, &mut own)
            })
            .map_err(distributed)?;
        let parts = self.gather(own)?;
        let Some((_, codec)) = &self.others else { return Ok(()) };
        let mut records = Vec::new();
        for (from, bytes) in parts.into_iter().enumerate() {
            let mut reader = Reader::new(&bytes);
            while !reader.is_empty() {
                let record = read_record(&**codec, &mut reader);
                records.push(record.ok_or(RankError::Garbled { from }).map_err(distributed)?);
            }
        }
        records.sort_by_key(|record| (record.at, record.host));
        records.into_iter().for_each(&mut observe);
        Ok(())
    }

    /// Agrees on the next step of all processes.
    ///
    /// The first process decides whether the run is over. An interruption of any process interrupts
    /// all.
    pub(crate) fn agree(&mut self, own: Next) -> Result<Next, RunError> {
        let is_first = self.is_first();
        let Some((ranks, _)) = &mut self.others else { return Ok(own) };
        let own = match own {
            Next::Interrupted => 0,
            Next::Over if is_first => 1,
            Next::Over | Next::On => 2,
        };
        Ok(match ranks.least(own).map_err(distributed)? {
            0 => Next::Interrupted,
            1 => Next::Over,
            _ => Next::On,
        })
    }

    /// Returns the totals of the run, if this process simulates all hosts.
    pub(crate) fn audit(&self) -> Option<Audit> {
        self.is_alone().then(|| {
            let mut audit = Audit { virtual_nanos: self.now(), ..Audit::default() };
            for host in self.hosts() {
                let (stats, outbox) = (self.sim.stats(host), self.sim.outbox(host));
                // A stale packet was received, if its host was up. Drops before the uplink were not sent.
                let Drops {
                    downlink_full,
                    downlink_codel,
                    uplink_codel: _,
                    uplink_full: _,
                    random,
                    partition,
                    stale: _,
                } = stats.drops;
                let drops = [downlink_full, downlink_codel, random, partition];
                audit.packets_sent += stats.sent.packets;
                audit.packets_received += stats.received.packets;
                audit.packets_dropped += drops.iter().map(|drops| drops.packets).sum::<u64>();
                audit.frames_sent += stats.frames_sent.frames;
                audit.frames_received += stats.frames_received.frames;
                audit.frames_lost += stats.frames_lost;
                let lanes = (0..outbox.lanes()).map(|lane| samara_engine::outbox::Lane(lane as u8));
                audit.unbalanced += lanes.filter(|lane| !outbox.counters(*lane).add_up()).count() as u64;
            }
            audit
        })
    }

    pub(crate) fn sum<const N2: usize>(&mut self, own: [u64; N2]) -> Result<[u64; N2], RunError> {
        let mut sums = [0; N2];
        for bytes in self.gather(own.iter().flat_map(|value| value.to_le_bytes()).collect())? {
            let mut reader = Reader::new(&bytes);
            sums.iter_mut().for_each(|sum| *sum += reader.u64().unwrap_or(0));
        }
        Ok(sums)
    }

    /// Returns the values of the only process that has some.
    pub(crate) fn of_one(&mut self, own: &[f64]) -> Result<Vec<f64>, RunError> {
        let bytes = self.gather(own.iter().flat_map(|value| value.to_bits().to_le_bytes()).collect())?;
        let bits = bytes.concat();
        Ok(bits.as_chunks().0.iter().map(|bits| f64::from_bits(u64::from_le_bytes(*bits))).collect())
    }

    /// Returns the traffic of all processes' hosts since earlier counts of this process's hosts.
    pub(crate) fn traffic_since(&mut self, before: &[HostStats]) -> Result<Vec<HostStats>, RunError> {
        let own = self.stats().into_iter().enumerate();
        let own: Vec<HostStats> =
            own.map(|(at, now)| before.get(at).map_or(now, |before| now.since(before))).collect();
        if self.is_alone() {
            return Ok(own);
        }
        let mut bytes = Vec::new();
        own.iter().for_each(|stats| stats.write(&mut bytes));
        let mut all = Vec::new();
        for bytes in self.gather(bytes)? {
            let mut reader = Reader::new(&bytes);
            all.extend(std::iter::from_fn(|| HostStats::read(&mut reader)));
        }
        Ok(all)
    }

    /// Returns the number of copies that the outboxes of all hosts withdrew.
    pub(crate) fn withdrawn(&mut self) -> Result<u64, RunError> {
        let of_host = |host| {
            let outbox = self.sim.outbox(host);
            let lanes = (0..outbox.lanes()).map(|lane| samara_engine::outbox::Lane(lane as u8));
            lanes.map(|lane| outbox.counters(lane).withdrawn.copies).sum::<u64>()
        };
        let own = self.hosts().map(of_host).sum();
        Ok(self.sum([own])?[0])
    }

    pub(crate) fn digest_and_steps(&mut self) -> Result<(u64, u64), RunError> {
        let own = self.sim.digests().flat_map(u64::to_le_bytes).collect();
        let all = self.gather(own)?.concat();
        let digest = digest_of(all.as_chunks().0.iter().map(|digest| u64::from_le_bytes(*digest)));
        let [steps] = self.sum([self.sim.steps()])?;
        Ok((digest, steps))
    }

    /// Sends bytes to the first process, which receives those of all processes in order.
    fn gather(&mut self, own: Vec<u8>) -> Result<Vec<Vec<u8>>, RunError> {
        let Some((ranks, _)) = &mut self.others else { return Ok(vec![own]) };
        let mut outgoing = vec![Vec::new(); ranks.count()];
        outgoing[0] = own;
        ranks.exchange(&mut outgoing).map_err(distributed)
    }
}

fn distributed(error: RankError) -> RunError {
    RunError::Failed(error.to_string())
}

fn write_record<N: Engine>(codec: &dyn Codec<N>, record: &Record<N::Event>, out: &mut Vec<u8>) {
    out.extend_from_slice(&record.at.as_nanos().to_le_bytes());
    out.extend_from_slice(&record.host.to_le_bytes());
    codec.write_event(&record.event, out);
}

fn read_record<N: Engine>(codec: &dyn Codec<N>, reader: &mut Reader<'_>) -> Option<Record<N::Event>> {
    let (at, host) = (Time::from_nanos(reader.u64()?), reader.u32()?);
    Some(Record { at, host, event: codec.read_event(reader)? })
}
