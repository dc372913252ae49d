//! Partial messages: single nodes by hand, and networks of nodes that request parts, that only
//! support them, and that know only full messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::testing::{Network, Path, World};
use samara_engine::{Context, Engine, Input, NodeRng, Outbox, Purpose, Time, derive_seed};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::partial::{Asking, Bits, Content, EqualParts, Exchange, FormatHook, PartialConfig};
use samara_gossipsub::rpc::{Message, MessageId, PartialMode, RpcFrame, Topic};
use samara_gossipsub::score::{ScoreBreakdown, TopicScoreParams};
use samara_gossipsub::{Acceptance, Config, Event, GossipSub};

const PARTS: u32 = 8;
const PART_BYTES: usize = 1_024;

fn topic() -> Topic {
    Topic::new("cells")
}

fn group(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Returns a part of a group: its number and that of the group, repeated.
fn part(group: &Bytes, number: u32) -> Bytes {
    [&group[..], &[number as u8; 8]].concat().repeat(PART_BYTES / 16).into()
}

fn parts(group: &Bytes, numbers: impl IntoIterator<Item = u32>) -> Vec<(u32, Bytes)> {
    numbers.into_iter().map(|number| (number, part(group, number))).collect()
}

/// Returns the message that consists of a group.
fn whole(group: &Bytes) -> Arc<Message> {
    let parts = (0..PARTS).map(|number| part(group, number));
    let data: Vec<u8> = group.iter().copied().chain(parts.flatten()).collect();
    Arc::new(Message::new(topic(), data.into()))
}

fn config(mode: PartialMode, asking: Asking) -> Config {
    let format = EqualParts {
        parts: PARTS,
        part_bytes: PART_BYTES,
        group_bytes: 8,
        topics: BTreeMap::from([(topic(), mode)]),
    };
    let format = FormatHook::new(format);
    let exchange = match asking {
        Asking::Everyone => Exchange::everyone(),
        Asking::One => Exchange { patience: Duration::from_millis(250), ..Exchange::one() },
    };
    let partial = PartialConfig { exchange, ..PartialConfig::new(format) };
    Config {
        partial: (mode != PartialMode::None).then(|| Arc::new(partial)),
        message_id: MessageIdFn::custom(|message| MessageId::new(&message.data[..8])),
        topic_score: Some(TopicScoreParams {
            invalid_message_deliveries_weight: -1.0,
            ..TopicScoreParams::neutral()
        }),
        ..crate::common::scored()
    }
}

const ONE: Asking = Asking::One;

/// A node whose application checks parts, publishes a group in full once it is complete, and takes
/// the parts of full messages.
struct Node {
    engine: GossipSub,
    mode: PartialMode,
    /// The groups that the node has completely.
    complete: BTreeSet<Bytes>,
}

#[derive(Clone)]
enum Command {
    Join,
    /// Add these parts of a group.
    Provide(Bytes, Vec<u32>, Bits),
}

impl Node {
    fn provide(
        &mut self,
        group: &Bytes,
        numbers: Vec<u32>,
        push: Bits,
        cx: &mut Context<'_, RpcFrame, Event>,
    ) {
        if self.mode == PartialMode::None {
            assert_eq!(numbers.len(), PARTS as usize, "a node without the extension has whole messages");
            return self.finish(group, cx);
        }
        let content = Content { parts: parts(group, numbers), push, ..Content::default() };
        if self.engine.provide(&topic(), group, content, cx).unwrap() == 0 {
            self.finish(group, cx);
        }
    }

    fn finish(&mut self, group: &Bytes, cx: &mut Context<'_, RpcFrame, Event>) {
        if self.complete.insert(group.clone()) {
            let _ = self.engine.publish_message(whole(group), cx);
        }
    }

    fn take(&mut self, event: Event, cx: &mut Context<'_, RpcFrame, Event>) {
        match event {
            Event::Group { group, .. } => self.provide(&group, Vec::new(), Bits::default(), cx),
            Event::Parts { ticket, group, parts, .. } => {
                let _ = self.engine.provide(&topic(), &group, Content::default(), cx);
                let valid = parts.iter().all(|(number, data)| *data == part(&group, *number));
                let verdict = if valid { Acceptance::Accept } else { Acceptance::Reject };
                assert!(self.engine.report_parts(ticket, verdict, cx));
                let have = self.engine.parts(&topic(), &group).unwrap();
                if have.len() == PARTS as usize && have.iter().all(Option::is_some) {
                    self.finish(&group, cx);
                }
            }
            Event::Message { message, .. } => {
                let group = message.data.slice(..8);
                assert_eq!(*message, *whole(&group));
                if self.complete.insert(group.clone()) && self.mode != PartialMode::None {
                    self.provide(&group, (0..PARTS).collect(), Bits::default(), cx);
                }
            }
            _ => {}
        }
    }
}

impl Engine for Node {
    type Frame = RpcFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<RpcFrame, Command>, cx: &mut Context<'_, RpcFrame, Event>) {
        let mut events = Vec::new();
        let mut inner = cx.nested(&mut events);
        match input {
            Input::Command(Command::Join) => _ = self.engine.subscribe(&topic(), &mut inner),
            Input::Command(Command::Provide(group, numbers, push)) => {
                self.provide(&group, numbers, push, &mut inner);
            }
            Input::Start => self.engine.handle(Input::Start, &mut inner),
            Input::LinkUp { peer, info } => self.engine.handle(Input::LinkUp { peer, info }, &mut inner),
            Input::LinkDown { peer } => self.engine.handle(Input::LinkDown { peer }, &mut inner),
            Input::DialFailed { identity } => self.engine.handle(Input::DialFailed { identity }, &mut inner),
            Input::Frame { peer, frame } => self.engine.handle(Input::Frame { peer, frame }, &mut inner),
            Input::Timer(token) => self.engine.handle(Input::Timer(token), &mut inner),
        }
        while !events.is_empty() {
            for event in std::mem::take(&mut events) {
                self.take(event, &mut cx.nested(&mut events));
            }
        }
    }
}

