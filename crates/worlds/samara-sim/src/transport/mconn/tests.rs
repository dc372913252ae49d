//! Tests of the parts of a connection; whole connections are tested in `tests/`.

use super::receiver::Receiver;
use super::sender::{Channel, Limiter, Sender};
use super::stream::{Sealed, Stream, Writer};
use super::{
    MConnectionConfig, PING_BYTES, SEALED_FRAME, SEALED_PLAINTEXT, hello_bytes, message_bytes, packet_bytes,
};
use crate::transport::socket::{Item, Readable, Stream as _};
use crate::transport::tcp::TcpConfig;
use crate::transport::{Around, Control, EndCounts, ReceiveHalf, Transport};

const MILLI: u64 = 1_000_000;

/// Encodes a packet field by field, as the protobuf guide specifies.
fn encode(channel: u8, last: bool, data: usize) -> Vec<u8> {
    fn varint(mut value: usize, into: &mut Vec<u8>) {
        while value >= 0x80 {
            into.push(value as u8 | 0x80);
            value >>= 7;
        }
        into.push(value as u8);
    }
    let mut message = Vec::new();
    if channel != 0 {
        message.push(1 << 3);
        varint(channel.into(), &mut message);
    }
    if last {
        message.extend([2 << 3, 1]);
    }
    if data > 0 {
        message.push(3 << 3 | 2);
        varint(data, &mut message);
        message.resize(message.len() + data, 0);
    }
    let mut packet = vec![3 << 3 | 2];
    varint(message.len(), &mut packet);
    packet.extend(message);
    let mut delimited = Vec::new();
    varint(packet.len(), &mut delimited);
    delimited.extend(packet);
    delimited
}

#[test]
fn packets_have_the_length_of_their_encoding() {
    for channel in [0, 1, 0x30, 0x31, 0x7f, 0x80, 0xff] {
        for last in [false, true] {
            for data in [0, 1, 36, 110, 115, 116, 117, 118, 119, 120, 121, 122, 127, 128, 1000, 1023, 1024] {
                let expected = encode(channel, last, data as usize).len() as u32;
                assert_eq!(packet_bytes(channel, last, data), expected, "{channel:#x} {last} {data}");
            }
        }
    }
    // A ping is a length, and field 1 with nothing in it.
    assert_eq!(PING_BYTES, 3);
}

#[test]
fn last_packet_of_a_message_is_marked() {
    assert_eq!(message_bytes(0x31, 36), packet_bytes(0x31, true, 36));
    assert_eq!(message_bytes(0x30, 1024), packet_bytes(0x30, true, 1024));
    assert_eq!(message_bytes(0x30, 2049), 2 * packet_bytes(0x30, false, 1024) + packet_bytes(0x30, true, 1));
    for len in [0, 1, 1023, 1024, 1025, 2048, 5000] {
        let mut channel = Channel::new();
        channel.push((), len);
        let (mut bytes, mut data) = (0, 0);
        while channel.poll().is_some() {
            let packet = channel.write(0x30).unwrap();
            bytes += packet.bytes;
            data += packet.data;
            assert_eq!(packet.complete.is_some(), !channel.is_pending());
        }
        assert_eq!((bytes, data), (message_bytes(0x30, len), len));
    }
}

#[test]
fn handshake_steps_carry_the_writes_of_both_sides() {
    let bytes: Vec<u32> = (0..8).map(|step| hello_bytes(step, &Transport::tcp())).collect();
    assert_eq!(bytes, [0, 0, 35, 35 + 1044 + 40, 1044 + 1044 + 40, 1044, 0, 0]);
}

