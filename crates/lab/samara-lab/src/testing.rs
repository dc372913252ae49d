//! Helpers for the tests of families: loading and running scenarios, and checks of what all families
//! promise.

use std::fmt::Debug;

use bytes::Bytes;
use samara_document::ScenarioError;
use samara_engine::{FrameCodec, Reader};
use samara_scenario::{Loaded, load};
use samara_sim::Postcard;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::results::deliveries::{DELIVERIES, DELIVERIES_MAX};
use crate::results::{Data, Deliveries, DeliveryRow, Measured, Outcome, relate, tables};
use crate::run::{RunOptions, run};

/// Loads a scenario with these values of keys, and only these of its runs.
///
/// # Errors
/// As [`load`].
pub fn load_with(
    name: &str,
    set: &[(&str, &str)],
    only: &[&str],
    seed: Option<u64>,
) -> Result<Loaded, ScenarioError> {
    let set: Vec<(String, String)> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let only: Vec<String> = only.iter().map(|run| (*run).to_owned()).collect();
    load(name, &set, &only, seed)
}

/// Runs all points of a scenario. Returns their related outcomes.
///
/// # Panics
/// If a run fails, or if its outcome belongs to another family.
pub fn outcomes<D: Data>(loaded: &Loaded, threads: usize) -> Vec<Outcome<D>> {
    let options = RunOptions::new(threads, &loaded.inputs);
    let outcome = |point| run(point, options, |_, _| {}).unwrap_or_else(|error| panic!("{error}")).outcome();
    let mut results: Vec<Outcome> = loaded.points.iter().map(outcome).collect();
    relate(loaded, &mut results);
    results
        .iter()
        .map(|outcome| outcome.typed().expect("the outcome should belong to the scenario's family"))
        .collect()
}

/// Checks that a run with too many deliveries has no table of them, and states the keys to reduce.
///
/// # Panics
/// If it has one, or other words.
pub fn reports_too_many_deliveries<M: Measured>(
    mut measured: M,
    deliveries: fn(&mut M) -> &mut Deliveries,
    keys: &str,
) {
    let row = DeliveryRow { item: 1, nanos: 2_500_000, node: 3, from: 2, detail: 4 };
    let all = deliveries(&mut measured);
    (all.count()..=DELIVERIES_MAX).for_each(|_| all.add(row));
    let outcome = measured.outcome();
    let reason = format!("5,000,001 deliveries exceed the 5,000,000 that are recorded; reduce {keys}");
    assert_eq!(outcome.run.absent.get(DELIVERIES), Some(&reason));
    assert!(tables(&measured, &outcome).iter().all(|table| table.name() != DELIVERIES));
}

/// Returns bytes that differ from their neighbours.
pub fn bytes(len: usize) -> Bytes {
    (0..len).map(|byte| byte as u8).collect()
}

/// Checks that frames come back from their encoding, also if others follow, and that no part of
/// them is taken for the whole.
///
/// # Panics
/// If they do not.
pub fn frames_survive<F: PartialEq + Debug>(codec: &impl FrameCodec<F>, frames: &[F]) {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| codec.write(frame, &mut bytes));
    let mut reader = Reader::new(&bytes);
    for frame in frames {
        assert_eq!(codec.read(&mut reader).as_ref(), Some(frame));
    }
    assert!(reader.is_empty());
    for len in 0..bytes.len() {
        let mut reader = Reader::new(&bytes[..len]);
        let read = frames.iter().map_while(|_| codec.read(&mut reader)).count();
        assert!(read < frames.len(), "{len} of {} bytes", bytes.len());
    }
}

/// Checks that a command, event or counter comes back from both formats in which it travels, and
/// returns its JSON.
///
/// # Panics
/// If it does not.
pub fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    let mut bytes = Vec::new();
    Postcard::put(value, &mut bytes);
    assert_eq!(Postcard::take(&mut Reader::new(&bytes)).as_ref(), Some(value));
    let json = serde_json::to_string(value).expect("it has a form in JSON");
    assert_eq!(serde_json::from_str::<T>(&json).ok().as_ref(), Some(value), "{json}");
    json
}
