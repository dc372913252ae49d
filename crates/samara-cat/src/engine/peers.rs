//! What is known of each peer.

use std::collections::VecDeque;

use samara_engine::{PeerId, PeerIdentity, Time};
use sha2::{Digest, Sha256};

use super::items::ItemId;
use super::record::Record;
use super::response::ResponseTime;
use crate::config::Protocol;
use crate::wire::{CatFrame, PushedBy};

/// The address of a node: 20 bytes. That of a CometBFT node is its identity; others are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address([u8; Self::LEN]);

impl Address {
    const LEN: usize = 20;

    pub(super) fn of(identity: &PeerIdentity) -> Self {
        let bytes = identity.as_bytes();
        if let Ok(address) = bytes.try_into() {
            return Self(address);
        }
        let mut address = [0; Self::LEN];
        address.copy_from_slice(&Sha256::digest(bytes)[..Self::LEN]);
        Self(address)
    }

    /// As a node of CometBFT writes it.
    pub(super) fn hex(&self) -> String {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
    }

    fn parse(hex: &str) -> Option<Self> {
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        let mut address = [0; Self::LEN];
        if !rest.is_empty() || pairs.len() != Self::LEN {
            return None;
        }
        for (byte, pair) in address.iter_mut().zip(pairs) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(Self(address))
    }

    pub(super) fn short(&self) -> PushedBy {
        let (first, _) = self.0.split_at(8);
        PushedBy(first.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A request as its peer's queue has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) item: ItemId,
    pub(super) serial: u32,
}

/// What is known of a peer with a link.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: Address,
    pub(super) protocol: Protocol,
    pub(super) persistent: bool,
    pub(super) height: Option<u64>,
    /// Where it stands among the neighbours: by a hash that both ends of the link compute alike.
    pub(super) rank: u64,

    // ---- requests ----
    pub(super) response: ResponseTime,
    /// Whether it answers.
    pub(super) record: Record,
    /// Requests that wait for an answer.
    pub(super) live: usize,
    /// The same, and those that timed out and are remembered.
    pub(super) asked: usize,
    /// Requests in the order in which they were sent; some may be answered or forgotten already.
    pub(super) requests: VecDeque<Asked>,
    /// The last request that was answered, and when.
    pub(super) answered: Option<(u32, Time)>,
    /// What it has announced, and was not asked for because it has too many requests.
    pub(super) waiting: VecDeque<ItemId>,

    // ---- limits ----
    /// Keys that it is remembered to have.
    pub(super) keys: usize,
    /// Of these, such that are not here.
    pub(super) unknown: usize,
    /// How often it still gets what it has already.
    pub(super) repeats_left: u32,
    /// Transactions of it that the application rejected.
    pub(super) invalid: u32,
    /// Bodies of it that wait for earlier ones.
    pub(super) buffered: usize,

    // ---- sending ----
    /// Bodies that its queue had no room for.
    pub(super) backlog: VecDeque<ItemId>,
    /// Whether a [`Task::Retry`](super::agenda::Task::Retry) is on the agenda.
    pub(super) retrying: bool,
    /// Whether a [`Task::Resync`](super::agenda::Task::Resync) is.
    pub(super) resyncing: bool,

    // ---- a receiver that sleeps ----
    pub(super) asleep: bool,
    pub(super) inbox: VecDeque<CatFrame>,
    /// Bytes of its frames that wait, here or in the queue of all peers.
    pub(super) waiting_bytes: usize,
}

impl Peer {
    pub(super) fn new(address: Address, protocol: Protocol, rank: u64, repeats: u32) -> Self {
        Self {
            address,
            protocol,
            persistent: false,
            height: None,
            rank,
            response: ResponseTime::default(),
            record: Record::default(),
            live: 0,
            asked: 0,
            requests: VecDeque::new(),
            answered: None,
            waiting: VecDeque::new(),
            keys: 0,
            unknown: 0,
            repeats_left: repeats,
            invalid: 0,
            buffered: 0,
            backlog: VecDeque::new(),
            retrying: false,
            resyncing: false,
            asleep: false,
            inbox: VecDeque::new(),
            waiting_bytes: 0,
        }
    }
}

/// Peers by their numbers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    slots: Vec<Option<Box<Peer>>>,
    /// Those with a link, sorted.
    connected: Vec<PeerId>,
    /// The same by rank.
    ranked: Vec<PeerId>,
    /// Counts changes of the set.
    pub(super) version: u64,
}

impl Peers {
    pub(super) fn insert(&mut self, id: PeerId, peer: Peer) {
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, || None);
        }
        self.slots[id.index()] = Some(Box::new(peer));
        self.rebuild();
    }

    pub(super) fn remove(&mut self, id: PeerId) -> Option<Box<Peer>> {
        let peer = self.slots.get_mut(id.index())?.take()?;
        self.rebuild();
        Some(peer)
    }

    fn rebuild(&mut self) {
        self.version += 1;
        let Self { slots, connected, ranked, .. } = self;
        let known =
            |(number, slot): (usize, &Option<Box<Peer>>)| slot.is_some().then_some(PeerId(number as u32));
        *connected = slots.iter().enumerate().filter_map(known).collect();
        ranked.clone_from(connected);
        ranked.sort_by_key(|peer| slots[peer.index()].as_ref().map(|peer| peer.rank));
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.slots.get(id.index())?.as_deref()
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.slots.get_mut(id.index())?.as_deref_mut()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.connected.len()
    }

    /// The peer at this place in the order of their numbers.
    pub(super) fn nth(&self, place: usize) -> Option<PeerId> {
        self.connected.get(place).copied()
    }

    /// The peer at this place in the order of ranks.
    pub(super) fn nth_ranked(&self, place: usize) -> Option<PeerId> {
        self.ranked.get(place).copied()
    }

    /// The peer of this name.
    pub(super) fn named(&self, name: PushedBy) -> Option<PeerId> {
        self.connected
            .iter()
            .copied()
            .find(|peer| self.get(*peer).is_some_and(|peer| peer.address.short() == name))
    }

    /// The peer of this address, as a node of CometBFT writes it.
    pub(super) fn written(&self, hex: &str) -> Option<PeerId> {
        let address = Address::parse(hex)?;
        self.connected
            .iter()
            .copied()
            .find(|peer| self.get(*peer).is_some_and(|peer| peer.address == address))
    }
}

/// The rank of a link: the same for both ends.
pub(super) fn rank(a: &Address, b: &Address) -> u64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    let digest = Sha256::new().chain_update(low.as_bytes()).chain_update(high.as_bytes()).finalize();
    digest.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}
