//! Networks of 20 to 200 nodes in the simulator: properties of the whole network for any seed.

mod attacks;
mod delivery;
mod faults;
mod harness;
mod redundancy;
