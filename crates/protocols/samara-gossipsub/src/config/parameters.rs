//! The parameters of GossipSub in a configuration file: a preset and overrides of its values.

use std::time::Duration;

use samara_engine::outbox::{Dispatch, Overflow, Policies, ScheduleSpec};
use samara_engine::units::{Size, Span};
use samara_engine::{PeerId, parameters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Announce, Answers, Authenticity, Config, MeshParams, MeshRules, Pull, Spread, Withdraw};
use crate::message_id::MessageIdFn;
use crate::partial::{Asking, FormatHook, PartialConfig};

parameters! {
    /// The parameters of GossipSub: a preset and overrides of its values.
    Parameters for Config {
        /// The preset, which provides every value that is not set below.
        preset: Preset,
        /// The protocol version that all nodes speak. Real nodes offer all versions that they support,
        /// or only those up to 1.0 or 1.1.
        version: Version,
        /// The policies named by schedules of kind `custom`. The program that runs the scenario sets
        /// them; a file cannot.
        #[serde(skip)]
        policies: Policies,
    } and {
        /// D: the target size of a mesh. The other sizes that are not set below move with it, in the
        /// ratios of the preset.
        degree: usize => mesh.d;
        /// D_low: below this size, peers are grafted.
        degree_low: usize => mesh.d_low;
        /// D_high: at or above this size, peers are pruned.
        degree_high: usize => mesh.d_high;
        /// D_lazy: minimum number of peers outside the mesh that receive gossip.
        degree_lazy: usize => mesh.d_lazy;
        /// D_score: number of best-scored peers kept when pruning.
        degree_score: usize => mesh.d_score;
        /// D_out: number of peers dialled by the node that a mesh keeps. If it is not set, it also stays
        /// below D_low and half of D.
        degree_out: usize => mesh.d_out;
        /// Time between two heartbeats.
        heartbeat: Span => heartbeat_interval via Span::duration;
        /// Time over which the first heartbeats of nodes are spread; one interval by default.
        heartbeat_spread: Span => heartbeat_spread via |spread| Some(spread.duration());
        /// Whether first heartbeats come at random within `heartbeat_spread`, or in the order of the
        /// nodes' numbers at equal distances, as if the nodes started one after another.
        heartbeat_order: HeartbeatOrder;
        /// Number of heartbeats for which a message is kept.
        history_length: usize => history_length;
        /// Number of heartbeats for which a message is announced in gossip. If it is not set, at most
        /// `history_length`.
        history_gossip: usize => history_gossip;
        /// Minimum share of the peers outside the mesh that receive gossip.
        gossip_factor: f64 => mesh.gossip_factor;
        /// Whether a node gossips every message to the peers that its mesh rejects.
        gossip_to_pruned: bool => gossip_to_pruned;
        /// Whether the messages that answer an IWANT leave in one frame, which takes one place in a queue
        /// and is dropped as a whole, or in a frame each. With `withdraw`, the default is a frame each,
        /// since a frame of several messages cannot be withdrawn.
        answers: AnswersKind;
        /// Whether own messages go to all known subscribers instead of the mesh.
        flood_publish: bool => flood_publish;
        /// Whether nodes send IDONTWANT.
        idontwant: bool => idontwant.send;
        /// Whether nodes also send IDONTWANT for their own messages.
        idontwant_on_publish: bool => idontwant.on_publish;
        /// Number of heartbeats after which a received IDONTWANT is forgotten.
        idontwant_ttl: u32 => idontwant.ttl_heartbeats via u64::from;
        /// Whether a received IDONTWANT is also remembered until the message arrives, for at most as long as
        /// ids are known. By default only with `dispatch = "node"`: other implementations forget it.
        idontwant_until_arrival: bool;
        /// Whether a node withdraws owed copies that have not left when the peer sends IDONTWANT or
        /// turns out to have the message.
        withdraw: bool => withdraw via |withdraw| if withdraw { Withdraw::ALWAYS } else { Withdraw::NEVER };
        /// Whether each link drains its own queue, or one order covers all links.
        dispatch: Dispatch => sending.dispatch;
        /// Maximum number of copies queued for a peer in each lane.
        queue: usize;
        /// The treatment of copies that do not fit into a full queue.
        overflow: Overflow;
        /// Order of the copies of published messages.
        schedule_publish: ScheduleSpec;
        /// Order of the copies of forwarded messages.
        schedule_forward: ScheduleSpec;
        /// Maximum payload of a message. Frames are at most 1 KiB longer.
        message_max: Size;
        /// How nodes exchange parts of messages, if the workload has parts (`columns.cells`).
        parts: PartsParameters;
        /// How messages spread if a node does not push every message to its whole mesh.
        spread: SpreadParameters;
        /// Maximum number of announcements (IHAVE) of a peer that a node reads between two heartbeats.
        ihave_messages: u32 => gossip.ihave_messages_max;
    }
}

