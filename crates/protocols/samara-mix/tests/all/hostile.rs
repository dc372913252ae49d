//! Senders and nodes that violate the protocol.

use std::time::Duration;

use bytes::Bytes;
use samara_mix::wire::Piece;
use samara_mix::{
    Cause, Command, Config, Group, Ignored, MixFrame, Outcome, Phase, Plan, Sealed, Secret, Sender, SenderId,
    Voided,
};

use crate::config;
use crate::net::Net;

/// Time that senders take for a batch. With the default there would be many more rounds, and each
/// costs the same exponentiations.
const PAUSE: Duration = Duration::from_millis(500);

/// Returns the outcomes of the first complete round, which are the same at all nodes.
fn outcomes(net: &Net) -> Vec<Outcome> {
    let round = net.record.complete()[0];
    net.record.delivered.range((round, 0)..).next().unwrap().1.1.clone()
}

fn count(outcomes: &[Outcome], is: impl Fn(&Outcome) -> bool) -> usize {
    outcomes.iter().filter(|outcome| is(outcome)).count()
}

fn run_tampered(group: Group, tamper: fn(&Plan, &mut Vec<Sealed>)) -> Net {
    let mut net = Net::new(1, config(5, 5, group));
    net.pause = PAUSE;
    net.tamper = Some(tamper);
    net.run_for(Duration::from_secs(3));
    assert!(net.record.complete().len() > 3);
    assert!(net.record.failed.is_empty(), "{:?}", net.record.causes());
    net
}

#[test]
fn payload_of_unknown_sender_is_voided_alone() {
    for group in [Group::Model, Group::Small256] {
        let net = run_tampered(group, |plan, sealed| {
            let stranger = Sender::new(Group::Small256, SenderId([3; 32]));
            assert!(stranger.seal(plan.round, &plan.team, [0; 32], &[0; 60]).is_err());
            // The payload claims another sender.
            sealed[3] = rename(&sealed[3]);
        });
        let outcomes = outcomes(&net);
        assert_eq!(count(&outcomes, |outcome| *outcome == Outcome::Void), 1);
        assert_eq!(count(&outcomes, |outcome| matches!(outcome, Outcome::Content(_))), 23);
        let voided = (0..5).map(|node| net.node(node).metrics().voided(Voided::UnknownSender)).sum::<u64>();
        assert!(voided >= net.record.complete().len() as u64);
    }
}

/// Returns the same payload with another sender's name.
fn rename(sealed: &Sealed) -> Sealed {
    let (elements, mut credentials) = sealed.clone().into_parts();
    credentials[32..64].fill(0x55);
    Sealed::from_parts(elements, credentials)
}

#[test]
fn changed_or_misdirected_payloads_are_voided() {
    let net = run_tampered(Group::Small256, |_, sealed| {
        let (mut elements, credentials) = sealed[0].clone().into_parts();
        elements[40] ^= 1;
        sealed[0] = Sealed::from_parts(elements, credentials);
        // The codes of another slot.
        let (elements, _) = sealed[1].clone().into_parts();
        let (_, credentials) = sealed[2].clone().into_parts();
        sealed[1] = Sealed::from_parts(elements, credentials);
    });
    let outcomes = outcomes(&net);
    // The slot with the codes of slot 2 comes first, so slot 2 counts as its copy.
    assert_eq!(count(&outcomes, |outcome| *outcome == Outcome::Void), 3);
    assert_eq!(count(&outcomes, |outcome| matches!(outcome, Outcome::Content(_))), 21);
}

#[test]
fn every_node_checks_its_code() {
    // The code of the node in the third seat is wrong: only that node detects it.
    let net = run_tampered(Group::Small256, |_, sealed| {
        let (elements, mut credentials) = sealed[7].clone().into_parts();
        credentials[64 + 2 * 32] ^= 1;
        sealed[7] = Sealed::from_parts(elements, credentials);
    });
    let outcomes = outcomes(&net);
    assert_eq!(count(&outcomes, |outcome| *outcome == Outcome::Unreadable), 1);
    assert_eq!(count(&outcomes, |outcome| matches!(outcome, Outcome::Content(_))), 23);
    // Teams are drawn again after some rounds.
    let thirds: Vec<u32> = net.record.drawn.iter().map(|(_, _, team)| team[2]).collect();
    let noticed = |node: &u32| net.node(*node).metrics().voided(Voided::WrongCode) > 0;
    let noticed: Vec<u32> = (0..5).filter(noticed).collect();
    assert!(noticed.contains(&thirds[0]) && noticed.iter().all(|node| thirds.contains(node)), "{noticed:?}");
}

