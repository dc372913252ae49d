//! A gateway whose senders submit anything, and a sender whose nodes announce anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use prost::Message;
use samara_mix::{Config, Group, Plan, Sealed, SenderId, Transfer};
use samara_net::mix::GatewayOptions;
use samara_net::mix::fuzzing::{Announced, Board, Rules, Tally};
use samara_net::mix::proto::{
    Ack, KeptRequest, KeptRound, KeptRounds, LinkRequest, OpenRound, OpenRounds, OutSlot, RegisterReply,
    RegisterRequest, ResultPart, ResultRequest, SealedSlot, SubmitReply, SubmitRequest, WithdrawReply,
    WithdrawRequest,
};
use tokio::sync::watch;

/// A message of a service decodes to itself after encoding. Its first byte selects the message.
pub(crate) fn services(data: &[u8]) {
    fn check<M: Message + Default + PartialEq + Debug>(bytes: &[u8]) {
        let Ok(message) = M::decode(bytes) else { return };
        let written = message.encode_to_vec();
        assert_eq!(written.len(), message.encoded_len());
        assert_eq!(M::decode(&written[..]), Ok(message));
    }
    let [kind, bytes @ ..] = data else { return };
    match kind % 13 {
        0 => check::<Ack>(bytes),
        1 => check::<LinkRequest>(bytes),
        2 => check::<RegisterRequest>(bytes),
        3 => check::<RegisterReply>(bytes),
        4 => check::<OpenRounds>(bytes),
        5 => check::<SubmitRequest>(bytes),
        6 => check::<SubmitReply>(bytes),
        7 => check::<ResultRequest>(bytes),
        8 => check::<ResultPart>(bytes),
        9 => check::<KeptRequest>(bytes),
        10 => check::<KeptRounds>(bytes),
        11 => check::<WithdrawRequest>(bytes),
        _ => check::<WithdrawReply>(bytes),
    }
}

pub(crate) fn services_seeds() -> Vec<Vec<u8>> {
    let bytes = || Bytes::from_static(&[5; 32]);
    let slot = SealedSlot { elements: vec![1; 64], credentials: vec![2; 128] };
    let out = OutSlot { kind: 1, content: bytes() };
    let round = OpenRound { round: 7, team: vec![0, 300], room: 3, batch: 8, share: 2, senders_wanted: 1 };
    let messages = [
        Ack {}.encode_to_vec(),
        LinkRequest { link: 7 }.encode_to_vec(),
        RegisterRequest { public: bytes() }.encode_to_vec(),
        RegisterReply { public: bytes(), node: 1, group: "model".to_owned() }.encode_to_vec(),
        OpenRounds { rounds: vec![round] }.encode_to_vec(),
        SubmitRequest { round: 7, slots: vec![slot] }.encode_to_vec(),
        SubmitReply { room: 9 }.encode_to_vec(),
        ResultRequest { round: 7 }.encode_to_vec(),
        ResultPart { cause: "cause".to_owned(), culprit: 2, slots: vec![out] }.encode_to_vec(),
        KeptRequest { from: 7, after: 300 }.encode_to_vec(),
        KeptRounds { rounds: vec![KeptRound { round: 7, slots: 8 }], after: 300, gone: 6, reach_s: 9 }
            .encode_to_vec(),
        WithdrawRequest { round: 7 }.encode_to_vec(),
        WithdrawReply { payloads: 300 }.encode_to_vec(),
    ];
    (0..).zip(messages).map(|(kind, message): (u8, _)| [&[kind][..], &message].concat()).collect()
}

/// Messages of different senders or nodes: a byte for who, two for the length, and the message.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let [who, low, high, rest @ ..] = self.0 else { return None };
        let (message, rest) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(rest.len()));
        self.0 = rest;
        Some((*who, message))
    }
}

fn script(messages: impl IntoIterator<Item = (u8, Vec<u8>)>) -> Vec<u8> {
    let step = |(who, message): (u8, Vec<u8>)| {
        [&[who][..], &(message.len() as u16).to_le_bytes(), &message].concat()
    };
    messages.into_iter().flat_map(step).collect()
}

const RULES: Rules = Rules { nodes: 4, team_min: 2, batch_max: 100, announced_max: 4 };

/// Nodes announce rounds. The sender uses a round once, and only if all nodes of its team announce
/// the same.
pub(crate) fn announcements(data: &[u8]) {
    let mut announced = Announced::default();
    let mut now: BTreeMap<u32, Vec<OpenRound>> = BTreeMap::new();
    let mut used = BTreeSet::new();
    let all: BTreeSet<u32> = (0..RULES.nodes).collect();
    for (node, message) in Messages(data) {
        let node = u32::from(node) % RULES.nodes;
        let Ok(OpenRounds { rounds }) = OpenRounds::decode(message) else { continue };
        announced.replace(&RULES, node, rounds.clone());
        now.insert(node, rounds);
        assert!(announced.status().announced <= (RULES.nodes as usize) * RULES.announced_max);
        while let Some(round) = announced.take(&all) {
            assert!(round.team.len() >= RULES.team_min);
            assert!(round.room <= round.batch && (1..=round.batch).contains(&round.share));
            for member in &round.team {
                let is_same = |open: &OpenRound| {
                    open.round == round.round && open.team == round.team && open.batch == round.batch
                };
                assert!(now[member].iter().any(is_same), "node {member} announces round {round:?}");
            }
            assert!(used.insert((round.round, round.team)), "each round is used once");
        }
    }
}