parameters! {
    /// How messages spread if a node does not push every message to its whole mesh. The defaults spread
    /// pieces of a payload fast, with `dispatch = "node"`.
    SpreadParameters for Spread {
        /// The announcers that a node asks for a message. Default: one at a time.
        ask: AskedAnnouncers,
    } and {
        /// Number of mesh peers to which a node pushes a message. It announces the message to others.
        /// Default: 2.
        push_copies: usize => push_copies;
        /// Whether peers that have the message, by their IDONTWANT, count among `push_copies`: those of
        /// the mesh, or all with `announce_nearest`. Default: true.
        count_holders: bool => count_holders;
        /// Whether the publisher pushes to any subscriber, the one with the fewest copies of the batch
        /// first, instead of to its mesh. It then announces nothing before the second heartbeat after a
        /// publication. Default: true.
        publish_to_all: bool => publish_to_all;
        /// Number of subscribers, those with the shortest round trips, to which a node announces a message
        /// that they do not get; 0 announces it to the mesh. Default: 8.
        announce_nearest: usize => announce via |count| if count == 0 { Announce::Mesh } else { Announce::Nearest(count) };
        /// Time for which announcements to a peer wait for others; with 0, each leaves in a frame of its
        /// own. Default: "1 ms".
        announce_delay: Span => announce_delay via Span::duration;
        /// How it asks them one at a time.
        pull: PullParameters;
    }
}

/// The announcers that a node asks for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AskedAnnouncers {
    /// One at a time, and another one after a while.
    #[default]
    One,
    /// Everyone, until the message arrives (specification v1.0).
    All,
}

parameters! {
    /// One request for a message at a time.
    PullParameters for Pull {
    } and {
        /// Time after a request until another announcer may be asked. Default: "150 ms".
        retry: Span => retry via Span::duration;
        /// Whether the round trip of the link is added to this time. Default: true.
        add_round_trip: bool => add_round_trip;
        /// Number of announcers that are remembered for a message. With 0, only later announcements cause
        /// another request. Default: 16.
        offers: usize => offers_max;
        /// Time after a request by which the message must have arrived from any peer; otherwise the asked
        /// peer is parked. Default: "400 ms".
        promise: Span => promise via Span::duration;
        /// Time for which a peer is parked: it is asked only for what nobody else offers. 0 parks nobody.
        /// Default: "30 s".
        park_for: Span => park_for via Span::duration;
        /// With at most so many pieces of a payload missing, `hedge_copies` announcers are asked at once.
        /// Default: 0.
        hedge_missing: u32 => hedge_missing;
        /// Number of announcers asked then. Default: 1.
        hedge_copies: usize => hedge_copies;
    }
}

impl SpreadParameters {
    fn build(&self) -> Spread {
        let mut spread = Spread::default();
        self.set(&mut spread);
        spread.pull = match self.ask {
            AskedAnnouncers::One => Some(self.pull.clone().unwrap_or_default().build()),
            AskedAnnouncers::All => None,
        };
        spread
    }
}

