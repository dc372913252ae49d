//! Members on loopback, and helpers to wait for events.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use samara_net::ring::{Event, Events, Group, Options, View};
use tokio::time::timeout;

/// Timeout for events that should happen soon: busy machines are slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn options() -> Options {
    Options::new("test", SocketAddr::from(([127, 0, 0, 1], 0)))
}

/// Addresses with free ports, each call at another host: outgoing connections take no port there.
pub(crate) fn addresses(count: usize) -> Vec<SocketAddr> {
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let host = Ipv4Addr::new(127, 0, 10, HOSTS.fetch_add(1, Ordering::Relaxed));
    let free: Vec<_> = (0..count).map(|_| std::net::TcpListener::bind((host, 0)).unwrap()).collect();
    free.iter().map(|listener| listener.local_addr().unwrap()).collect()
}

/// Options of a member that is never suspected on a busy machine, for tests that are not about
/// failures.
pub(crate) fn patient(mut options: Options) -> Options {
    options.config.detection.timeout_min = PATIENCE;
    options.config.detection.timeout_max = 2 * PATIENCE;
    options
}

/// A member with its events.
pub(crate) struct Node {
    pub(crate) group: Group,
    pub(crate) events: Events,
    /// Payloads in order of delivery, each with the address of its sender.
    pub(crate) delivered: Vec<(SocketAddr, Vec<u8>)>,
    /// All other events, for messages of failed assertions.
    others: Vec<String>,
}

/// Starts `count` members, which join one after another. `change` can adjust their options.
pub(crate) async fn start(count: usize, change: impl Fn(usize, Options) -> Options) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for index in 0..count {
        let seeds: Vec<SocketAddr> = nodes.iter().map(|node| node.group.address()).collect();
        let options = change(index, options()).with_seeds(seeds);
        let joined = timeout(PATIENCE, Group::join(options)).await.expect("joins in time");
        let (group, events) = joined.expect("joins");
        nodes.push(Node::new(group, events));
    }
    for node in &mut nodes {
        node.wait_for_view(count).await;
    }
    nodes
}

impl Node {
    pub(crate) fn new(group: Group, events: Events) -> Self {
        Self { group, events, delivered: Vec::new(), others: Vec::new() }
    }

    /// Takes events until `pick` picks one.
    pub(crate) async fn until<T>(&mut self, mut pick: impl FnMut(&mut Self, &Event) -> Option<T>) -> T {
        loop {
            let Ok(event) = timeout(PATIENCE, self.events.next()).await else {
                let (address, delivered) = (self.group.address(), self.delivered.len());
                panic!("no event at {address} in time; {delivered} messages and then {:#?}", self.others);
            };
            let event = event.expect("the member runs");
            if let Event::Delivered { origin, payload, .. } = &event {
                let name = origin.to_string().parse().unwrap();
                self.delivered.push((name, payload.to_bytes().to_vec()));
            } else {
                self.others.push(format!("{event:?}"));
            }
            if let Some(picked) = pick(self, &event) {
                return picked;
            }
        }
    }

    pub(crate) async fn wait_for_view(&mut self, members: usize) -> Arc<View> {
        if let Some(view) = self.group.view().filter(|view| view.len() == members) {
            return view;
        }
        self.until(|_, event| match event {
            Event::View(view) if view.len() == members => Some(Arc::clone(view)),
            _ => None,
        })
        .await
    }

    /// Waits until `count` messages were delivered since the start.
    pub(crate) async fn wait_for_messages(&mut self, count: usize) {
        while self.delivered.len() < count {
            self.until(|_, event| matches!(event, Event::Delivered { .. }).then_some(())).await;
        }
    }

    /// Returns the delivered messages of one sender.
    pub(crate) fn of(&self, sender: SocketAddr) -> Vec<&[u8]> {
        let of_sender = self.delivered.iter().filter(|(name, _)| *name == sender);
        of_sender.map(|(_, payload)| payload.as_slice()).collect()
    }
}

/// A message that names its sender and its ordinal.
pub(crate) fn message(sender: usize, number: usize, len: usize) -> Vec<u8> {
    let mut message = format!("{sender}:{number}:").into_bytes();
    message.resize(message.len().max(len), b'.');
    message
}

/// Sends messages in the background.
pub(crate) fn send(group: &Group, sender: usize, count: usize, len: usize) -> tokio::task::JoinHandle<()> {
    let group = group.clone();
    tokio::spawn(async move {
        for number in 0..count {
            group.broadcast(message(sender, number, len)).await.expect("is taken");
        }
    })
}

/// All messages of one sender, in order.
pub(crate) fn all(sender: usize, count: usize, len: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| message(sender, number, len)).collect()
}
