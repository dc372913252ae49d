use samara_baselines::PlumtreeFrame;
use samara_engine::Topic;
use samara_gossipsub::rpc::{Message, RpcFrame};
use samara_lab::testing::{frames_survive, survives};
use samara_pubsub::frames::Wire;
use samara_sim::Postcard;

use super::*;
use crate::Layout;
use crate::{Command, Counts, Event};

/// A segment is the same one in memory after the round trip, and its bytes are not sent.
#[test]
fn segments_travel_as_their_numbers() {
    let layout = Layout { columns: 8, segment_bytes: vec![2_048; 8], sent: 8, slots: 2, ..Layout::default() };
    let sent = |bytes: &[u8]| assert!(bytes.len() < 200, "{} bytes", bytes.len());

    let blocks = Arc::new(Blocks::<Message>::new(&layout, Some(1)));
    let codec = Numbers::new(Arc::clone(&blocks), Wire);
    let segment = &blocks.messages[blocks.messages.len() - 1];
    let frames = [RpcFrame::message(segment), RpcFrame::new(Default::default())];
    frames_survive(&codec, &frames);
    let mut bytes = Vec::new();
    codec.write(&frames[0], &mut bytes);
    sent(&bytes);
    let read: RpcFrame = codec.read(&mut Reader::new(&bytes)).expect("it was written");
    assert!(Arc::ptr_eq(&read.messages()[0], segment));
    // A message that is no segment travels whole.
    let other = Arc::new(Message::new(Topic::new("other"), Bytes::from(vec![7; 90])));
    frames_survive(&codec, &[RpcFrame::message(&other)]);

    let blocks = Arc::new(Blocks::<samara_baselines::Message>::new(&layout, Some(1)));
    let codec = Numbers::new(Arc::clone(&blocks), Postcard);
    let segment = &blocks.messages[3];
    let frames = [PlumtreeFrame::Gossip { message: Arc::clone(segment), round: 3 }];
    frames_survive(&codec, &frames);
    let mut bytes = Vec::new();
    codec.write(&frames[0], &mut bytes);
    sent(&bytes);
    let read: PlumtreeFrame = codec.read(&mut Reader::new(&bytes)).expect("it was written");
    assert!(Arc::ptr_eq(&read.messages()[0], segment));
    frames_survive(&codec, &[samara_baselines::RpcFrame::Publish(Arc::clone(segment))]);
}

#[test]
fn commands_events_and_counters_of_columns_and_messages_frames_survive() {
    assert_eq!(survives(&Command::PublishBatch { slot: 3 }), r#"{"publish_batch":{"slot":3}}"#);
    survives(&Command::PublishEach { slot: 0 });
    survives(&Event::Copy { segment: 1, from: 2, first: true });
    survives(&Event::Rebuilt { segment: 1 });
    survives(&Event::Repaired { published: 1 });
    assert_eq!(survives(&Event::Lost), r#""lost""#);
    survives(&Counts { joined: 1, targets: 2, cells: [3; 5], kept_unwanted_copies: 4, misbehaviours: 5 });
}