#[test]
fn payload_that_is_not_an_element_is_voided() {
    let net = run_tampered(Group::Small256, |_, sealed| {
        let (mut elements, credentials) = sealed[0].clone().into_parts();
        elements.fill(0xff);
        sealed[0] = Sealed::from_parts(elements, credentials);
    });
    assert_eq!(count(&outcomes(&net), |outcome| *outcome == Outcome::Void), 1);
}

#[test]
fn node_that_sends_non_elements_is_named_as_culprit() {
    let mut net = Net::new(1, config(5, 5, Group::Small256));
    net.pause = PAUSE;
    net.meddle = Some(|from, _, frame| match frame {
        MixFrame::Slots(piece) if from == 2 && piece.phase == Phase::Permute && piece.round == 1 => {
            MixFrame::Slots(Piece { elements: Bytes::from(vec![0xff; piece.elements.len()]), ..piece })
        }
        other => other,
    });
    net.run_for(Duration::from_secs(3));
    net.record.check(&[]);
    let blamed: Vec<_> = net.record.failed.iter().filter(|((round, _), _)| *round == 1).collect();
    assert!(!blamed.is_empty());
    for (_, (_, failure)) in blamed {
        assert_eq!((failure.cause, failure.culprit), (Cause::BadElement, Some(2)));
    }
    assert!(net.record.complete().len() > 3);
}

#[test]
fn node_with_a_different_key_fails_the_round() {
    let mut net = Net::new(1, config(5, 5, Group::Small256));
    net.pause = PAUSE;
    net.meddle = Some(|from, _, frame| match frame {
        MixFrame::Share { round: 0, origin, is_complete: true, .. } if from == 3 => {
            let key = Bytes::from([&[0; 31][..], &[5]].concat());
            MixFrame::Share { round: 0, origin, is_complete: true, key }
        }
        other => other,
    });
    net.run_for(Duration::from_secs(3));
    assert_eq!(net.record.causes().keys().copied().collect::<Vec<_>>(), [Cause::KeyMismatch]);
    assert!(net.record.complete().len() > 3);
    net.record.check(&[]);
}

#[test]
fn illegitimate_frames_are_ignored_and_counted() {
    let mut net = Net::new(1, config(6, 5, Group::Model));
    net.run_for(Duration::from_millis(500));
    let team = net.record.drawn[0].2.clone();
    let outsider = (0..6).find(|node| !team.contains(node)).unwrap();
    let round = net.node(team[1]).rounds().last().unwrap().0;
    let piece = |first, len| Piece {
        round,
        phase: Phase::PrecomputeDecrypt,
        first,
        elements: Bytes::from(vec![1; len]),
        credentials: Bytes::new(),
    };
    let ignored = |net: &Net, cause| net.node(team[1]).metrics().ignored(cause);
    let before = Ignored::ALL.map(|cause| ignored(&net, cause));
    let frames = [
        (outsider, MixFrame::Slots(piece(0, 1024)), Ignored::Stranger),
        (team[2], MixFrame::Slots(piece(0, 1024)), Ignored::Stranger),
        (team[0], MixFrame::Slots(piece(0, 1023)), Ignored::Inconsistent),
        (team[0], MixFrame::Slots(piece(24, 1024)), Ignored::Inconsistent),
        (team[0], MixFrame::Slots(piece(u32::MAX, 1024)), Ignored::Inconsistent),
        (team[0], MixFrame::Slots(Piece { round: 9_999, ..piece(0, 1024) }), Ignored::Stale),
        (outsider, MixFrame::Queued { round }, Ignored::Stranger),
        (outsider, MixFrame::Create(net.record.plans.values().next().unwrap().clone()), Ignored::Stranger),
        (outsider, MixFrame::End { round, failure: None }, Ignored::Stranger),
        (team[0], MixFrame::End { round, failure: None }, Ignored::Stranger),
        (outsider, MixFrame::Received { round, phase: Phase::Decrypt }, Ignored::Stranger),
        (
            outsider,
            MixFrame::Share { round, origin: 0, is_complete: false, key: Bytes::from(vec![1; 256]) },
            Ignored::Stranger,
        ),
    ];
    for (from, frame, cause) in frames {
        let at = Ignored::ALL.iter().position(|of| *of == cause).unwrap();
        let had = ignored(&net, cause);
        assert!(had >= before[at]);
        net.frame(team[1], from, frame.clone());
        assert_eq!(ignored(&net, cause), had + 1, "{cause:?} of {frame:?}");
    }
    net.run_for(Duration::from_secs(3));
    net.record.check(&[]);
    assert!(net.record.failed.is_empty());
}

