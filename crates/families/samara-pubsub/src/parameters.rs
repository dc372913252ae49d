//! `[protocol]` of publish-subscribe: GossipSub and the baselines, their checks, and the
//! configurations of engines.

use samara_baselines::{Common, PlumtreeConfig, PubSubConfig};
use samara_engine::outbox::{Dispatch, PeerOrderKind, Policies, Schedule, ScheduleSpec, SourceKind};
use samara_engine::settings::Form;
use samara_engine::units::Span;
use samara_gossipsub::config::{FileConfig, HeartbeatOrder, Parameters, expected_of, followers, key_of};
use samara_scenario::family::{Followers, ProtocolKind};
use samara_scenario::{Checks, Scenario, TransportKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Protocol that sends every message to all neighbours.
pub const FLOODSUB: &str = "floodsub";
/// Protocol that sends every message along a tree, and announces it on all other links.
pub const PLUMTREE: &str = "plumtree";
/// Protocol that sends every message to some random neighbours.
pub const RANDOMSUB: &str = "randomsub";
/// GossipSub, for the list of a family's protocols.
pub const GOSSIPSUB: ProtocolKind = ProtocolKind {
    set_policies: |scenario, policies| {
        if let Some(parameters) = scenario.find_mut::<Parameters>() {
            parameters.policies = policies.clone();
        }
    },
    followers: |scenario| {
        let parameters = scenario.find::<Parameters>()?;
        let mesh = parameters.config.mesh;
        let (key, size) =
            if parameters.given().has("degree") { ("degree", mesh.d) } else { ("degree_low", mesh.d_low) };
        let moves = format!("protocol.{key} = {size} moves");
        let values = followers(parameters).into_iter().map(|(key, value)| (key, value.to_string()));
        Some(Followers {
            cause: format!("{moves} the sizes that are not set, in the ratios of the preset"),
            values: values.collect(),
        })
    },
    heartbeat: |scenario| {
        let parameters = scenario.find::<Parameters>().filter(|own| own.given().has("heartbeat"))?;
        Some(Span::of(&parameters.config.heartbeat_interval))
    },
    ..ProtocolKind::of_settings::<FileConfig>("gossipsub")
};

/// FloodSub, for the list of a family's protocols.
pub const FLOODSUB_KIND: ProtocolKind = ProtocolKind {
    in_effect: |scenario| {
        let common = pubsub(scenario.find()?, false).common;
        let sending = scenario.find::<FloodParameters>()?.filled(&common);
        toml::Table::try_from(sending).ok()
    },
    ..ProtocolKind::of::<FloodParameters>(FLOODSUB)
};
/// Plumtree, for the list of a family's protocols.
pub const PLUMTREE_KIND: ProtocolKind = ProtocolKind {
    in_effect: |scenario| {
        let config = plumtree(scenario.find()?, false);
        let filled = PlumtreeParameters {
            optimization_threshold: Some(config.optimization_threshold.unwrap_or(0)),
            graft_timeout: Some(Span::of(&config.graft_timeout)),
            ..scenario.find::<PlumtreeParameters>()?.filled(&config.common)
        };
        toml::Table::try_from(filled).ok()
    },
    ..ProtocolKind::of::<PlumtreeParameters>(PLUMTREE)
};

/// Declares the parameters of a baseline: its own keys, and those of how its nodes send. Flattened
/// tables would accept unknown keys.
macro_rules! baseline {
    ($(#[$doc:meta])* $Name:ident { $($own:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $Name {
            $($own)*
            /// Order of the copies of published messages.
            pub schedule_publish: Option<ScheduleSpec>,
            /// Order of the copies of forwarded messages.
            pub schedule_forward: Option<ScheduleSpec>,
            /// Whether a node withdraws owed copies when the peer turns out to have the message.
            /// Default: true.
            pub withdraw: Option<bool>,
            /// Whether each link drains its own queue, or one order covers all links.
            pub dispatch: Option<Dispatch>,
        }

        impl $Name {
            /// Returns the parameters with the values in effect in place of absent ones.
            fn filled(&self, common: &Common) -> Self {
                let (withdraw, dispatch) = (Some(common.withdraw), Some(common.dispatch));
                Self { withdraw, dispatch, ..self.clone() }
            }

            /// Returns the parameters that all baselines have.
            pub fn sending(&self) -> FloodParameters {
                FloodParameters {
                    schedule_publish: self.schedule_publish.clone(),
                    schedule_forward: self.schedule_forward.clone(),
                    withdraw: self.withdraw,
                    dispatch: self.dispatch,
                }
            }
        }
    };
}

baseline! {
    /// How nodes of FloodSub send.
    FloodParameters {}
}

baseline! {
    /// The tree of Plumtree, and how its nodes send.
    PlumtreeParameters {
        /// Number of hops by which a lazy path must be shorter to replace an eager one. 0 disables
        /// this.
        pub optimization_threshold: Option<u32>,
        /// Time that a node waits for an announced message before it requests it.
        pub graft_timeout: Option<Span>,
    }
}

/// Returns how nodes of FloodSub or Plumtree send; `None` for other protocols.
pub fn baseline_sending(scenario: &Scenario) -> Option<FloodParameters> {
    let plumtree = || scenario.find::<PlumtreeParameters>().map(PlumtreeParameters::sending);
    scenario.find::<FloodParameters>().map(FloodParameters::sending).or_else(plumtree)
}

/// Returns how a node sends. `report_duplicates` asks for an event for each further copy.
fn common(default: Common, sending: &FloodParameters, report_duplicates: bool) -> Common {
    let build = |spec: &Option<ScheduleSpec>| {
        spec.as_ref().map_or(Schedule::default(), |spec| spec.build(&Policies::default()))
    };
    Common {
        withdraw: sending.withdraw.unwrap_or(default.withdraw),
        dispatch: sending.dispatch.unwrap_or(default.dispatch),
        schedule_own: build(&sending.schedule_publish),
        schedule_forwarded: build(&sending.schedule_forward),
        report_duplicates,
        ..default
    }
}

/// Returns the configuration of FloodSub. `report_duplicates` asks for an event for each further copy.
pub fn pubsub(sending: &FloodParameters, report_duplicates: bool) -> PubSubConfig {
    let config = PubSubConfig::default();
    PubSubConfig { common: common(config.common, sending, report_duplicates), ..config }
}

/// Returns the configuration of Plumtree, as [`pubsub`].
pub fn plumtree(parameters: &PlumtreeParameters, report_duplicates: bool) -> PlumtreeConfig {
    let mut config = PlumtreeConfig::default();
    if let Some(hops) = parameters.optimization_threshold {
        config.optimization_threshold = (hops > 0).then_some(hops);
    }
    if let Some(timeout) = parameters.graft_timeout {
        config.graft_timeout = timeout.duration();
    }
    PlumtreeConfig { common: common(config.common, &parameters.sending(), report_duplicates), ..config }
}

/// Checks `[protocol]` of GossipSub and of the baselines. `has_observer`: a node reports arrivals to the
/// publisher.
pub fn check(checks: &mut Checks<'_>, scenario: &Scenario, has_observer: bool) {
    if let Some(baseline) = baseline_sending(scenario) {
        let schedules = [&baseline.schedule_publish, &baseline.schedule_forward];
        check_schedules(checks, scenario, [has_observer, false], schedules, &Policies::default());
    }
    let Some(gossipsub) = scenario.find::<Parameters>() else { return };
    let schedules = [&gossipsub.schedule_publish, &gossipsub.schedule_forward];
    let config = gossipsub.build();
    let has = [has_observer, config.peer_score.is_some()];
    check_schedules(checks, scenario, has, schedules, &gossipsub.policies);
    checks.period("protocol.heartbeat", Span::of(&config.heartbeat_interval));
    let offsets = gossipsub.heartbeat_offsets.as_deref();
    let uses_offsets = config.heartbeat_order == HeartbeatOrder::Offsets;
    if uses_offsets && offsets.is_none_or(<[Span]>::is_empty) {
        let message =
            "is \"offsets\", which needs a time for at least one node in protocol.heartbeat_offsets";
        checks.wrong("protocol.heartbeat_order", message);
    } else if uses_offsets && gossipsub.given().has("heartbeat_spread") {
        let message = "has no effect with protocol.heartbeat_order = \"offsets\"; remove one of them";
        checks.wrong("protocol.heartbeat_spread", message);
    } else if offsets.is_some() && !gossipsub.given().has("heartbeat_order") {
        checks.wrong("protocol.heartbeat_offsets", "needs protocol.heartbeat_order = \"offsets\"");
    }
    if scenario.transport.kind.node_limit().is_some() {
        let is_ordered = config.sending.dispatch == Dispatch::Node;
        if !is_ordered || !scenario.network.uplink_queue.is_behind() {
            let message = "needs one order over all links and a queue behind the sockets; set \
                           protocol.dispatch = \"node\" and network.uplink_queue";
            checks.wrong("transport.node_limit", message);
        }
    }
    if let Err(mut error) = config.validate() {
        error.expected = expected_of(&error).into();
        checks.engine(&error, key_of(&error.field).as_deref());
    }
}

fn check_schedules(
    checks: &mut Checks<'_>,
    scenario: &Scenario,
    [has_observer, has_scores]: [bool; 2],
    schedules: [&Option<ScheduleSpec>; 2],
    policies: &Policies,
) {
    let keys = ["protocol.schedule_publish", "protocol.schedule_forward"];
    let is_measured =
        !matches!(scenario.transport.kind, TransportKind::Ideal { .. } | TransportKind::Datagram { .. });
    for (key, spec) in keys.into_iter().zip(schedules) {
        let Some(spec) = spec else { continue };
        match spec {
            ScheduleSpec::Custom { policy } => check_policy(checks, key, policy.as_deref(), policies),
            ScheduleSpec::Feedback { source: Some(SourceKind::Observer), .. } if !has_observer => {
                checks.wrong(key, "source = \"observer\" needs columns.observer = true");
            }
            ScheduleSpec::Feedback { source: Some(SourceKind::Observer), .. } if key == keys[1] => {
                let message = "source = \"observer\" is unknown to nodes that forward: an observer reports to \
                               the publisher; expected \"peers\"";
                checks.wrong(key, message);
            }
            ScheduleSpec::Feedback { source: Some(SourceKind::Observer), cap: Some(_), .. } => {
                checks.wrong(key, "cap belongs to source = \"peers\"; remove it, or set this source");
            }
            _ => {}
        }
        let (ScheduleSpec::Interleaved { peers, .. } | ScheduleSpec::Feedback { peers, .. }) = spec else {
            continue;
        };
        if matches!(peers, Some(PeerOrderKind::WeightedScore)) && !has_scores {
            let message = "weights by scores, which the nodes of this protocol and preset do not keep; \
                           choose another order";
            checks.wrong(key, message);
        }
        let is_weighted =
            matches!(peers, Some(PeerOrderKind::WeightedLatency | PeerOrderKind::WeightedBandwidth));
        if is_weighted && !is_measured {
            let message = "weights by what transport.kind \"ideal\" and \"datagram\" do not measure; choose \
                           another order, or a transport with acknowledgements";
            checks.wrong(key, message);
        }
    }
}

/// Checks that a policy exists in the program, since a scenario cannot contain one.
fn check_policy(checks: &mut Checks<'_>, key: &str, policy: Option<&str>, policies: &Policies) {
    let names: Vec<&str> = policies.names().collect();
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let key = &format!("{key}.policy");
    match policy {
        Some(name) if !names.contains(&name) => {
            let how = "policies are code that runs a scenario: in Python, samara.run(..., policies={\"NAME\": CLASS})";
            checks.wrong(key, format!("is \"{name}\"; known policies: {there}; {how}"));
        }
        None => {
            checks.wrong(
                key,
                format!("is missing; kind = \"custom\" needs the name of a policy; known policies: {there}"),
            );
        }
        Some(_) => {}
    }
}
