//! Declarations of counters, their rows, and their sums.

use std::borrow::Cow;
use std::collections::BTreeMap;

use samara_engine::outbox::Tally;
use samara_engine::{Counted, Gauge, Kind, Number};

samara_engine::names! {
    pub(crate) enum Side { Left = "left", Right = "right", }
}
samara_engine::counters! {
    pub(crate) struct Metrics {
        /// Steps that
        /// were taken.
        pub(crate) steps: u64,
        /// Frames by side.
        pub(crate) frames[side: Side]: Tally,
        /// Bytes that wait.
        pub(crate) waiting_bytes: usize,
        /// Peers by protocol.
        pub(crate) peers[protocol]: BTreeMap<&'static str, usize>,
        /// The delay, once it is known.
        pub(crate) delay_seconds: Option<f64>,
        /// Copies that are owed.
        pub(crate) owed: Gauge<Tally>,
    }
}

#[test]
fn declarations_and_rows_agree() {
    let mut metrics = Metrics { steps: 3, waiting_bytes: 7, ..Metrics::default() };
    metrics.frames[Side::Right].add(5);
    metrics.owed.add(9);
    metrics.peers.insert("cat/2", 2);
    let declared = Metrics::declared();
    let names: Vec<&str> = declared.iter().map(|counter| &*counter.name).collect();
    let expected =
        ["steps", "frames", "frames_bytes", "waiting_bytes", "peers", "delay_seconds", "owed", "owed_bytes"];
    assert_eq!(names, expected);
    assert_eq!((&*declared[0].help, declared[0].label), ("Steps that were taken", None));
    assert_eq!((&*declared[1].help, &*declared[2].help), ("Frames by side", "Bytes of frames by side"));
    assert_eq!(declared[7].help, "Bytes of copies that are owed");
    assert_eq!((declared[1].label, declared[1].kind), (Some("side"), Kind::Counter));
    assert_eq!((declared[7].kind, declared[7].unit()), (Kind::Gauge, ("owed", Some("bytes"))));

    let rows = metrics.rows();
    assert_eq!(rows.len(), declared.len());
    let labelled = |label: &'static str, count| (Some(Cow::Borrowed(label)), Number::Count(count));
    assert_eq!(rows[0], [(None, Number::Count(3))]);
    assert_eq!(rows[2], [labelled("left", 0), labelled("right", 5)]);
    assert_eq!((&*rows[4], &*rows[5]), (&[labelled("cat/2", 2)][..], &[][..]));
    assert_eq!(metrics.frames(Side::Right), Tally { copies: 1, bytes: 5 });
}

#[test]
fn counters_add_up_and_gauges_do_not() {
    let mut sum = Metrics { steps: 3, waiting_bytes: 7, ..Metrics::default() };
    let mut more = sum.clone();
    more.frames[Side::Left].add(2);
    more.owed.add(9);
    sum.add(&more);
    assert_eq!((sum.steps, sum.waiting_bytes, sum.owed.copies), (6, 7, 0));
    assert_eq!(sum.frames(Side::Left), Tally { copies: 1, bytes: 2 });
    sum.remove(&more);
    assert_eq!(sum, Metrics { steps: 3, waiting_bytes: 7, ..Metrics::default() });
}
