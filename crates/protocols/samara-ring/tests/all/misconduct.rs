//! Groups with a member whose frames break the rules, while its engine follows the protocol.

use std::time::Duration;

use samara_engine::Shape;
use samara_engine::hostile::Misconduct;
use samara_ring::{Config, Ignored, ShapeChoice};

use crate::group::{Link, Net};

const HOSTS: u32 = 6;
/// The member that breaks the rules.
const HOSTILE: u32 = 1;
const OTHERS: [u32; 5] = [0, 2, 3, 4, 5];
const LINK: Link = Link { bps: 50_000_000, ..Link::micros(2_000, 6_000) };

fn group(seed: u64, shape: Shape) -> Net {
    Net::group(seed, LINK, HOSTS, &Config { shape: ShapeChoice::Fixed(shape), ..Config::default() })
}

/// Members that took repeated heartbeats for those of their sender suspected it at different times, and
/// then each other. Most of these histories lost messages between members that follow the rules.
#[test]
fn the_group_parts_from_a_member_that_repeats_frames() {
    for (shape, share) in [(Shape::Ring, 1.0), (Shape::Ring, 0.3), (Shape::DoubleTree, 1.0)] {
        for seed in 0..6 {
            let label = format!("{shape:?}, {share} with seed {seed}");
            let mut net = group(seed, shape);
            net.misbehave(HOSTILE, Misconduct::Replay, share);
            (0..HOSTS).for_each(|host| net.send(host, 200, 1_000, Duration::from_millis(20)));
            net.run_for(Duration::from_secs(8));
            net.record.assert_complete(&OTHERS, &OTHERS, &label);
            net.assert_together(&OTHERS);
            let wrong = |(_, by, of): &&(_, u32, u32)| *by != HOSTILE && *of != HOSTILE;
            let wrong: Vec<_> = net.record.suspected.iter().filter(wrong).collect();
            assert!(wrong.is_empty(), "{label}: {wrong:?}");
            let forged = OTHERS.map(|host| net.engine(host).metrics().ignored(Ignored::Forged));
            assert!(forged.iter().any(|count| *count > 0), "{label}: {forged:?}");
        }
    }
}

/// Without a later frame, nothing shows that the last one is missing: neither a unit, nor the
/// acknowledgement that a window waits for.
#[test]
fn what_a_member_withholds_is_sent_again() {
    let all: Vec<u32> = (0..HOSTS).collect();
    for (shape, gap_ms) in [(Shape::Ring, 20), (Shape::Ring, 0), (Shape::DoubleTree, 0)] {
        for seed in 0..6 {
            let label = format!("{shape:?}, every {gap_ms} ms, seed {seed}");
            let mut net = group(seed, shape);
            net.misbehave(HOSTILE, Misconduct::Withhold, 0.1);
            all.iter().for_each(|host| net.send(*host, 300, 1_000, Duration::from_millis(gap_ms)));
            net.run_for(Duration::from_secs(30));
            net.record.assert_promises(false, &label);
            net.record.assert_complete(&all, &all, &label);
            net.assert_together(&all);
        }
    }
}

/// More bytes are withheld than the window of a link takes.
#[test]
fn withheld_bytes_take_no_room_in_windows_for_ever() {
    let mut net = group(1, Shape::Ring);
    net.misbehave(HOSTILE, Misconduct::Withhold, 0.3);
    OTHERS.iter().for_each(|host| net.send(*host, 3_000, 2_000, Duration::ZERO));
    net.run_for(Duration::from_secs(120));
    net.record.assert_complete(&(0..HOSTS).collect::<Vec<_>>(), &OTHERS, "a long stream");
}
