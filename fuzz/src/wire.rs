//! Frames of the engines, and the fields of protobuf below them.
//!
//! Limits of a decoder bound the memory of a frame. Narrower limits refuse frames, and change none.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use samara_cat::pool::Signer;
use samara_cat::wire::{
    Bundle, CompactBlock, KeyList, Kind, Member as Body, PushedBy, SeenDetails, SeenKeys, SeenTx,
};
use samara_cat::{CatFrame, Transaction, TxKey};
use samara_engine::protobuf::{Reader, Writer};
use samara_engine::{Frame, PeerIdentity, Shape, Topic};
use samara_gossipsub::partial::ethereum::{self, PartialColumns};
use samara_gossipsub::partial::{Bits, Format, Metadata};
use samara_gossipsub::rpc::{
    Control, ExchangedPeer, IHave, Message, MessageId, Partial, PartialMode, Prune, Rpc, RpcFrame, SubOpts,
};
use samara_gossipsub::signature::signed_bytes;
use samara_gossipsub::wire::FrameDecoder;
use samara_mix::wire::Piece;
use samara_mix::{Cause, Failure, MixFrame, NodeState, Phase, Plan, Transfer};
use samara_ring::wire::{Ack, Cut, Data, Heartbeat, Hello, OldView, Prepare, Resume, RingFrame, State, Unit};
use samara_ring::{Member, ViewId};

pub(crate) fn encoded<F>(frame: &F, encode: impl FnOnce(&F, &mut Vec<u8>)) -> Vec<u8> {
    let mut written = Vec::new();
    encode(frame, &mut written);
    written
}

/// Checks that a frame has the computed length, and decodes to itself.
fn round_trip<F: Frame + PartialEq + Debug, E: Debug>(
    frame: &F,
    encode: impl FnOnce(&F, &mut Vec<u8>),
    decode: impl FnOnce(Bytes) -> Result<F, E>,
) {
    let written = encoded(frame, encode);
    assert_eq!(written.len(), frame.encoded_len());
    assert!(frame.payload_len() <= written.len());
    assert_eq!(&decode(written.into()).expect("an encoded frame decodes"), frame);
}

// ---- protobuf ----

/// Nested messages are read up to this depth: any bytes can be read as a message.
const DEPTH_MAX: u32 = 8;

pub(crate) fn protobuf(data: &[u8]) {
    let frame = Bytes::copy_from_slice(data);
    fields(Reader::new(&frame, "frame"), &frame, 0);
    let mut packed = Reader::new(&frame, "list");
    while let Ok(Some(_)) = packed.packed() {}
    assert!(packed.offset() <= frame.len());
}

/// Reads each field in every way. At most one way succeeds, and ends where skipping ends.
fn fields(mut reader: Reader<'_>, frame: &Bytes, depth: u32) {
    while let Ok(Some(head)) = reader.head() {
        let [mut number, mut fixed, mut bytes, mut short] = [(); 4].map(|()| reader.clone());
        let found_number = number.number(head, "number");
        let found_fixed = fixed.fixed64(head, "fixed");
        let found_bytes = bytes.bytes(head, "bytes");
        let found_short = short.short(head, "short", "eight", 8);
        let message = reader.clone().message(head, "message");
        let skipped = reader.skip(head);
        let ends = [found_number.is_ok(), found_fixed.is_ok(), found_bytes.is_ok()];
        assert!(ends.iter().filter(|is_read| **is_read).count() <= 1);
        assert_eq!(message.is_ok(), found_bytes.is_ok());
        let Ok(range) = skipped else {
            assert_eq!(ends, [false; 3]);
            return;
        };
        assert_eq!((range.start, range.end), (head.start(), reader.offset()));
        assert!(range.start < range.end && range.end <= frame.len());
        for (after, is_read) in [(number, ends[0]), (fixed, ends[1]), (bytes, ends[2])] {
            assert!(!is_read || after.offset() == range.end);
        }
        if head.number() < 16 {
            let write = |writer: &mut Writer<'_, Vec<u8>>| match (&found_number, &found_bytes) {
                (Ok(value), _) => writer.number(head.number(), *value),
                (_, Ok(value)) => writer.bytes(head.number(), value),
                _ => writer.slice(&frame[range.clone()]),
            };
            let mut written = Vec::new();
            write(&mut Writer::new(&mut written));
            assert_eq!(Writer::count(write), written.len());
            assert!(written.len() <= range.len(), "the shortest form is not longer");
            let again = Bytes::from(written);
            let mut again = Reader::new(&again, "again");
            let second = again.head().expect("a written field").expect("a written field");
            assert_eq!(second.number(), head.number());
            assert_eq!(again.clone().number(second, "number").ok(), found_number.ok());
            assert_eq!(again.clone().bytes(second, "bytes").ok(), found_bytes.as_ref().ok().cloned());
        }
        if let Ok(bytes) = found_bytes {
            assert_eq!(found_short.is_ok(), bytes.len() <= 8);
        }
        if let Ok(message) = message
            && depth < DEPTH_MAX
        {
            fields(message, frame, depth + 1);
        }
    }
}

