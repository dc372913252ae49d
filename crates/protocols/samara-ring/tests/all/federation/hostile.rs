//! A malicious leader that falsifies its messages.

use std::time::Duration;

use bytes::Bytes;
use samara_engine::testing::{Crash, identity_of};
use samara_engine::{NodeRng, Outbox, Purpose};
use samara_ring::{Federation, FederationConfig, Member, Unused};

use super::sites::Net;

const SIZE: u32 = 3;
const SENDERS_MAX: usize = 40;
const MEMORY_BYTES: u64 = 4 << 20;

/// Number of kinds of letters, in the order of their codes: own, relay, base, progress, state.
const KINDS: u64 = 5;

/// The knowledge of a malicious leader: its own state, and senders.
type Known<'a> = (&'a Federation, &'a [(u16, Member)]);

fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Returns a number that is plausible, extreme, or arbitrary.
fn number(rng: &mut NodeRng) -> u64 {
    match rng.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX - 1,
        3 => rng.next_u64(),
        _ => rng.below(300),
    }
}

/// Writes a sender: one whose messages the leader has seen, or an unknown one.
fn sender((_, heard): Known<'_>, rng: &mut NodeRng, into: &mut Vec<u8>) {
    let unknown = (number(rng) as u16, identity_of(rng.below(12) as u32), number(rng));
    let (site, name, incarnation) = if heard.is_empty() || rng.chance(0.1) {
        unknown
    } else {
        let (site, member) = &heard[rng.index(heard.len())];
        (*site, member.identity.clone(), member.incarnation)
    };
    varint(into, site.into());
    varint(into, name.as_bytes().len() as u64);
    into.extend_from_slice(name.as_bytes());
    into.extend_from_slice(&incarnation.to_le_bytes());
}

fn entries(
    known: Known<'_>,
    rng: &mut NodeRng,
    into: &mut Vec<u8>,
    mut rest: impl FnMut(&mut NodeRng, &mut Vec<u8>),
) {
    let count = rng.below(SENDERS_MAX as u64 + 2);
    varint(into, count);
    for _ in 0..count {
        sender(known, rng, into);
        rest(rng, into);
    }
}

fn letter(known: Known<'_>, rng: &mut NodeRng) -> Bytes {
    let mut into = Vec::new();
    let kind = 1 + rng.below(KINDS) as u8;
    into.push(kind);
    let counter = known.0.bridge().and_then(|ring| ring.view()).map_or(0, |view| view.id.counter);
    match kind {
        1 => varint(&mut into, number(rng)),
        2 => {
            let start = rng.chance(0.7);
            into.push(u8::from(start));
            if start {
                varint(&mut into, if rng.chance(0.7) { counter } else { number(rng) });
            }
            sender(known, rng, &mut into);
            varint(&mut into, number(rng));
        }
        3 => {
            varint(&mut into, number(rng));
            entries(known, rng, &mut into, |rng, into| varint(into, number(rng)));
        }
        4 => entries(known, rng, &mut into, |rng, into| varint(into, number(rng))),
        _ => {
            varint(&mut into, if rng.chance(0.9) { counter } else { number(rng) });
            varint(&mut into, number(rng));
            varint(&mut into, rng.below(4));
            entries(known, rng, &mut into, |rng, into| {
                into.extend([rng.below(2) as u8, rng.below(2) as u8]);
                (0..3).for_each(|_| varint(into, number(rng)));
            });
        }
    }
    let len = rng.below(60) as usize;
    into.extend((0..len).map(|_| rng.next_u64() as u8));
    if rng.chance(0.1) {
        into.truncate(rng.below(into.len() as u64 + 1) as usize);
    }
    into.into()
}

