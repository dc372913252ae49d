//! The number of threads does not affect results.

use std::sync::mpsc;

use samara_engine::Shape;
use samara_engine::testing::identity_of;
use samara_engine::{Context, Effects, Engine, Input, NodeRng, Outbox, PeerId, PeerInfo, Purpose, Time};
use samara_mix::{Command, Event, Group, MixFrame, Node, Plan, Pool, Secret, Transfer};

/// Returns the frames that two nodes exchange in the precomputation, in the order of slots, with
/// jobs on `threads` threads.
fn frames(threads: usize) -> Vec<String> {
    let pool = Pool::new(threads).unwrap();
    assert_eq!(pool.threads(), threads);
    let config = samara_mix::Config { jobs_max: 8, ..crate::config(2, 2, Group::Small256) };
    let mut hosts: Vec<_> = (0..2)
        .map(|number| {
            (
                Node::new(config.clone(), number, Secret::new([number as u8; 32])).unwrap(),
                Outbox::new(config.outbox()),
                NodeRng::new(1, number.into(), Purpose::Engine),
            )
        })
        .collect();
    let plan = Plan {
        round: 0,
        team: vec![0, 1],
        incarnations: Vec::new(),
        batch: 24,
        precomputation_slots: 2,
        realtime_slots: 4,
        transfer: Transfer::Streamed,
        shape: Shape::Direct,
    };
    let mut inputs: std::collections::VecDeque<(usize, Input<MixFrame, Command>)> = Default::default();
    for (host, others) in [(0, [1, 2]), (1, [0, 2])] {
        inputs.push_back((host, Input::Start));
        for other in others {
            hosts[host].1.link_up(PeerId(other));
            let info = PeerInfo {
                identity: identity_of(other),
                outbound: true,
                address: None,
                protocol: "mix/1".into(),
            };
            inputs.push_back((host, Input::LinkUp { peer: PeerId(other), info }));
        }
        let frame = MixFrame::Create(plan.clone().into());
        inputs.push_back((host, Input::Frame { peer: PeerId(2), frame }));
    }
    let (sender, receiver) = mpsc::channel();
    let (mut out, mut seen) = (0, Vec::new());
    loop {
        let (host, input) = match inputs.pop_front() {
            Some(input) => input,
            None if out > 0 => {
                out -= 1;
                let (host, done) = receiver.recv().unwrap();
                (host, Input::Command(Command::Computed(done)))
            }
            None => break,
        };
        let mut effects = Effects::default();
        let (node, outbox, rng) = &mut hosts[host];
        node.handle(input, &mut Context::new(Time::ZERO, rng, outbox, &mut effects));
        while let Some(copy) = outbox.pop(Time::ZERO, |_| true) {
            if let MixFrame::Slots(piece) = &copy.frame {
                seen.push(format!("{:?} {:04} {:?}", piece.phase, piece.first, piece.elements));
            }
            if copy.peer.0 < 2 {
                let frame = copy.frame;
                inputs.push_back((copy.peer.index(), Input::Frame { peer: PeerId(host as u32), frame }));
            }
        }
        for event in effects.events {
            if let Event::Compute(job) = event {
                out += 1;
                let sender = sender.clone();
                pool.run(job, move |done| sender.send((host, done)).unwrap());
            }
        }
    }
    seen.sort();
    seen
}

#[test]
fn number_of_threads_does_not_change_slots() {
    let one = frames(1);
    // Two hops of decryption (one back to the first node), two of permutation, and one of
    // revelation, with 12 pieces each.
    assert_eq!(one.len(), 5 * 12);
    assert_eq!(one, frames(4));
}
