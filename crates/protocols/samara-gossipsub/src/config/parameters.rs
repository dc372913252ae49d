//! The section of a file with the parameters of GossipSub: a preset, and the keys that differ from it.

use std::time::Duration;

use samara_engine::outbox::{Dispatch, Overflow, Policies, Schedule, ScheduleSpec};
use samara_engine::settings::{Form, Given, Overlay, Section, Settings};
use samara_engine::units::{Size, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Answers, Authenticity, Config, HeartbeatOrder, LaneCapacity, MeshParams, MeshRules, Preset,
    SendingConfig, Version, Withdraw,
};
use crate::message_id::MessageIdFn;
use crate::partial::{Asking, Exchange};

/// The parameters of GossipSub in a file.
pub type Parameters = Overlay<FileConfig>;

samara_engine::section! {
    /// The parameters of GossipSub: a preset and overrides of its values.
    #[derive(Clone, Debug)]
    pub struct FileConfig {
        /// The preset, which provides every value that is not set below.
        pub preset: Preset => preset,
        /// The configuration of the engine, apart from the schedules.
        pub config: Config => ..,
        /// Whether the messages that answer an IWANT leave in one frame, which takes one place in a queue
        /// and is dropped as a whole, or in a frame each. With `withdraw`, the default is a frame each,
        /// since a frame of several messages cannot be withdrawn.
        pub answers: Option<AnswersKind> => answers,
        /// Maximum number of copies queued for a peer in each lane.
        #[range(1..)]
        pub queue: Option<usize> => queue,
        /// What happens to copies that do not fit into a full queue.
        pub overflow: Option<Overflow> => overflow,
        /// With `heartbeat_order = "offsets"`: the times of the first heartbeats after the initial delay,
        /// by number of the node, and from the start again if there are more nodes.
        pub heartbeat_offsets: Option<Vec<Span>> => heartbeat_offsets,
        /// Order of the copies of published messages.
        pub schedule_publish: Option<ScheduleSpec> => schedule_publish,
        /// Order of the copies of forwarded messages.
        pub schedule_forward: Option<ScheduleSpec> => schedule_forward,
        /// Maximum payload of a message. Frames are at most 1 KiB longer.
        #[range(Size::from_bytes(1)..)]
        pub message_max: Option<Size> => message_max,
        /// How nodes exchange parts of messages, if the workload has parts (`columns.cells`).
        pub parts: Exchange => [parts],
        /// The policies named by schedules of kind `custom`. The program that runs the scenario sets
        /// them; a file cannot.
        pub policies: Policies,
    }
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

impl Form<Withdraw> for bool {
    fn put(self, withdraw: &mut Withdraw) {
        *withdraw = if self { Withdraw::ALWAYS } else { Withdraw::NEVER };
    }

    fn of(withdraw: &Withdraw) -> Self {
        *withdraw == Withdraw::ALWAYS
    }

    fn states(withdraw: &Withdraw) -> bool {
        [Withdraw::ALWAYS, Withdraw::NEVER].contains(withdraw)
    }
}

/// Returns the key of [`Parameters`] that sets a field of [`Config`], named as in
/// [`ConfigError`](super::ConfigError).
pub fn key_of(field: &str) -> Option<String> {
    Config::key_of(field).or(match field {
        "max_message_bytes" | "max_rpc_bytes" => Some("message_max".to_owned()),
        "sending.control.copies" => Some("queue".to_owned()),
        _ => None,
    })
}

/// Returns what a [`ConfigError`](super::ConfigError) expects, with the keys of [`Parameters`] as
/// the names of fields.
pub fn expected_of(error: &super::ConfigError) -> String {
    error.expected.replace("d_low =", "degree_low =").replace("d =", "degree =")
}

/// Returns a size of a mesh, to be set.
type MeshSize = fn(&mut MeshParams) -> &mut usize;

/// The sizes of a mesh that follow others, and their fields.
const FOLLOWERS: [(&str, MeshSize); 5] = [
    ("degree_low", |mesh| &mut mesh.d_low),
    ("degree_high", |mesh| &mut mesh.d_high),
    ("degree_lazy", |mesh| &mut mesh.d_lazy),
    ("degree_score", |mesh| &mut mesh.d_score),
    ("degree_out", |mesh| &mut mesh.d_out),
];

impl From<Preset> for FileConfig {
    fn from(preset: Preset) -> Self {
        // Columns are anonymous, with an id from their payload, in every preset: the subject of
        // measurement is dissemination.
        let config = Config {
            authenticity: Authenticity::anonymous(),
            message_id: MessageIdFn::ethereum(true, None),
            ..preset.config()
        };
        Self {
            preset,
            config,
            answers: None,
            queue: None,
            overflow: None,
            heartbeat_offsets: None,
            schedule_publish: None,
            schedule_forward: None,
            message_max: None,
            parts: Exchange::one(),
            policies: Policies::default(),
        }
    }
}

impl Default for FileConfig {
    fn default() -> Self {
        Preset::default().into()
    }
}

impl Section for FileConfig {
    const WRITTEN: &'static [&'static str] = &["preset", "version"];

    fn apply_preset(&mut self) {
        *self = self.preset.into();
    }

    fn settle(&mut self, given: &Given) {
        let config = &mut self.config;
        if config.version == Version::V1_0 {
            config.mesh_rules = MeshRules::Open;
        }
        follow(&mut config.mesh, &preset_mesh(self.preset, config.version), given);
        if !given.has("history_gossip") {
            config.history_gossip = config.history_gossip.min(config.history_length);
        }
        if !given.has("idontwant_until_arrival") {
            config.idontwant.until_arrival = config.sending.dispatch == Dispatch::Node;
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
            (None, _) if given.has("withdraw") && config.withdraw == Withdraw::ALWAYS => {
                config.answers = Answers::FramePerMessage;
            }
            _ => {}
        }
        let sending = &mut config.sending;
        for lane in [&mut sending.control, &mut sending.publish, &mut sending.forward, &mut sending.answer] {
            lane.copies = self.queue.unwrap_or(lane.copies);
            lane.overflow = self.overflow.unwrap_or(lane.overflow);
        }
        if self.parts.asking == Asking::Everyone {
            let (own, everyone) = (&mut self.parts, Exchange::everyone());
            let is_given = |key: &str| given.has(&format!("parts.{key}"));
            if !is_given("relay_copies") {
                own.relay_copies = everyone.relay_copies;
            }
            if !is_given("header_copies") {
                own.header_copies = everyone.header_copies;
            }
            if !is_given("announce_delay") {
                own.announce_delay = everyone.announce_delay;
            }
        }
    }

    fn fill(&mut self) {
        let config = &self.config;
        self.answers = Some(match config.answers {
            Answers::FramePerMessage => AnswersKind::FramePerMessage,
            Answers::OneFrame { .. } => AnswersKind::OneFrame,
        });
        // One key sets all lanes. A preset may have a different value for each.
        let SendingConfig { control, publish, forward, answer, .. } = config.sending;
        let is_same = |of: fn(&LaneCapacity) -> (usize, Overflow)| {
            [publish, forward, answer].iter().all(|lane| of(lane) == of(&control))
        };
        if is_same(|lane| (lane.copies, Overflow::default())) && control.copies < usize::MAX {
            self.queue = Some(control.copies);
        }
        if is_same(|lane| (0, lane.overflow)) {
            self.overflow = Some(control.overflow);
        }
    }
}

