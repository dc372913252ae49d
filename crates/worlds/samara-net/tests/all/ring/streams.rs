//! Streams of messages arrive completely, in order, and no faster than the slowest member reads
//! them.

use std::time::Duration;

use futures::future::join_all;
use samara_net::ring::{BroadcastError, Options, Preset};
use tokio::time::timeout;

use crate::ring::common::{all, message, patient, send, start};

async fn everybody_has_everything(options: impl Fn(usize, Options) -> Options, lens: &[(usize, usize)]) {
    let mut nodes = start(4, |index, own| patient(options(index, own))).await;
    for (len, count) in lens {
        let before = nodes[0].delivered.len();
        let sending: Vec<_> =
            nodes.iter().enumerate().map(|(at, node)| send(&node.group, at, *count, *len)).collect();
        // Concurrently, as the group waits for a member that reads nothing.
        join_all(nodes.iter_mut().map(|node| node.wait_for_messages(before + 4 * count))).await;
        for sending in sending {
            sending.await.unwrap();
        }
        let senders: Vec<_> = nodes.iter().map(|node| node.group.address()).collect();
        for node in &mut nodes {
            for (at, sender) in senders.iter().enumerate() {
                assert_eq!(node.of(*sender), all(at, *count, *len), "messages of {len} bytes of member {at}");
            }
        }
        nodes.iter_mut().for_each(|node| node.delivered.clear());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_all_lengths_arrive_everywhere_in_order() {
    // Messages of one byte: more fit into the bytes of a batch than the units of a frame. The
    // longest ones travel in chunks and exceed the queue.
    let lens = [(1, 20_000), (1_024, 2_000), (8_192, 2_000), (300_000, 30), (3 << 20, 3)];
    everybody_has_everything(|_, options| options, &lens).await;
}

#[tokio::test]
async fn one_thread_is_enough() {
    everybody_has_everything(|_, options| options, &[(8_192, 500)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn total_order_is_the_same_everywhere() {
    let total = || Preset::RingTotal.config().unwrap();
    let mut nodes = start(4, |_, options| patient(Options { config: total(), ..options })).await;
    let sending: Vec<_> =
        nodes.iter().enumerate().map(|(at, node)| send(&node.group, at, 500, 2_000)).collect();
    join_all(nodes.iter_mut().map(|node| node.wait_for_messages(2_000))).await;
    for sending in sending {
        sending.await.unwrap();
    }
    let first = std::mem::take(&mut nodes[0].delivered);
    for node in &nodes[1..] {
        assert_eq!(node.delivered, first);
    }
}

/// A member whose application reads nothing makes senders wait. When it reads again, no message is
/// missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_application_slows_the_group() {
    const LEN: usize = 64 << 10;
    let mut nodes = start(3, |_, options| Options { waiting_bytes: 1 << 20, ..patient(options) }).await;
    let mut slow = nodes.pop().unwrap();
    let mut other = nodes.pop().unwrap();
    let listening = tokio::spawn(async move {
        other.wait_for_messages(1_000).await;
        other
    });
    let group = nodes[0].group.clone();
    let mut sending = send(&group, 0, 1_000, LEN);
    let mut own = nodes.pop().unwrap();
    let own_listening = tokio::spawn(async move {
        own.wait_for_messages(1_000).await;
        own
    });
    // The room of all places: the slow member's queue and its held messages, windows, and the
    // sender's queue.
    let done = timeout(Duration::from_secs(3), &mut sending).await;
    assert!(done.is_err(), "the group accepted 64 MiB although no application reads them");
    let status = slow.group.status().await.unwrap();
    assert_eq!(status.transport.pauses, 1);
    assert!(status.waiting_bytes > 1 << 20 && status.waiting_bytes < 16 << 20, "{}", status.waiting_bytes);
    assert!(group.try_broadcast(vec![0; LEN]).is_err_and(|error| error == BroadcastError::Full));

    slow.wait_for_messages(1_000).await;
    sending.await.unwrap();
    let sender = group.address();
    for node in [slow, listening.await.unwrap(), own_listening.await.unwrap()] {
        assert_eq!(node.of(sender), all(0, 1_000, LEN));
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused() {
    let nodes = start(1, |_, mut options| {
        options.config.message_bytes_max = 1_000;
        options
    })
    .await;
    let refused = nodes[0].group.broadcast(message(0, 0, 1_001)).await;
    assert_eq!(refused, Err(BroadcastError::TooLong { found: 1_001, max: 1_000 }));
    let text = refused.unwrap_err().to_string();
    assert_eq!(text, "message has 1001 bytes, but the limit is 1000 (`Config::message_bytes_max`)");
    assert_eq!(nodes[0].group.broadcast(message(0, 0, 1_000)).await, Ok(()));
}
