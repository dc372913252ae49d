//! GossipSub as a state machine without input and output.

pub mod rpc;
pub mod wire;
