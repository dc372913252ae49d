//! Tests of the parts of HTTP/2.

use super::{Bytes, Credit, ESTIMATED_MAX, Estimator, INITIAL_WINDOW};
use crate::transport::socket::{Item, Stream};

type Queue = Bytes<Item<&'static str>>;

fn data(name: &'static str) -> Item<&'static str> {
    Item::Data { bytes: 0, frame: Some(name) }
}

/// Cuts a segment. Returns its length, its rank and the names of the frames that end in it.
fn cut(bytes: &mut Queue, mss: u32) -> (u32, u64, Vec<&'static str>) {
    let (run, readable) = bytes.cut(mss, 1).unwrap();
    (run.len, run.rank, readable.frames().copied().collect())
}

#[test]
fn credit_returns_by_quarters_of_the_window() {
    let mut credit = Credit::new(65_535);
    assert_eq!(credit.take_in(16_382), None);
    assert_eq!(credit.take_in(1), Some(16_383));
    assert_eq!(credit.take_in(5), None);
    assert_eq!(credit.give_back(), Some(5));
    assert_eq!(credit.give_back(), None);
    assert_eq!(credit.widen(100_000), Some(34_465));
    assert_eq!(credit.widen(50_000), None, "the window never becomes narrower");
}

#[test]
fn window_becomes_twice_the_sample_that_fills_it() {
    let mut estimator = Estimator::new();
    assert!(estimator.add(0, 16_384), "the first data send a ping");
    assert!(!estimator.add(1000, 30_000));
    assert_eq!(estimator.answered(90_000_000), Some(2 * 46_384));
    // Half of the window: the window is not the limit.
    assert!(estimator.add(100_000_000, 46_000));
    assert_eq!(estimator.answered(190_000_000), None);
    // Full, and faster than before.
    assert!(estimator.add(200_000_000, 92_000));
    assert_eq!(estimator.answered(290_000_000), Some(184_000));
    // Full, but slower.
    assert!(estimator.add(300_000_000, 184_000));
    assert_eq!(estimator.answered(1_300_000_000), None);
    assert_eq!(estimator.answered(1_400_000_000), None, "there was no ping");
}

#[test]
fn pings_stop_at_the_largest_window() {
    let mut estimator = Estimator::new();
    let (mut now, mut window) = (0, INITIAL_WINDOW);
    while window < ESTIMATED_MAX {
        assert!(estimator.add(now, window));
        now += 50_000_000;
        window = estimator.answered(now).unwrap();
    }
    assert!(!estimator.add(now, window));
}

#[test]
fn small_frames_share_a_segment() {
    let mut bytes = Queue::new();
    for (rank, name) in (0..).zip(["a", "b", "c", "d", "e"]) {
        bytes.push_data(600, rank, data(name));
    }
    assert_eq!((bytes.bytes, bytes.rank()), (3000, 0));
    assert_eq!(cut(&mut bytes, 1460), (1460, 0, vec!["a", "b"]));
    assert_eq!(cut(&mut bytes, 1460), (1460, 2, vec!["c", "d"]));
    assert_eq!(cut(&mut bytes, 1460), (80, 4, vec!["e"]));
    assert!(bytes.cut(1460, 1).is_none() && bytes.is_empty());
}

/// A control frame waits for the rest of the data frame that has begun to leave, and for no other.
#[test]
fn control_overtakes_data() {
    let mut bytes = Queue::new();
    bytes.push_data(2000, 1, data("first"));
    bytes.push_data(2000, 2, data("second"));
    cut(&mut bytes, 1460);
    bytes.push_control(17, 3, data("pong"));
    bytes.push_control(13, 4, data("update"));
    assert_eq!(bytes.rank(), 1);
    assert_eq!(cut(&mut bytes, 1460), (1460, 1, vec!["first", "pong", "update"]));
    assert_eq!(bytes.rank(), 2);
    // A control frame that was cut in two continues first.
    bytes.push_control(17, 5, data("ping"));
    assert_eq!(cut(&mut bytes, 2000), (1127, 2, vec!["second", "ping"]));
    assert!(bytes.is_empty());
}
