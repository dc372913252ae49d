//! Hostile peers are counted and ignored, and honest traffic continues.

use libp2p::futures::AsyncWriteExt;
use samara_gossipsub::config::LaneCapacity;
use samara_gossipsub::rpc::{Control, IHave, MessageId, Rpc, Topic};

use crate::common::*;
use crate::raw::*;

/// Starts a node of ours and an honest neighbour of rust-libp2p.
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
async fn invalid_frames_are_reported_and_harm_no_other_peer() {
    let (mut our, mut their) = neighbours().await;
    let cases: [(&str, Vec<u8>); 4] = [
        ("a length without end", vec![0xff; 16]),
        ("a length of 64 MiB", vec![0x80, 0x80, 0x80, 0x20]),
        ("a field of no type", vec![3, 0x0f, 1, 2]),
        ("a message that is longer than its frame", vec![3, 0x12, 0x7f, 1]),
    ];
    for (what, bytes) in cases {
        let mut hostile = Raw::new(&our);
        let mut stream = hostile.stream(&our).await;
        stream.write_all(&bytes).await.expect("written");
        stream.flush().await.expect("written");
        let peer = hostile.peer;
        our.next(what, |observed| (*observed == Observed::Malformed(peer)).then_some(())).await;
        honest_traffic_goes_on(&mut our, &mut their, what).await;
    }
}

#[tokio::test]
async fn endless_frames_and_repeated_streams_are_tolerated() {
    let (mut our, mut their) = neighbours().await;
    let mut hostile = Raw::new(&our);
    // Half a frame, repeatedly, on streams that are opened again and again.
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
    send_rpc(&mut stream, &joins("t")).await;
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
    // At most 5,000 ids are requested for each heartbeat and peer (specification v1.1).
    assert!(metrics.iwant_ids_sent <= 5000 * (metrics.heartbeats + 1), "{metrics:?}");
    assert!(metrics.ignored.total() > 0, "{metrics:?}");
}

#[tokio::test]
async fn a_peer_that_does_not_read_slows_down_no_other() {
    let (mut our, mut their) = neighbours().await;
    let mut hostile = Raw::new(&our);
    let mut stream = hostile.stream(&our).await;
    send_rpc(&mut stream, &joins("t")).await;
    our.mesh_of("t", 2).await;
    // 64 MiB for a peer that reads none of it: copies beyond its queue of 200 are lost and counted.
    let message = |number: u32| [number.to_be_bytes().as_slice(), &[7; 32 << 10]].concat();
    for number in 0..2000 {
        our.publish("t", &message(number));
        assert!(their.message().await.1 == message(number), "the honest neighbour received different data");
    }
    let metrics = our.look("t").await.1.unwrap();
    let lost: u64 = metrics.queue_drops(samara_engine::outbox::LossCause::DroppedNewest);
    assert!(lost > 1000, "{lost} copies were lost; {metrics:?}");
    honest_traffic_goes_on(&mut our, &mut their, "beside a peer that reads nothing").await;
}