pub(crate) fn protobuf_seeds() -> Vec<Vec<u8>> {
    let mut written = Vec::new();
    let mut writer = Writer::new(&mut written);
    writer.number(1, 300);
    writer.bytes(2, b"bytes of a field");
    writer.message(3, |writer| writer.message(4, |writer| writer.number(15, u64::MAX)));
    // fixed64 (6), fixed32 (7), and a group.
    writer.slice(&[0x31, 1, 2, 3, 4, 5, 6, 7, 8, 0x3d, 1, 2, 3, 4]);
    vec![[&written[..], &[0x43]].concat(), written]
}

// ---- GossipSub ----

pub(crate) fn gossipsub(data: &[u8]) {
    use samara_gossipsub::wire::{Limits, decode, encode, encoded_len};

    let frame = Bytes::copy_from_slice(data);
    let small = Limits { ids: 2, messages: 1, subscriptions: 1, unknown_bytes: 8, ..Limits::default() };
    let strict = decode(frame.clone(), &small);
    let decoded = decode(frame, &Limits::default());
    if let Ok(strict) = strict {
        assert_eq!(decoded.as_ref(), Ok(&strict), "wider limits accept more");
    }
    let Ok(rpc) = decoded else { return };
    let mut written = Vec::new();
    encode(&rpc, &mut written);
    assert_eq!(written.len(), encoded_len(&rpc));
    assert!(RpcFrame::new(rpc.clone()).encoded_len() > written.len(), "a length precedes a frame");
    // Missing topics are written as empty ones, so the frame may have grown.
    let limits = Limits { frame_bytes: written.len(), ..Limits::default() };
    let again = decode(written.into(), &limits).expect("an encoded frame decodes");
    // Signatures cover these bytes, which a relay must not change.
    for (one, other) in rpc.publish.iter().zip(&again.publish) {
        assert_eq!(signed_bytes(one), signed_bytes(other));
    }
    assert_eq!(again, rpc);
}

fn rpcs() -> Vec<Rpc> {
    let topic = Topic::new("blocks");
    let author = Bytes::from_static(&[7; 20]);
    let payload = || Bytes::from_static(b"payload");
    let mut signed = Message::with_author(topic.clone(), payload(), author.clone(), 1);
    (signed.signature, signed.key) = (Some(payload()), Some(payload()));
    let ids = || vec![MessageId::new(&[3; 20]), MessageId::new(b"id")];
    let peers = vec![ExchangedPeer { identity: author, signed_record: Some(Bytes::from_static(b"record")) }];
    let backoff = Some(std::time::Duration::from_secs(60));
    let control = Control {
        ihave: vec![IHave { topic: topic.clone(), ids: ids() }],
        iwant: ids(),
        graft: vec![topic.clone()],
        prune: vec![Prune { topic: topic.clone(), peers, backoff }],
        idontwant: ids(),
        extensions: Some(Bytes::new()),
        unknown: Bytes::new(),
    };
    let partial = Partial {
        topic: topic.clone(),
        group: Bytes::from_static(&[9; 8]),
        body: Some(payload()),
        metadata: Some(Bytes::from_static(&[5])),
    };
    let plain = Message::new(topic.clone(), payload());
    let subscription = |subscribe| SubOpts {
        subscribe,
        topic: topic.clone(),
        partial: if subscribe { PartialMode::Requests } else { PartialMode::None },
        unknown: Bytes::new(),
    };
    vec![
        Rpc { subscriptions: vec![subscription(true), subscription(false)], ..Rpc::default() },
        Rpc { publish: [Arc::new(plain), Arc::new(signed)].into_iter().collect(), ..Rpc::default() },
        Rpc { partial: Some(Box::new(partial)), ..Rpc::default() },
        Rpc { control: Some(Box::new(control)), unknown: Bytes::from_static(&[0x78, 1]), ..Rpc::default() },
    ]
}

pub(crate) fn gossipsub_seeds() -> Vec<Vec<u8>> {
    rpcs().iter().map(|rpc| encoded(rpc, samara_gossipsub::wire::encode)).collect()
}

/// Reads metadata and bodies of partial columns. What can be read is written as it was.
pub(crate) fn partial_columns(data: &[u8]) {
    for format in [PartialColumns::FULU, PartialColumns::GLOAS] {
        if let Ok(metadata) = format.read_metadata(data) {
            assert_eq!(format.read_metadata(&format.write_metadata(&metadata)), Ok(metadata));
        }
        if let Ok(body) = format.read_body(&[], &Bytes::copy_from_slice(data)) {
            let parts: Vec<(u32, &Bytes)> = body.parts.iter().map(|(number, part)| (*number, part)).collect();
            let written = format.write_body(&[], body.len.unwrap_or(0), body.header.as_ref(), &parts);
            assert_eq!(format.read_body(&[], &written), Ok(body));
        }
    }
}

