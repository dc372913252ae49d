//! The engines one by one, with peers that the test plays; networks in the simulator; and the wire format.

mod collisions;
mod common;
mod floodsub;
mod network;
mod plumtree;
mod randomsub;
mod wire;
