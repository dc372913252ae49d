//! The cost of pools by the length of transactions and the number of peers: bytes of the engine
//! compared with the closed forms of `docs/protocols/cat.md`.

use std::time::Duration;

use crate::net::{Delay, Net};
use samara_cat::config::Inline;
use samara_cat::{Config, FrameKind, Preset};

const NODES: u32 = 60;
const TXS: u64 = 120;

/// Bytes of received frames and their purpose, per node and transaction.
#[derive(Debug)]
struct Cost {
    bytes: f64,
    announcements: f64,
    /// Frames with announcements.
    frames: f64,
    wanted: f64,
    bodies: f64,
    degree: f64,
}

/// Runs a network in which each node dials `dials` hosts, with all transactions within two seconds.
fn cost(config: &Config, dials: u32, len: usize) -> Cost {
    let mut net = Net::uniform(11, Delay::millis(10, 30), NODES, config);
    net.deliver(dials, (TXS, len, 2), 20);
    let pairs = f64::from(NODES) * TXS as f64;
    let each = |sum: u64| sum as f64 / pairs;
    Cost {
        bytes: each(net.sum(|metrics| FrameKind::ALL.iter().map(|kind| metrics.received(*kind).bytes).sum())),
        announcements: each(net.sum(|metrics| metrics.heard_keys)),
        frames: each(net.sum(|metrics| metrics.received(FrameKind::SeenKeys).copies)),
        wanted: each(net.sum(samara_cat::Metrics::requests)),
        bodies: each(net.sum(|metrics| metrics.bodies_received)),
        degree: 2.0 * net.links() as f64 / f64::from(NODES),
    }
}

/// Returns half the overhead of a body in a frame of its own, or the overhead of a body in a shared
/// frame: a tag and a length.
fn around(len: usize) -> f64 {
    if len < 126 { 2.0 } else { 3.0 }
}

/// Flooding: every link carries a transaction twice, except the link that it arrived on.
fn flood(degree: f64, len: usize) -> f64 {
    (degree - 1.0 + 1.0 / f64::from(NODES)) * (len as f64 + 2.0 * around(len))
}

/// Returns the minimum and maximum cost with announcements: one body, requests for bodies that were
/// not pushed (32 to 36 bytes each, as they share frames), and announcements of 32 bytes each, plus
/// 4 to 15 bytes for each frame of them (a tag and a length twice, and in some 9 bytes for the
/// pushing peer).
fn announced(announcements: f64, frames: f64, wanted: f64, len: usize) -> (f64, f64) {
    let first = 1.0 - 1.0 / f64::from(NODES);
    let rest = first * (len as f64 + 2.0 * around(len)) + 32.0 * (wanted + announcements);
    (rest + 4.0 * frames, rest + 4.0 * wanted + 15.0 * frames)
}

fn never() -> Config {
    Config { inline: Inline::Never, ..Config::default() }
}

fn alone() -> Config {
    Config { coalesce: Duration::ZERO, ..never() }
}

#[test]
fn bytes_match_the_closed_forms() {
    for (dials, len) in [(2, 64), (5, 64), (5, 1_000), (10, 64), (10, 4_000)] {
        let flooded = cost(&Preset::FloodFifo.config(), dials, len);
        let expected = flood(flooded.degree, len);
        assert!((flooded.bytes / expected - 1.0).abs() < 0.05, "flooding, {flooded:?}: {expected} expected");
        for config in [never(), alone()] {
            let found = cost(&config, dials, len);
            let (low, high) = announced(found.announcements, found.frames, found.wanted, len);
            assert!((low..=high).contains(&found.bytes), "{found:?}: {low} to {high} expected");
            // Each link carries an announcement once, or twice if both ends get the transaction at
            // about the same time. Links of the push carry none.
            let (d, n) = (found.degree, f64::from(NODES));
            let (few, many) = ((d / 2.0 * n - d) / n, (2.0 * (d / 2.0 * n - d) - (n - 1.0 - d)) / n);
            assert!(
                (0.97 * few..=1.03 * many).contains(&found.announcements),
                "{found:?}: {few} to {many} announcements"
            );
            assert!(found.bodies <= 1.02, "{found:?}");
        }
    }
}

/// Announcements that share frames cost less: 32 bytes and their share of a frame instead of 36 to
/// 45. They also need far fewer frames, each of which a connection seals and pads.
#[test]
fn shared_announcements_need_fewer_frames() {
    for dials in [3, 10] {
        let (shared, single) = (cost(&never(), dials, 200), cost(&alone(), dials, 200));
        assert!(shared.bytes < single.bytes, "{shared:?}, {single:?}");
        assert!((single.frames / single.announcements - 1.0).abs() < 0.01, "{single:?}");
        assert!(shared.frames < 0.65 * shared.announcements, "{shared:?}");
    }
}

/// The crossover of inline bodies, by the length of transactions and the number of peers: they win
/// below it, and lose above it.
#[test]
fn inline_bodies_win_below_the_crossover() {
    // Mean degrees of some 4, 10 and 19. The closed form gives 72, 42 and 36 bytes.
    for (dials, below, above) in [(2, 45, 120), (5, 32, 64), (10, 28, 56)] {
        let difference = |len: usize| {
            let inline = Config { inline: Inline::UpTo(usize::MAX), ..Config::default() };
            let (inline, announced) = (cost(&inline, dials, len), cost(&never(), dials, len));
            (inline.bytes - announced.bytes, inline, announced)
        };
        let (less, inline, announced) = difference(below);
        assert!(less < 0.0, "{below} bytes: {inline:?}, {announced:?}");
        assert_eq!(inline.wanted, 0.0, "no requests");
        let (more, inline, announced) = difference(above);
        assert!(more > 0.0, "{above} bytes: {inline:?}, {announced:?}");
        // The default is the better of both.
        let default = cost(&Config::default(), dials, below);
        assert!(default.bytes < announced.bytes && default.wanted == 0.0, "{default:?}");
        let default = cost(&Config::default(), dials, above);
        assert!(default.bodies <= 1.02, "{default:?}");
    }
}
