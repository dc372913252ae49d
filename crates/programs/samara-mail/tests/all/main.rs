//! Messages through a pool of real nodes on loopback: whole, late, for somebody else, through rounds
//! that fail, changed on the way.

use std::collections::BTreeSet;
use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use samara_mail::{Naming, ReceiveOptions, Received, Receiving, SendOptions, Sending, Sent, receive, send};
use samara_net::mix::{
    Address, Client, ClientOptions, Config, Contact, Ended, GatewayOptions, Group, Happened, Identity,
    Member, OVERHEAD_BYTES, Options, Outcome, RecipientKey,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

/// Timeout of every wait. A correct test never takes this long, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Payloads are only moved: the tests are about messages.
const GROUP: Group = Group::Model;
const BATCH: u32 = 8;

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("happens in time")
}

/// Three nodes and a scheduler.
struct Pool {
    nodes: Vec<Contact>,
    running: Vec<(Member, Receiver<Happened>)>,
}

impl Pool {
    async fn start(change: impl Fn(&mut GatewayOptions)) -> Self {
        let mut hosts = Vec::new();
        for _ in 0..4 {
            let bind = || TcpListener::bind("127.0.0.1:0");
            let (listener, gateway) = (bind().await.expect("a port"), bind().await.expect("a port"));
            hosts.push((Identity::generate().expect("a certificate"), listener, gateway));
        }
        let contact = |identity: &Identity, address: SocketAddr| {
            let fingerprint = identity.fingerprint();
            Contact { fingerprint, address }
        };
        let address = |listener: &TcpListener| listener.local_addr().expect("an address");
        let all: Vec<Contact> =
            hosts.iter().map(|(id, listener, _)| contact(id, address(listener))).collect();
        let nodes = hosts[..3].iter().map(|(id, _, gateway)| contact(id, address(gateway))).collect();
        let mut running = Vec::new();
        for (number, (identity, listener, gateway)) in hosts.into_iter().enumerate() {
            let mut options = Options::new(identity, address(&listener), all[..3].to_vec(), all[3]);
            let defaults = Config::default();
            let (precomputation_timeout, realtime_timeout) = (PATIENCE, PATIENCE);
            options.config = Config {
                group: GROUP,
                team: 3,
                batch: BATCH,
                rounds_max: 8,
                precomputation_timeout,
                realtime_timeout,
                ..defaults
            };
            options.threads = 1;
            if number < 3 {
                // One sender can fill a batch.
                let mut of_senders = GatewayOptions::new(address(&gateway));
                (of_senders.senders_min, of_senders.sender_share_percent) = (1, 100);
                of_senders.fill = Duration::from_millis(200);
                change(&mut of_senders);
                options.gateway = Some(of_senders);
            }
            let gateway = options.gateway.is_some().then_some(gateway);
            running.push(Member::start_on(options, listener, gateway).expect("it starts"));
        }
        Self { nodes, running }
    }

    fn client(&self) -> ClientOptions {
        ClientOptions::new(Identity::generate().expect("a certificate"), self.nodes.clone(), GROUP)
    }

    fn message(&self, to: Address, contents: &[u8]) -> SendOptions {
        let (client, naming) = (self.client(), Naming::Contents);
        SendOptions { client, to, contents: contents.to_vec(), naming, patience: PATIENCE }
    }

    async fn send(&self, to: Address, contents: &[u8]) -> (Sent, Vec<Sending>) {
        self.send_with(self.message(to, contents)).await
    }

    async fn send_with(&self, options: SendOptions) -> (Sent, Vec<Sending>) {
        let mut reports = Vec::new();
        let sent =
            soon(send(options, pending(), &mut |report| reports.push(report))).await.expect("valid options");
        (sent, reports)
    }

    async fn receive(&self, key: &RecipientKey, from: u64, patience: Duration) -> Inbox {
        let options =
            ReceiveOptions { client: self.client(), key: key.clone(), from, keeps_on: false, patience };
        let mut reports = Vec::new();
        let mut report = |report| {
            reports.push(report);
            Ok(())
        };
        let received = soon(receive(options, &mut report)).await.expect("nodes answer");
        Inbox { received, reports }
    }

