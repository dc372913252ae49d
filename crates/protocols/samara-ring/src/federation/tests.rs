//! Unit tests of letters and logs.

use bytes::Bytes;
use proptest::prelude::*;
use samara_engine::testing::Single;
use samara_engine::{Outbox, PeerId, PeerIdentity, Shape};

use super::letter::{Entry, Letter, OVERHEAD_MAX, fuzz_letter};
use super::log::{Accepted, Log};
use super::{Federation, FederationConfig, Sender};
use crate::wire::Hello;
use crate::{Member, RingFrame, View, ViewId};

fn sender(site: u16) -> Sender {
    Sender { site, member: Member { identity: PeerIdentity::new(&[7; 128]), incarnation: u64::MAX } }
}

#[test]
fn letters_round_trip_and_reject_truncation() {
    let content = Bytes::from_static(b"content");
    let last = vec![(sender(1), 5), (sender(2), u64::MAX)];
    let entry = Entry { sender: sender(3), is_local: true, misses: true, base: 1, have: 3, secured: 2 };
    let letters = [
        Letter::Own { number: 300, content: content.clone() },
        Letter::Relay { start: None, sender: sender(0), number: 1, content: Bytes::new() },
        Letter::Relay {
            start: Some(u64::MAX),
            sender: sender(u16::MAX),
            number: u64::MAX,
            content: content.clone(),
        },
        Letter::Base { leadership: 2, last: last.clone() },
        Letter::Progress { last },
        Letter::State { round: (3, 1), site: 9, entries: vec![entry] },
    ];
    for letter in letters {
        let encoded = letter.encode();
        assert_eq!(Letter::decode(&encoded, 2).as_ref(), Ok(&letter));
        let cut = encoded.slice(..encoded.len() - 1);
        assert_ne!(Letter::decode(&cut, 2).as_ref(), Ok(&letter));
        if let Letter::Relay { content, .. } = letter {
            assert!(encoded.len() <= content.len() + OVERHEAD_MAX, "{}", encoded.len());
        }
    }
    let long = Letter::Progress { last: vec![(sender(1), 1); 3] }.encode();
    assert!(Letter::decode(&long, 2).is_err());
    assert!(Letter::decode(&Bytes::from_static(&[9]), 2).is_err());
    assert!(Letter::decode(&Bytes::new(), 2).is_err());
}

#[test]
fn log_accepts_messages_once_and_in_order() {
    let mut log = Log::default();
    let content = || Bytes::from_static(b"x");
    assert_eq!(log.accept(1, content(), false), Accepted::New);
    assert_eq!(log.accept(1, content(), true), Accepted::Duplicate);
    assert_eq!(log.accept(3, content(), false), Accepted::Gap);
    assert_eq!(log.accept(2, content(), false), Accepted::New);
    log.release(1);
    assert_eq!((log.base, log.have(), log.get(1), log.get(2)), (1, 2, None, Some(&content())));
    assert_eq!(log.accept(9, content(), true), Accepted::Skipped);
    assert_eq!((log.base, log.have()), (8, 9));
    log.leap(5);
    assert_eq!(log.have(), 9);
    log.release(u64::MAX);
    assert_eq!((log.base, log.have(), log.held), (9, 9, 0));
}

/// Senders of one site take no room from those of others, and none from members of the own site.
#[test]
fn each_site_has_a_share_of_the_logs() {
    let config = FederationConfig {
        senders_max: 40,
        ..FederationConfig::new(0, vec![(1, Vec::new()), (2, Vec::new())])
    };
    let mut node = Federation::new(config, PeerIdentity::new(b"own")).unwrap();
    let of = |site, incarnation| Sender { site, member: Member { incarnation, ..sender(site).member } };
    let fill = |node: &mut Federation, site| {
        let opened = (0..100).filter(|number| {
            let sender = of(site, *number);
            let has_room = node.open(&sender);
            node.logs.change(&sender, |log| log.accept(1, Bytes::from_static(b"x"), true));
            has_room
        });
        opened.count()
    };
    for (site, expected) in [(9, 10), (8, 0), (1, 10), (0, 10), (2, 10)] {
        assert_eq!(fill(&mut node, site), expected, "senders of site {site}");
    }
    let members: Vec<Member> = (100..150).map(|incarnation| of(0, incarnation).member).collect();
    node.view = Some(View { id: ViewId::default(), members: members.into(), shape: Shape::Ring }.into());
    assert!((100..150).all(|incarnation| node.open(&of(0, incarnation))));
}

/// The number of a peer is free once its link is down and neither ring has it.
#[test]
fn peers_without_links_are_forgotten() {
    let config = FederationConfig::new(0, vec![(1, Vec::new())]);
    let (outbox, group) = (Outbox::new(config.outbox()), config.bridge.group);
    let engine = Federation::new(config, PeerIdentity::new(b"own")).unwrap();
    let (mut node, peer) = (Single::start(engine, outbox, 1), PeerId(0));
    node.connect(peer, PeerIdentity::new(b"other"), "", true);
    assert!(!node.engine.forget_peer(peer), "its link is up, and its site unknown");
    let hello = Hello { group, site: 0, leads: false, leader: None };
    node.frame(peer, RingFrame::Hello(hello.into()));
    assert!(!node.engine.forget_peer(peer), "its link is up");
    node.disconnect(peer);
    assert!(node.engine.forget_peer(peer));
}

proptest! {
    /// Decoding accepts or rejects any bytes without panicking. A decoded letter can be encoded
    /// again, and lists stay within their limit.
    #[test]
    fn decodes_or_rejects_any_bytes(kind in 0u8..8, rest in proptest::collection::vec(any::<u8>(), 0..400), max in 0usize..6) {
        let bytes = Bytes::from_iter(std::iter::once(kind).chain(rest));
        fuzz_letter(&bytes, max);
    }
}
