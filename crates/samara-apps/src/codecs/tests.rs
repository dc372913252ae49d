//! Frames, commands, events and counters survive a round trip.

use std::fmt::Debug;
use std::time::Duration;

use samara_baselines::PlumtreeFrame;
use samara_cat::pool::{Cause, Signer};
use samara_cat::wire::{
    Bundle, CompactBlock, KeyList, Kind, Member, PushedBy, SeenDetails, SeenKeys, SeenTx,
};
use samara_cat::{Ignored, Misbehaviour, Transaction, TxKey};
use samara_engine::outbox::Tally;
use samara_engine::{PeerIdentity, Shape, Topic};
use samara_gossipsub::rpc::{
    Control, ExchangedPeer, IHave, Message, MessageId, Partial, PartialMode, Prune, Rpc, SubOpts,
};
use samara_mix::wire::Piece;
use samara_mix::{Failure, Mark, NodeState, Phase, Plan, RoundState, Transfer};
use samara_ring::daisychain::DaisyFrame;
use samara_ring::wire::{Ack, Cut, Data, Heartbeat, Hello, OldView, Prepare, Resume, State, Unit};
use samara_ring::{Member as RingMember, ViewId};
use samara_sim::Postcard;
use samara_spec::columns::Columns;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::{columns, group, messages, mix, pool};

/// Checks that the frames come back, also if others follow.
fn come_back<F: PartialEq + Debug>(codec: &impl FrameCodec<F>, frames: &[F]) {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| codec.write(frame, &mut bytes));
    let mut reader = Reader::new(&bytes);
    for frame in frames {
        assert_eq!(codec.read(&mut reader).as_ref(), Some(frame));
    }
    assert!(reader.is_empty());
    for len in 0..bytes.len() {
        let mut reader = Reader::new(&bytes[..len]);
        let read = frames.iter().map_while(|_| codec.read(&mut reader)).count();
        assert!(read < frames.len(), "{len} of {} bytes", bytes.len());
    }
}

fn bytes(len: usize) -> Bytes {
    (0..len).map(|byte| byte as u8).collect()
}

/// Frames of GossipSub with everything that a frame can have.
fn gossipsub_frames(message: Arc<Message>) -> [RpcFrame; 3] {
    let (topic, id) = (Topic::new("blocks"), MessageId::new(&[7; 20]));
    let change = SubOpts {
        subscribe: true,
        topic: topic.clone(),
        partial: PartialMode::Supports,
        unknown: Bytes::new(),
    };
    let peers = vec![ExchangedPeer { identity: bytes(38), signed_record: Some(bytes(90)) }];
    let control = Control {
        ihave: vec![IHave { topic: topic.clone(), ids: vec![id.clone(); 3] }],
        iwant: vec![id.clone()],
        graft: vec![topic.clone()],
        prune: vec![Prune { topic: topic.clone(), peers, backoff: Some(Duration::from_secs(60)) }],
        idontwant: vec![id],
        ..Control::default()
    };
    let partial = Partial { topic, group: bytes(41), body: Some(bytes(3_000)), metadata: Some(bytes(9)) };
    [
        RpcFrame::message(&message),
        RpcFrame::new(Rpc::default()),
        RpcFrame::new(Rpc {
            subscriptions: vec![change],
            publish: [message].into_iter().collect(),
            control: Some(Box::new(control)),
            partial: Some(Box::new(partial)),
            ..Rpc::default()
        }),
    ]
}

#[test]
fn frames_of_gossipsub_come_back() {
    let topic = Topic::new("blocks");
    come_back(&Wire, &gossipsub_frames(Message::with_author(topic, bytes(500), bytes(38), 9).into()));
}

#[test]
fn frames_of_pools_come_back() {
    let transactions = [0, 1, 5_000].map(|len| Transaction::new(bytes(len)));
    let keys = KeyList::new(transactions.each_ref().map(Transaction::key));
    let key = transactions[2].key();
    let details = SeenDetails { from: None, sequence: 7, signer: Some(Signer::new(&[3; 20])) };
    let from = SeenDetails { from: Some("ab".repeat(20).into()), ..SeenDetails::default() };
    let members = vec![Member::Full(transactions[1].clone()), Member::Key(key)];
    come_back(
        &Wire,
        &[
            CatFrame::tx(transactions[2].clone()),
            CatFrame::txs(transactions.to_vec()),
            SeenTx::from(key).into(),
            SeenTx { key, details: Some(details) }.into(),
            SeenTx { key, details: Some(from) }.into(),
            CatFrame::want(key),
            CatFrame::SeenKeys(
                SeenKeys { keys: keys.clone(), kind: Kind::Bundle, pushed_by: Some(PushedBy(5)) }.into(),
            ),
            CatFrame::WantKeys(keys.clone().into()),
            CatFrame::NotFound(keys.into()),
            CatFrame::Bundle(Bundle::new(members).into()),
            CatFrame::CompactBlock(CompactBlock::new(9, vec![key; 3]).into()),
        ],
    );
}

