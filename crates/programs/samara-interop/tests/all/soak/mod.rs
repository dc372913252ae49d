//! The soak: nodes of all implementations in one network, each of which restarts, reconnects, resets
//! its streams and moves its address every few seconds.
//!
//! Messages flow all the time. Every node must have each message that was published while it was
//! connected for two heartbeats, and no node may give an honest peer a score below 0. Between rounds of
//! disturbances, all nodes rest until they know each other's topics.
//!
//! `SAMARA_SOAK_SECONDS` sets the duration (300), `SAMARA_SOAK_SEED` the sequence of disturbances (1).

mod course;
mod ledger;
mod plan;
mod process;

use std::time::Duration;

use self::course::Course;
use self::process::Kind;

/// The nodes.
const NODES: [Kind; 11] = [
    Kind::Samara,
    Kind::Go16,
    Kind::Samara,
    Kind::Go19,
    Kind::Samara,
    Kind::Rust,
    Kind::Samara,
    Kind::Js,
    Kind::Go16,
    Kind::Go19,
    Kind::Rust,
];

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}: found {text}, expected a number")),
        Err(_) => default,
    }
}

#[test]
#[ignore = "slow: five minutes, or SAMARA_SOAK_SECONDS"]
fn nodes_that_come_back_lose_nothing() {
    let seconds = number("SAMARA_SOAK_SECONDS", 300);
    let seed = number("SAMARA_SOAK_SEED", 1);
    println!("SAMARA_SOAK_SECONDS={seconds} SAMARA_SOAK_SEED={seed}");
    let Some(mut course) = Course::start(&NODES, seed) else { return };
    course.run(Duration::from_secs(seconds));
    course.report();
}
