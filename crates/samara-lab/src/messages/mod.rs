//! A stream of messages, each published by a node drawn at random.

pub mod app;
pub mod measure;
pub(crate) mod metrics;
mod report;
pub(crate) mod run;
pub(crate) mod spec;

use samara_gossipsub::config::Parameters;

use crate::family::{
    Family, Files, NO_CHANNELS, NO_TOPICS, NO_UNSENT, NoParameters, PartType, ProtocolKind, boxed,
};
use crate::report::Results;

/// Sends every message to all neighbours.
pub(crate) const FLOODSUB: &str = "floodsub";
/// Sends every message to some random neighbours.
pub(crate) const RANDOMSUB: &str = "randomsub";

/// The family of experiments that the section `[messages]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "messages",
    content: PartType::of::<spec::Messages>(),
    protocols: &[
        ProtocolKind::of::<Parameters>("gossipsub"),
        ProtocolKind::of::<NoParameters>(FLOODSUB),
        ProtocolKind::of::<NoParameters>(RANDOMSUB),
        ProtocolKind::of::<spec::PlumtreeParameters>("plumtree"),
    ],
    metrics: metrics::MessageMetrics::METRICS,
    unused: &[NO_CHANNELS, NO_UNSENT, NO_TOPICS],
    files: Files {
        named: |scenario| {
            let file = scenario.part::<spec::Messages>().file.as_deref();
            file.map(|file| ("messages.file", file)).into_iter().collect()
        },
        resolve: spec::resolve,
        replaced: &[("messages.file", &["messages.rate", "messages.duration", "messages.arrivals"])],
        left_out: &["messages.size"],
    },
    check: |checks, scenario| checks.messages(scenario),
    run: |point, options, watching| run::run(point, options, watching.progress).map(boxed),
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    ..Family::BASE
};
