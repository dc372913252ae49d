//! A simulated network in one process, or in several that each simulate a part of its hosts.

use std::ops::Range;

use samara_engine::Time;
use samara_engine::outbox::Lane;
use samara_sim::{
    App, Codec, ConnectionStats, Drops, GateStats, HostStats, RankError, Ranks, Reader, Record, Simulation,
    digest_of,
};
use samara_spec::Point;

use super::{Audit, RunError, SLICE_NANOS, Setup};
use crate::experiment::{Commands, World};
use crate::network::{self, Hosts};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Interrupted,
    Over,
    On,
}

/// A simulated network, or a part of it.
pub(super) struct Net<'a, A: App> {
    pub(super) sim: Simulation<A>,
    others: Option<Others<'a, A>>,
    setup: &'a Setup<'a>,
}

/// The other processes, and the codec between them.
type Others<'a, A> = (&'a mut dyn Ranks, Box<dyn Codec<A>>);

impl<'a, A: App> Net<'a, A> {
    pub(super) fn new(sim: Simulation<A>, others: Option<Others<'a, A>>, setup: &'a Setup<'a>) -> Self {
        Self { sim, others, setup }
    }

    /// Returns true in the process that collects the results.
    pub(super) fn is_first(&self) -> bool {
        self.others.as_ref().is_none_or(|(ranks, _)| ranks.rank() == 0)
    }

    /// Returns true if this process simulates all hosts.
    pub(super) fn is_alone(&self) -> bool {
        self.others.is_none()
    }

    pub(super) fn hosts(&self) -> Range<u32> {
        self.sim.local_hosts()
    }

    /// Issues the commands that the experiment has collected.
    pub(super) fn issue(&mut self, commands: &mut Commands<A>) -> Result<(), RunError> {
        commands.0.drain(..).try_for_each(|(at, host, command)| self.command(at, host, command))
    }

    /// Simulates up to a time and passes the events of all hosts to the first process, ordered by
    /// time, then by host.
    pub(super) fn run_until(
        &mut self,
        until: Time,
        mut observe: impl FnMut(Record<A::Event>),
    ) -> Result<(), RunError> {
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
        let mut records = read_all(&parts, |reader| read_record(&**codec, reader))?;
        records.sort_by_key(|record| (record.at, record.host));
        records.into_iter().for_each(&mut observe);
        Ok(())
    }

    /// Agrees on the next step of all processes.
    ///
    /// The first process decides whether the run is over. An interruption of any process interrupts
    /// all.
    pub(super) fn agree(&mut self, own: Next) -> Result<Next, RunError> {
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
    pub(super) fn audit(&self) -> Option<Audit> {
        self.is_alone().then(|| {
            let mut audit = Audit { virtual_nanos: self.sim.now().as_nanos(), ..Audit::default() };
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
                let lanes = (0..outbox.lanes()).map(|lane| Lane(lane as u8));
                audit.unbalanced += lanes.filter(|lane| !outbox.counters(*lane).add_up()).count() as u64;
            }
            audit
        })
    }

    /// Returns the sum over all processes.
    fn sum(&mut self, own: u64) -> Result<u64, RunError> {
        let parts = self.gather(own.to_le_bytes().to_vec())?;
        Ok(read_all(&parts, |reader| reader.u64())?.into_iter().sum())
    }

    /// Sends bytes to the first process, which receives those of all processes in order.
    fn gather(&mut self, own: Vec<u8>) -> Result<Vec<Vec<u8>>, RunError> {
        let Some((ranks, _)) = &mut self.others else { return Ok(vec![own]) };
        let mut outgoing = vec![Vec::new(); ranks.count()];
        outgoing[0] = own;
        ranks.exchange(&mut outgoing).map_err(distributed)
    }
}

