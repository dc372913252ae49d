//! A simulated network in one process, or in several that each simulate a part of its hosts.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use samara_engine::outbox::Lane;
use samara_engine::{Reader, Time};
use samara_scenario::Point;
use samara_sim::{
    App, ConnectionStats, Drops, GateStats, HostStats, Postcard, RankError, Ranks, Record, Simulation,
    digest_of,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Audit, RunError, SLICE_NANOS, Setup};
use crate::experiment::{Commands, FramesCodec, World};
use crate::network::{self, Hosts};

/// A request of the first of several processes to the others. Only the first one has the experiment.
#[derive(Debug, Serialize, Deserialize)]
enum Request<C> {
    Commands(Vec<(u64, u32, C)>),
    /// Simulate up to this time.
    Until(u64),
    Counters,
    Traffic,
    Withdrawn,
    Windows(u32),
    Digest,
    /// The run is over.
    End,
}

/// A simulated network, or a part of it.
pub(super) struct Net<'a, A: App> {
    pub(super) sim: Simulation<A>,
    others: Option<Others<'a, A>>,
    setup: &'a Setup<'a>,
}

/// The other processes, and the codec between them.
type Others<'a, A> = (&'a mut dyn Ranks, FramesCodec<A>);

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

    /// Asks the other processes, if this is the first of several.
    fn lead(&mut self, request: &Request<A::Command>) -> Result<(), RunError> {
        let Some((ranks, _)) = self.others.as_mut().filter(|(ranks, _)| ranks.rank() == 0) else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        Postcard::put(request, &mut bytes);
        let mut outgoing = vec![bytes; ranks.count()];
        outgoing[0] = Vec::new();
        ranks.exchange(&mut outgoing).map(drop).map_err(distributed)
    }

    /// Does what the first process asks, until the run is over.
    pub(super) fn follow(&mut self, stop: &AtomicBool) -> Result<(), RunError> {
        loop {
            let Some((ranks, _)) = &mut self.others else { return Ok(()) };
            let mut outgoing = vec![Vec::new(); ranks.count()];
            let heard = ranks.exchange(&mut outgoing).map_err(distributed)?;
            let request = heard.first().and_then(|bytes| Postcard::take(&mut Reader::new(bytes)));
            match request.ok_or(RankError::Garbled { from: 0 }).map_err(distributed)? {
                Request::Commands(commands) => {
                    let commands = commands.into_iter();
                    commands.for_each(|(at, host, command)| {
                        self.sim.command(Time::from_nanos(at), host, command)
                    });
                }
                Request::Until(until) => {
                    self.agree_to_go_on(stop)?;
                    self.simulate_until(Time::from_nanos(until), |_| {})?;
                }
                Request::Counters => drop(self.counters()?),
                Request::Traffic => drop(self.traffic()?),
                Request::Withdrawn => drop(self.withdrawn()?),
                Request::Windows(host) => drop(self.windows(host)?),
                Request::Digest => drop(self.digest()?),
                Request::End => return Ok(()),
            }
        }
    }

    /// Ends the run in all processes.
    pub(super) fn end(&mut self) -> Result<(), RunError> {
        self.lead(&Request::End)
    }

    /// Issues the commands that the experiment has collected.
    pub(super) fn issue(&mut self, commands: &mut Commands<A>) -> Result<(), RunError> {
        self.command_all(std::mem::take(&mut commands.0))
    }

    fn command_all(&mut self, commands: Vec<(Time, u32, A::Command)>) -> Result<(), RunError> {
        let hosts = self.setup.hosts.configs.len();
        if let Some((_, host, _)) = commands.iter().find(|(_, host, _)| *host as usize >= hosts) {
            let message = format!("a command goes to host {host}, but the hosts are 0 to {}", hosts - 1);
            return Err(RunError::Failed(message));
        }
        if commands.is_empty() {
            return Ok(());
        }
        let now = self.sim.now();
        if self.is_alone() {
            let commands = commands.into_iter();
            commands.for_each(|(at, host, command)| self.sim.command(at.max(now), host, command));
            return Ok(());
        }
        let timed = commands.into_iter().map(|(at, host, command)| (at.max(now).as_nanos(), host, command));
        let (own, others): (Vec<_>, _) = timed.partition(|(_, host, _)| self.hosts().contains(host));
        let request = Request::Commands(others);
        self.lead(&request)?;
        own.into_iter().for_each(|(at, host, command)| self.sim.command(Time::from_nanos(at), host, command));
        Ok(())
    }

    /// Simulates up to a time and passes the events of all hosts on, ordered by time, then by host.
    pub(super) fn run_until(
        &mut self,
        until: Time,
        stop: &AtomicBool,
        observe: impl FnMut(Record<A::Event>),
    ) -> Result<(), RunError> {
        self.lead(&Request::Until(until.as_nanos()))?;
        self.agree_to_go_on(stop)?;
        self.simulate_until(until, observe)
    }

    /// Ends the run in all processes if one of them is interrupted.
    fn agree_to_go_on(&mut self, stop: &AtomicBool) -> Result<(), RunError> {
        let goes_on = u64::from(!stop.load(Ordering::Relaxed));
        let goes_on = match &mut self.others {
            None => goes_on,
            Some((ranks, _)) => ranks.least(goes_on).map_err(distributed)?,
        };
        if goes_on == 0 { Err(RunError::Interrupted) } else { Ok(()) }
    }

    /// Simulates up to a time and passes the events of all hosts to the first process, ordered by
    /// time, then by host.
    fn simulate_until(
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
            .run_until_distributed(until, *ranks, &**codec, |record| write_record(&record, &mut own))
            .map_err(distributed)?;
        let parts = self.gather(own)?;
        let mut records = read_all(&parts, read_record::<A::Event>)?;
        records.sort_by_key(|record| (record.at, record.host));
        records.into_iter().for_each(&mut observe);
        Ok(())
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
        self.command_all(vec![(at, host, command)])
    }

    fn counters(&mut self) -> Result<Vec<A::Counters>, RunError> {
        self.lead(&Request::Counters)?;
        let own = self.hosts().map(|host| self.sim.node(host).counters());
        if self.is_alone() {
            return Ok(own.collect());
        }
        // A list, since counters may take no bytes.
        let (own, mut bytes): (Vec<A::Counters>, _) = (own.collect(), Vec::new());
        Postcard::put(&own, &mut bytes);
        let all = read_all(&self.gather(bytes)?, Postcard::take::<Vec<A::Counters>>)?;
        Ok(all.into_iter().flatten().collect())
    }

    fn traffic(&mut self) -> Result<Vec<HostStats>, RunError> {
        self.lead(&Request::Traffic)?;
        let own: Vec<HostStats> = self.hosts().map(|host| *self.sim.stats(host)).collect();
        if self.is_alone() {
            return Ok(own);
        }
        let mut bytes = Vec::new();
        own.iter().for_each(|stats| stats.write(&mut bytes));
        read_all(&self.gather(bytes)?, HostStats::read)
    }

    fn withdrawn(&mut self) -> Result<u64, RunError> {
        self.lead(&Request::Withdrawn)?;
        let own = self.hosts().map(|host| self.sim.outbox(host).by_lane().total().withdrawn.copies).sum();
        self.sum(own)
    }

    fn windows(&mut self, host: u32) -> Result<Vec<f64>, RunError> {
        self.lead(&Request::Windows(host))?;
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

    fn gateways(&mut self) -> Result<Vec<[GateStats; 2]>, RunError> {
        Ok((0..).map_while(|region| self.sim.gateway_stats(region)).collect())
    }

    fn digest(&mut self) -> Result<(u64, u64), RunError> {
        self.lead(&Request::Digest)?;
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

fn write_record<E: Serialize>(record: &Record<E>, out: &mut Vec<u8>) {
    out.extend_from_slice(&record.at.as_nanos().to_le_bytes());
    out.extend_from_slice(&record.host.to_le_bytes());
    Postcard::put(&record.event, out);
}

fn read_record<E: DeserializeOwned>(reader: &mut Reader<'_>) -> Option<Record<E>> {
    let (at, host) = (Time::from_nanos(reader.u64()?), reader.u32()?);
    Some(Record { at, host, event: Postcard::take(reader)? })
}
