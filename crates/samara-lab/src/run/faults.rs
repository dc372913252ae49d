//! What goes wrong, where and when.

use std::time::Duration;

use samara_engine::{NodeRng, Purpose, Time};
use samara_sim::{HostConfig, Partition, Simulation};

use crate::jobs::columns::ColumnsNode;
use crate::scenario::{Fault as Spec, FaultKind, FaultTime};
use crate::topology::Blueprint;
use crate::units::{Rate, Span};

/// A fault with the hosts that it hits.
pub(super) struct Fault {
    spec: Spec,
    /// Which hosts, each with the time at which it begins.
    victims: Vec<(u32, Time)>,
    /// For churn: when each host goes and when it comes back.
    absences: Vec<(u32, Time, Time)>,
}

fn at(span: Span) -> Time {
    Time::from_nanos(span.nanos())
}

/// How long churn goes on that has no end: longer than any run.
const FOREVER: Duration = Duration::from_secs(24 * 3600);

/// Draws hosts and times from the seed.
pub(super) fn draw(faults: &[Spec], blueprint: &Blueprint, seed: u64) -> Vec<Fault> {
    let draw = |(index, spec): (usize, &Spec)| {
        let mut rng = NodeRng::new(seed, index as u64, Purpose::Faults);
        let begin = |rng: &mut NodeRng| match spec.at {
            FaultTime::Fixed { time } => at(time),
            FaultTime::Drawn { from, until } => {
                let span = until.nanos().saturating_sub(from.nanos());
                at(from).plus_nanos(rng.below(span.max(1)))
            }
        };
        let hosts = hosts(spec, blueprint, &mut rng);
        let victims: Vec<(u32, Time)> = hosts.into_iter().map(|host| (host, begin(&mut rng))).collect();
        let absences = match spec.kind {
            FaultKind::Churn => {
                victims.iter().flat_map(|(host, from)| churn(spec, *host, *from, &mut rng)).collect()
            }
            _ => Vec::new(),
        };
        Fault { spec: spec.clone(), victims, absences }
    };
    faults.iter().enumerate().map(draw).collect()
}

fn hosts(spec: &Spec, blueprint: &Blueprint, rng: &mut NodeRng) -> Vec<u32> {
    if !spec.nodes.is_empty() {
        return spec.nodes.clone();
    }
    let of_class = |host: u32| {
        let class = usize::from(blueprint.hosts[host as usize].class);
        spec.class.as_ref().is_none_or(|wanted| *wanted == blueprint.classes[class])
    };
    let mut hosts: Vec<u32> = (0..blueprint.nodes()).filter(|host| of_class(*host)).collect();
    let hit = (spec.share.map_or(1.0, |share| share.fraction()) * hosts.len() as f64).round() as usize;
    hosts.retain(|host| *host != blueprint.publisher && Some(*host) != blueprint.observer);
    rng.shuffle(&mut hosts);
    hosts.truncate(hit);
    hosts
}

/// When a host that comes and goes is away.
fn churn(spec: &Spec, host: u32, from: Time, rng: &mut NodeRng) -> Vec<(u32, Time, Time)> {
    let end = spec.until.map_or(from + FOREVER, at);
    let mut draw = |mean: Option<Span>| {
        let mean = mean.unwrap_or(Span::from_secs(60)).nanos() as f64;
        // At least a millisecond, so that time goes by.
        (rng.exponential(mean) as u64).max(1_000_000)
    };
    let mut absences = Vec::new();
    let mut now = from;
    loop {
        let gone = now.plus_nanos(draw(spec.mean_up));
        if gone >= end {
            return absences;
        }
        now = gone.plus_nanos(draw(spec.mean_down));
        absences.push((host, gone, now));
    }
}

/// The times in which hosts cannot reach each other.
pub(super) fn partitions(faults: &[Fault], hosts: usize) -> Vec<Partition> {
    let of = |fault: &Fault| {
        let mut group_of = vec![0; hosts];
        fault.victims.iter().for_each(|(host, _)| group_of[*host as usize] = 1);
        Partition {
            from: at(fault.spec.at.earliest()),
            until: fault.spec.until.map_or(Time::MAX, at),
            group_of,
        }
    };
    faults.iter().filter(|fault| fault.spec.kind == FaultKind::Partition).map(of).collect()
}

/// Schedules all other faults.
pub(super) fn schedule(sim: &mut Simulation<ColumnsNode>, faults: &[Fault], rates: &[HostConfig]) {
    for fault in faults {
        let spec = &fault.spec;
        let silent = spec.silent.unwrap_or(false);
        for (host, begin) in &fault.victims {
            match spec.kind {
                FaultKind::Crash => {
                    sim.crash(*begin, *host, silent);
                    if let Some(until) = spec.until {
                        sim.restart(at(until).max(*begin), *host);
                    }
                }
                FaultKind::Slow => {
                    let own = rates[*host as usize];
                    let slowed = |rate: Option<Rate>, own: u64| rate.map_or(own, Rate::bits_per_second);
                    let (up, down) =
                        (slowed(spec.uplink, own.uplink_bps), slowed(spec.downlink, own.downlink_bps));
                    sim.set_rates(*begin, *host, up, down);
                    if let Some(until) = spec.until {
                        sim.set_rates(at(until).max(*begin), *host, own.uplink_bps, own.downlink_bps);
                    }
                }
                FaultKind::Partition | FaultKind::Churn => {}
            }
        }
        for (host, gone, back) in &fault.absences {
            sim.crash(*gone, *host, silent);
            sim.restart(*back, *host);
        }
    }
}
