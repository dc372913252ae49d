//! Configurations of the baselines from the parameters of a scenario.

use samara_baselines::{Common, PlumtreeConfig, PubSubConfig};
use samara_engine::outbox::{Policies, Schedule, ScheduleSpec};
use samara_spec::messages::{FloodParameters, PlumtreeParameters};

/// Returns how a node sends. `report_duplicates` asks for an event for each further copy.
fn common(default: Common, sending: &FloodParameters, report_duplicates: bool) -> Common {
    let build = |spec: &Option<ScheduleSpec>| {
        spec.as_ref().map_or(Schedule::default(), |spec| spec.build(None, &Policies::default()))
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