/// The treatment of a liar's partial messages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Lie {
    /// Parts have a wrong byte.
    #[default]
    Alter,
    /// Metadata says that the liar has all parts, and bodies are lost.
    Claim,
    /// Bodies and metadata end early.
    Truncate,
    /// They are about another group than they were.
    Mix,
}

#[derive(Default)]
struct Records {
    /// Parts that left nodes.
    parts: u64,
    /// The last metadata from a node to another one about a group.
    announced: BTreeMap<(u32, u32, Bytes), u8>,
    /// Hosts whose partial messages are changed on their way.
    liars: BTreeSet<u32>,
    lie: Lie,
    seed: u64,
}

impl World<Node> for Records {
    fn path(&self, from: u32, to: u32) -> Path {
        let (min, max) = (Duration::from_millis(5), Duration::from_millis(60));
        Path { latency: Path::spread(self.seed, from, to, min, max), ..Path::default() }
    }

    fn event(&mut self, _: Time, _: u32, _: Event) -> Option<(Time, Command)> {
        None
    }

    fn frame(&mut self, from: u32, to: u32, _: &Node, frame: RpcFrame) -> Option<RpcFrame> {
        let Some(mut partial) = frame.rpc().partial.clone() else { return Some(frame) };
        let announced = self.announced.entry((from, to, partial.group.clone())).or_default();
        *announced = partial.metadata.as_ref().map_or(*announced, |metadata| metadata[0]);
        if let Some(body) = &partial.body {
            // Otherwise libp2p-gossipsub 0.50.1 drops them.
            assert_eq!(body[0] & !*announced, 0, "parts that the metadata does not name");
            self.parts += u64::from(body[0].count_ones());
        }
        if !self.liars.contains(&from) {
            return Some(frame);
        }
        match self.lie {
            Lie::Alter => {
                partial.body = partial.body.map(|body| {
                    let mut body = body.to_vec();
                    body[1] ^= 1;
                    body.into()
                });
            }
            Lie::Claim => {
                partial.body = None;
                partial.metadata = Some(Bytes::from_static(&[0xff]));
            }
            Lie::Truncate => {
                let shorten = |bytes: Bytes| bytes.slice(..bytes.len() - 1);
                partial.body = partial.body.map(shorten);
                partial.metadata = partial.metadata.map(shorten);
            }
            Lie::Mix => partial.group = group(u64::from(from)),
        }
        let mut rpc = frame.rpc().clone();
        rpc.partial = Some(partial);
        Some(RpcFrame::new(rpc))
    }

    fn protocol(&self, _: u32, _: u32) -> Option<Arc<str>> {
        Some("/meshsub/1.3.0".into())
    }
}

type Net = Network<Node, Records>;

/// Returns nodes that have joined the topic, in a random graph.
fn network(seed: u64, modes: &[PartialMode], asking: Asking) -> Net {
    let mut net = connected(seed, modes, asking);
    (0..net.len()).for_each(|node| net.command(node, Command::Join));
    net.run_for(Duration::from_secs(5));
    net
}

fn connected(seed: u64, modes: &[PartialMode], asking: Asking) -> Net {
    let mut net = unconnected(seed, modes, asking);
    let mut rng = NodeRng::new(seed, 0, Purpose::Network);
    let count = modes.len() as u32;
    for node in 0..count {
        if node > 0 {
            net.connect(node, rng.below(u64::from(node)) as u32);
        }
        for _ in 0..4 {
            let other = rng.below(u64::from(count)) as u32;
            if other != node && !net.is_up(node, other) {
                net.connect(node, other);
            }
        }
    }
    net
}

fn unconnected(seed: u64, modes: &[PartialMode], asking: Asking) -> Net {
    let mut net = Network::new(seed, Records { seed, ..Records::default() });
    for (number, mode) in modes.iter().enumerate() {
        let config = config(*mode, asking);
        let outbox = Outbox::new(config.outbox_config());
        let engine = GossipSub::new(config, samara_engine::testing::identity_of(number as u32)).unwrap();
        net.add(Node { engine, mode: *mode, complete: BTreeSet::new() }, outbox);
    }
    net
}

fn mixed(seed: u64, count: u32) -> Vec<PartialMode> {
    let kinds = [PartialMode::None, PartialMode::Supports, PartialMode::Requests];
    (0..count).map(|node| kinds[derive_seed(seed, node.into(), Purpose::Workload) as usize % 3]).collect()
}

fn all_have(net: &Net, group: &Bytes) -> bool {
    (0..net.len()).all(|node| net.engine(node).complete.contains(group))
}