/// Messages among members of honest sites arrive as usual, no node panics, and memory stays
/// bounded.
#[test]
fn malicious_leader_does_not_affect_other_sites() {
    for seed in 0..40 {
        let label = format!("seed {seed}");
        let mut net = Net::formed(seed, 3, SIZE, |config| {
            (config.senders_max, config.memory_bytes) = (SENDERS_MAX, MEMORY_BYTES);
        });
        let hostile = net.leader((seed % 3) as u16).unwrap();
        let mut rng = NodeRng::new(seed, 1, Purpose::Faults);
        let share = 0.02 + 0.6 * rng.unit();
        net.hostile = Some((
            hostile,
            Box::new(move |engine, heard, rng| rng.chance(share).then(|| letter((engine, heard), rng))),
        ));
        let hosts = net.hosts();
        hosts.iter().for_each(|host| net.send(*host, 100, 1_000, Duration::from_millis(10)));
        // The honest leader of another site fails in the meantime.
        net.run_for(Duration::from_millis(700));
        let victim = net.leader(((seed + 1) % 3) as u16).unwrap();
        net.crash(victim, Crash::Closes);
        net.run_for(Duration::from_secs(8));
        for site in (0..3).filter(|site| *site != net.site(hostile)) {
            let living: Vec<u32> = net.living().into_iter().filter(|host| net.site(*host) == site).collect();
            net.assert_complete(&living, &living, &label);
        }
        assert!(net.kept_max <= MEMORY_BYTES + (1 << 16), "{label}: {} bytes", net.kept_max);
        let unused: u64 = hosts
            .iter()
            .map(|host| net.engine(*host).metrics())
            .map(|metrics| samara_ring::Unused::ALL.iter().map(|cause| metrics.unused(*cause)).sum::<u64>())
            .sum();
        assert!(unused > 0, "{label}: no false message was detected");
    }
}

/// A relayed message of a sender that does not exist, in the present view of the bridge.
fn invented(site: u16, number: u32, engine: &Federation) -> Bytes {
    let counter = engine.bridge().and_then(|ring| ring.view()).map_or(0, |view| view.id.counter);
    let mut into = vec![2, 1];
    varint(&mut into, counter);
    varint(&mut into, site.into());
    let name = identity_of(1_000 + number);
    varint(&mut into, name.as_bytes().len() as u64);
    into.extend_from_slice(name.as_bytes());
    into.extend_from_slice(&u64::from(number).to_le_bytes());
    varint(&mut into, 1);
    into.into()
}

/// A leader that invents senders takes the room of no member of another site: newcomers are heard
/// in their own site.
#[test]
fn invented_senders_do_not_silence_newcomers() {
    let limit = |config: &mut FederationConfig| config.senders_max = SENDERS_MAX;
    for site in [9, 1, 0] {
        let label = format!("senders of site {site}");
        let mut net = Net::formed(1, 3, SIZE, limit);
        net.crash(2, Crash::Closes);
        // No member of site 2 has sent anything yet.
        let mut number = 0;
        let hostile = net.leader(1).unwrap();
        net.hostile = Some((
            hostile,
            Box::new(move |engine, _, _| {
                number += 1;
                Some(invented(site, number, engine))
            }),
        ));
        net.send(hostile + 1, 10 * SENDERS_MAX as u64, 100, Duration::from_millis(5));
        net.run_for(Duration::from_secs(5));
        let refused = net.engine(0).metrics().unused(Unused::TooManySenders);
        assert!(refused >= 5 * SENDERS_MAX as u64, "{label}: {refused} refused");

        let of = |site: u32| (SIZE * site..SIZE * (site + 1)).map(identity_of).collect();
        let mut config = FederationConfig::new(0, vec![(1, of(1)), (2, of(2))]);
        config.local.seeds = of(0);
        limit(&mut config);
        let outbox = Outbox::new(config.outbox());
        net.restart(2, Federation::new(config, identity_of(2)).unwrap(), outbox);
        net.run_for(Duration::from_secs(3));
        [2, 6, 7].into_iter().for_each(|host| net.send(host, 20, 100, Duration::from_millis(5)));
        net.run_for(Duration::from_secs(3));
        net.assert_complete(&[0, 1, 2], &[2], &label);
        net.assert_complete(&[6, 7, 8], &[6, 7], &label);
    }
}