    /// Returns all payloads of a round.
    async fn payloads(&self, round: u64) -> Vec<Vec<u8>> {
        let mut reader = samara_net::mix::Reader::new(&self.client(), 0).expect("a node");
        let Ended::Delivered(outcomes) = soon(reader.result(round, BATCH)).await.expect("it is kept") else {
            panic!("round {round} failed")
        };
        let content = |outcome| match outcome {
            Outcome::Content(content) => content.to_vec(),
            other => panic!("the mix delivered {other:?}"),
        };
        outcomes.into_iter().map(content).collect()
    }
}

struct Inbox {
    received: Received,
    reports: Vec<Receiving>,
}

impl Inbox {
    fn messages(&self) -> Vec<Vec<u8>> {
        let contents = |report: &Receiving| match report {
            Receiving::Message(message) => Some(message.contents.clone()),
            _ => None,
        };
        self.reports.iter().filter_map(contents).collect()
    }

    fn gone(&self) -> Option<u64> {
        self.reports.iter().find_map(|report| match report {
            Receiving::Reach { gone, .. } => *gone,
            _ => None,
        })
    }
}

fn key() -> RecipientKey {
    RecipientKey::generate().expect("random numbers")
}

/// Bytes that no repetition hides errors in.
fn contents(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_reach_their_recipient_and_nobody_else() {
    let pool = Pool::start(|_| {}).await;
    let (key, other) = (key(), key());
    // Some of a round, more than a round, and nothing.
    for bytes in [2_000, 10_000, 0] {
        let contents = contents(bytes);
        let (sent, reports) = pool.send(key.address(), &contents).await;
        assert!(sent.is_complete() && sent.failure.is_none(), "{sent:?}, {reports:?}");
        assert_eq!(sent.parts, bytes.div_ceil(437).max(1));
        assert_eq!(sent.rounds.values().sum::<usize>(), sent.parts);
        // The payloads of the message, and the dummies around them, have one length.
        for round in sent.rounds.keys() {
            let payloads = pool.payloads(*round).await;
            assert_eq!(payloads.len(), BATCH as usize);
            let lengths: BTreeSet<usize> = payloads.iter().map(Vec::len).collect();
            assert_eq!(lengths, [GROUP.content_bytes()].into());
        }
        let from = *sent.rounds.keys().next().expect("a round");
        let inbox = pool.receive(&key, from, PATIENCE).await;
        assert!(inbox.received.is_complete(), "{:?}", inbox.reports);
        assert_eq!(inbox.messages(), [contents]);
        let nothing = pool.receive(&other, 0, Duration::ZERO).await;
        assert_eq!((nothing.messages().len(), nothing.received.is_complete()), (0, false));
    }
    // All of them at once, by a receiver that comes last.
    assert_eq!(pool.receive(&key, 0, PATIENCE).await.messages().len(), 3);
}

/// Too few senders fail the first round; once there are others, the same payloads come out. Nothing of
/// the second attempt equals one of the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_fails_is_repeated() {
    let pool = Pool::start(|gateway| {
        (gateway.senders_min, gateway.sender_share_percent) = (2, 50);
        gateway.hold = Duration::from_millis(1500);
    })
    .await;
    let key = key();
    let (contents, again) = (contents(2_000), tokio::sync::Notify::new());
    let options = pool.message(key.address(), &contents);
    let mut causes = BTreeSet::new();
    let mut report = |report| {
        if let Sending::Again { cause, .. } = report {
            causes.insert(cause);
            again.notify_one();
        }
    };
    // The other sender comes after the first failure, and has payloads in each round from then on.
    let others = async {
        again.notified().await;
        let client = Client::start(pool.client()).expect("it starts");
        loop {
            let round = client.next_round().await;
            let sealed = client.seal(&round, vec![vec![1; GROUP.content_bytes()]]).await.expect("sealed");
            // A round that is full meanwhile takes it not.
            let _ = client.submit(&round, sealed).await;
        }
    };
    let sent = soon(async {
        tokio::select! {
            sent = send(options, pending(), &mut report) => sent.expect("valid options"),
            () = others => unreachable!("it has no end"),
        }
    })
    .await;
    assert!(sent.is_complete() && sent.again > 0, "{sent:?}");
    assert!(causes.iter().any(|cause| cause.starts_with("too few senders")), "{causes:?}");
    let inbox = pool.receive(&key, 0, PATIENCE).await;
    assert_eq!(inbox.messages(), [contents], "{:?}", inbox.reports);
}