impl<A: App> World<A> for Net<'_, A> {
    fn now(&self) -> Time {
        self.sim.now()
    }

    fn setting(&self) -> (&Point, &Hosts) {
        (self.setup.point, &self.setup.hosts)
    }

    fn slice_nanos(&self) -> u64 {
        network::least_latency_nanos(&self.setup.hosts).clamp(1_000_000, SLICE_NANOS)
    }

    fn command(&mut self, at: Time, host: u32, command: A::Command) -> Result<(), RunError> {
        let hosts = self.setup.hosts.configs.len();
        if host as usize >= hosts {
            let message = format!("a command goes to host {host}, but the hosts are 0 to {}", hosts - 1);
            return Err(RunError::Failed(message));
        }
        self.sim.command(at.max(self.sim.now()), host, command);
        Ok(())
    }

    fn counters(&mut self) -> Result<Vec<A::Counters>, RunError> {
        let own = self.hosts().map(|host| self.sim.node(host).counters());
        let Some((_, codec)) = &self.others else { return Ok(own.collect()) };
        let mut bytes = Vec::new();
        own.for_each(|counters| codec.write_counters(&counters, &mut bytes));
        let parts = self.gather(bytes)?;
        let Some((_, codec)) = &self.others else { return Ok(Vec::new()) };
        read_all(&parts, |reader| codec.read_counters(reader))
    }

    fn traffic(&mut self) -> Result<Vec<HostStats>, RunError> {
        let own: Vec<HostStats> = self.hosts().map(|host| *self.sim.stats(host)).collect();
        if self.is_alone() {
            return Ok(own);
        }
        let mut bytes = Vec::new();
        own.iter().for_each(|stats| stats.write(&mut bytes));
        read_all(&self.gather(bytes)?, HostStats::read)
    }

    fn withdrawn(&mut self) -> Result<u64, RunError> {
        let of_host = |host| {
            let outbox = self.sim.outbox(host);
            let lanes = (0..outbox.lanes()).map(|lane| Lane(lane as u8));
            lanes.map(|lane| outbox.counters(lane).withdrawn.copies).sum::<u64>()
        };
        let own: u64 = self.hosts().map(of_host).sum();
        self.sum(own)
    }

    fn windows(&mut self, host: u32) -> Result<Vec<f64>, RunError> {
        let mut own = Vec::new();
        if self.hosts().contains(&host) {
            let peers = 0..self.setup.hosts.configs.len() as u32;
            own.extend(
                peers
                    .filter_map(|peer| self.sim.handle_of(host, peer))
                    .map(|peer| self.sim.congestion_window(host, peer)),
            );
        }
        let bytes = own.iter().flat_map(|window| window.to_bits().to_le_bytes()).collect();
        read_all(&self.gather(bytes)?, |reader| reader.u64().map(f64::from_bits))
    }

    fn connections(&self) -> Vec<Option<ConnectionStats>> {
        self.hosts().map(|host| self.sim.connection_stats(host).cloned()).collect()
    }

    fn gateways(&self) -> Vec<[GateStats; 2]> {
        (0..).map_while(|region| self.sim.gateway_stats(region)).collect()
    }

    fn digest(&mut self) -> Result<(u64, u64), RunError> {
        let own = self.sim.digests().flat_map(u64::to_le_bytes).collect();
        let digest = digest_of(read_all(&self.gather(own)?, |reader| reader.u64())?);
        let steps = self.sum(self.sim.steps())?;
        Ok((digest, steps))
    }
}

/// Reads all values of the parts of the processes, in order.
fn read_all<T>(
    parts: &[Vec<u8>],
    mut read: impl FnMut(&mut Reader<'_>) -> Option<T>,
) -> Result<Vec<T>, RunError> {
    let mut values = Vec::new();
    for (from, bytes) in parts.iter().enumerate() {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            values.push(read(&mut reader).ok_or(RankError::Garbled { from }).map_err(distributed)?);
        }
    }
    Ok(values)
}

fn distributed(error: RankError) -> RunError {
    RunError::Failed(error.to_string())
}

fn write_record<A: App>(codec: &dyn Codec<A>, record: &Record<A::Event>, out: &mut Vec<u8>) {
    out.extend_from_slice(&record.at.as_nanos().to_le_bytes());
    out.extend_from_slice(&record.host.to_le_bytes());
    codec.write_event(&record.event, out);
}

fn read_record<A: App>(codec: &dyn Codec<A>, reader: &mut Reader<'_>) -> Option<Record<A::Event>> {
    let (at, host) = (Time::from_nanos(reader.u64()?), reader.u32()?);
    Some(Record { at, host, event: codec.read_event(reader)? })
}