#[test]
fn frames_of_rings_come_back() {
    let view = |counter| ViewId { counter, proposer: u64::MAX };
    let member = RingMember { identity: PeerIdentity::new(&[0, 1]), incarnation: 3 };
    let unit =
        Unit { origin: 1, sequence: 2, hops: 3, stamp: 4, first: true, last: true, bytes: bytes(1_000) };
    let ack = Ack { origin: 1, reached: 2, stable: 1 };
    let data = RingFrame::Data(Data::new(view(1), vec![unit], vec![ack]).into());
    let heartbeat = Heartbeat {
        group: 1,
        incarnation: 2,
        leader: Some(member.identity.clone()),
        view: Some(view(1)),
        members: 5,
        promised: None,
        leaving: true,
        suspects: vec![1, 2],
        progress: 3,
        sent: 4,
        echo: 5,
        held: 6,
    };
    let hello = Hello { group: 1, site: 2, leads: true, leader: None };
    let members = vec![member];
    let prepare =
        Prepare { proposal: view(2), departing: members.clone(), members, shape: Shape::DoubleTree };
    let state = State { proposal: view(2), view: Some(view(1)), ready: None, have: vec![1, 2] };
    let old = OldView { view: view(1), last: vec![4], staying: vec![0, 1] };
    let cut = Cut { proposal: view(2), views: vec![old] };
    let resume = Resume { view: view(1), proposal: Some(view(2)), have: vec![3] };
    come_back(
        &Wire,
        &[
            RingFrame::Bridge(data.clone().into()),
            data,
            RingFrame::Heartbeat(heartbeat.into()),
            RingFrame::Credit { view: view(1), bytes: 1 << 40 },
            RingFrame::Prepare(prepare.into()),
            RingFrame::State(state.into()),
            RingFrame::Nack { proposal: view(2), promised: view(3) },
            RingFrame::Resume(resume.into()),
            RingFrame::Cut(cut.into()),
            RingFrame::Ready { proposal: view(2) },
            RingFrame::Install { proposal: view(2) },
            RingFrame::Early(bytes(20)),
            RingFrame::Hello(hello.into()),
        ],
    );
}

#[test]
fn frames_of_other_groups_come_back() {
    let message = DaisyFrame::Message { origin: 1, ttl: 2, content: bytes(100) };
    come_back(&Postcard, &[message, DaisyFrame::Credit(3)]);
}

fn plan() -> Plan {
    Plan {
        round: 3,
        team: vec![4, 0, 2],
        incarnations: vec![1, 2, u64::MAX],
        batch: 100,
        precomputation_slots: 10,
        realtime_slots: 20,
        transfer: Transfer::Unary,
        shape: Shape::BinaryTree,
    }
}

#[test]
fn frames_of_mixes_come_back() {
    let piece =
        Piece { round: 3, phase: Phase::Decrypt, first: 10, elements: bytes(512), credentials: bytes(128) };
    let failure = Some(Failure::by(samara_mix::Cause::Timeout, 2));
    come_back(
        &Wire,
        &[
            MixFrame::Hello { incarnation: 1 },
            MixFrame::Create(plan().into()),
            MixFrame::Queued { round: 3 },
            MixFrame::End { round: 3, failure },
            MixFrame::End { round: 3, failure: None },
            MixFrame::Status { round: 3, state: NodeState::Standby },
            MixFrame::Share { round: 3, origin: 1, is_complete: true, key: bytes(256) },
            MixFrame::Slots(piece),
            MixFrame::Received { round: 3, phase: Phase::Result },
            MixFrame::Ping { round: 3, number: 5, seat: 2 },
            MixFrame::Echo { number: 5, is_answer: true },
        ],
    );
}

