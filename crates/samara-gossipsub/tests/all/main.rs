//! The engine by topic, with peers that the test plays; networks in the simulator; and the wire format.

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
mod idontwant;
mod limits;
mod network;
mod opportunistic;
mod protocol_versions;
mod px;
mod score_thresholds;
mod traces;
mod validation;
mod wire;
