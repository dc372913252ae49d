//! Networks of 10 to 200 nodes in the simulator: what must hold for all of them together, whatever the seed.

mod flooding;
mod harness;
mod random;
mod tree;