#[test]
fn nobody_misses_a_message_in_any_mixture() {
    for seed in 0..60 {
        let asking = if seed % 2 == 0 { ONE } else { Asking::Everyone };
        let modes = mixed(seed, 24);
        let mut net = network(seed, &modes, asking);
        for number in 0..3 {
            let group = group(number);
            let publisher = (seed as u32 + number as u32) % net.len();
            net.command(publisher, Command::Provide(group.clone(), (0..PARTS).collect(), Bits::default()));
            // Some others have some parts already.
            for node in (0..net.len()).filter(|node| modes[*node as usize] == PartialMode::Requests) {
                let have = derive_seed(seed, u64::from(node) << 8 | number, Purpose::Workload);
                let numbers = (0..PARTS).filter(|part| have >> part & 1 == 1).collect();
                net.command(node, Command::Provide(group.clone(), numbers, Bits::default()));
            }
            net.run_for(Duration::from_secs(8));
            let missing: Vec<u32> =
                (0..net.len()).filter(|node| !net.engine(*node).complete.contains(&group)).collect();
            assert!(missing.is_empty(), "seed {seed}, group {number}: {missing:?} of {modes:?}");
        }
    }
}

#[test]
fn nobody_misses_a_group_when_links_break_and_return() {
    for seed in 0..40 {
        let mut net = network(seed, &mixed(seed, 16), if seed % 2 == 0 { ONE } else { Asking::Everyone });
        let group = group(7);
        net.command(0, Command::Provide(group.clone(), (0..PARTS).collect(), Bits::default()));
        let mut rng = NodeRng::new(seed, 9, Purpose::Network);
        for _ in 0..8 {
            let (a, b) = (rng.below(16) as u32, rng.below(16) as u32);
            net.run_for(Duration::from_millis(20));
            if a != b && net.is_up(a, b) {
                net.disconnect(a, b);
                net.at(net.now + Duration::from_millis(300), move |net| net.connect(a, b));
            }
        }
        net.run_for(Duration::from_secs(15));
        assert!(all_have(&net, &group), "seed {seed}");
    }
}

/// The publisher announces no support for parts, as it has no subscription. The others ask it
/// nevertheless, since it tells them of the group.
#[test]
fn a_publisher_need_not_join() {
    for seed in 0..10 {
        for (asking, push) in
            [(ONE, Bits::default()), (ONE, Bits::all(PARTS)), (Asking::Everyone, Bits::default())]
        {
            let modes: Vec<PartialMode> = (0..12)
                .map(|node| if node == 0 { PartialMode::Supports } else { PartialMode::Requests })
                .collect();
            let mut net = connected(seed, &modes, asking);
            (1..net.len()).for_each(|node| net.command(node, Command::Join));
            net.run_for(Duration::from_secs(5));
            let group = group(seed);
            net.command(0, Command::Provide(group.clone(), (0..PARTS).collect(), push));
            net.run_for(Duration::from_secs(4));
            assert!(all_have(&net, &group), "seed {seed}, {asking:?}");
        }
    }
}

/// All nodes know only the publisher, whose fanout holds some of them: the others hear of the group at
/// heartbeats.
#[test]
fn peers_outside_the_fanout_hear_of_a_complete_group() {
    for asking in [ONE, Asking::Everyone] {
        for push in [Bits::default(), Bits::all(PARTS)] {
            let modes = [&[PartialMode::Supports][..], &[PartialMode::Requests; 20]].concat();
            let mut net = unconnected(3, &modes, asking);
            for node in 1..net.len() {
                net.connect(node, 0);
                net.command(node, Command::Join);
            }
            net.run_for(Duration::from_secs(5));
            let group = group(3);
            net.command(0, Command::Provide(group.clone(), (0..PARTS).collect(), push));
            net.run_for(Duration::from_secs(8));
            let missing = (0..net.len()).filter(|node| !net.engine(*node).complete.contains(&group)).count();
            assert_eq!(missing, 0, "{asking:?}");
        }
    }
}

/// All nodes request parts and none has any, except the publisher: each part arrives about once.
#[test]
fn one_peer_at_a_time_sends_each_part() {
    let mut copies = [0.0; 2];
    for (at, asking) in [ONE, Asking::Everyone].into_iter().enumerate() {
        let mut net = network(1, &[PartialMode::Requests; 40], asking);
        let group = group(1);
        for node in 1..net.len() {
            net.command(node, Command::Provide(group.clone(), Vec::new(), Bits::default()));
        }
        net.command(0, Command::Provide(group.clone(), (0..PARTS).collect(), Bits::default()));
        net.run_for(Duration::from_secs(8));
        assert!(all_have(&net, &group));
        copies[at] = net.parts as f64 / f64::from(PARTS * (net.len() - 1));
    }
    assert!(copies[0] < 1.3 && copies[1] > 2.0, "{copies:?}");
}

#[test]
fn liars_delay_nobody_for_long_and_no_honest_peer_is_blamed() {
    let mut runs_with_blame = [0; 4];
    for seed in 0..20 {
        for lie in [Lie::Alter, Lie::Claim, Lie::Truncate, Lie::Mix] {
            let mut net = network(seed, &[PartialMode::Requests; 20], ONE);
            (net.liars, net.lie) = ((1..7).collect(), lie);
            let group = group(300);
            for node in 1..net.len() {
                net.command(node, Command::Provide(group.clone(), Vec::new(), Bits::default()));
            }
            net.command(0, Command::Provide(group.clone(), (0..PARTS).collect(), Bits::default()));
            let honest: Vec<u32> = (0..net.len()).filter(|node| !net.liars.contains(node)).collect();
            let blames = |net: &Net, node: u32, other: u32| {
                let peer = net.peer(node, other);
                let score = peer.and_then(|peer| net.engine(node).engine.peer_score_breakdown(peer));
                let lost = |score: ScoreBreakdown| score.invalid_message_deliveries + score.behaviour_penalty;
                score.is_some_and(|score| lost(score) < 0.0)
            };
            // Scores decay.
            let mut blamed = BTreeSet::new();
            for _ in 0..12 {
                net.run_for(Duration::from_secs(1));
                let by_any = |other: &u32| honest.iter().any(|node| blames(&net, *node, *other));
                blamed.extend((0..net.len()).filter(by_any));
            }
            let missing = |node: &&u32| !net.engine(**node).complete.contains(&group);
            let missing: Vec<&u32> = honest.iter().filter(missing).collect();
            assert!(missing.is_empty(), "seed {seed}, {lie:?}: {missing:?}");
            assert!(blamed.is_subset(&net.liars), "seed {seed}, {lie:?}: {blamed:?}");
            runs_with_blame[lie as usize] += usize::from(!blamed.is_empty());
        }
    }
    // Wrong parts and malformed frames prove a lie; false claims do not.
    let [altered, claimed, truncated, mixed] = runs_with_blame;
    assert!(altered > 10 && truncated > 10 && claimed + mixed == 0, "{runs_with_blame:?}");
}