impl PullParameters {
    fn build(&self) -> Pull {
        let mut pull = Pull::default();
        self.set(&mut pull);
        pull
    }
}

parameters! {
    /// How nodes exchange parts of messages.
    PartsParameters for PartialConfig {
        /// The peers that a node asks for a part that it lacks. It provides every value that is not set
        /// below.
        asking: AskingKind,
    } and {
        /// Number of mesh peers to which a publisher sends each part that they cannot have, without being
        /// asked.
        push_copies: usize => push_copies;
        /// Number of mesh peers that shall have a part that its publisher has pushed to a node; those that lack
        /// it get it unasked.
        relay_copies: usize => relay_copies;
        /// Number of peers to which a node sends a header before they ask.
        header_copies: usize => header_copies;
        /// Time for which announcements of parts wait for others.
        announce_delay: Span => announce_delay via Span::duration;
        /// Shortest time that an asked peer has for an answer, with `asking = "one"`.
        patience: Span;
        /// Maximum bytes of the parts in one frame.
        frame_bytes: usize => body_bytes_max;
    }
}

/// The peers that a node asks for a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AskingKind {
    /// One peer at a time, with a deadline.
    #[default]
    One,
    /// All mesh peers at once, as deployed clients do; several of them answer.
    Everyone,
}

impl PartsParameters {
    /// Builds the configuration of the engine.
    pub fn build(&self, format: FormatHook) -> PartialConfig {
        let mut config = match self.asking {
            AskingKind::One => PartialConfig::new(format),
            AskingKind::Everyone => PartialConfig::deployed(format),
        };
        self.set(&mut config);
        if let (Asking::One { patience }, Some(span)) = (&mut config.asking, self.patience) {
            *patience = span.duration();
        }
        config
    }
}

/// Sets of parameters in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The recommendations of the specifications.
    Spec,
    /// Ethereum's consensus layer.
    #[default]
    Ethereum,
    /// The defaults of go-libp2p-pubsub.
    GoLibp2pPubsub,
    /// go-libp2p-pubsub 0.1.1 of August 2019; use with `version = "1.0"`.
    #[serde(rename = "go-libp2p-pubsub-0.1")]
    GoLibp2pPubsub01,
    /// go-libp2p-pubsub 0.2.4 of December 2019; use with `version = "1.0"`.
    #[serde(rename = "go-libp2p-pubsub-0.2")]
    GoLibp2pPubsub02,
}

/// The order of the first heartbeats of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeartbeatOrder {
    /// At random.
    #[default]
    Random,
    /// By the numbers of the nodes.
    Number,
}

/// The frames that answer an IWANT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnswersKind {
    /// A frame for each message.
    FramePerMessage,
    /// One frame for all messages, as in go-libp2p-pubsub. A frame is at most as long as `message_max`
    /// or the preset allows: 1 MiB in those of the specification and of go-libp2p-pubsub, without a
    /// limit in those of 2019 (a receiver drops a frame of more than 1 MiB), 11.7 MB in that of Ethereum.
    OneFrame,
}

/// Versions of the GossipSub protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Version {
    /// Meshes and gossip. Every GRAFT is accepted, there are no backoffs, and pruning protects no
    /// peer (`degree_score` and `degree_out` are 0 unless set).
    #[serde(rename = "1.0")]
    V1_0,
    /// Adds scores, backoff and peer exchange.
    #[serde(rename = "1.1")]
    V1_1,
    /// Adds IDONTWANT.
    #[default]
    #[serde(rename = "1.2")]
    V1_2,
    /// Adds extensions: partial messages.
    #[serde(rename = "1.3")]
    V1_3,
}