#[test]
fn sample_admits_a_tenth_of_the_rate_and_forgets_the_excess() {
    let mut limiter = Limiter::new(0);
    let rate = 100_000;
    assert_eq!(limiter.admit(0, rate), Ok(()));
    limiter.count(0, 9_999);
    assert_eq!(limiter.admit(MILLI, rate), Ok(()));
    limiter.count(MILLI, 10_000);
    assert_eq!(limiter.admit(2 * MILLI, rate), Err(100 * MILLI));
    assert_eq!(limiter.admit(99 * MILLI, rate), Err(104 * MILLI), "no wait is shorter than 5 ms");
    assert_eq!(limiter.admit(104 * MILLI, rate), Ok(()));
    limiter.count(104 * MILLI, 10_000);
    assert_eq!(limiter.admit(104 * MILLI, rate), Err(204 * MILLI), "the sample began with the check");
    assert_eq!(limiter.admit(104 * MILLI, 0), Ok(()), "a rate of 0 means no limit");
}

#[test]
fn recently_sent_decays_by_a_fifth() {
    let mut channel = Channel::new();
    channel.push((), 1000);
    assert_eq!(channel.poll(), Some(true), "the queue has room again");
    assert_eq!(channel.poll(), Some(false));
    let bytes = channel.write(1).unwrap().bytes;
    assert_eq!(channel.ratio(5), bytes as f32 / 5.0);
    channel.decay(1);
    let once = (f64::from(bytes) * 0.8) as u64;
    assert_eq!(channel.ratio(1), once as f32);
    channel.decay(2);
    assert_eq!(channel.ratio(1), (((once as f64 * 0.8) as u64) as f64 * 0.8) as u64 as f32);
    channel.decay(u64::MAX);
    assert_eq!(channel.ratio(1), 0.0);
}

fn message(id: u32) -> Item<u32> {
    Item::Data { bytes: 0, frame: Some(id) }
}

fn messages(readable: &Readable<u32>) -> Vec<u32> {
    readable.frames().copied().collect()
}

fn drain(writer: &mut Writer<u32>) -> Vec<Sealed<u32>> {
    std::iter::from_fn(|| writer.seal(1, 1)).collect()
}

#[test]
fn full_buffer_leaves_in_full_frames_and_keeps_the_rest() {
    let mut writer = Writer::new();
    let mut full = 0;
    for id in 0..64 {
        full += u32::from(writer.write(1036, Some(message(id))));
    }
    assert_eq!(full, 1);
    let sealed = drain(&mut writer);
    assert_eq!(sealed.len(), 64);
    assert!(sealed.iter().all(|sealed| sealed.readable.bytes == SEALED_PLAINTEXT));
    let ids: Vec<u32> = sealed.iter().flat_map(|sealed| messages(&sealed.readable)).collect();
    assert_eq!(ids, (0..63).collect::<Vec<_>>(), "the last one did not fit");
    assert!(writer.flush(), "there is a rest");
    let rest = drain(&mut writer);
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].readable.bytes, 64 * 1036 - 65_536);
    assert_eq!(messages(&rest[0].readable), [63]);
    assert!(!writer.flush(), "there is nothing more");
}

#[test]
fn buffer_of_exactly_64_kib_waits_for_the_next_byte() {
    let mut writer = Writer::<u32>::new();
    for _ in 0..64 {
        assert!(!writer.write(1024, None));
    }
    assert!(writer.write(1, None));
    assert_eq!(drain(&mut writer).len(), 64);
}

fn cut_all(stream: &mut Stream<u32>, mss: u32) -> Vec<u32> {
    std::iter::from_fn(|| stream.cut(mss, 1).map(|(run, _)| run.len)).collect()
}