mod ethereum {
    //! Partial columns on the wire.

    use proptest::prelude::*;
    use samara_engine::Frame;
    use samara_gossipsub::partial::ethereum::{BLOBS_MAX, PART_BYTES, PartialColumns, header};
    use samara_gossipsub::partial::{Format, Metadata};
    use samara_gossipsub::rpc::{Partial, Rpc};

    use super::*;

    /// A name of 49 bytes.
    const TOPIC: &str = "/eth2/00000000/data_column_sidecar_100/ssz_snappy";

    fn frame(format: &PartialColumns, body: Option<Bytes>, metadata: Option<Bytes>) -> usize {
        let (topic, group) = (Topic::new(TOPIC), format.group(1, &[7; 32]));
        let partial = Some(Box::new(Partial { topic, group, body, metadata }));
        RpcFrame::new(Rpc { partial, ..Rpc::default() }).encoded_len()
    }

    /// The lengths of frames by SSZ and protobuf, for the numbers of blobs on main net and beyond.
    #[test]
    fn frames_have_the_lengths_that_ssz_and_protobuf_give() {
        let fulu = PartialColumns::FULU;
        let cell = Bytes::from(vec![1; PART_BYTES]);
        let cases = [
            (6, [101, 755, 2_219, 12_699]),
            (14, [103, 1_142, 2_222, 29_473]),
            (21, [105, 1_481, 2_225, 44_148]),
            (48, [113, 2_789, 2_237, 100_752]),
            (72, [119, 3_950, 2_246, 151_065]),
            (128, [135, 6_659, 2_267, 268_462]),
        ];
        for (blobs, expected) in cases {
            let metadata = || {
                let (available, requests) = (Bits::all(blobs), Bits::new(blobs));
                Some(fulu.write_metadata(&Metadata { available, requests }))
            };
            let body = |header: Option<&Bytes>, cells: u32| {
                let cells: Vec<_> = (0..cells).map(|blob| (blob, &cell)).collect();
                Some(fulu.write_body(&[], blobs, header, &cells))
            };
            let found = [
                frame(&fulu, None, metadata()),
                frame(&fulu, body(Some(&header(blobs)), 0), metadata()),
                frame(&fulu, body(None, 1), metadata()),
                frame(&fulu, body(None, blobs), metadata()),
            ];
            assert_eq!(found, expected, "{blobs} blobs");
        }
    }

    fn formats() -> impl Strategy<Value = PartialColumns> {
        prop::sample::select(vec![PartialColumns::FULU, PartialColumns::GLOAS])
    }

