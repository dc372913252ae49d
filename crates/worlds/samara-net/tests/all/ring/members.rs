//! Tests of members that join, leave and crash.

use std::time::{Duration, Instant};

use futures::StreamExt;
use samara_net::ring::{BroadcastError, Closed, Event, Group, Options, Preset, StartError};
use tokio::time::timeout;

use crate::ring::common::{self, PATIENCE, addresses, all, options, send, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_messages_of_a_leaver_are_complete() {
    let mut nodes = start(4, |_, options| patient(options)).await;
    let leaver = nodes.remove(1);
    let (address, group) = (leaver.group.address(), leaver.group.clone());
    let sending: Vec<_> =
        nodes.iter().enumerate().map(|(at, node)| send(&node.group, at, 1_000, 8_192)).collect();
    send(&group, 9, 1_000, 8_192).await.unwrap();
    // At most, its messages are in its queue or in flight: the member leaves at once.
    timeout(PATIENCE, group.leave()).await.expect("leaves in time").unwrap();
    assert_eq!(group.broadcast("more").await, Err(BroadcastError::Leaving));
    for sending in sending {
        sending.await.unwrap();
    }
    let senders: Vec<_> = nodes.iter().map(|node| node.group.address()).collect();
    for node in &mut nodes {
        node.wait_for_view(3).await;
        node.wait_for_messages(4_000).await;
        assert_eq!(node.of(address), all(9, 1_000, 8_192));
        for (at, sender) in senders.iter().enumerate() {
            assert_eq!(node.of(*sender), all(at, 1_000, 8_192));
        }
    }
    // The leaver's own events end, after all that it took part in.
    let own: Vec<Event> = leaver.events.collect().await;
    let delivered = own.iter().filter(|event| matches!(event, Event::Delivered { .. })).count();
    assert!(delivered >= 1_000, "the leaver delivered {delivered} messages");
}

/// Options of members whose applications read their events late: there is room for all of them. A
/// silent member is no failure within the time of a test.
fn patient(options: Options) -> Options {
    Options { waiting_bytes: 1 << 30, ..common::patient(options) }
}

/// The member is dropped without leaving: its sockets close as those of a process that crashes. The
/// others need not wait for its silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn survivors_recover_from_a_crash_quickly() {
    for victim in 0..4 {
        let mut nodes = start(4, |_, options| patient(options)).await;
        let lost = nodes.remove(victim);
        let before = lost.group.view().expect("a view").id;
        let sending: Vec<_> =
            nodes.iter().enumerate().map(|(at, node)| send(&node.group, at, 1_000, 8_192)).collect();
        let mut causes = Vec::new();
        drop(lost);
        for node in &mut nodes {
            // The view may come before a member has noticed the failure itself.
            let cause = node.until(|_, event| match event {
                Event::Suspected { cause, .. } => Some(Some(*cause)),
                Event::View(view) if view.id > before => Some(None),
                _ => None,
            });
            causes.extend(cause.await);
            node.wait_for_view(3).await;
        }
        // Some members may learn of the failure from others before they notice it.
        assert!(causes.contains(&samara_ring::SuspectCause::LinkDown), "{causes:?}");
        for sending in sending {
            sending.await.unwrap();
        }
        let senders: Vec<_> = nodes.iter().map(|node| node.group.address()).collect();
        for node in &mut nodes {
            node.wait_for_messages(3_000).await;
            for (at, sender) in senders.iter().enumerate() {
                assert_eq!(node.of(*sender), all(at, 1_000, 8_192));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_restarts_at_its_address_rejoins() {
    let addresses = addresses(3);
    let mut nodes = start(3, |index, options| Options { listen: addresses[index], ..options }).await;
    let address = addresses[1];
    drop(nodes.remove(1));
    for node in &mut nodes {
        node.wait_for_view(2).await;
    }
    let seeds = nodes.iter().map(|node| node.group.address()).collect::<Vec<_>>();
    let again = Options { listen: address, ..options().with_seeds(seeds) };
    let (group, _events) = timeout(PATIENCE, Group::join(again)).await.expect("joins in time").unwrap();
    for node in &mut nodes {
        node.wait_for_view(3).await;
    }
    group.broadcast("back").await.unwrap();
    for node in &mut nodes {
        node.wait_for_messages(1).await;
        assert_eq!(node.of(address), [b"back"]);
    }
}

/// Nodes that start at the same time and dial each other end up with one link each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_start_together_find_each_other() {
    let addresses = addresses(6);
    let joining: Vec<_> = addresses
        .iter()
        .map(|address| {
            let options = Options { listen: *address, ..options().with_seeds(addresses.clone()) };
            tokio::spawn(Group::join(options))
        })
        .collect();
    let mut members = Vec::new();
    for joining in joining {
        members.push(timeout(PATIENCE, joining).await.expect("joins in time").unwrap().unwrap());
    }
    let until = Instant::now() + PATIENCE;
    for (group, _) in &members {
        while group.view().is_none_or(|view| view.len() < 6) || group.status().await.unwrap().links != 5 {
            assert!(Instant::now() < until, "{:?}", group.status().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let rates: Vec<u64> = futures::future::join_all(members.iter().map(|(group, _)| group.status()))
        .await
        .into_iter()
        .map(|status| status.unwrap().ring.queue_drops)
        .collect();
    assert_eq!(rates, [0; 6], "frames found no room");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_requires_a_seed_founds_no_group() {
    // Bound, so that nobody else gets the port, but without a listener.
    let port = tokio::net::TcpSocket::new_v4().unwrap();
    port.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let absent = port.local_addr().unwrap();
    let within = Duration::from_millis(1_500);
    // Longer than a member without this option waits before it forms a view alone.
    let alone = options().with_seeds([absent]).require_seed(within);
    let start = Instant::now();
    let error = timeout(PATIENCE, Group::join(alone)).await.expect("fails in time").map(drop).unwrap_err();
    assert!(start.elapsed() >= within);
    assert!(matches!(&error, StartError::NoSeed { seeds, .. } if seeds[0].0 == absent), "{error}");
    // A `main` that returns the error prints this.
    assert!(format!("{error:?}").starts_with("no seed answered within "), "{error:?}");
    let text = error.to_string();
    let reason = format!("{absent}: cannot reach the peer: Connection refused");
    assert!(text.contains(&reason), "{text}");

    // One that leaves delivers its messages to itself.
    let (group, _events) = Group::start(options().with_seeds([absent]).require_seed(within)).await.unwrap();
    group.broadcast("to nobody").await.unwrap();
    timeout(PATIENCE, group.leave()).await.expect("leaves in time").unwrap();

    let (founder, _events) = Group::join(options()).await.unwrap();
    let joins = options().with_seeds([absent, founder.address()]).require_seed(PATIENCE);
    let (group, _events) = Group::join(joins).await.expect("a seed answers");
    assert_eq!(group.view().expect("a view").len(), 2);
}

/// Members with different orders would deliver the same messages in different orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_with_other_options_does_not_join() {
    let (founder, _events) = Group::join(options()).await.unwrap();
    let seed = founder.address();
    let joins = options().with_seeds([seed]);
    let mut small = joins.clone();
    small.config.chunk_bytes = 1_000;
    let total = Options { config: Preset::RingTotal.config().unwrap(), ..joins.clone() };
    let direct = Options { config: Preset::Direct.config().unwrap(), ..joins.clone() };
    let another = Options { group: "another".into(), ..joins };
    let order = ": found \"fifo order\"; expected \"total order\"; use the same options as the other members";
    for (options, differ) in [
        (small, "found \"chunks of 65536 B\"; expected \"chunks of 1000 B\"; use the same"),
        (total.clone(), order),
        (total.require_seed(Duration::from_secs(1)), order),
        (direct, "found \"shape ring\"; expected \"shape direct\";"),
    ] {
        let joined = timeout(PATIENCE, Group::join(options)).await.expect("fails in time");
        let error = joined.map(drop).unwrap_err();
        assert!(matches!(&error, StartError::Mismatch { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("through the seed {seed}: ")), "{text}");
        assert!(text.contains(differ), "{text}");
    }
    // A member tells strangers nothing, not even that its group is another one.
    let (_alone, _events) = Group::join(another).await.unwrap();
    let closed = founder.status().await.unwrap().transport.links_closed;
    assert!(closed["other_options"] >= 4 && closed["other_group"] >= 1, "{closed:?}");
    assert_eq!(founder.view().unwrap().len(), 1);
}

/// A process that ends hangs up during the handshake like a member that refuses a node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seed_that_ends_is_not_reported_as_a_refusal() {
    let seed = addresses(1)[0];
    let (founder, _events) = Group::join(Options { listen: seed, ..options() }).await.unwrap();
    let (group, _events) = Group::join(options().with_seeds([seed])).await.unwrap();
    drop(founder);
    let hangs_up = async {
        let listener = loop {
            match tokio::net::TcpListener::bind(seed).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        while listener.accept().await.is_ok() {}
    };
    let failed = async {
        loop {
            match group.status().await.unwrap().failed_seeds.get(&seed) {
                Some(Closed::Handshake(_)) => break,
                Some(Closed::Refused(error)) => panic!("refused: {error}"),
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::select! {
        () = hangs_up => {}
        failed = timeout(PATIENCE, failed) => failed.expect("fails in time"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_require_seeds_form_a_group_together() {
    let addresses = addresses(2);
    let of = |listen| {
        let options = options().with_seeds(addresses.clone()).require_seed(PATIENCE);
        Options { listen, ..options }
    };
    let (first, _events) = Group::start(of(addresses[0])).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(first.view(), None, "a view without a seed");
    let (second, _events) = timeout(PATIENCE, Group::join(of(addresses[1]))).await.unwrap().unwrap();
    assert_eq!(second.view().expect("a view").len(), 2);
}

#[tokio::test]
async fn invalid_options_are_rejected() {
    let mut unspecified = options();
    unspecified.listen = "0.0.0.0:0".parse().unwrap();
    let mut endless = options();
    endless.queue_bytes = 0;
    let mut window = options();
    window.config.hop_window_bytes = 1;
    let seedless = options().require_seed(PATIENCE);
    for (options, field) in [
        (unspecified, "advertise"),
        (endless, "queue_bytes"),
        (window, "hop_window_bytes"),
        (seedless, "seeds"),
    ] {
        match Group::start(options).await.map(drop) {
            Err(StartError::Options(error)) => assert_eq!(error.field, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    let (group, _events) = Group::start(options()).await.unwrap();
    let taken = Options { listen: group.address(), ..options() };
    assert!(matches!(Group::start(taken).await.map(drop), Err(StartError::Listen { .. })));
}
