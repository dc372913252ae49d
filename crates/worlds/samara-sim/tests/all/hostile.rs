//! Hosts that break the rules.

use std::sync::Arc;

use crate::common::*;
use samara_engine::hostile::{Forge, Misconduct};
use samara_engine::{NodeRng, Time};
use samara_sim::{Simulation, Transport};

/// Returns two hosts with a link, the first of which misbehaves from the start on.
fn misbehaving(what: Misconduct, strength: f64) -> Simulation<Talker> {
    let mut sim = pair(config(10, Transport::tcp()), 100);
    sim.misbehave(Time::ZERO, 0, what, strength);
    sim
}

fn say(sim: &mut Simulation<Talker>, ids: std::ops::Range<u64>) {
    for id in ids {
        sim.command(START.plus_nanos(id * 1_000_000), 0, Say::To { hosts: vec![1], id, len: 100 });
    }
}

/// Runs for ten seconds, and returns the events of the second host.
fn heard(sim: &mut Simulation<Talker>) -> Vec<Heard> {
    let records = run(sim, Time::from_secs(10)).into_iter();
    records.filter(|record| record.host == 1).map(|record| record.event).collect()
}

fn ids(heard: &[Heard]) -> Vec<u64> {
    let id = |heard: &Heard| if let Heard::Blob { id, .. } = heard { Some(*id) } else { None };
    heard.iter().filter_map(id).collect()
}

#[test]
fn withheld_frames_do_not_arrive() {
    let mut sim = misbehaving(Misconduct::Withhold, 1.0);
    say(&mut sim, 0..10);
    // It keeps the rules from here on.
    sim.misbehave(START.plus_nanos(9_500_000), 0, Misconduct::Withhold, 0.0);
    say(&mut sim, 10..12);
    assert_eq!(ids(&heard(&mut sim)), [10, 11]);
    let mut sim = misbehaving(Misconduct::Withhold, 0.5);
    say(&mut sim, 0..200);
    assert!((60..140).contains(&ids(&heard(&mut sim)).len()));
}

#[test]
fn replayed_frames_are_earlier_ones() {
    let mut sim = misbehaving(Misconduct::Replay, 1.0);
    say(&mut sim, 0..50);
    let ids = ids(&heard(&mut sim));
    assert_eq!((ids.len(), ids[0]), (50, 0), "a frame leaves in place of each");
    assert!(ids.iter().zip(0..).all(|(id, sent)| *id <= sent), "{ids:?}");
    assert!(ids.windows(2).any(|pair| pair[1] < pair[0]), "{ids:?}");
}

#[test]
fn a_frame_that_cannot_be_decoded_ends_the_link() {
    // Blobs have no encoding, so that no change of one can be decoded.
    let mut sim = misbehaving(Misconduct::Alter, 1.0);
    say(&mut sim, 0..2);
    let heard = heard(&mut sim);
    assert!(ids(&heard).is_empty(), "{heard:?}");
    assert_eq!(heard.last(), Some(&Heard::Down { peer: 0 }));
}

#[test]
fn a_flood_has_a_limit() {
    let mut sim = misbehaving(Misconduct::Flood, 8.0);
    sim.misbehave(Time::ZERO, 1, Misconduct::Flood, 8.0);
    say(&mut sim, 0..1);
    let arrived = ids(&heard(&mut sim)).len();
    // Within the second of the command: 1,000 frames of the flood, and the one that was said.
    assert!((500..=1_001).contains(&arrived), "{arrived} frames");
}

#[test]
fn false_frames_are_those_of_the_simulation() {
    let forge: Forge<Blob> = Arc::new(|what, blob: &Blob, _: &mut NodeRng| match what {
        Misconduct::Claim if blob.id.is_multiple_of(2) => None,
        Misconduct::Claim => Some(Blob { id: 100 + blob.id, ..blob.clone() }),
        _ => Some(Blob { id: 1000, ..blob.clone() }),
    });
    let mut sim = misbehaving(Misconduct::Claim, 1.0);
    sim.set_forge(Arc::clone(&forge));
    say(&mut sim, 0..4);
    assert_eq!(ids(&heard(&mut sim)), [101, 103]);
    let mut sim = misbehaving(Misconduct::Invent, 3.0);
    sim.set_forge(forge);
    sim.command(START, 1, Say::To { hosts: vec![0], id: 0, len: 100 });
    say(&mut sim, 1..3);
    let mut arrived = ids(&heard(&mut sim));
    arrived.sort_unstable();
    assert_eq!(arrived, [1, 2, 1000, 1000, 1000], "three for the received one; its own are true");
}

#[test]
fn an_honest_host_is_as_before() {
    let digest = |sim: &mut Simulation<Talker>| {
        say(sim, 0..20);
        run(sim, Time::from_secs(10));
        samara_sim::digest_of(sim.digests())
    };
    let mut honest = pair(config(10, Transport::tcp()), 100);
    let (honest, mut idle) = (digest(&mut honest), misbehaving(Misconduct::Flood, 0.0));
    assert_eq!(digest(&mut idle), honest);
}
