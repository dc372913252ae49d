//! A group of three on loopback: two members broadcast, one leaves, and all deliver the same
//! messages.
//!
//! `cargo run -p samara-net --example group --features ring`

use std::error::Error;
use std::net::SocketAddr;

use samara_net::ring::{Event, Events, Group, Options};

async fn join(seeds: Vec<SocketAddr>) -> Result<(Group, Events), Box<dyn Error>> {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Ok(Group::join(Options::new("example", listen).with_seeds(seeds)).await?)
}

/// Prints events until there is a view of `members` members and `messages` messages have arrived.
async fn show(name: &str, events: &mut Events, members: usize, mut messages: usize) {
    let mut seen = 0;
    while messages > 0 || seen != members {
        match events.next().await {
            Some(Event::Delivered { payload, .. }) => {
                println!("{name} has {:?}", String::from_utf8_lossy(&payload.to_bytes()));
                messages -= 1;
            }
            Some(Event::View(view)) => {
                seen = view.len();
                println!("{name} is in a view of {seen}");
            }
            Some(other) => println!("{name}: {other:?}"),
            None => return,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (first, mut first_events) = join(Vec::new()).await?;
    let (second, mut second_events) = join(vec![first.address()]).await?;
    let (third, mut third_events) = join(vec![first.address()]).await?;
    show("the first", &mut first_events, 3, 0).await;
    show("the second", &mut second_events, 3, 0).await;
    show("the third", &mut third_events, 3, 0).await;

    // Waits while the group accepts no more messages.
    first.broadcast("a message of the first").await?;
    third.broadcast("a message of the third").await?;
    // Returns once all members have this member's messages.
    third.leave().await?;

    show("the first", &mut first_events, 2, 2).await;
    show("the second", &mut second_events, 2, 2).await;
    let status = first.status().await?;
    println!("the first has delivered {} messages over {} links", status.ring.delivered, status.links);
    second.leave().await?;
    first.leave().await?;
    Ok(())
}
