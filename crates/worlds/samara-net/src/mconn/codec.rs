//! The codec of the transaction pool: the wire format of its frames, and the choice of the protocol
//! for each peer.

use std::sync::Arc;

use bytes::Bytes;
use samara_cat::config::{Config, Protocol};
use samara_cat::wire::{self, CatFrame, Limits};
use samara_engine::Frame;

use super::node::Channel;
use crate::hub::ChannelQueue;

/// Bodies of transactions (`MempoolChannel` in `mempool/mempool.go`).
const BODIES: u8 = 0x30;
/// Announcements and requests (`MempoolStateChannel` in `mempool/cat/reactor.go`).
const STATE: u8 = 0x31;
/// Requests, in celestia-core since 2025 (`MempoolWantsChannel`). Everything else leaves on
/// [`STATE`] there (`MempoolDataChannel`).
const WANTS: u8 = 0x32;
/// Carries no messages: it shows that a node understands `cat/2`. CometBFT ignores unknown
/// channels.
const EXTENDED: u8 = 0x3a;
/// Bytes around a transaction in a message: two tags, and two lengths of up to 5 bytes each.
const AROUND: usize = 12;
/// The longest announcement or request of the old generations, with `From` or a signer, is far
/// shorter. Lists of keys are longer.
const STATE_MAX: usize = 256 << 10;

#[derive(Clone, Debug)]
pub struct CatCodec {
    protocols: Vec<Protocol>,
    channels: Vec<Channel>,
    limits: Limits,
}

impl CatCodec {
    pub fn new(config: &Config) -> Self {
        let bundle = config.bundles.map_or(0, |bundles| bundles.bytes_max + bundles.txs_max * AROUND);
        let body = config.pool.max_tx_bytes.max(bundle) + AROUND;
        let limits = Limits::default();
        let block = limits.block_keys * 32 + AROUND;
        let state = if config.compact_blocks.is_some() { block } else { STATE_MAX };
        let channel = |channel: &samara_cat::config::Channel| Channel {
            id: channel.id,
            priority: channel.priority,
            queue: channel.send_queue,
            lanes: channel.lanes.clone(),
            // Every channel that can carry bodies: since 2025 that includes the channel of
            // announcements.
            longest_message: match channel.id {
                STATE if config.protocols.contains(&Protocol::Sequenced) => body.max(state),
                STATE => state,
                WANTS => STATE_MAX,
                _ => body,
            },
        };
        let mut channels: Vec<Channel> = config.sending.channels.iter().map(channel).collect();
        let has_wants = channels.iter().any(|channel| channel.id == WANTS);
        if config.protocols.contains(&Protocol::Sequenced) && !has_wants {
            // Without lanes: requests to other peers leave where the configuration says.
            channels.push(Channel {
                id: WANTS,
                priority: channels
                    .iter()
                    .find(|channel| channel.id == STATE)
                    .map_or(1, |state| state.priority),
                queue: 1,
                lanes: Vec::new(),
                longest_message: STATE_MAX,
            });
        }
        Self {
            protocols: config.protocols.clone(),
            channels,
            limits: Limits { frame_bytes: body.max(state), ..limits },
        }
    }

    fn understood(offered: &[u8]) -> Vec<Protocol> {
        let has = |channel| offered.contains(&channel);
        let mut protocols = Vec::new();
        if has(BODIES) {
            protocols.push(Protocol::Flood);
        }
        if has(STATE) && has(WANTS) {
            protocols.push(Protocol::Sequenced);
        }
        // The generations since 2025 also have the channels of 2023, and that of 2026 closes
        // connections over announcements without signers.
        if has(BODIES) && has(STATE) && (has(EXTENDED) || !has(WANTS)) {
            protocols.push(Protocol::Cat);
        }
        if has(BODIES) && has(STATE) && has(EXTENDED) {
            protocols.push(Protocol::Extended);
        }
        protocols
    }

    /// Returns the place of the channel on which a frame leaves, given the place of its lane's
    /// channel.
    pub(super) fn route(&self, protocol: &str, place: usize, frame: &CatFrame) -> usize {
        if Protocol::from_name(protocol) != Some(Protocol::Sequenced) {
            return place;
        }
        let id = if matches!(frame, CatFrame::WantTx(_)) { WANTS } else { STATE };
        self.channels.iter().position(|channel| channel.id == id).unwrap_or(place)
    }

    /// The channels of a connection. Lanes belong to channels; with some peers their frames leave on
    /// others.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// The queues of a link, one for each channel.
    pub(super) fn queues(&self) -> Vec<ChannelQueue> {
        let queue =
            |channel: &Channel| ChannelQueue { lanes: channel.lanes.clone(), frames_max: channel.queue };
        self.channels.iter().map(queue).collect()
    }

    /// The channels that a node advertises: more than [`channels`](Self::channels) where a number
    /// stands for something else.
    pub(super) fn offered(&self) -> Vec<u8> {
        let has = |protocol| self.protocols.contains(&protocol);
        let mut offered = vec![BODIES];
        if has(Protocol::Cat) || has(Protocol::Extended) || has(Protocol::Sequenced) {
            offered.push(STATE);
        }
        if self.channels.iter().any(|channel| channel.id == WANTS) {
            offered.push(WANTS);
        }
        if has(Protocol::Extended) {
            offered.push(EXTENDED);
        }
        offered
    }

    /// Chooses the protocol for a peer that offers these channels
    /// ([`PeerInfo::protocol`](samara_engine::PeerInfo::protocol)). Returns `None` if there is none
    /// in common. Both sides choose the same.
    pub fn agree(&self, offered: &[u8]) -> Option<Arc<str>> {
        let own = Self::understood(&self.offered());
        let theirs = Self::understood(offered);
        let common =
            own.into_iter().filter(|protocol| theirs.contains(protocol) && self.protocols.contains(protocol));
        common.max_by_key(|protocol| rank(*protocol)).map(|protocol| protocol.name().into())
    }

    pub(super) fn encode(&self, frame: &CatFrame) -> Bytes {
        let mut message = Vec::with_capacity(frame.encoded_len());
        wire::encode(frame, &mut message);
        message.into()
    }

    /// Parses a frame.
    ///
    /// # Errors
    /// Describes the fault in the bytes. The caller closes the connection.
    pub(super) fn decode(&self, message: &Bytes) -> Result<CatFrame, String> {
        wire::decode(message, &self.limits).map_err(|error| error.to_string())
    }
}

/// The same order at both ends, independent of their configuration.
const fn rank(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Flood => 0,
        Protocol::Sequenced => 1,
        Protocol::Cat => 2,
        Protocol::Extended => 3,
    }
}