    proptest! {
        #[test]
        fn bodies_and_metadata_are_read_as_written(
            format in formats(),
            len in 1..200_u32,
            draw in any::<u64>(),
            with_header in any::<bool>(),
        ) {
            let mut rng = NodeRng::new(draw, 0, Purpose::Workload);
            let [available, requests, sent] =
                [(); 3].map(|()| (0..len).filter(|_| rng.chance(0.3)).chain([len - 1]).collect::<Bits>());
            let metadata = Metadata { available, requests };
            prop_assert_eq!(format.read_metadata(&format.write_metadata(&metadata)).unwrap(), metadata);
            let cells: Vec<(u32, Bytes)> =
                sent.iter().map(|blob| (blob, Bytes::from(vec![blob as u8; PART_BYTES]))).collect();
            let refs: Vec<(u32, &Bytes)> = cells.iter().map(|(blob, cell)| (*blob, cell)).collect();
            // Gloas has no headers.
            let header = (with_header && format.version == 0).then(|| header(len));
            let body = format.read_body(&[], &format.write_body(&[], len, header.as_ref(), &refs)).unwrap();
            prop_assert_eq!((body.len, body.header, body.parts), (Some(len), header, cells));
        }

        #[test]
        fn any_bytes_are_read_or_refused(format in formats(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = format.read_metadata(&bytes);
            let _ = format.read_body(&[], &bytes.into());
        }
    }

    /// A peer that knows nothing of a group cannot want its parts before it has the header.
    #[test]
    fn peers_outside_the_fanout_get_the_header_and_hear_what_there_is() {
        use samara_gossipsub::rpc::SubOpts;

        let fulu = PartialColumns::FULU;
        let config = crate::common::plain();
        let partial = PartialConfig::new(FormatHook::new(fulu.clone()));
        let mut node = crate::common::Node::new(Config { partial: Some(Arc::new(partial)), ..config });
        let peers: Vec<_> = (0..20).map(|_| node.connect_as("/meshsub/1.3.0", true)).collect();
        let (subscribe, partial, unknown) = (true, PartialMode::Requests, Bytes::new());
        let change = SubOpts { subscribe, topic: Topic::new(TOPIC), partial, unknown };
        node.rpcs(&peers, Rpc { subscriptions: vec![change], ..Rpc::default() });
        node.sent();
        let (group, cell) = (fulu.group(1, &[7; 32]), Bytes::from(vec![1; PART_BYTES]));
        let content = Content { header: Some(header(1)), parts: vec![(0, cell)], push: Bits::all(1) };
        node.with(|engine, cx| engine.provide(&Topic::new(TOPIC), &group, content, cx)).unwrap();
        let (mut headers, mut announced) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..5 {
            for (peer, _, frame) in node.sent().0 {
                let Some(partial) = &frame.rpc().partial else { continue };
                let body = partial.body.as_ref().map(|body| fulu.read_body(&group, body).unwrap());
                if body.is_some_and(|body| body.header.is_some()) {
                    assert!(headers.insert(peer), "{peer:?} gets the header again");
                }
                let metadata = partial.metadata.as_ref().map(|bytes| fulu.read_metadata(bytes).unwrap());
                if metadata.is_some_and(|metadata| metadata.available.contains(0)) {
                    assert!(headers.contains(&peer), "{peer:?} has no header");
                    announced.insert(peer);
                }
            }
            node.heartbeat();
        }
        assert_eq!((headers.len(), announced.len()), (20, 20));
    }

    #[test]
    fn groups_and_headers_of_another_form_are_refused() {
        let (fulu, gloas, topic) = (PartialColumns::FULU, PartialColumns::GLOAS, Topic::new(TOPIC));
        let root = [7; 32];
        assert_eq!((fulu.group(1, &root).len(), gloas.group(1, &root).len()), (33, 41));
        assert!(fulu.check_group(&topic, &fulu.group(1, &root)).is_ok());
        let error = fulu.check_group(&topic, &gloas.group(1, &root)).unwrap_err();
        assert_eq!(error.to_string(), "found a group id of 41 bytes, expected 33 bytes");
        let other = PartialColumns { version: 1, ..fulu.clone() };
        assert_eq!(
            other.check_group(&topic, &fulu.group(1, &root)).unwrap_err().to_string(),
            "found version 0, expected 1"
        );
        assert_eq!(fulu.len_of(Some(&header(9))).unwrap(), Some(9));
        for wrong in [header(BLOBS_MAX + 1), header(0), header(3).slice(1..)] {
            assert!(fulu.len_of(Some(&wrong)).is_err());
        }
    }
}

mod limits {
    //! Bounds on the state and the frames that peers cause.

    use samara_engine::PeerId;
    use samara_gossipsub::Ignored;
    use samara_gossipsub::rpc::{Partial, Rpc, SubOpts};

    use super::*;
    use crate::common::Node;

    const V1_3: &str = "/meshsub/1.3.0";

    /// A node on the topic with peers that request parts, of which it grafts some.
    fn node(peers: usize, asking: Asking) -> (Node, Vec<PeerId>) {
        let mut node = Node::new(config(PartialMode::Requests, asking));
        let peers: Vec<PeerId> = (0..peers).map(|_| node.connect_as(V1_3, true)).collect();
        let change = SubOpts {
            subscribe: true,
            topic: topic(),
            partial: PartialMode::Requests,
            unknown: Bytes::new(),
        };
        node.rpcs(&peers, Rpc { subscriptions: vec![change], ..Rpc::default() });
        node.subscribe("cells");
        node.heartbeat();
        node.sent();
        (node, peers)
    }

    fn says(group: &Bytes, available: u8) -> Rpc {
        let metadata = Some(Bytes::copy_from_slice(&[available]));
        let partial = Partial { topic: topic(), group: group.clone(), body: None, metadata };
        Rpc { partial: Some(Box::new(partial)), ..Rpc::default() }
    }

    #[test]
    fn peers_create_few_groups_and_leave_room_for_the_mesh() {
        let (mut node, peers) = node(80, ONE);
        let mesh = node.mesh("cells");
        let (inside, outside): (Vec<PeerId>, Vec<PeerId>) =
            peers.iter().partition(|peer| mesh.contains(peer));
        let mut number = 0;
        let mut flood = |node: &mut Node, peers: &[PeerId]| {
            for peer in peers {
                for _ in 0..20 {
                    number += 1;
                    node.rpc(*peer, says(&group(number), 0));
                }
            }
        };
        flood(&mut node, &outside);
        assert_eq!(node.engine.sizes().groups, 127, "half of 255, eight for each peer");
        flood(&mut node, &inside);
        assert_eq!(node.engine.sizes().groups, 127 + 8 * inside.len());
        assert!(node.ignored(Ignored::PartialGroupsFull) > 1_000);
        // They are forgotten.
        node.heartbeats(13);
        assert_eq!(node.engine.sizes().groups, 0);
    }

    #[test]
    fn a_peer_gets_the_parts_of_a_group_three_times_at_most() {
        let (mut node, peers) = node(4, ONE);
        let group = group(1);
        let content = Content { parts: parts(&group, 0..PARTS), ..Content::default() };
        node.with(|engine, cx| engine.provide(&topic(), &group, content, cx)).unwrap();
        // It takes everything back and wants it again, over and over.
        for _ in 0..50 {
            node.rpc(peers[0], says(&group, 0));
            node.sent();
            node.rpc(peers[0], says(&group, 0xff));
        }
        let sent = node.engine.metrics().parts_sent;
        assert!((1..=3).contains(&(sent / u64::from(PARTS))), "{sent} parts");
        assert!(node.ignored(Ignored::PartialAnswers) > 100);
    }