impl Version {
    /// Returns the protocol's name on the wire.
    pub fn protocol(self) -> &'static str {
        match self {
            Self::V1_0 => "/meshsub/1.0.0",
            Self::V1_1 => "/meshsub/1.1.0",
            Self::V1_2 => "/meshsub/1.2.0",
            Self::V1_3 => "/meshsub/1.3.0",
        }
    }
}

/// Returns the key of [`Parameters`] that sets a field of [`Config`], named as in
/// [`ConfigError`](super::ConfigError).
pub fn key_of(field: &str) -> Option<&'static str> {
    Parameters::key_of(field).or(match field {
        "max_message_bytes" | "max_rpc_bytes" => Some("message_max"),
        "sending.control.copies" => Some("queue"),
        "spread.pull.retry" => Some("spread.pull.retry"),
        "spread.pull.hedge_copies" => Some("spread.pull.hedge_copies"),
        _ => None,
    })
}

/// Returns what a [`ConfigError`](super::ConfigError) expects, with the keys of [`Parameters`] as
/// the names of fields.
pub fn expected_of(error: &super::ConfigError) -> String {
    error.expected.replace("d_low =", "degree_low =").replace("d =", "degree =")
}

impl Parameters {
    /// Builds the configuration of the engine.
    pub fn build(&self, observer: Option<PeerId>) -> Config {
        let mut config = match self.preset {
            Preset::Spec => Config::spec(),
            Preset::Ethereum => Config::ethereum(),
            Preset::GoLibp2pPubsub => Config::go_libp2p_pubsub(),
            Preset::GoLibp2pPubsub01 => Config::go_libp2p_pubsub_0_1(),
            Preset::GoLibp2pPubsub02 => Config::go_libp2p_pubsub_0_2(),
        };
        // Columns are anonymous, with an id from their payload, in every preset: the subject of
        // measurement is dissemination.
        config.authenticity = Authenticity::anonymous();
        config.message_id = MessageIdFn::ethereum(true, None);
        if self.version == Version::V1_0 {
            config.mesh_rules = MeshRules::Open;
            (config.mesh.d_score, config.mesh.d_out) = (0, 0);
        }
        let preset = config.mesh;
        self.set(&mut config);
        self.follow(&preset, &mut config.mesh);
        if self.history_gossip.is_none() {
            config.history_gossip = config.history_gossip.min(config.history_length);
        }
        if let Some(size) = self.message_max {
            config.max_message_bytes = usize::try_from(size.bytes()).unwrap_or(usize::MAX >> 1);
            let before = std::mem::replace(&mut config.max_rpc_bytes, config.max_message_bytes + 1024);
            // No key sets these two.
            config.max_control_bytes = config.max_control_bytes.min(config.max_rpc_bytes);
            config.history_bytes_max = config.history_bytes_max.max(config.max_rpc_bytes);
            if config.answers == (Answers::OneFrame { bytes_max: before }) {
                config.answers = Answers::OneFrame { bytes_max: config.max_rpc_bytes };
            }
        }
        match (self.answers, config.answers) {
            (Some(AnswersKind::FramePerMessage), _) => config.answers = Answers::FramePerMessage,
            (Some(AnswersKind::OneFrame), Answers::FramePerMessage) => {
                config.answers = Answers::OneFrame { bytes_max: config.max_rpc_bytes };
            }
            // A frame of several messages cannot be withdrawn.
            (None, _) if self.withdraw == Some(true) => config.answers = Answers::FramePerMessage,
            _ => {}
        }
        config.spread = self.spread.as_ref().map(SpreadParameters::build);
        let is_node_wide = config.sending.dispatch == Dispatch::Node;
        config.idontwant.until_arrival = self.idontwant_until_arrival.unwrap_or(is_node_wide);
        let sending = &mut config.sending;
        for lane in [&mut sending.control, &mut sending.publish, &mut sending.forward, &mut sending.answer] {
            set(&mut lane.copies, self.queue);
            set(&mut lane.overflow, self.overflow);
        }
        let schedule =
            |spec: &Option<ScheduleSpec>| spec.as_ref().map(|spec| spec.build(observer, &self.policies));
        set(&mut config.schedule_publish, schedule(&self.schedule_publish));
        set(&mut config.schedule_forward, schedule(&self.schedule_forward));
        config
    }

