//! Tests of each engine with peers that the test plays, of networks in the simulator, and of the
//! wire format.

mod collisions;
mod common;
mod floodsub;
mod forest;
mod network;
mod plumtree;
mod randomsub;
mod wire;