pub(crate) fn partial_columns_seeds() -> Vec<Vec<u8>> {
    let cell = Bytes::from(vec![1; ethereum::PART_BYTES]);
    let metadata = Metadata { available: Bits::all(9), requests: Bits::new(9) };
    let of = |format: PartialColumns| {
        let header = ethereum::header(9);
        let body = format.write_body(&[], 9, Some(&header), &[(2, &cell), (8, &cell)]);
        [format.write_metadata(&metadata).to_vec(), body.to_vec()]
    };
    [of(PartialColumns::FULU), of(PartialColumns::GLOAS)].concat()
}

const STREAM_FRAME_BYTES_MAX: usize = 512;

/// Splits a stream into frames, in pieces whose length is its first byte.
pub(crate) fn gossipsub_stream(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else { return };
    let frames = |cut: usize| {
        let mut decoder = FrameDecoder::new(STREAM_FRAME_BYTES_MAX);
        let mut frames = Vec::new();
        for piece in stream.chunks(cut.max(1)) {
            let mut piece = Bytes::copy_from_slice(piece);
            loop {
                match decoder.next(&mut piece) {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error)),
                }
            }
        }
        (frames, None)
    };
    let whole = frames(stream.len());
    assert!(whole.0.iter().all(|frame| frame.len() <= STREAM_FRAME_BYTES_MAX));
    assert_eq!(frames(usize::from(*cut)), whole);
}

pub(crate) fn gossipsub_stream_seeds() -> Vec<Vec<u8>> {
    let mut stream = vec![50];
    rpcs().iter().for_each(|rpc| samara_gossipsub::wire::encode_frame(rpc, &mut stream));
    vec![stream, vec![1, 0xe9, 0x87]]
}

// ---- the transaction pool ----

pub(crate) fn cat(data: &[u8]) {
    use samara_cat::wire::{Limits, decode, encode};

    let frame = Bytes::copy_from_slice(data);
    let small = Limits { txs: 1, members: 1, block_keys: 1, ..Limits::default() };
    let decoded = decode(&frame, &Limits::default());
    if let Ok(strict) = decode(&frame, &small) {
        assert_eq!(decoded.as_ref(), Ok(&strict), "wider limits accept more");
    }
    if let Ok(frame) = decoded {
        round_trip(&frame, encode, |bytes| decode(&bytes, &Limits::default()));
    }
}

pub(crate) fn cat_seeds() -> Vec<Vec<u8>> {
    let (tx, key) = (|| Transaction::new("a transaction"), TxKey::new([9; 32]));
    let keys = || KeyList::new(vec![key, TxKey::new([8; 32])]);
    let details = SeenDetails { sequence: 7, signer: Some(Signer::new(b"signer")), ..SeenDetails::default() };
    let from =
        SeenDetails { from: Some("00112233445566778899aabbccddeeff00112233".into()), ..Default::default() };
    let frames = [
        CatFrame::tx(tx()),
        CatFrame::txs(vec![tx(), tx()]),
        SeenTx { key, details: Some(details) }.into(),
        SeenTx { key, details: Some(from) }.into(),
        CatFrame::want(key),
        SeenKeys { keys: keys(), kind: Kind::Bundle, pushed_by: Some(PushedBy(5)) }.into(),
        CatFrame::want_keys(keys()),
        CatFrame::not_found(keys()),
        CatFrame::Bundle(Bundle::new(vec![Body::Full(tx()), Body::Key(key)]).into()),
        CatFrame::CompactBlock(CompactBlock::new(3, vec![key]).into()),
    ];
    frames.iter().map(|frame| encoded(frame, samara_cat::wire::encode)).collect()
}

// ---- the ring ----

pub(crate) fn ring(data: &[u8]) {
    use samara_ring::wire::{Limits, decode, encode};

    let bytes = Bytes::copy_from_slice(data);
    let decoded = decode(&bytes, &Limits::default());
    if let Ok(strict) = decode(&bytes, &Limits { members: 2, ..Limits::default() }) {
        assert_eq!(decoded.as_ref(), Ok(&strict), "wider limits accept more");
    }
    if let Ok(frame) = decoded {
        round_trip(&frame, encode, |bytes| decode(&bytes, &Limits::default()));
    }
}

