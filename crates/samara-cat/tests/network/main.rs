//! Networks of engines in virtual time.

#[path = "../common/mod.rs"]
mod common;

mod adversaries;
mod crossover;
mod figures;
mod mixed;
mod properties;
mod work;