/// A batch needs two senders, and one waits alone.
async fn pool_of_two_senders() -> Pool {
    Pool::start(|gateway| {
        (gateway.senders_min, gateway.sender_share_percent) = (2, 50);
        gateway.hold = PATIENCE;
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_gives_up_withdraws_its_payloads() {
    let pool = pool_of_two_senders().await;
    let key = key();
    // One stops when it waits for others, and one loses its patience.
    let waits = tokio::sync::Notify::new();
    let mut report = |report| {
        if let Sending::Progress { under_way: 1, senders_wanted: Some(1), .. } = report {
            waits.notify_one();
        }
    };
    let options = pool.message(key.address(), b"stopped");
    let stopped = soon(send(options, waits.notified(), &mut report)).await.expect("valid options");
    let options = SendOptions { patience: Duration::from_secs(5), ..pool.message(key.address(), b"late") };
    let (impatient, _) = pool.send_with(options).await;
    for sent in [stopped, impatient] {
        assert_eq!((sent.out, sent.withdrawn, sent.may_come), (0, 1, 0), "{sent:?}");
        assert_eq!((sent.senders_wanted, sent.failure), (Some(1), None));
    }
    // Others fill the same round, and nothing else comes out of it.
    let clients = [(), ()].map(|()| Client::start(pool.client()).expect("it starts"));
    let mut rounds = Vec::new();
    for client in &clients {
        let round = soon(client.next_round()).await;
        let sealed = client.seal(&round, vec![vec![1; GROUP.content_bytes()]; 4]).await.expect("sealed");
        client.submit(&round, sealed).await.expect("there is room for all");
        rounds.push(round);
    }
    assert_eq!(rounds[0].round, rounds[1].round, "both take the oldest round");
    let round = rounds[0].round;
    assert!(clients[0].withdraw(&rounds[0]).await.is_err(), "a full batch mixes");
    let mut reader = samara_net::mix::Reader::new(&pool.client(), 0).expect("a node");
    let ended = soon(async {
        loop {
            // The round may not have ended at this node.
            if let Ok(ended) = reader.result(round, BATCH).await {
                break ended;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(matches!(ended, Ended::Delivered(_)), "{ended:?}");
    let inbox = pool.receive(&key, 0, Duration::ZERO).await;
    assert!(inbox.messages().is_empty() && inbox.received.unfinished.is_empty());
}

/// The nodes vanish while a payload waits there: nobody can withdraw it.
#[tokio::test(flavor = "multi_thread")]
async fn a_sender_says_that_payloads_may_still_come_out() {
    let pool = pool_of_two_senders().await;
    let (waits, key) = (tokio::sync::Notify::new(), key());
    let options = SendOptions { patience: Duration::from_secs(8), ..pool.message(key.address(), b"lost") };
    let mut report = |report| {
        if let Sending::Progress { senders_wanted: Some(_), .. } = report {
            waits.notify_one();
        }
    };
    let vanish = async {
        waits.notified().await;
        for (member, _) in &pool.running {
            member.stop().await;
        }
        pending::<()>().await;
    };
    let sent = soon(async {
        tokio::select! {
            sent = send(options, pending(), &mut report) => sent.expect("valid options"),
            () = vanish => unreachable!("it has no end"),
        }
    })
    .await;
    assert_eq!((sent.out, sent.withdrawn, sent.may_come), (0, 0, 1), "{sent:?}");
    assert!(sent.failure.is_some(), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_sent_again_comes_once() {
    let pool = Pool::start(|_| {}).await;
    let key = key();
    let contents = contents(600);
    let mut ids = BTreeSet::new();
    for naming in [Naming::Contents, Naming::Contents, Naming::Random] {
        let options = SendOptions { naming, ..pool.message(key.address(), &contents) };
        let (sent, reports) = pool.send_with(options).await;
        assert!(sent.is_complete(), "{sent:?}, {reports:?}");
        ids.insert(sent.id);
        let inbox = pool.receive(&key, 0, PATIENCE).await;
        assert_eq!(inbox.messages().len(), ids.len(), "{naming:?}");
    }
    assert_eq!(ids.len(), 2, "only another message has another name");
    let inbox = pool.receive(&key, 0, PATIENCE).await;
    let repeated = |report: &&Receiving| matches!(report, Receiving::Repeated { id, .. } if ids.contains(id));
    assert_eq!(inbox.reports.iter().filter(repeated).count(), 1, "{:?}", inbox.reports);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_receiver_learns_what_is_gone_and_missing() {
    let pool = Pool::start(|gateway| gateway.results_max = 1).await;
    let key = key();
    // More than a round, so that the first part is gone.
    let (sent, _) = pool.send(key.address(), &contents(5_000)).await;
    assert!(sent.is_complete() && sent.rounds.len() > 1, "{sent:?}");
    let inbox = pool.receive(&key, 0, Duration::from_secs(2)).await;
    assert!(inbox.gone().is_some(), "{:?}", inbox.reports);
    assert!(!inbox.received.is_complete() && inbox.messages().is_empty());
    let [unfinished] = &inbox.received.unfinished[..] else { panic!("{:?}", inbox.received) };
    assert_eq!((unfinished.id, usize::from(unfinished.count)), (sent.id, sent.parts));
    assert!(!unfinished.missing.is_empty() && unfinished.missing.len() < sent.parts);
}

/// A payload that a node has changed, and one of somebody who knows the address only, harm no other.
#[tokio::test(flavor = "multi_thread")]
async fn changed_and_foreign_payloads_are_no_messages() {
    let pool = Pool::start(|_| {}).await;
    let key = key();
    let mut changed = key.address().encrypt(&[1; 460]).expect("random numbers");
    changed[40] ^= 1;
    let foreign = key.address().encrypt(&[9; 460]).expect("random numbers");
    let client = Client::start(pool.client()).expect("it starts");
    let round = soon(client.next_round()).await;
    let sealed = client.seal(&round, vec![changed, foreign]).await.expect("sealed");
    client.submit(&round, sealed).await.expect("there is room");
    assert!(matches!(soon(client.result(&round)).await, Ok(Ended::Delivered(_))));
    let (sent, _) = pool.send(key.address(), b"hello").await;
    assert!(sent.is_complete());
    let inbox = pool.receive(&key, 0, PATIENCE).await;
    assert_eq!(inbox.messages(), [b"hello"]);
    let unreadable = |report: &&Receiving| matches!(report, Receiving::Unreadable { .. });
    let unreadable: Vec<&Receiving> = inbox.reports.iter().filter(unreadable).collect();
    let why = "version 9; expected 1 or 2".to_owned();
    assert_eq!(unreadable, [&Receiving::Unreadable { round: round.round, why }]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_and_a_receiver_say_which_node_is_missing() {
    let mut pool = Pool::start(|_| {}).await;
    let key = key();
    let (sent, _) = pool.send(key.address(), b"before").await;
    assert!(sent.is_complete());
    drop(pool.running.remove(1));
    let options = SendOptions { patience: Duration::from_secs(3), ..pool.message(key.address(), b"after") };
    let sent = soon(send(options, pending(), &mut |_| {})).await.expect("valid options");
    let failure = sent.failure.expect("no team is whole");
    assert!(sent.out == 0 && failure.contains("node 1"), "{failure}");
    // The others have the results.
    let inbox = pool.receive(&key, 0, PATIENCE).await;
    assert_eq!(inbox.messages(), [b"before"]);
    let silent = inbox.reports.iter().any(|report| matches!(report, Receiving::Silent { node: 1, .. }));
    assert!(silent, "{:?}", inbox.reports);
    pool.running.clear();
    let options =
        ReceiveOptions { client: pool.client(), key, from: 0, keeps_on: false, patience: Duration::ZERO };
    let error = soon(receive(options, &mut |_| Ok(()))).await.expect_err("no node runs").to_string();
    assert!(error.contains("node 0") && error.contains("node 2") && error.contains("pool file"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_a_maximum_of_parts() {
    let pool = Pool { nodes: vec![], running: vec![] };
    let max = samara_mail::content_bytes_max(GROUP);
    assert_eq!(max, 437 * samara_mail::PARTS_MAX);
    assert_eq!(samara_mail::part_bytes(GROUP), Some(GROUP.content_bytes() - OVERHEAD_BYTES - 23));
    let options = pool.message(key().address(), &vec![0; max + 1]);
    let error = send(options, pending(), &mut |_| {}).await.expect_err("it is too long").to_string();
    assert!(error.contains(&format!("at most {max}")), "{error}");
}
