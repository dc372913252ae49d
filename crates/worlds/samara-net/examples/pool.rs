//! Three transaction pools in a line on loopback: a transaction submitted at one end arrives at the
//! other.
//!
//! `cargo run --example pool --features mconnection`

use std::error::Error;

use samara_cat::config::Preset;
use samara_cat::pool::{Admission, CheckKind, Verdict};
use samara_cat::{Cat, Event as PoolEvent, Transaction};
use samara_engine::Outbox;
use samara_net::mconn::{CatCodec, Event, Node, NodeKey, Options, PeerAddress};
use tokio::sync::mpsc::Receiver;

/// The application's check of a transaction. Here, every transaction is valid that is not empty.
fn application(tx: &Transaction, _: CheckKind) -> Verdict {
    if tx.is_empty() {
        return Verdict::Reject { code: 1, reason: "empty transaction".to_owned() };
    }
    Verdict::Accept(Admission { priority: 1, gas: 1, ..Admission::default() })
}

type Application = fn(&Transaction, CheckKind) -> Verdict;
type Pool = Cat<Application>;

async fn start(peers: Vec<PeerAddress>) -> Result<(Node<Pool>, Receiver<Event<PoolEvent>>), Box<dyn Error>> {
    let key = NodeKey::generate()?;
    let config = Preset::Cat.config();
    let engine = Cat::new(config.clone(), &key.id().identity(), application as Application)?;
    let listen = Some(([127, 0, 0, 1], 0).into());
    let options = Options { listen, peers, ..Options::new("example") };
    Ok(Node::start(key, options, CatCodec::new(&config), engine, Outbox::new(config.outbox())).await?)
}

/// Returns the next event that `pick` selects.
async fn next<T>(events: &mut Receiver<Event<PoolEvent>>, pick: impl Fn(Event<PoolEvent>) -> Option<T>) -> T {
    loop {
        let event = events.recv().await.expect("the node runs");
        if let Some(picked) = pick(event) {
            return picked;
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (first, mut first_events) = start(Vec::new()).await?;
    let (middle, _middle_events) = start(first.address().into_iter().collect()).await?;
    let (last, mut last_events) = start(middle.address().into_iter().collect()).await?;
    let up = |event| matches!(event, Event::LinkUp { .. }).then_some(());
    next(&mut first_events, up).await;
    next(&mut last_events, up).await;

    let tx = Transaction::new("the first transaction");
    println!("{} submits {}", first.id(), tx.key());
    first.call(move |engine, cx| engine.submit(tx, cx)).await?;
    let key = next(&mut last_events, |event| match event {
        Event::Engine(PoolEvent::Added { key, .. }) => Some(key),
        _ => None,
    })
    .await;
    let tx = last.call(move |engine, _| engine.pool().get(&key).cloned()).await?;
    println!("{} has {:?}", last.id(), tx.map(|tx| String::from_utf8_lossy(tx.bytes()).into_owned()));
    for node in [first, middle, last] {
        node.stop(std::time::Duration::from_secs(1)).await?;
    }
    Ok(())
}