/// Returns the sizes of a mesh of a preset. Version 1.0 protects no peer.
fn preset_mesh(preset: Preset, version: Version) -> MeshParams {
    let mesh = preset.config().mesh;
    if version == Version::V1_0 { MeshParams { d_score: 0, d_out: 0, ..mesh } } else { mesh }
}

/// Moves the sizes of a mesh that no key sets with those that keys set.
fn follow(mesh: &mut MeshParams, preset: &MeshParams, given: &Given) {
    let d = mesh.d;
    for (key, of) in FOLLOWERS.into_iter().filter(|(key, _)| !given.has(key)) {
        let size = *of(&mut preset.clone());
        // The nearest whole number; `preset.d` is that of a preset, which is not 0.
        let product = size as u128 * d as u128 + preset.d as u128 / 2;
        let moved = usize::try_from(product / preset.d as u128).unwrap_or(usize::MAX);
        let least = if ["degree_score", "degree_out"].contains(&key) { 0 } else { size.min(1) };
        *of(mesh) = moved.max(least);
    }
    if !given.has("degree_out") {
        let most = mesh.d_low.min(d.div_ceil(2)).saturating_sub(1);
        mesh.d_out = mesh.d_out.min(most);
    }
}

impl FileConfig {
    /// Returns the configuration of the engine.
    pub fn build(&self) -> Config {
        let schedule = |spec: &Option<ScheduleSpec>, preset: &Schedule| {
            spec.as_ref().map_or_else(|| preset.clone(), |spec| spec.build(&self.policies))
        };
        Config {
            schedule_publish: schedule(&self.schedule_publish, &self.config.schedule_publish),
            schedule_forward: schedule(&self.schedule_forward, &self.config.schedule_forward),
            ..self.config.clone()
        }
    }

    /// Returns the time from the initial delay to the first heartbeat of one of `nodes` nodes, if it
    /// follows from the node's number.
    pub fn heartbeat_offset(&self, node: u32, nodes: u32) -> Option<Duration> {
        let config = &self.config;
        match config.heartbeat_order {
            HeartbeatOrder::Random => None,
            HeartbeatOrder::Number => {
                let spread = config.heartbeat_spread.unwrap_or(config.heartbeat_interval);
                Some(spread.mul_f64(f64::from(node) / f64::from(nodes.max(1))))
            }
            HeartbeatOrder::Offsets => {
                let offsets = self.heartbeat_offsets.as_deref().unwrap_or_default();
                Some(offsets.get(node as usize % offsets.len().max(1))?.duration())
            }
        }
    }
}

/// Returns parameters that give the keys whose values follow others, for programs that know the
/// preset only.
#[must_use]
pub fn settled(parameters: &Parameters) -> Parameters {
    let mut settled = parameters.clone();
    settled.give(followers(parameters).into_iter().map(|(key, _)| key));
    if parameters.given().has("history_length") {
        settled.give(["history_gossip"]);
    }
    settled
}

/// Returns the sizes of a mesh that differ from the preset's because others were set, as pairs of
/// key and value.
pub fn followers(parameters: &Parameters) -> Vec<(&'static str, usize)> {
    let mut preset = preset_mesh(parameters.preset, parameters.config.version);
    let mut own = parameters.config.mesh;
    let sizes = FOLLOWERS.into_iter().filter(|(key, _)| !parameters.given().has(key));
    let sizes = sizes.map(|(key, of)| (key, *of(&mut preset), *of(&mut own)));
    sizes.filter(|(_, preset, own)| preset != own).map(|(key, _, own)| (key, own)).collect()
}
