//! The common parts of families of publish-subscribe: `[protocol]` of GossipSub and the baselines,
//! hosts around their engines, and the promises of their runs.
//!
//! | module | content |
//! |---|---|
//! | [`parameters`] | `[protocol]`: keys, checks, configurations of engines |
//! | [`host`] | an engine, the workload around it, and a processor that validates messages |
//! | [`frames`] | the messages in frames, payloads, encodings between processes |
//! | [`brief`] | what programs of others learn of a host |
//! | [`promises`] | what a run promises, and scenarios that look for broken promises |

pub mod brief;
pub mod frames;
pub mod host;
pub mod parameters;
pub mod promises;
