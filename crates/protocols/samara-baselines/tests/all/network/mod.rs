//! Networks of 10 to 200 nodes in the simulator: properties of the whole network that hold for
//! every seed.

mod flooding;
mod harness;
mod random;
mod tree;
