//! The search for broken promises finds bugs that this program plants in the engines.
//!
//! The bugs belong to the process, so these tests have a program of their own. Two of them run each
//! time; `cargo test -p samara-families --all-features --test planted -- --ignored` plants all of them.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use samara_engine::planted::{Bug, plant};
use samara_lab::torture::{Options, Source, Violation, search};

/// As many as a search has without `--runs`.
const RUNS: u64 = 300;

/// The families among whose runs the bug is sought, one after another.
fn families(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::GossipsubWithdraw | Bug::GossipsubIwant | Bug::GossipsubSeen | Bug::GossipsubForgive => {
            &["messages", "columns"]
        }
        Bug::RingResume | Bug::RingReady | Bug::RingInstall | Bug::RingCut => &["group"],
        Bug::CatTimeout => &["pool"],
        Bug::MixResend => &["mix"],
    }
}

fn first_violation(family: &str, seed: u64) -> Option<Violation> {
    samara_families::register();
    let sources = Source::named(Some(family)).unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    let options =
        Options { runs: RUNS, time: None, seed, threads: 2, goes_on: false, shrinks: false, stop: &stop };
    let found = Mutex::new(None);
    search(&sources[0], &options, &|_, violation| {
        if let Some(violation) = violation {
            *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(violation.clone());
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// One search at a time: the bug is planted in the whole process.
static ONE: Mutex<()> = Mutex::new(());

fn is_found(bug: Bug) -> bool {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    plant(Some(bug));
    let found = families(bug).iter().find_map(|family| Some((family, first_violation(family, 1)?)));
    plant(None);
    match &found {
        Some((family, violation)) => {
            println!("{}: {family}, run {}: {}", bug.name(), violation.run, violation.broken[0]);
        }
        None => println!("{}: not found", bug.name()),
    }
    found.is_some()
}

/// Units of a ring are not sent again when a link resumes.
#[test]
fn lost_units_of_a_ring_are_found() {
    assert!(is_found(Bug::RingResume));
}

/// Frames of a mix are not sent again on a new link.
#[test]
fn lost_frames_of_a_mix_are_found() {
    assert!(is_found(Bug::MixResend));
}

#[test]
#[ignore = "slow: it searches all families to the end"]
fn without_a_bug_nothing_is_found() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for family in ["messages", "columns", "pool", "group", "mix"] {
        let found = first_violation(family, 1);
        assert!(found.is_none(), "{family}: {found:?}");
    }
}

#[test]
#[ignore = "slow: it searches for ten bugs"]
fn every_planted_bug_is_found() {
    let lost: Vec<&str> = Bug::ALL.into_iter().filter(|bug| !is_found(*bug)).map(Bug::name).collect();
    assert!(lost.is_empty(), "not found: {lost:?}");
}
