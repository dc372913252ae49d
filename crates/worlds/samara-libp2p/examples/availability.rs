//! Data availability over real sockets. Reed-Solomon extends blobs, which are cut into 128 columns
//! and published in one batch. Each node has custody of a quarter of the columns, and any half of
//! them rebuilds the blobs: `cargo run -p samara-libp2p --example availability`.

#[path = "availability/columns.rs"]
mod columns;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use columns::{COLUMNS, ORIGINAL, any_half, extend, hash, rebuild, some_blobs};
use libp2p::{Multiaddr, Swarm, futures::StreamExt, swarm::SwarmEvent};
use samara_engine::outbox::Schedule;
use samara_gossipsub::{Config, rpc::Topic};
use samara_libp2p::{Behaviour, Event, Options};
use tokio::sync::mpsc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
const NODES: usize = 8;

fn swarm() -> Result<Swarm<Behaviour>> {
    let config = Config { heartbeat_initial_delay: Duration::from_millis(100), ..Config::ethereum() };
    let mut swarm = libp2p::SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_quic()
        .with_behaviour(|key| Ok(Behaviour::new(key, config, Options::default())?))?
        .build();
    swarm.listen_on("/ip4/127.0.0.1/udp/0/quic-v1".parse()?)?;
    Ok(swarm)
}

fn topic(column: usize) -> Topic {
    Topic::new(&format!("column-{column}"))
}

/// Runs a node that has custody of every fourth column and forwards what arrives.
async fn custodian(number: usize, publisher: Multiaddr, kept: mpsc::Sender<(usize, Vec<u8>)>) -> Result<()> {
    let mut swarm = swarm()?;
    let custody = || (0..COLUMNS).filter(|at| at % 4 == number % 4);
    custody().try_for_each(|at| swarm.behaviour_mut().subscribe(&topic(at)).map(drop))?;
    swarm.dial(publisher)?;
    loop {
        if let SwarmEvent::Behaviour(Event::Message { topic: of, message, .. }) =
            swarm.select_next_some().await
            && let Some(at) = custody().find(|at| topic(*at) == of)
        {
            kept.send((at, message.data.to_vec())).await?;
        }
    }
}

/// Publishes the columns once `NODES` nodes have subscribed, and collects the columns that they
/// receive.
async fn disseminate(columns: BTreeMap<usize, Vec<u8>>) -> Result<BTreeMap<usize, Vec<u8>>> {
    let mut swarm = swarm()?;
    let (keep, mut kept) = mpsc::channel(COLUMNS);
    let (mut published, mut copies, mut arrived) = (None, 0, BTreeMap::new());
    let mut look = tokio::time::interval(Duration::from_millis(50));
    while copies < COLUMNS * NODES / 4 {
        tokio::select! {
            _ = look.tick() => {
                let mut nodes = (0..COLUMNS).map(|at| swarm.behaviour().engine().topic_peers(&topic(at)).len());
                if published.is_none() && nodes.all(|nodes| nodes == NODES / 4) {
                    published = Some(Instant::now());
                    let batch = columns.iter().map(|(at, column)| (topic(*at), column.clone().into()));
                    let receipt = swarm.behaviour_mut().publish_batch(batch, &Schedule::INTERLEAVED)?;
                    println!("{} copies are owed to {NODES} nodes, which keep a quarter each", receipt.copies());
                }
            }
            Some((at, column)) = kept.recv() => {
                copies += 1;
                if arrived.insert(at, column).is_none() && [ORIGINAL, COLUMNS].contains(&arrived.len()) {
                    let after = published.map_or(0.0, |at| at.elapsed().as_secs_f64() * 1e3);
                    println!("{} columns arrived after {after:.0} ms, in {copies} copies", arrived.len());
                }
            }
            event = swarm.select_next_some() => if let SwarmEvent::NewListenAddr { address, .. } = event {
                (0..NODES).for_each(|at| drop(tokio::spawn(custodian(at, address.clone(), keep.clone()))));
            }
        }
    }
    Ok(arrived)
}

#[tokio::main]
async fn main() -> Result<()> {
    let blobs = some_blobs();
    println!("blobs with hash {} make {COLUMNS} columns", hash(&blobs));
    let arrived = tokio::time::timeout(Duration::from_secs(60), disseminate(extend(&blobs)?)).await??;
    for _ in 0..4 {
        let half = any_half(&arrived);
        let rebuilt = hash(&rebuild(&half)?);
        println!(
            "{} columns, {} of them original: hash {rebuilt}",
            half.len(),
            half.range(..ORIGINAL).count()
        );
        assert_eq!(rebuilt, hash(&blobs), "the rebuilt blobs differ");
    }
    Ok(())
}
