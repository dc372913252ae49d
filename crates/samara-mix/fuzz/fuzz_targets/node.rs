//! A node whose scheduler and peers send any decodable frames.

#![no_main]

use std::time::Duration;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use samara_engine::{
    Context, Effects, Engine, Input, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time,
    TimerToken,
};
use samara_mix::wire::decode;
use samara_mix::{Command, Config, Event, Group, Node, Secret};

fuzz_target!(|data: &[u8]| {
    let identity = |number: u32| PeerIdentity::new(&number.to_be_bytes());
    let config = Config {
        pool: (0..3).map(identity).collect(),
        scheduler: identity(3),
        group: Group::Model,
        team: 3,
        batch: 8,
        batch_max: 64,
        // Often enough that some pings are in flight.
        ping: Some(Duration::from_millis(100)),
        ..Config::default()
    };
    let limits = config.limits;
    let mut outbox = Outbox::new(config.outbox());
    let mut node = Node::new(config, 1, Secret::new([1; 32])).expect("the configuration is valid");
    let (mut rng, mut effects) = (NodeRng::new(1, 1, Purpose::Engine), Effects::default());
    let mut now = Time::ZERO;
    // Jobs are run at once.
    let mut handle = |input, now| {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            node.handle(input, &mut Context::new(now, &mut rng, &mut outbox, &mut effects));
            inputs.extend(effects.events.drain(..).filter_map(|event| match event {
                Event::Compute(job) => Some(Input::Command(Command::Computed(job.run()))),
                _ => None,
            }));
            while outbox.pop(now, |_| true).is_some() {}
        }
    };
    handle(Input::Start, now);
    for other in [0, 2, 3] {
        let info =
            PeerInfo { identity: identity(other), outbound: true, address: None, protocol: "mix/1".into() };
        handle(Input::LinkUp { peer: PeerId(other), info }, now);
    }
    // Each frame: a byte for the sender and the delay, two bytes for the length, and the frame.
    let mut rest = data;
    while let [head, low, high, more @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(more.len());
        let (bytes, behind) = more.split_at(len);
        rest = behind;
        now = now + Duration::from_millis(u64::from(head >> 2));
        if let Ok(frame) = decode(Bytes::copy_from_slice(bytes), &limits) {
            handle(Input::Frame { peer: PeerId(u32::from(head & 3)), frame }, now);
        }
        handle(Input::Timer(TimerToken(0)), now);
    }
});