    /// Moves the sizes of a mesh that no key sets with those that keys set.
    fn follow(&self, preset: &MeshParams, mesh: &mut MeshParams) {
        let d = mesh.d;
        // The nearest whole number; `preset.d` is that of a preset, which is not 0.
        let moved = |size: usize| {
            let product = size as u128 * d as u128 + preset.d as u128 / 2;
            usize::try_from(product / preset.d as u128).unwrap_or(usize::MAX)
        };
        let least = |size: usize| moved(size).max(size.min(1));
        let sizes = [
            (&mut mesh.d_low, self.degree_low, least(preset.d_low)),
            (&mut mesh.d_high, self.degree_high, least(preset.d_high)),
            (&mut mesh.d_lazy, self.degree_lazy, least(preset.d_lazy)),
            (&mut mesh.d_score, self.degree_score, moved(preset.d_score)),
            (&mut mesh.d_out, self.degree_out, moved(preset.d_out)),
        ];
        for (size, given, moved) in sizes {
            *size = given.unwrap_or(moved);
        }
        if self.degree_out.is_none() {
            let most = mesh.d_low.min(d.div_ceil(2)).saturating_sub(1);
            mesh.d_out = mesh.d_out.min(most);
        }
    }

    /// Sets the keys whose values follow others, for programs that know the preset only.
    #[must_use]
    pub fn settled(&self) -> Self {
        let Config { mesh, history_gossip, .. } = self.build(None);
        let followers = self.followers();
        let own = |key: &str, given: Option<usize>, value: usize| {
            given.or(followers.iter().any(|(follower, _)| *follower == key).then_some(value))
        };
        Self {
            degree_low: own("degree_low", self.degree_low, mesh.d_low),
            degree_high: own("degree_high", self.degree_high, mesh.d_high),
            degree_lazy: own("degree_lazy", self.degree_lazy, mesh.d_lazy),
            degree_score: own("degree_score", self.degree_score, mesh.d_score),
            degree_out: own("degree_out", self.degree_out, mesh.d_out),
            history_gossip: self.history_gossip.or(self.history_length.map(|_| history_gossip)),
            ..self.clone()
        }
    }

    /// Returns the sizes of a mesh that differ from the preset's because others were set, as pairs of
    /// key and value.
    pub fn followers(&self) -> Vec<(&'static str, usize)> {
        let preset = Self { preset: self.preset, version: self.version, ..Self::default() };
        let [preset, own] = [preset, self.clone()].map(|parameters| parameters.build(None).mesh);
        let sizes = [
            ("degree_low", self.degree_low, preset.d_low, own.d_low),
            ("degree_high", self.degree_high, preset.d_high, own.d_high),
            ("degree_lazy", self.degree_lazy, preset.d_lazy, own.d_lazy),
            ("degree_score", self.degree_score, preset.d_score, own.d_score),
            ("degree_out", self.degree_out, preset.d_out, own.d_out),
        ];
        let moved = sizes.into_iter().filter(|(_, given, preset, own)| given.is_none() && preset != own);
        moved.map(|(key, _, _, own)| (key, own)).collect()
    }

    /// Returns the time from the initial delay to the first heartbeat of one of `nodes` nodes, if it
    /// follows from the node's number.
    pub fn heartbeat_offset(&self, config: &Config, node: u32, nodes: u32) -> Option<Duration> {
        let spread = config.heartbeat_spread.unwrap_or(config.heartbeat_interval);
        let in_order = self.heartbeat_order == Some(HeartbeatOrder::Number);
        in_order.then(|| spread.mul_f64(f64::from(node) / f64::from(nodes.max(1))))
    }
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}
