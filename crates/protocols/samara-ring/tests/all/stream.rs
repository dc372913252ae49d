//! Streams of messages in a stable group.

use std::time::Duration;

use samara_engine::Shape;
use samara_ring::{Config, Preset, ShapeChoice};

use crate::group::{Link, Net};

const LAN: Link = Link::micros(50, 200);

#[test]
fn a_group_forms_and_delivers() {
    for shape in Shape::ALL {
        for count in [1, 2, 3, 4, 7, 16] {
            let config = Config { shape: ShapeChoice::Fixed(shape), ..Config::default() };
            let mut net = Net::group(1, LAN, count, &config);
            let all: Vec<u32> = (0..count).collect();
            all.iter().for_each(|host| net.send(*host, 200, 1_000, Duration::ZERO));
            net.run_for(Duration::from_secs(2));
            let label = format!("{shape:?} of {count}");
            net.record.assert_promises(false, &label);
            net.record.assert_complete(&all, &all, &label);
            for host in all {
                assert_eq!(net.engine(host).kept_bytes(), 0, "{label}");
            }
        }
    }
}

#[test]
fn total_order_is_the_same_everywhere() {
    for seed in 0..20 {
        let mut net = Net::group(seed, Link::micros(50, 20_000), 5, &Preset::RingTotal.config().unwrap());
        let all: Vec<u32> = (0..5).collect();
        all.iter().for_each(|host| net.send(*host, 100, 500, Duration::from_millis(1)));
        net.run_for(Duration::from_secs(5));
        net.record.assert_promises(true, "total");
        net.record.assert_complete(&all, &all, "total");
        let order = net.record.delivered(0);
        all.iter().for_each(|host| assert!(net.record.delivered(*host) == order));
    }
}

#[test]
fn large_messages_travel_in_chunks() {
    for preset in [Preset::Ring, Preset::RingTotal] {
        let mut net = Net::group(3, LAN, 4, &preset.config().unwrap());
        net.send(1, 3, 5_000_000, Duration::ZERO);
        net.send(2, 3, 100_000, Duration::ZERO);
        net.run_for(Duration::from_secs(3));
        net.record.assert_complete(&[0, 1, 2, 3], &[1, 2], preset.name());
    }
}
