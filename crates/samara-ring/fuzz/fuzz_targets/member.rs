//! A member whose two peers send any decodable frames.

#![no_main]

use std::time::Duration;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use samara_engine::{
    Context, Effects, Engine, Input, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time,
};
use samara_ring::wire::{Limits, decode};
use samara_ring::{Config, Ring};

fuzz_target!(|data: &[u8]| {
    let config = Config::default();
    let mut outbox = Outbox::new(config.outbox());
    let mut node = Ring::new(config, PeerIdentity::new(b"a")).expect("the default configuration is valid");
    let (mut rng, mut effects) = (NodeRng::new(1, 0, Purpose::Engine), Effects::default());
    let mut now = Time::ZERO;
    let mut handle =
        |input, now| node.handle(input, &mut Context::new(now, &mut rng, &mut outbox, &mut effects));
    handle(Input::Start, now);
    for (peer, name) in [(PeerId(0), b"b"), (PeerId(1), b"c")] {
        let identity = PeerIdentity::new(name);
        let info = PeerInfo { identity, outbound: true, address: None, protocol: "ring/1".into() };
        handle(Input::LinkUp { peer, info }, now);
    }
    // Each frame: a byte for the sender and the delay, two bytes for the length, and the frame.
    let mut rest = data;
    while let [head, low, high, more @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(more.len());
        let (bytes, behind) = more.split_at(len);
        rest = behind;
        now = now + Duration::from_millis(u64::from(head >> 1));
        if let Ok(frame) = decode(&Bytes::copy_from_slice(bytes), &Limits::default()) {
            handle(Input::Frame { peer: PeerId(u32::from(head & 1)), frame }, now);
        }
    }
});