#[test]
fn frames_are_segments_in_an_open_window_and_combined_behind_it() {
    let mut stream = Stream::new();
    (0..5).for_each(|_| stream.write(Sealed::new(1, 1024, 0), 2.0));
    assert_eq!(stream.bytes, u64::from(5 * SEALED_FRAME));
    assert_eq!(cut_all(&mut stream, 1460), [1044, 1044, 1460, 1460, 3 * 1044 - 2 * 1460]);
    assert_eq!(stream.bytes, 0);
    // Waiting data go first, so that later frames join them whatever the window.
    stream.write(Sealed::new(1, 1024, 0), 0.0);
    stream.write(Sealed::new(1, 1024, 0), 9.0);
    assert_eq!(cut_all(&mut stream, 1460), [1460, 628]);
    stream.write(Sealed::new(1, 1024, 0), 9.0);
    stream.write(Sealed::new(1, 1024, 0), 9.0);
    assert_eq!(cut_all(&mut stream, 600), [600, 444, 600, 444]);
}

#[test]
fn segment_carries_the_frames_that_end_in_it() {
    let mut stream = Stream::new();
    for id in 0..3 {
        let mut sealed = Sealed::new(1, 1000, 0);
        sealed.readable.items = [10 * id, 10 * id + 1].map(message).into_iter().collect();
        stream.write(sealed, 0.0);
    }
    let brought: Vec<(u32, Vec<u32>)> =
        std::iter::from_fn(|| stream.cut(1500, 1).map(|(_, load)| (load.bytes, messages(&load)))).collect();
    assert_eq!(brought, [(1000, vec![0, 1]), (1000, vec![10, 11]), (1000, vec![20, 21])]);
    // Small frames in a large segment, and a segment in which nothing ends.
    for id in 0..2 {
        let mut sealed = Sealed::new(1, 1000, 0);
        sealed.readable.items.push(message(id));
        stream.write(sealed, 0.0);
    }
    let (run, load) = stream.cut(9000, 1).unwrap();
    assert_eq!((run.len, load.bytes, messages(&load)), (2088, 2000, vec![0, 1]));
    stream.write(Sealed::new(1, 1000, 0), 0.0);
    assert_eq!(stream.cut(1043, 1).unwrap().1.bytes, 0);
    assert_eq!(stream.cut(1043, 1).unwrap().1.bytes, 1000);
}

/// A rate-limited reader closes the window by its unread data, and reports when the window opens
/// again.
#[test]
fn unread_data_closes_the_window() {
    let tcp = TcpConfig { receive_window: 8, ..TcpConfig::default() };
    let config = MConnectionConfig { receive_rate: 20_000, ..MConnectionConfig::cometbft(Vec::new()) };
    let transport = Transport { control: Control::Tcp(tcp), ..Transport::mconnection(config) };
    let (mut sender, mut receiver) = (Sender::<u32>::new(&transport), Receiver::new(&transport));
    // Returns whether the window has opened, and the time of the next read.
    let mut read = |receiver: &mut Receiver<u32>, millis: u64| {
        let (now, counts, delivered) = (millis * MILLI, &mut EndCounts::default(), &mut Vec::new());
        let mut around = Around { now, transport: &transport, counts, delivered };
        let taken = receiver.read(&mut sender, &mut around);
        (taken.window_opened, sender.read_at)
    };
    let mut stream = Stream::new();
    for seq in 0..8 {
        stream.write(Sealed::new(1, 1000, 0), 9.0);
        let load = stream.cut(1460, 1).unwrap().1;
        receiver.segments(0, (seq, 1, Some(load.into())), &transport);
        assert!(!read(&mut receiver, 0).0);
    }
    // Two loads of 1,000 bytes exhaust a sample.
    assert_eq!(read(&mut receiver, 0), (false, 100 * MILLI));
    let ack = receiver.acknowledge(0, &transport);
    assert_eq!((ack.ack, ack.window), (8, 2));
    assert!(!read(&mut receiver, 50).0);
    assert!(read(&mut receiver, 100).0, "four are twice two");
    let ack = receiver.acknowledge(0, &transport);
    assert_eq!((ack.ack, ack.window), (8, 4));
    assert!(!read(&mut receiver, 200).0, "six are not twice four");
    assert_eq!(read(&mut receiver, 300), (true, u64::MAX));
}
