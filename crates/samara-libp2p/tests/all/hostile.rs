//! Peers that mean harm: they are counted and left alone, and honest traffic goes on.

use libp2p::futures::AsyncWriteExt;
use samara_gossipsub::config::LaneCapacity;
use samara_gossipsub::rpc::{Control, IHave, MessageId, Rpc, Topic};

use crate::common::*;
use crate::raw::*;

/// A node of ours and an honest neighbour of theirs.
pub(crate) async fn neighbours() -> (Node, Node) {
    let mut config = signed();
    config.sending.publish = LaneCapacity::copies(200);
    let (our, their) = (ours(config, options()).await, theirs(theirs_config().build().unwrap(), true).await);
    our.subscribe("t");
    their.subscribe("t");
    our.dial(&their);
    our.mesh_of("t", 1).await;
    their.mesh_of("t", 1).await;
    (our, their)
}

pub(crate) async fn honest_traffic_goes_on(our: &mut Node, their: &mut Node, text: &str) {
    our.publish("t", format!("{text}, from us").as_bytes());
    assert_eq!(their.message().await.1, format!("{text}, from us").as_bytes());
    their.publish("t", format!("{text}, from them").as_bytes());
    assert_eq!(our.message().await.1, format!("{text}, from them").as_bytes());
}

#[tokio::test]
async fn what_is_no_frame_is_told_and_harms_nobody() {
    let (mut our, mut their) = neighbours().await;
    let cases: [(&str, Vec<u8>); 4] = [
        ("a length without end", vec![0xff; 16]),
        ("64 MiB are announced", vec![0x80, 0x80, 0x80, 0x20]),
        ("a field of no type", vec![3, 0x0f, 1, 2]),
        ("a message that is longer than its frame", vec![3, 0x12, 0x7f, 1]),
    ];
    for (what, bytes) in cases {
        let mut hostile = Raw::new(&our);
        let mut stream = hostile.stream(&our).await;
        stream.write_all(&bytes).await.expect("written");
        stream.flush().await.expect("written");
        let peer = hostile.peer;
        our.next(what, |told| (*told == Observed::Malformed(peer)).then_some(())).await;
        honest_traffic_goes_on(&mut our, &mut their, what).await;
    }
}

#[tokio::test]
async fn frames_that_never_end_and_streams_without_end_are_borne() {
    let (mut our, mut their) = neighbours().await;
    let mut hostile = Raw::new(&our);
    // Half a frame, again and again, on streams that are opened over and over.
    for _ in 0..20 {
        let mut stream = hostile.stream(&our).await;
        let _ = stream.write_all(&[100, 0x12, 50]).await;
        let _ = stream.flush().await;
    }
    honest_traffic_goes_on(&mut our, &mut their, "after streams without end").await;
}

#[tokio::test]
async fn floods_of_control_are_limited_and_counted() {
    let (mut our, mut their) = neighbours().await;
    let mut hostile = Raw::new(&our);
    let mut stream = hostile.stream(&our).await;
    let id = |number: u32| MessageId::new(&number.to_be_bytes());
    say(&mut stream, &joins("t")).await;
    for round in 0..200 {
        let ids: Vec<MessageId> = (0..1000).map(|at| id(round * 1000 + at)).collect();
        let control = Control {
            ihave: vec![IHave { topic: Topic::new("t"), ids: ids.clone() }],
            iwant: ids.clone(),
            idontwant: ids,
            graft: (0..100).map(|at| Topic::new(&format!("unknown {at}"))).collect(),
            ..Control::default()
        };
        let subscriptions = (0..100).map(|at| subscribes(&format!("topic {round} {at}"))).collect();
        let rpc = Rpc { subscriptions, control: Some(Box::new(control)), ..Rpc::default() };
        if stream.write_all(&frame(&rpc)).await.is_err() {
            break;
        }
    }
    let _ = stream.flush().await;
    honest_traffic_goes_on(&mut our, &mut their, "after the flood").await;
    let metrics = our.look("t").await.1.unwrap();
    assert!(metrics.ihave_ids_received > 10_000, "{metrics:?}");
    // 5,000 ids for each heartbeat and peer are asked for at most (specification v1.1).
    assert!(metrics.iwant_ids_sent <= 5000 * (metrics.heartbeats + 1), "{metrics:?}");
    assert!(metrics.ignored_by_cause().any(|(_, count)| count > 0), "{metrics:?}");
}

#[tokio::test]
async fn who_does_not_read_slows_nobody_down() {
    let (mut our, mut their) = neighbours().await;
    let mut hostile = Raw::new(&our);
    let mut stream = hostile.stream(&our).await;
    say(&mut stream, &joins("t")).await;
    our.mesh_of("t", 2).await;
    // 64 MiB to somebody who reads none of it: what does not fit into its queue of 200 copies is lost, and said so.
    let message = |number: u32| [number.to_be_bytes().as_slice(), &[7; 32 << 10]].concat();
    for number in 0..2000 {
        our.publish("t", &message(number));
        assert!(their.message().await.1 == message(number), "the honest neighbour has something else");
    }
    let metrics = our.look("t").await.1.unwrap();
    let lost: u64 =
        [samara_engine::outbox::LossCause::DroppedNewest].map(|cause| metrics.lost(cause)).iter().sum();
    assert!(lost > 1000, "{lost} copies were lost; {metrics:?}");
    honest_traffic_goes_on(&mut our, &mut their, "beside a peer that reads nothing").await;
}
