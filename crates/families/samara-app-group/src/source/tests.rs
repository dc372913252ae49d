//! Tests of message headers and senders.

use super::*;

const SOURCE: Source = Source { size: 100, count: 3, until: Time::MAX, interval: None, pace: Duration::ZERO };

#[test]
fn headers_survive_a_round_trip() {
    let header = Header { origin: 7, number: 1 << 40, at: Time::from_secs(9) };
    let message = header.message(8_192);
    assert_eq!((message.len(), Header::of(&message)), (8_192, Some(header)));
    assert_eq!(Header::of(&message[..19]), None);
    assert_eq!(header.message(0).len(), HEADER_BYTES);
}

#[test]
fn messages_of_one_moment_overlap_and_keep_their_own_headers() {
    let source = Source { size: 1_000, count: 150, ..SOURCE };
    let mut sender = Sender::new(source, 2);
    sender.begin(Time::ZERO);
    let mut kept: Vec<(Bytes, Header)> = Vec::new();
    for number in 1..=150 {
        // A refused message is made again at a later moment.
        let at = Time::from_millis(number / 40);
        let message = sender.message(at).unwrap();
        assert_eq!(sender.message(at), Some(message.clone()));
        kept.push((message, Header { origin: 2, number, at }));
        sender.taken();
    }
    assert_eq!(sender.message(Time::from_secs(1)), None, "all are sent");
    for (message, header) in kept {
        assert_eq!((message.len(), Header::of(&message)), (1_000, Some(header)));
    }
    let tiny = Sender { source: Source { size: 20, count: 2, ..SOURCE }, ..Sender::new(SOURCE, 1) };
    let mut tiny = Sender { is_sending: true, ..tiny };
    assert_eq!(tiny.message(Time::ZERO).map(|message| message.len()), Some(HEADER_BYTES));
}

#[test]
fn sender_without_a_rate_always_has_a_message_until_done() {
    let mut sender = Sender::new(SOURCE, 2);
    assert_eq!(sender.message(Time::ZERO), None, "it has not begun");
    sender.begin(Time::from_secs(1));
    for number in 1..=3 {
        let message = sender.message(Time::from_secs(1)).unwrap();
        let header = Header { origin: 2, number, at: Time::from_secs(1) };
        assert_eq!(Header::of(&message), Some(header));
        assert_eq!(sender.message(Time::from_secs(1)), Some(message), "until it is taken");
        sender.taken();
    }
    assert!(sender.message(Time::from_secs(1)).is_none() && sender.is_done(Time::from_secs(1)));
}

#[test]
fn messages_with_a_rate_keep_the_time_they_were_due() {
    let interval = Duration::from_millis(10);
    let mut sender = Sender::new(Source { count: 9, interval: Some(interval), ..SOURCE }, 0);
    sender.begin(Time::ZERO);
    assert!(sender.message(Time::ZERO).is_some());
    sender.taken();
    assert_eq!(sender.message(Time::from_millis(3)), None);
    assert_eq!(sender.wake(Time::from_millis(3)), Some(Time::from_millis(10)));
    let late = sender.message(Time::from_millis(25)).unwrap();
    assert_eq!(Header::of(&late).unwrap().at, Time::from_millis(10));
    let until = Source { until: Time::from_millis(15), interval: Some(interval), ..SOURCE };
    let mut sender = Sender::new(until, 0);
    sender.begin(Time::ZERO);
    sender.taken();
    assert!(sender.message(Time::from_millis(16)).is_some(), "it was due before the end");
    sender.taken();
    assert!(sender.is_done(Time::from_millis(16)));
}