/// A segment is the same one in memory after the round trip, and its bytes are not sent.
#[test]
fn segments_travel_as_their_numbers() {
    let workload = Columns { slots: 2, ..Columns::default() };
    let sent = |bytes: &[u8]| assert!(bytes.len() < 200, "{} bytes", bytes.len());

    let blocks = Arc::new(Blocks::<Message>::new(&workload, Some(1)));
    let codec = Numbers::new(Arc::clone(&blocks), Wire);
    let segment = &blocks.messages[blocks.messages.len() - 1];
    let frames = gossipsub_frames(Arc::clone(segment));
    come_back(&codec, &frames);
    let mut bytes = Vec::new();
    codec.write(&frames[0], &mut bytes);
    sent(&bytes);
    let read: RpcFrame = codec.read(&mut Reader::new(&bytes)).expect("it was written");
    assert!(Arc::ptr_eq(&read.messages()[0], segment));
    // A message that is no segment travels whole.
    come_back(&codec, &gossipsub_frames(Message::new(Topic::new("other"), self::bytes(90)).into()));

    let blocks = Arc::new(Blocks::<samara_baselines::Message>::new(&workload, Some(1)));
    let codec = Numbers::new(Arc::clone(&blocks), Postcard);
    let segment = &blocks.messages[3];
    let frames = plumtree_frames(Arc::clone(segment));
    come_back(&codec, &frames);
    let mut bytes = Vec::new();
    codec.write(&frames[0], &mut bytes);
    sent(&bytes);
    let read: PlumtreeFrame = codec.read(&mut Reader::new(&bytes)).expect("it was written");
    assert!(Arc::ptr_eq(&read.messages()[0], segment));
    come_back(&codec, &floodsub_frames(Arc::clone(segment)));
}

fn floodsub_frames(message: Arc<samara_baselines::Message>) -> [samara_baselines::RpcFrame; 2] {
    let change = samara_baselines::SubOpts { subscribe: true, topic: message.topic().clone() };
    [samara_baselines::RpcFrame::Publish(message), samara_baselines::RpcFrame::Subscriptions([change].into())]
}

fn plumtree_frames(message: Arc<samara_baselines::Message>) -> [PlumtreeFrame; 6] {
    let (topic, id) = (message.topic().clone(), message.id());
    let change = samara_baselines::SubOpts { subscribe: false, topic: topic.clone() };
    let graft = |id| samara_baselines::Graft { topic: topic.clone(), id, round: 2 };
    let ihave = samara_baselines::IHave { topic: topic.clone(), messages: vec![(id, 1); 3] };
    [
        PlumtreeFrame::Gossip { message, round: 3 },
        PlumtreeFrame::IHave(ihave.into()),
        PlumtreeFrame::Graft(graft(Some(id)).into()),
        PlumtreeFrame::Graft(graft(None).into()),
        PlumtreeFrame::Prune(topic),
        PlumtreeFrame::Subscriptions([change].into()),
    ]
}

#[test]
fn frames_of_baselines_come_back() {
    let author = PeerIdentity::new(&[5; 38]);
    let message = Arc::new(samara_baselines::Message::new(author, 7, Topic::new("a"), bytes(300)));
    come_back(&Postcard, &floodsub_frames(Arc::clone(&message)));
    come_back(&Postcard, &plumtree_frames(message));
}

/// Checks that a value comes back from both formats, and returns its JSON.
fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    let mut bytes = Vec::new();
    Postcard::put(value, &mut bytes);
    assert_eq!(Postcard::take(&mut Reader::new(&bytes)).as_ref(), Some(value));
    let json = serde_json::to_string(value).expect("it has a form in JSON");
    assert_eq!(serde_json::from_str::<T>(&json).ok().as_ref(), Some(value), "{json}");
    json
}

