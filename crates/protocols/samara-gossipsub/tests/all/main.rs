//! Tests of the engine by topic, with peers simulated by the test; of networks in the simulator;
//! and of the wire format.

mod batch;
mod collisions;
mod common;
mod config;
mod direct_peers;
mod extensions;
mod fanout;
mod flood_publish;
mod floodsub;
mod gossip;
mod graft_prune;
mod hooks;
mod idontwant;
mod limits;
mod network;
mod opportunistic;
mod partial;
mod protocol_versions;
mod px;
mod score_thresholds;
mod spread;
mod streams;
mod traces;
mod validation;
mod wire;
