//! The setup of a run: the hosts of a scenario, their links, and their faults.

use std::time::Duration;

use samara_engine::hostile::Misconduct;
use samara_engine::{NodeRng, Purpose, Time};
use samara_scenario::{Direction, Fault, FaultKind, Point, Scenario};
use samara_sim::{App, HostConfig, SimConfig};

use super::net::Net;
use super::{RunError, RunOptions};
use crate::explain::Without;
use crate::network::{self, Hosts};

/// The input of every experiment: the point of a scenario and the hosts of its network.
pub(crate) struct Setup<'a> {
    pub point: &'a Point,
    pub options: RunOptions<'a>,
    pub hosts: Hosts,
}

impl<'a> Setup<'a> {
    pub(crate) fn new(point: &'a Point, options: RunOptions<'a>) -> Result<Self, RunError> {
        let scenario = &*point.scenario;
        let count = scenario.network.nodes + (scenario.family().extra_hosts)(scenario);
        let hosts = network::hosts(scenario, options.inputs, count, point.seed);
        let mut hosts = hosts.map_err(RunError::Failed)?;
        if options.explain.without == Some(Without::Processing) {
            hosts.validation.iter_mut().for_each(|time| *time = Duration::ZERO);
        }
        Ok(Self { point, options, hosts })
    }

    /// Returns true if the validation of messages can take time.
    pub(crate) fn validates(&self) -> bool {
        let stalls = self.scenario().network.stalled_periods.fraction() > 0.0;
        stalls || self.hosts.validation.iter().any(|time| !time.is_zero())
    }

