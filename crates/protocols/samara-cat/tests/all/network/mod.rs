//! Networks of engines in virtual time.

mod adversaries;
mod crossover;
mod figures;
mod mixed;
mod properties;
mod work;
