use serde_json::Value;

use super::*;
use crate::{MessageMeta, PublishMessage, RecvRpc, RejectMessage, SendRpc};

const ID: &[u8] = &[1, 2, 3, 4, 5];

fn meta() -> Option<RpcMeta> {
    let message = MessageMeta { message_id: Some(ID.to_vec()), topic: Some("t".into()) };
    Some(RpcMeta { messages: vec![message], ..RpcMeta::default() })
}

/// Node a publishes. b receives the message from a and forwards it to c, which has it from a
/// already. c rejects a third copy.
fn events() -> Vec<TraceEvent> {
    let id = || Some(ID.to_vec());
    let topic = || Some("/eth2/0/beacon_block/ssz_snappy".to_owned());
    let by = |peer: &[u8]| Some(peer.to_vec());
    let delivered =
        || Body::DeliverMessage(DeliverMessage { message_id: id(), topic: topic(), received_from: by(b"a") });
    let duplicate = DuplicateMessage { message_id: id(), topic: topic(), received_from: by(b"b") };
    let reason = Some("invalid".to_owned());
    let rejected = RejectMessage { message_id: id(), topic: topic(), received_from: by(b"b"), reason };
    let published = PublishMessage { message_id: id(), topic: topic() };
    let mut events = vec![
        TraceEvent::new(b"a", 100, Body::PublishMessage(published)),
        TraceEvent::new(b"a", 100, delivered()),
        TraceEvent::new(b"c", 200, Body::RejectMessage(rejected)),
    ];
    for (from, to, sent, came, body) in [
        (b"a", b"b", 110, 150, delivered()),
        (b"a", b"c", 120, 160, delivered()),
        (b"b", b"c", 151, 190, Body::DuplicateMessage(duplicate)),
    ] {
        let leaving = Body::SendRpc(SendRpc { send_to: by(to), meta: meta() });
        let coming = Body::RecvRpc(RecvRpc { received_from: by(from), meta: meta() });
        events.push(TraceEvent::new(from, sent, leaving));
        events.extend([(came, coming), (came + 1, body)].map(|(at, body)| TraceEvent::new(to, at, body)));
    }
    events.sort_by_key(|event| event.timestamp);
    events
}

fn timeline() -> Timeline {
    let mut timeline = Timeline::default();
    timeline.name(b"a", "node-0");
    events().iter().for_each(|event| timeline.add(event));
    timeline
}

#[test]
fn copies_are_slices_from_sending_to_arrival() {
    let timeline = timeline();
    assert_eq!(timeline.counts(), (3, 1, 5));
    let slice = |slice: &Slice| (slice.node, slice.kind, slice.start, slice.end, slice.peer, slice.source);
    let slices: Vec<_> = timeline.slices.iter().map(slice).collect();
    assert_eq!(
        slices,
        [
            (0, Kind::Published, 100, 100, None, None),
            (1, Kind::First, 110, 150, Some(0), Some(0)),
            (2, Kind::First, 120, 160, Some(0), Some(0)),
            (2, Kind::Duplicate, 151, 190, Some(1), None),
            (2, Kind::Rejected, 200, 200, Some(1), None),
        ]
    );
    assert_eq!(timeline.title(&timeline.slices[0]), "beacon_block 01020304");
    assert_eq!(timeline.nodes[0].name, "node-0");
    assert_eq!(timeline.nodes[1].name, "62", "the end of the peer id");
}

#[test]
fn slices_of_one_lane_do_not_overlap() {
    let timeline = timeline();
    let lanes = timeline.lanes();
    assert_eq!(lanes.iter().map(|lane| lane.lane).collect::<Vec<_>>(), [0, 1, 1, 2, 1]);
    // Many copies at one moment, and one long one.
    let mut crowded = Timeline::default();
    for peer in 0..20_u8 {
        let start = i64::from(peer / 5);
        crowded.slice(0, Kind::Duplicate, (start, if peer == 0 { 100 } else { start }), 0, None);
    }
    let lanes = crowded.lanes();
    for (at, a) in crowded.slices.iter().enumerate() {
        for (slice, b) in crowded.slices.iter().enumerate().skip(at + 1) {
            let apart = a.end.max(a.start + 1) <= b.start || b.end.max(b.start + 1) <= a.start;
            assert!(apart || lanes[at] != lanes[slice], "{a:?} and {b:?}");
        }
    }
    assert!(lanes.iter().all(|lane| lane.lane <= 6), "{lanes:?}");
}

#[test]
fn chrome_has_slices_for_copies_and_arrows_for_first_ones() {
    let mut out = Vec::new();
    timeline().write_chrome(&mut out).unwrap();
    let json: Value = serde_json::from_slice(&out).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    assert_eq!((of("X").len(), of("s").len(), of("f").len()), (5, 2, 2));
    let first = of("X")[1];
    assert_eq!((&first["cat"], &first["ts"], &first["dur"]), (&"first".into(), &0.01.into(), &0.04.into()));
    assert_eq!((first["pid"].as_u64(), first["tid"].as_u64()), (Some(2), Some(2)));
    assert_eq!(first["args"]["peer"], "node-0");
    assert_eq!(of("X")[4]["args"]["reason"], "invalid");
    for (start, finish) in of("s").into_iter().zip(of("f")) {
        assert_eq!(start["id"], finish["id"]);
        assert_eq!(start["pid"], 1, "from the publisher");
    }
}

/// Decodes field by field, without the types that wrote the packets. Tags are those of Perfetto.
#[test]
fn perfetto_packets_are_in_order_and_balanced() {
    let mut out = Vec::new();
    timeline().write_perfetto(&mut out).unwrap();
    let fields = |mut bytes: &[u8]| {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let (tag, wire) = prost::encoding::decode_key(&mut bytes).unwrap();
            let value = match wire {
                prost::encoding::WireType::Varint => {
                    prost::encoding::decode_varint(&mut bytes).unwrap().to_le_bytes().to_vec()
                }
                prost::encoding::WireType::SixtyFourBit => bytes.split_off(..8).unwrap().to_vec(),
                prost::encoding::WireType::LengthDelimited => {
                    let length = prost::encoding::decode_varint(&mut bytes).unwrap() as usize;
                    bytes.split_off(..length).unwrap().to_vec()
                }
                other => panic!("{other:?}"),
            };
            fields.push((tag, value));
        }
        fields
    };
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let packets = fields(&out);
    assert!(packets.iter().all(|(tag, _)| *tag == 1));
    let (mut depth, mut last, mut begun, mut arrows) = (HashMap::<u64, i32>::new(), 0, 0, Vec::new());
    for (_, packet) in packets {
        let packet = fields(&packet);
        let Some((_, event)) = packet.iter().find(|(tag, _)| *tag == 11) else { continue };
        let at = number(&packet.iter().find(|(tag, _)| *tag == 8).unwrap().1);
        assert!(at >= last, "packets are in the order of time");
        last = at;
        let event = fields(event);
        let get = |wanted: u32| event.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| number(value));
        let open = depth.entry(get(11).unwrap()).or_default();
        match get(9) {
            Some(1) => {
                *open += 1;
                begun += 1;
                assert_eq!(*open, 1, "slices of a lane do not overlap");
                arrows.extend(event.iter().filter(|(tag, _)| *tag == 47).map(|(_, id)| (number(id), false)));
                arrows.extend(get(48).map(|id| (id, true)));
            }
            Some(2) => *open -= 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(begun, 5);
    assert!(depth.values().all(|open| *open == 0));
    assert_eq!(arrows, [(2, false), (3, false), (2, true), (3, true)]);
    assert_eq!(last, 100);
}