    #[test]
    fn frames_of_a_peer_and_malformed_ones_are_limited_and_counted() {
        let (mut node, peers) = node(4, ONE);
        let partial = |metadata: &'static [u8], group: Bytes| Rpc {
            partial: Some(Box::new(Partial {
                topic: topic(),
                group,
                body: None,
                metadata: Some(Bytes::from_static(metadata)),
            })),
            ..Rpc::default()
        };
        node.rpc(peers[0], partial(b"two", group(1)));
        node.rpc(peers[0], partial(b"1", Bytes::from_static(b"short")));
        assert_eq!(node.ignored(Ignored::PartialMalformed), 2);
        let elsewhere = Partial { topic: Topic::new("other"), ..Partial::default() };
        node.rpc(peers[0], Rpc { partial: Some(Box::new(elsewhere)), ..Rpc::default() });
        assert_eq!(node.ignored(Ignored::PartialTopic), 1);
        for _ in 0..10_100 {
            node.rpc(peers[1], says(&group(2), 1));
        }
        assert_eq!(node.ignored(Ignored::PartialFramesOverLimit), 100);
        // Nobody else is affected.
        node.rpc(peers[2], says(&group(2), 1));
        assert_eq!(node.ignored(Ignored::PartialFramesOverLimit), 100);
    }

    /// A header that fits nothing else in its frame is refused at once, and does not keep the genuine
    /// one out.
    #[test]
    fn a_malformed_body_does_not_block_the_header_of_a_group() {
        use samara_gossipsub::partial::Format;
        use samara_gossipsub::partial::ethereum::{PART_BYTES, PartialColumns, header};

        let fulu = PartialColumns::FULU;
        let name = "/eth2/00000000/data_column_sidecar_1/ssz_snappy";
        let partial = PartialConfig::new(FormatHook::new(fulu.clone()));
        let mut node = Node::new(Config { partial: Some(Arc::new(partial)), ..crate::common::plain() });
        let peers = [node.connect_as(V1_3, true), node.connect_as(V1_3, true)];
        node.subscribe(name);
        let (group, cell) = (fulu.group(1, &[7; 32]), Bytes::from(vec![1; PART_BYTES]));
        let says = |header: &Bytes, blobs: u32| {
            let body = Some(fulu.write_body(&[], blobs, Some(header), &[(0, &cell)]));
            let (topic, group) = (Topic::new(name), group.clone());
            let partial = Some(Box::new(Partial { topic, group, body, metadata: None }));
            Rpc { partial, ..Rpc::default() }
        };
        node.rpc(peers[0], says(&header(9), 8));
        assert_eq!(node.ignored(Ignored::PartialMalformed), 1);
        node.rpc(peers[1], says(&header(9), 9));
        let parts = node.events.iter().filter(|event| matches!(event, Event::Parts { header: Some(_), .. }));
        assert_eq!(parts.count(), 1);
    }
}

mod claims {
    //! Peers that claim to have what they do not send.

    use samara_engine::PeerId;
    use samara_engine::outbox::{Dispatch, Schedule};
    use samara_gossipsub::Ignored;
    use samara_gossipsub::partial::ethereum::{PART_BYTES, PartialColumns, header};
    use samara_gossipsub::partial::{Format, Metadata};
    use samara_gossipsub::rpc::{Partial, Rpc, SubOpts};

    use super::*;
    use crate::common::Node;

    const TOPIC: &str = "/eth2/00000000/data_column_sidecar_1/ssz_snappy";
    const PATIENCE: Duration = Duration::from_millis(100);

    /// Returns a node with peers in its mesh, all of which request cells.
    fn node(peers: usize) -> (Node, Vec<PeerId>) {
        node_of(PartialColumns::FULU, peers)
    }

    fn node_of(format: PartialColumns, peers: usize) -> (Node, Vec<PeerId>) {
        let partial = PartialConfig {
            exchange: Exchange { patience: PATIENCE, ..Exchange::one() },
            ..PartialConfig::new(FormatHook::new(format))
        };
        let mut config = Config { partial: Some(Arc::new(partial)), ..crate::common::plain() };
        config.sending.dispatch = Dispatch::Node;
        config.schedule_publish = Schedule::INTERLEAVED;
        let mut node = Node::new(config);
        let peers: Vec<PeerId> = (0..peers).map(|_| node.connect_as("/meshsub/1.3.0", true)).collect();
        let (topic, partial, unknown) = (Topic::new(TOPIC), PartialMode::Requests, Bytes::new());
        let change = SubOpts { subscribe: true, topic, partial, unknown };
        node.rpcs(&peers, Rpc { subscriptions: vec![change], ..Rpc::default() });
        node.subscribe(TOPIC);
        node.heartbeat();
        node.sent();
        (node, peers)
    }

    fn group(number: u8) -> Bytes {
        PartialColumns::FULU.group(u64::from(number), &[number; 32])
    }

    /// A peer says that it has two cells.
    fn claims(node: &mut Node, peer: PeerId, group: &Bytes) {
        let metadata = Metadata { available: Bits::all(2), requests: Bits::new(2) };
        let metadata = Some(PartialColumns::FULU.write_metadata(&metadata));
        let partial = Partial { topic: Topic::new(TOPIC), group: group.clone(), body: None, metadata };
        node.rpc(peer, Rpc { partial: Some(Box::new(partial)), ..Rpc::default() });
    }

