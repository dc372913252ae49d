//! Tests of the parts of HTTP/2.

use super::{Bytes, Credit, ESTIMATED_MAX, Estimator, INITIAL_WINDOW};

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
    let mut bytes = Bytes::new();
    for frame in 0..5 {
        bytes.push_data(600, frame, frame);
    }
    assert_eq!((bytes.bytes, bytes.rank()), (3000, 0));
    let (run, complete) = bytes.cut(1460).unwrap();
    assert_eq!((run.len, run.rank, complete.to_vec()), (1460, 0, vec![0, 1]));
    let (run, complete) = bytes.cut(1460).unwrap();
    assert_eq!((run.len, run.rank, complete.to_vec()), (1460, 2, vec![2, 3]));
    let (run, complete) = bytes.cut(1460).unwrap();
    assert_eq!((run.len, run.rank, complete.to_vec()), (80, 4, vec![4]));
    assert!(bytes.cut(1460).is_none() && bytes.is_empty());
}

/// A control frame waits for the rest of the data frame that has begun to leave, and for no other.
#[test]
fn control_overtakes_data() {
    let mut bytes = Bytes::new();
    bytes.push_data(2000, 1, "first");
    bytes.push_data(2000, 2, "second");
    bytes.cut(1460).unwrap();
    bytes.push_control(17, 3, "pong");
    bytes.push_control(13, 4, "update");
    assert_eq!(bytes.rank(), 1);
    let (run, complete) = bytes.cut(1460).unwrap();
    assert_eq!((run.len, complete.to_vec()), (1460, vec!["first", "pong", "update"]));
    assert_eq!(bytes.rank(), 2);
    // A control frame that was cut in two continues first.
    bytes.push_control(17, 5, "ping");
    let (run, complete) = bytes.cut(2000).unwrap();
    assert_eq!((run.len, complete.to_vec()), (1127, vec!["second", "ping"]));
    assert!(bytes.is_empty());
}