    pub(crate) fn scenario(&self) -> &'a Scenario {
        &self.point.scenario
    }

    pub(super) fn host_configs(&self) -> Vec<HostConfig> {
        let mut configs = self.hosts.configs.clone();
        if let Some(without) = &self.options.explain.without {
            without.change_rates(&mut configs);
        }
        configs
    }

    pub(super) fn config(&self) -> SimConfig {
        let (scenario, seed) = (self.scenario(), self.point.seed);
        let mut config = SimConfig {
            seed,
            threads: self.options.threads,
            network: network::network(scenario, &self.hosts, seed),
            transport: network::transport(scenario),
            nic: network::nic(scenario),
            downlink_queue: network::downlink_queue(scenario),
        };
        if let Some(without) = &self.options.explain.without {
            without.change(&mut config);
        }
        config
    }

    /// Returns the random stream for the times at which links are dialled.
    pub(crate) fn links_rng(&self) -> NodeRng {
        NodeRng::new(self.point.seed, 2, Purpose::Topology)
    }

    /// Returns true if links are established at once, without a dial.
    fn is_established(&self) -> bool {
        let links = &self.scenario().transport.links;
        links.until <= links.from || self.options.explain.without == Some(Without::Handshakes)
    }

    /// Returns the time of each link: random ones within the scenario's range or, if it is empty, its
    /// start.
    fn link_times(
        &self,
        rng: &mut NodeRng,
        edges: impl Iterator<Item = (u32, u32)>,
    ) -> impl Iterator<Item = (Time, u32, u32)> {
        let links = &self.scenario().transport.links;
        let (from, until) = (links.from.nanos(), links.until.nanos());
        let is_established = self.is_established();
        edges.map(move |(dialler, listener)| {
            let after = if is_established { 0 } else { rng.below(until - from) };
            (Time::from_nanos(from + after), dialler, listener)
        })
    }

    /// Schedules all links: random dials within the scenario's time range or, if it is empty,
    /// established links.
    pub(super) fn schedule_links<A: App>(
        &self,
        net: &mut Net<'_, A>,
        rng: &mut NodeRng,
        edges: impl Iterator<Item = (u32, u32)>,
    ) {
        for (at, dialler, listener) in self.link_times(rng, edges) {
            if self.is_established() {
                net.sim.establish(at, dialler, listener);
            } else {
                net.sim.dial(at, dialler, listener);
            }
        }
    }

    /// Returns the hosts that a process dials, with the times. A process that starts again dials as a
    /// simulated one does: at once, and also neighbours that had established the link.
    pub(crate) fn dials(
        &self,
        host: u32,
        is_restart: bool,
        edges: impl Iterator<Item = (u32, u32)>,
        rng: &mut NodeRng,
    ) -> Vec<(Time, u32)> {
        let is_mutual = is_restart && self.is_established();
        let of_host = |(at, dialler, listener)| {
            let at = if is_restart { Time::ZERO } else { at };
            match host {
                host if host == dialler => Some((at, listener)),
                host if host == listener && is_mutual => Some((at, dialler)),
                _ => None,
            }
        };
        self.link_times(rng, edges).filter_map(of_host).collect()
    }

    /// Returns how a host breaks the rules: each misconduct with the time from which it has this
    /// strength.
    #[cfg(feature = "hosted")]
    pub(crate) fn misconduct(&self, host: u32) -> Vec<(Time, Misconduct, f64)> {
        let is_hit = |index: &usize| network::hit(self.scenario(), *index, self.point.seed).contains(&host);
        let faults = self.scenario().faults.iter().enumerate();
        faults.filter(|(index, _)| is_hit(index)).flat_map(|(_, fault)| misconduct(fault)).collect()
    }

    /// Schedules all faults except partitions, which are part of the network.
    pub(super) fn schedule_faults<A: App>(&self, net: &mut Net<'_, A>) {
        let (sim, all) = (&mut net.sim, self.hosts.configs.len() as u32);
        for (index, fault) in self.scenario().faults.iter().enumerate() {
            let at = Time::from_nanos(fault.at.nanos());
            let until = fault.until.map(|until| Time::from_nanos(until.nanos()));
            for host in network::hit(self.scenario(), index, self.point.seed) {
                match &fault.kind {
                    FaultKind::Crash {} | FaultKind::Vanish {} => {
                        sim.crash(at, host, fault.kind == (FaultKind::Vanish {}));
                        if let Some(until) = until {
                            sim.restart(until, host);
                        }
                    }
                    FaultKind::Slow { factor } => {
                        let rates = &self.hosts.configs[host as usize];
                        let slow = |rate: u64| ((rate as f64 * factor) as u64).max(1);
                        sim.set_rates(at, host, slow(rates.uplink_bps), slow(rates.downlink_bps));
                        if let Some(until) = until {
                            sim.set_rates(until, host, rates.uplink_bps, rates.downlink_bps);
                        }
                    }
                    FaultKind::Partition {} => {}
                    // It leaves by a command of its group; the process that has left ends before
                    // another one starts.
                    FaultKind::Leave {} => {
                        if let Some(until) = until {
                            sim.crash(until, host, false);
                            sim.restart(until, host);
                        }
                    }
                    FaultKind::Cut { direction, .. } => {
                        let until = until.unwrap_or(Time::MAX);
                        for peer in network::other_ends(fault, host, all) {
                            if *direction != Some(Direction::In) {
                                sim.cut(at, until, host, peer);
                            }
                            if *direction != Some(Direction::Out) {
                                sim.cut(at, until, peer, host);
                            }
                        }
                    }
                    FaultKind::Reset { .. } | FaultKind::Reconnect { .. } => {
                        for peer in network::other_ends(fault, host, all) {
                            let stays = matches!(fault.kind, FaultKind::Reconnect { .. });
                            sim.reconnect(at, host, peer, stays);
                        }
                    }
                    hostile_or_rival => {
                        for (at, what, strength) in misconduct(fault) {
                            sim.misbehave(at, host, what, strength);
                        }
                        if let Some(rival) = hostile_or_rival.rival() {
                            let latency = Duration::from_nanos(self.scenario().network.latency.nanos());
                            sim.add_rival(at, until.unwrap_or(Time::MAX), host, rival, latency);
                        }
                    }
                }
            }
        }
    }
}

/// Returns how the hosts of a fault break the rules: when, and with which strength from then on.
fn misconduct(fault: &Fault) -> impl Iterator<Item = (Time, Misconduct, f64)> + use<> {
    let times = [Some(fault.at), fault.until];
    fault.kind.misconduct().into_iter().flat_map(move |(what, strength)| {
        let changes = times.into_iter().zip([strength, 0.0]);
        changes.filter_map(move |(at, strength)| Some((Time::from_nanos(at?.nanos()), what, strength)))
    })
}
