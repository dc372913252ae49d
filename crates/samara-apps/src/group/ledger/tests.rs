//! Tests of the ledger's counts.

use super::*;

#[test]
fn received_numbers_are_ranges() {
    let mut received = Received::default();
    let places = [1, 2, 5, 6, 4, 6, 2, 3, 9, 1].map(|number| received.insert(number));
    let of = |n: usize, place| places.iter().filter(|p| **p == place).count() == n;
    assert!(of(5, Place::Next) && of(2, Place::Late) && of(3, Place::Again), "{places:?}");
    assert_eq!((received.ranges.as_slice(), received.count()), ([(1, 6), (9, 9)].as_slice(), 7));
}

#[test]
fn ledger_counts_faulty_messages_and_measures_the_rest() {
    let ms = Time::from_millis;
    let mut ledger = Ledger::new(1, 3, 3, 100, ms(10));
    ledger.start();
    let mut deliver = |origin, number, at: u64| {
        let content = Header { origin, number, at: ms(at - 5) }.message(100);
        ledger.deliver(&content[..50], 100, ms(at));
    };
    deliver(0, 1, 20);
    deliver(1, 1, 21);
    deliver(0, 3, 25);
    deliver(0, 2, 45);
    deliver(0, 2, 46);
    deliver(7, 1, 47);
    ledger.deliver(b"short", 100, ms(48));
    ledger.deliver(&Header { origin: 0, number: 4, at: ms(1) }.message(99), 99, ms(49));
    assert_eq!((ledger.delivered, ledger.delivered_bytes), (4, 400));
    assert_eq!((ledger.duplicates, ledger.out_of_order, ledger.garbled), (1, 1, 3));
    assert_eq!((ledger.longest_gap_ns, ledger.longest_gap_at), (20_000_000, ms(45)));
    assert_eq!(ledger.latency.count(), 3, "the latency of own messages is not recorded");
    let recent: Vec<_> = ledger.recent.drain(..).map(|row| (row.origin, row.number, row.nanos)).collect();
    assert_eq!(recent, [(0, 1, 5_000_000), (1, 1, 5_000_000), (0, 3, 5_000_000), (0, 2, 5_000_000)]);
    ledger.start();
    ledger.deliver(&Header { origin: 0, number: 2, at: ms(1) }.message(100), 100, ms(50));
    assert_eq!((ledger.duplicates, ledger.received[0].count()), (1, 1));
}

#[test]
fn frames_before_the_stream_are_not_counted() {
    let mut ledger = Ledger::new(0, 2, 2, 100, Time::from_secs(1));
    let parts = [(Kind::Content, 100), (Kind::Headers, 7)];
    ledger.frame(1, parts, Time::ZERO);
    ledger.frame(1, parts, Time::from_secs(2));
    assert_eq!((ledger.bytes_from[1], ledger.bytes_of[0], ledger.bytes_of[1]), (107, 100, 7));
}

#[test]
fn the_first_host_that_sends_a_message_is_noted_until_its_delivery() {
    let mut ledger = Ledger::new(1, 3, FOLLOWED_MAX / 2, 100, Time::ZERO);
    ledger.start();
    let message = |origin, number| Header { origin, number, at: Time::ZERO }.message(100);
    let mut take = |from, message: &[u8]| {
        ledger.arrive(from, message);
        ledger.deliver(message, 100, Time::ZERO);
        ledger.recent.pop().and_then(|delivery| delivery.from)
    };
    assert_eq!((take(2, &message(0, 1)), take(0, &message(0, 2))), (Some(2), Some(0)));
    assert_eq!(take(0, &message(0, 3)), None, "only the first messages of an origin are followed");
    ledger.arrive(0, &message(2, 1));
    ledger.arrive(0, &message(0, 1));
    ledger.arrive(2, &message(2, 1));
    ledger.deliver(&message(2, 1), 100, Time::ZERO);
    assert_eq!(ledger.recent.pop().and_then(|delivery| delivery.from), Some(0));
    assert!(ledger.arrived.is_empty(), "copies of delivered messages leave nothing behind");
}