    /// Adds some of two cells to a group.
    fn provide(node: &mut Node, group: &Bytes, cells: u32, push: Bits) {
        let cell = |number| (number, Bytes::from(vec![1; PART_BYTES]));
        let parts = (0..cells).map(cell).collect();
        let content = Content { header: Some(header(2)), parts, push };
        node.with(|engine, cx| engine.provide(&Topic::new(TOPIC), group, content, cx)).unwrap();
    }

    /// Returns the peers that the node asks for cells, by its frames so far.
    fn asked(node: &mut Node) -> BTreeSet<PeerId> {
        let mut asked = BTreeSet::new();
        for (peer, _, frame) in node.sent().0 {
            let Some(metadata) = frame.rpc().partial.as_ref().and_then(|partial| partial.metadata.as_ref())
            else {
                continue;
            };
            let metadata = PartialColumns::FULU.read_metadata(metadata).unwrap();
            if metadata.requests.is_empty() {
                asked.remove(&peer)
            } else {
                asked.insert(peer)
            };
        }
        asked
    }

    #[test]
    fn a_push_ends_if_two_copies_have_left_and_half_of_the_others_have_the_parts() {
        let (mut node, peers) = node(6);
        let group = group(1);
        provide(&mut node, &group, 2, Bits::all(2));
        let waiting = |node: &Node| peers.iter().filter(|peer| node.outbox.pending_to(**peer) > 0).count();
        assert_eq!(waiting(&node), 6);
        let take = |node: &mut Node, peer| {
            let now = node.now;
            while node.outbox.pop_for(now, peer).is_some() {}
        };
        take(&mut node, peers[0]);
        for peer in &peers[1..4] {
            claims(&mut node, *peer, &group);
        }
        assert_eq!(waiting(&node), 2, "one copy has left: only their own copies are withdrawn");
        let (mut node, peers) = self::node(6);
        provide(&mut node, &group, 2, Bits::all(2));
        [0, 3].iter().for_each(|at| take(&mut node, peers[*at]));
        claims(&mut node, peers[1], &group);
        assert_eq!(waiting(&node), 3, "one of four others has them");
        claims(&mut node, peers[4], &group);
        assert_eq!(waiting(&node), 0, "half of the others have them");
        let (mut node, peers) = self::node(6);
        provide(&mut node, &group, 2, Bits::all(2));
        [0, 3].iter().for_each(|at| take(&mut node, peers[*at]));
        for at in [0, 3, 1, 4] {
            claims(&mut node, peers[at], &group);
        }
        assert_eq!(waiting(&node), 2, "who claims to have got a copy may never pass it on");
    }

    #[test]
    fn copies_leave_first_to_peers_that_have_spoken_of_the_block() {
        for speaks in 0..6 {
            let (mut node, peers) = node(6);
            provide(&mut node, &group(1), 2, Bits::all(2));
            let asks = Metadata { available: Bits::new(2), requests: Bits::all(2) };
            let metadata = Some(PartialColumns::FULU.write_metadata(&asks));
            let partial = Partial { topic: Topic::new(TOPIC), group: group(1), body: None, metadata };
            node.rpc(peers[speaks], Rpc { partial: Some(Box::new(partial)), ..Rpc::default() });
            assert_eq!(first_copy(&mut node), peers[speaks]);
            // It may say nothing of the next block.
            provide(&mut node, &group(2), 2, Bits::all(2));
            assert_eq!(first_copy(&mut node), peers[0]);
        }
    }

    #[test]
    fn claims_take_the_place_of_no_copy_that_a_relay_passes_on() {
        let (mut node, peers) = node(9);
        node.rpcs(&peers, crate::common::graft(&[TOPIC]));
        let group = group(1);
        provide(&mut node, &group, 0, Bits::default());
        peers[1..4].iter().for_each(|peer| claims(&mut node, *peer, &group));
        node.sent();
        sends(&mut node, peers[0], &group, None, true);
        let Some(Event::Parts { ticket, .. }) = node.events.pop() else { panic!("no parts arrived") };
        node.with(|engine, cx| engine.report_parts(ticket, Acceptance::Accept, cx));
        let sent = node.sent().0.into_iter();
        let bodies =
            sent.filter(|(.., frame)| frame.rpc().partial.as_ref().is_some_and(|it| it.body.is_some()));
        let receivers: BTreeSet<PeerId> = bodies.map(|(peer, ..)| peer).collect();
        let others = BTreeSet::from_iter(peers[4..].iter().copied());
        assert_eq!((receivers.len(), receivers.is_subset(&others)), (5, true));
    }

    /// Sends everything that is owed. Returns the receiver of the first copy of a message.
    fn first_copy(node: &mut Node) -> PeerId {
        let now = node.now;
        let sent: Vec<_> = std::iter::from_fn(|| node.outbox.pop(now, |_| true)).collect();
        sent.iter().find(|copy| copy.message.is_some()).unwrap().peer
    }

    #[test]
    fn a_publisher_hears_at_once_that_its_parts_have_arrived() {
        let (mut node, peers) = node(2);
        let group = group(1);
        sends(&mut node, peers[0], &group, Some(&header(2)), true);
        let Some(Event::Parts { ticket, .. }) = node.events.pop() else { panic!("no parts arrived") };
        node.with(|engine, cx| engine.report_parts(ticket, Acceptance::Accept, cx));
        provide(&mut node, &group, 0, Bits::default());
        let announced = node.sent().0.into_iter().filter(|(peer, ..)| *peer == peers[0]);
        let announced = announced.filter_map(|(_, _, frame)| frame.rpc().partial.as_ref()?.metadata.clone());
        let available =
            announced.map(|announced| PartialColumns::FULU.read_metadata(&announced).unwrap().available);
        assert_eq!(available.last().map(|parts| parts.iter().collect()), Some(vec![0]));
    }

