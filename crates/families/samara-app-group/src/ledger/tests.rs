//! Tests of the ledger's counts.

use super::*;

#[test]
fn received_numbers_are_ranges() {
    let mut received = Received::default();
    let places = [1, 2, 5, 6, 4, 6, 2, 3, 9, 1].map(|number| received.insert(number));
    let of = |n: usize, place| places.iter().filter(|p| **p == place).count() == n;
    assert!(of(5, Place::Next) && of(2, Place::Late) && of(3, Place::Again), "{places:?}");
    assert_eq!(received.ranges.as_slice(), [(1, 6), (9, 9)]);
}

#[test]
fn ledger_returns_valid_messages_and_counts_the_others() {
    let ms = Time::from_millis;
    let mut ledger = Ledger::new(3, 3, 100, ms(10));
    let mut deliver = |origin, number, at: u64| {
        let content = Header { origin, number, at: ms(at - 5) }.message(100);
        let delivery = ledger.deliver(&content[..50], 100, ms(at))?;
        Some((delivery.origin, delivery.number, delivery.nanos))
    };
    let valid = |origin, number| Some((origin, number, 5_000_000));
    assert_eq!(deliver(0, 1, 20), valid(0, 1));
    assert_eq!(deliver(1, 1, 21), valid(1, 1));
    assert_eq!(deliver(0, 3, 25), valid(0, 3));
    assert_eq!(deliver(0, 2, 45), valid(0, 2));
    assert_eq!((deliver(0, 2, 46), deliver(7, 1, 47)), (None, None));
    assert_eq!(ledger.deliver(b"short", 100, ms(48)), None);
    let long = Header { origin: 0, number: 4, at: ms(1) }.message(99);
    assert_eq!(ledger.deliver(&long, 99, ms(49)), None);
    let Totals { duplicates, out_of_order, garbled, .. } = *ledger.totals();
    assert_eq!((ledger.delivered, duplicates, out_of_order, garbled), (4, 1, 1, 3));
}

#[test]
fn totals_of_processes_add_up() {
    let of_first = Totals { broadcast: 3, garbled: 1, bytes_from: vec![0, 7], ..Totals::default() };
    let of_second = Totals { duplicates: 2, bytes_from: vec![1, 1], bytes_of: [2; 5], ..Totals::default() };
    let mut totals = Totals::default();
    [&of_first, &of_second].into_iter().for_each(|one| totals.add(one));
    let sum = Totals { broadcast: 3, garbled: 1, bytes_from: vec![1, 8], ..of_second };
    assert_eq!(totals, sum);
}

#[test]
fn frames_before_and_after_the_stream_are_not_counted() {
    let mut ledger = Ledger::new(2, 2, 100, Time::from_secs(1));
    let parts = [(Kind::Content, 100), (Kind::Headers, 7)];
    ledger.frame(1, parts, Time::ZERO);
    ledger.frame(1, parts, Time::from_secs(2));
    ledger.end();
    ledger.frame(1, parts, Time::from_secs(3));
    let Totals { bytes_from, bytes_of, .. } = ledger.totals();
    assert_eq!((bytes_from[1], bytes_of[0], bytes_of[1]), (107, 100, 7));
}

#[test]
fn the_first_host_that_sends_a_message_is_noted_until_its_delivery() {
    let mut ledger = Ledger::new(3, FOLLOWED_MAX / 2, 100, Time::ZERO);
    let message = |origin, number| Header { origin, number, at: Time::ZERO }.message(100);
    let mut take = |from, message: &[u8]| {
        ledger.arrive(from, message);
        ledger.deliver(message, 100, Time::ZERO).and_then(|delivery| delivery.from)
    };
    assert_eq!((take(2, &message(0, 1)), take(0, &message(0, 2))), (Some(2), Some(0)));
    assert_eq!(take(0, &message(0, 3)), None, "only the first messages of an origin are followed");
    ledger.arrive(0, &message(2, 1));
    ledger.arrive(0, &message(0, 1));
    ledger.arrive(2, &message(2, 1));
    let delivery = ledger.deliver(&message(2, 1), 100, Time::ZERO);
    assert_eq!(delivery.and_then(|delivery| delivery.from), Some(0));
    assert!(ledger.arrived.is_empty(), "copies of delivered messages leave nothing behind");
}