#[test]
fn commands_events_and_counters_of_columns_and_messages_come_back() {
    use columns::{Command, Counts, Event};
    assert_eq!(survives(&Command::PublishBatch { slot: 3 }), r#"{"publish_batch":{"slot":3}}"#);
    survives(&Command::PublishEach { slot: 0 });
    survives(&Event::Copy { column: 1, from: 2, first: true });
    survives(&Event::Rebuilt { column: 1 });
    survives(&Event::Repaired { published: 1 });
    assert_eq!(survives(&Event::Lost), r#""lost""#);
    survives(&Counts { joined: 1, targets: 2, cells: [3; 5], offences: [4; 2] });
    assert_eq!(survives(&messages::Publish(7)), "7");
    survives(&messages::Event::Delivered { message: 1, from: u32::MAX });
    survives(&messages::Event::Lost { to: 1 });
    survives(&messages::Counts { duplicates: u64::MAX, mesh: 8, ..messages::Counts::default() });
}

#[test]
fn commands_events_and_counters_of_pools_come_back() {
    use pool::{Act, Block, Counters, NodeEvent};
    let transaction = Transaction::new(&b"tx+\0"[..]);
    let key = transaction.key();
    assert_eq!(survives(&Act::Submit(transaction)), r#"{"submit":"74782b00"}"#);
    survives(&Act::Propose { height: 1, max_bytes: 2, max_gas: Some(3), compact: true });
    let block = Block { height: 1, keys: [key; 2].into(), accounts: vec![(3, 4)], bytes: 5 };
    let json = survives(&Act::Commit(block.clone().into()));
    assert!(json.contains(&format!("[\"{key}\",\"{key}\"]")), "{json}");
    survives(&NodeEvent::Added { key, from: Some(3) });
    survives(&NodeEvent::Refused(key));
    survives(&NodeEvent::Proposed(block.into()));
    survives(&NodeEvent::BlockComplete { height: 1 });
    survives(&NodeEvent::BlockGivenUp);
    let misbehaved = survives(&NodeEvent::Misbehaved(Misbehaviour::TooManyTxs));
    assert_eq!(misbehaved, r#"{"misbehaved":"too_many_txs"}"#);
    let mut counters = Counters { keys: 1, ..Counters::default() };
    counters.engine.bodies_received = 2;
    *counters.engine.ignored_mut(Ignored::BlockKnown) = 3;
    *counters.engine.received_mut(samara_cat::FrameKind::Txs) = Tally { copies: 4, bytes: 5 };
    *counters.pool.refused_mut(Cause::Full) = 6;
    let json = survives(&counters);
    assert!(
        json.contains(r#""received":{"txs":{"copies":4,"bytes":5}},"ignored":{"block_known":3}"#),
        "{json}"
    );
    // Programs of others leave out what they do not count.
    let read = |json: &str| serde_json::from_str::<Counters>(json);
    assert_eq!(read(r#"{"keys":1}"#).ok(), Some(Counters { keys: 1, ..Counters::default() }));
    for wrong in [r#"{"other":1}"#, r#"{"pool":{"other":1}}"#, r#"{"engine":{"sent":{"other":{}}}}"#] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    for wrong in [r#"{"refused":"00"}"#, r#"{"refused":"0"}"#, r#"{"refused":"é0"}"#, r#"{"refused":7}"#] {
        assert!(serde_json::from_str::<NodeEvent>(wrong).is_err(), "{wrong}");
    }
    assert!(serde_json::from_str::<TxKey>(&format!("\"{}\"", "0g".repeat(32))).is_err());
}

#[test]
fn commands_events_and_counters_of_groups_and_mixes_come_back() {
    use group::{Act, Counters, Counts, Delivery, MemberEvent, Totals};
    [Act::Begin, Act::Leave, Act::End].iter().for_each(|act| drop(survives(act)));
    survives(&MemberEvent::Started);
    survives(&MemberEvent::Delivered(Delivery { origin: 1, number: 2, nanos: 3, from: Some(4) }));
    survives(&MemberEvent::Done { broadcast: 1 });
    survives(&MemberEvent::Suspected(1));
    let ignored = vec![
        (group::Cause::Ring(samara_ring::Ignored::Duplicate), 1),
        (group::Cause::Federation(samara_ring::Unused::Duplicate), 2),
        (group::Cause::Inconsistent, 3),
    ];
    let totals = Totals { bytes_from: vec![1, 2], bytes_of: [3; 5], ..Totals::default() };
    survives(&Counters { engine: Counts { ignored, ..Counts::default() }, totals });

    use mix::{Checked, RoundEvent, WorkSpan};
    // The results of threads cannot be compared, and never leave their host.
    let read = |text: &str| serde_json::from_str::<mix::Act>(text).expect("an act");
    assert!(matches!(read(r#"{"submit":7}"#), mix::Act::Submit(7)));
    assert_eq!(serde_json::to_string(&read(r#"{"submit":7}"#)).expect("text"), r#"{"submit":7}"#);
    assert_eq!(serde_json::to_string(&read("\"begin\"")).expect("text"), "\"begin\"");
    let span = WorkSpan { host: 1, core: 2, round: 3, phase: Some(Phase::Reveal), from: 4, to: 5 };
    for event in [
        RoundEvent::Work(span),
        RoundEvent::Work(WorkSpan { phase: None, ..span }),
        RoundEvent::Open(1),
        RoundEvent::Entered(1),
        RoundEvent::Refused,
        RoundEvent::Delivered(1, Checked { wrong: 2, order: u64::MAX, is_unmixed: false }),
        RoundEvent::Failed(1, Failure::of(samara_mix::Cause::BadElement)),
        RoundEvent::Mark(1, Phase::Decrypt, Mark::FirstReceived),
        RoundEvent::Drawn,
        RoundEvent::Looped(Some(Duration::from_nanos(1_234_567_890))),
        RoundEvent::Looped(None),
        RoundEvent::Made(1, plan().into()),
        RoundEvent::Round(1, RoundState::Standby),
    ] {
        survives(&event);
    }
    let mut metrics = samara_mix::Metrics::default();
    (metrics.rounds, metrics.slot_frames) = (1, Tally { copies: 2, bytes: 3 });
    survives(&metrics);
}
