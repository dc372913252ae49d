//! Networks of 20 to 200 nodes in the simulator: what must hold for all of them together, whatever the seed.

mod attacks;
mod delivery;
mod faults;
mod harness;
mod redundancy;