pub(crate) fn ring_seeds() -> Vec<Vec<u8>> {
    let view = ViewId { counter: 300, proposer: 0x0102_0304_0506_0708 };
    let member = |name: &[u8]| Member { identity: PeerIdentity::new(name), incarnation: 5 };
    let members = || vec![member(b"a"), member(b"b")];
    let unit = |sequence| Unit {
        origin: 1,
        sequence,
        hops: 2,
        stamp: 9,
        first: true,
        last: false,
        bytes: Bytes::from_static(b"content"),
    };
    let acks = vec![Ack { origin: 0, reached: 4, stable: 3 }];
    let heartbeat = Heartbeat {
        leader: Some(PeerIdentity::new(b"a")),
        view: Some(view),
        promised: Some(view),
        suspects: vec![1],
        ..Heartbeat::default()
    };
    let old = OldView { view, last: vec![4, 5], staying: vec![0, 1] };
    let data = RingFrame::Data(Data::new(view, vec![unit(1), unit(2)], acks).into());
    let hello = Hello { group: 1, site: 2, leads: true, leader: Some(PeerIdentity::new(b"a")) };
    let frames = [
        RingFrame::Heartbeat(heartbeat.into()),
        RingFrame::Bridge(data.clone().into()),
        data,
        RingFrame::Credit { view, bytes: 1 << 20 },
        RingFrame::Prepare(
            Prepare { proposal: view, members: members(), departing: members(), shape: Shape::Ring }.into(),
        ),
        RingFrame::State(State { proposal: view, view: Some(view), ready: None, have: vec![1, 2] }.into()),
        RingFrame::Nack { proposal: view, promised: view },
        RingFrame::Resume(Resume { view, proposal: Some(view), have: vec![1, 2] }.into()),
        RingFrame::Cut(Cut { proposal: view, views: vec![old] }.into()),
        RingFrame::Ready { proposal: view },
        RingFrame::Install { proposal: view },
        RingFrame::Early(Bytes::from_static(b"content")),
        RingFrame::Hello(hello.into()),
    ];
    frames.iter().map(|frame| encoded(frame, samara_ring::wire::encode)).collect()
}

// ---- the mix ----

pub(crate) fn mix(data: &[u8]) {
    use samara_mix::wire::{Limits, decode, encode};

    let bytes = Bytes::copy_from_slice(data);
    let small = Limits { slots_bytes: 64, control_bytes: 32, team: 2 };
    let decoded = decode(bytes.clone(), &Limits::default());
    if let Ok(strict) = decode(bytes, &small) {
        assert_eq!(decoded.as_ref(), Ok(&strict), "wider limits accept more");
    }
    if let Ok(frame) = decoded {
        round_trip(&frame, encode, |bytes| decode(bytes, &Limits::default()));
    }
}

pub(crate) fn mix_seeds() -> Vec<Vec<u8>> {
    let plan = Plan {
        round: 7,
        team: vec![2, 0, 1],
        incarnations: Vec::new(),
        batch: 8,
        precomputation_slots: 4,
        realtime_slots: 5,
        transfer: Transfer::Unary,
        shape: Shape::Ring,
    };
    let phase = Phase::ALL[0];
    let bytes = || Bytes::from_static(&[5; 32]);
    let frames = [
        MixFrame::Hello { incarnation: 1 },
        MixFrame::Create(plan.into()),
        MixFrame::Queued { round: 7 },
        MixFrame::End { round: 7, failure: Some(Failure { cause: Cause::ALL[0], culprit: Some(1) }) },
        MixFrame::Status { round: 7, state: NodeState::ALL[1] },
        MixFrame::Share { round: 7, origin: 1, is_complete: true, key: bytes() },
        MixFrame::Slots(Piece { round: 7, phase, first: 4, elements: bytes(), credentials: bytes() }),
        MixFrame::Received { round: 7, phase },
        MixFrame::Ping { round: 7, number: 8, seat: 2 },
        MixFrame::Echo { number: 8, is_answer: true },
    ];
    frames.iter().map(|frame| encoded(frame, samara_mix::wire::encode)).collect()
}

// ---- federations ----

pub(crate) fn letter(data: &[u8]) {
    samara_ring::fuzz_letter(&Bytes::copy_from_slice(data), 4);
}

pub(crate) fn letter_seeds() -> Vec<Vec<u8>> {
    // A site, the length of a name and the name, and an incarnation.
    let sender = [&[1, 1][..], b"a", &[5; 8]].concat();
    let own = [&[1, 0xac, 2][..], b"content"].concat();
    let relay = [&[2, 1, 9][..], &sender, &[7], b"content"].concat();
    let base = [&[3, 9, 2][..], &sender, &[7], &sender, &[8]].concat();
    let progress = [&[4, 1][..], &sender, &[7]].concat();
    let state = [&[5, 3, 1, 2, 1][..], &sender, &[1, 0, 1, 3, 2]].concat();
    vec![own, relay, base, progress, state]
}