/// Announcements on which three nodes agree.
pub(crate) fn announcements_seeds() -> Vec<Vec<u8>> {
    let open =
        |round| OpenRound { round, team: vec![2, 0, 1], room: 10, batch: 10, share: 3, senders_wanted: 2 };
    let rounds = OpenRounds { rounds: vec![open(7), open(300)] }.encode_to_vec();
    vec![script((0..3).map(|node| (node, rounds.clone())))]
}

const GROUP: Group = Group::Model;
const TEAM: usize = 2;
const BATCH: u32 = 6;
const SENDER_SHARE: usize = 3;

/// The bit of a message's first byte that makes it a withdrawal by the sender of the other bits.
const WITHDRAWS: u8 = 0x80;

/// Senders submit payloads for the rounds 7 and 8, and withdraw them. Accepted payloads and room are the
/// batch, and a sender has its share at most.
pub(crate) fn submissions(data: &[u8]) {
    let mut options = GatewayOptions::new(([127, 0, 0, 1], 0).into());
    (options.senders_min, options.sender_share_percent) = (1, 50);
    let (announce, rounds) = watch::channel(OpenRounds::default());
    let mut board = Board::new(0, options, GROUP, announce, Tally::default());
    for round in [7, 8] {
        let plan = Plan {
            round,
            team: (0..TEAM as u32).collect(),
            incarnations: Vec::new(),
            batch: BATCH,
            precomputation_slots: 1,
            realtime_slots: 1,
            transfer: Transfer::Streamed,
            shape: Config::default().result_shape(),
        };
        board.open(Arc::new(plan));
    }
    let start = Instant::now();
    let mut accepted: BTreeMap<(u64, SenderId), usize> = BTreeMap::new();
    for (who, message) in Messages(data) {
        if who & WITHDRAWS != 0 {
            let Ok(WithdrawRequest { round }) = WithdrawRequest::decode(message) else { continue };
            let sender = SenderId([who & !WITHDRAWS; 32]);
            if let Ok(count) = board.withdraw(round, sender) {
                assert_eq!(accepted.remove(&(round, sender)).unwrap_or_default(), count as usize);
            }
            continue;
        }
        let Ok(SubmitRequest { round, slots }) = SubmitRequest::decode(message) else { continue };
        let slots: Vec<Sealed> = slots
            .into_iter()
            .map(|SealedSlot { elements, credentials }| Sealed::from_parts(elements, credentials))
            .collect();
        // The gateway accepts no payload without the name of its sender.
        let Some(sender) = slots.first().and_then(Sealed::sender) else { continue };
        if !slots.iter().all(|slot| slot.sender() == Some(sender)) {
            continue;
        }
        let fit = slots.iter().all(|slot| slot.fits(GROUP, TEAM));
        let count = slots.len();
        if let Ok(room) = board.submit(round, sender, slots, start) {
            assert!(fit);
            let own = accepted.entry((round, sender)).or_default();
            *own += count;
            assert!(*own <= SENDER_SHARE, "{own} payloads of a share of {SENDER_SHARE}");
            let all: usize = accepted
                .range((round, SenderId([0; 32]))..=(round, SenderId([255; 32])))
                .map(|(_, count)| *count)
                .sum();
            assert_eq!(all + room as usize, BATCH as usize);
            let rounds = rounds.borrow();
            let open = rounds.rounds.iter().find(|open| open.round == round);
            assert_eq!(open.map(|open| open.room), Some(room));
        }
    }
}

/// Payloads of two senders for both rounds, of which one is withdrawn.
pub(crate) fn submissions_seeds() -> Vec<Vec<u8>> {
    let slot = |sender: u8| {
        let (elements, mut credentials) = Sealed::void(GROUP, TEAM).into_parts();
        // The name is behind the salt.
        credentials[32..64].fill(sender);
        SealedSlot { elements, credentials }
    };
    let request = |round, sender| SubmitRequest { round, slots: vec![slot(sender); 2] }.encode_to_vec();
    let withdraw = (WITHDRAWS | 1, WithdrawRequest { round: 7 }.encode_to_vec());
    vec![script([(0, request(7, 1)), (0, request(7, 2)), withdraw, (0, request(8, 1)), (0, request(7, 1))])]
}