    /// A peer sends the first cell or none, with or without the header.
    fn sends(node: &mut Node, peer: PeerId, group: &Bytes, header: Option<&Bytes>, has_cell: bool) {
        let cell = Bytes::from(vec![1; PART_BYTES]);
        let parts = if has_cell { vec![(0, &cell)] } else { vec![] };
        let body = Some(PartialColumns::FULU.write_body(group, 2, header, &parts));
        let partial = Partial { topic: Topic::new(TOPIC), group: group.clone(), body, metadata: None };
        node.rpc(peer, Rpc { partial: Some(Box::new(partial)), ..Rpc::default() });
    }

    #[test]
    fn copies_with_and_without_the_header_count_as_one_message() {
        let (mut node, peers) = node(2);
        let group = group(1);
        sends(&mut node, peers[0], &group, Some(&header(2)), false);
        provide(&mut node, &group, 2, Bits::all(2));
        let now = node.now;
        let mut copies = BTreeMap::new();
        for peer in peers {
            while let Some(copy) = node.outbox.pop_for(now, peer) {
                let body = copy.frame.rpc().partial.as_ref().and_then(|partial| partial.body.clone());
                let body = body.map(|body| PartialColumns::FULU.read_body(&group, &body).unwrap());
                if let Some(body) = body.filter(|body| body.parts.len() == 2) {
                    copies.insert(body.header.is_some(), copy.message);
                }
            }
        }
        assert_eq!(copies.keys().copied().collect::<Vec<_>>(), [false, true]);
        assert_eq!(copies[&false], copies[&true]);
    }

    #[test]
    fn parts_wait_for_their_header_and_a_peer_can_fill_a_sixteenth_of_the_room() {
        let (mut node, peers) = node(2);
        for _ in 0..300 {
            sends(&mut node, peers[0], &group(1), None, true);
        }
        let place = size_of::<(u32, Bytes)>() + size_of::<(PeerId, Vec<(u32, Bytes)>)>();
        let held = (8 << 20) / 16 / (PART_BYTES + place) as u64;
        assert_eq!(node.ignored(Ignored::PartialEarly), 300 - held);
        sends(&mut node, peers[1], &group(2), None, true);
        assert_eq!(node.ignored(Ignored::PartialEarly), 300 - held, "it has room of its own");
        let arrived = |node: &Node| {
            let of = |event: &&Event| matches!(event, Event::Parts { .. });
            node.events.iter().filter(of).count()
        };
        assert_eq!(arrived(&node), 0);
        (1..3).for_each(|number| provide(&mut node, &group(number), 0, Bits::default()));
        assert_eq!(arrived(&node), 2, "one verdict for each part");
        sends(&mut node, peers[0], &group(3), None, true);
        assert_eq!(node.ignored(Ignored::PartialEarly), 300 - held, "its room is free again");
        node.heartbeat();
        for _ in 1..=held {
            sends(&mut node, peers[0], &group(3), None, true);
        }
        assert_eq!(node.ignored(Ignored::PartialEarly), 300 - held + 1, "a heartbeat frees nothing");
    }

    #[test]
    fn cells_of_gloas_wait_for_the_block_and_no_header_is_sent() {
        let gloas = PartialColumns::GLOAS;
        let (mut node, peers) = node_of(gloas.clone(), 2);
        let (group, cell) = (gloas.group(1, &[1; 32]), Bytes::from(vec![1; PART_BYTES]));
        let body = Some(gloas.write_body(&group, 2, None, &[(0, &cell)]));
        let partial = Partial { topic: Topic::new(TOPIC), group: group.clone(), body, metadata: None };
        node.rpc(peers[0], Rpc { partial: Some(Box::new(partial)), ..Rpc::default() });
        assert!(node.events.is_empty(), "nobody can check a cell without the block");
        provide(&mut node, &group, 0, Bits::default());
        let Some(Event::Parts { ticket, header: None, .. }) = node.events.pop() else {
            panic!("the cell waits for no block any more");
        };
        node.with(|engine, cx| engine.report_parts(ticket, Acceptance::Accept, cx));
        node.heartbeats(2);
        let sent = node.sent().0;
        let partials = sent.iter().filter_map(|(_, _, frame)| frame.rpc().partial.as_ref());
        let bodies: Vec<_> = partials.filter_map(|partial| partial.body.as_ref()).collect();
        assert!(!bodies.is_empty(), "the other peer gets what the publisher pushed");
        for body in bodies {
            assert_eq!(gloas.read_body(&group, body).unwrap().parts.len(), 1);
        }
    }

    #[test]
    fn who_did_not_answer_is_asked_last() {
        let (mut node, peers) = node(3);
        for number in 1..3 {
            provide(&mut node, &group(number), 0, Bits::default());
        }
        node.sent();
        claims(&mut node, peers[0], &group(1));
        assert_eq!(asked(&mut node), BTreeSet::from([peers[0]]));
        node.advance(PATIENCE);
        claims(&mut node, peers[1], &group(1));
        assert_eq!(asked(&mut node), BTreeSet::from([peers[1]]), "it did not answer");
        // In another group it is asked while nobody else has the cells.
        claims(&mut node, peers[0], &group(2));
        assert_eq!(asked(&mut node), BTreeSet::from([peers[0]]));
        claims(&mut node, peers[2], &group(2));
        assert_eq!(asked(&mut node), BTreeSet::from([peers[2]]));
    }
}