#[test]
fn early_key_shares_are_bounded() {
    let mut net = Net::new(1, config(5, 5, Group::Model));
    net.run_for(Duration::from_millis(500));
    for round in 1_000_000..1_001_000 {
        let key = Bytes::from(vec![1; 256]);
        net.frame(0, 1, MixFrame::Share { round, origin: 1, is_complete: false, key });
    }
    assert_eq!(net.node(0).metrics().ignored(Ignored::EarlyOverflow), 1_000 - 256);
    net.run_for(Duration::from_secs(2));
    assert!(net.record.failed.is_empty());
}

#[test]
fn senders_that_register_without_end_evict_only_unused_ones() {
    let mut net = Net::new(1, Config { senders_max: 8, ..config(5, 5, Group::Small256) });
    for step in 0..100u8 {
        for node in 0..5 {
            let sender = SenderId([100 + step; 32]);
            net.command(node, Command::Register { sender, secret: Secret::new([step; 32]) });
            assert!(net.node(node).keyring().len() <= 8);
        }
        net.run_for(Duration::from_millis(50));
    }
    // The sender of the batches is in use all the time.
    assert!(net.record.complete().len() > 20);
    assert_eq!((0..5).map(|node| net.node(node).metrics().voided.total()).sum::<u64>(), 0);
    assert!((0..5).all(|node| net.node(node).keyring().evicted() > 50));
}

/// The senders beside the usual one, and the secret that each shares with all nodes.
const OTHERS: [u8; 2] = [21, 22];

/// Runs a pool that demands payloads of three senders, two of which are registered beside the usual
/// one. Returns it after its first batches.
fn run_with_minimum(group: Group, tamper: fn(&Plan, &mut Vec<Sealed>)) -> Net {
    let mut net = Net::new(1, Config { senders_min: 3, ..config(5, 5, group) });
    for (node, other) in (0..5).flat_map(|node| OTHERS.map(|other| (node, other))) {
        let secret = Secret::new([other; 32]);
        net.command(node, Command::Register { sender: SenderId([other; 32]), secret });
    }
    net.tamper = Some(tamper);
    net.pause = PAUSE;
    net.run_for(Duration::from_secs(2));
    net
}

/// Replaces two payloads by those of the other senders.
fn of_others(plan: &Plan, sealed: &mut [Sealed]) {
    let group = if sealed[0].fits(Group::Model, 5) { Group::Model } else { Group::Small256 };
    for (slot, other) in sealed.iter_mut().zip(OTHERS) {
        let mut sender = Sender::new(group, SenderId([other; 32]));
        plan.team.iter().for_each(|node| sender.register(*node, Secret::new([other; 32])));
        *slot = sender.seal(plan.round, &plan.team, [other; 32], &vec![1; group.content_bytes()]).unwrap();
    }
}

#[test]
fn batch_of_a_first_node_with_too_few_senders_comes_out_nowhere() {
    for group in [Group::Model, Group::Small256] {
        let net = run_with_minimum(group, |plan, sealed| of_others(plan, sealed));
        assert!(net.record.complete().len() > 3 && net.record.failed.is_empty(), "{:?}", net.record.causes());
        // The first node invents senders: names that nobody registered, and a name with wrong codes.
        for tamper in [
            (|_, sealed| sealed.iter_mut().take(9).for_each(|slot| *slot = rename(slot)))
                as fn(&Plan, &mut Vec<Sealed>),
            |plan, sealed| {
                of_others(plan, sealed);
                let (elements, mut credentials) = sealed[0].clone().into_parts();
                credentials[64..].fill(0);
                sealed[0] = Sealed::from_parts(elements, credentials);
            },
        ] {
            let net = run_with_minimum(group, tamper);
            assert!(net.record.delivered.is_empty(), "{} came out", net.record.delivered.len());
            let causes: Vec<Cause> = net.record.causes().into_keys().collect();
            assert_eq!(causes, [Cause::TooFewSenders]);
            assert!(net.record.failed.len() > 6);
        }
    }
}

#[test]
fn every_node_counts_senders_itself() {
    // The first node accepts a payload whose code for the third node is wrong.
    let net = run_with_minimum(Group::Small256, |plan, sealed| {
        of_others(plan, sealed);
        let (elements, mut credentials) = sealed[0].clone().into_parts();
        credentials[64 + 2 * 32] ^= 1;
        sealed[0] = Sealed::from_parts(elements, credentials);
    });
    assert!(net.record.delivered.is_empty());
    assert_eq!(net.record.causes().into_keys().collect::<Vec<_>>(), [Cause::TooFewSenders]);
}
