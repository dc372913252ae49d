//! Tests of the family.

mod transactions;

use samara_family_pool::FAMILY;
use samara_lab::family::set_base;
use samara_lab::results::{Data, Outcome};
use samara_lab::testing;
use samara_scenario::Loaded;

fn loaded(name: &str, set: &[(&str, &str)], only: &[&str], seed: Option<u64>) -> Loaded {
    set_base(&[&FAMILY]);
    testing::load_with(name, set, only, seed).unwrap_or_else(|error| panic!("{error}"))
}

fn outcomes<D: Data>(loaded: &Loaded, threads: usize) -> Vec<Outcome<D>> {
    testing::outcomes(loaded, threads)
}
