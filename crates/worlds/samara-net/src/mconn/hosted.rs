//! Hosts of an experiment on the connections of CometBFT.
//!
//! Their keys follow from the secret of the run. So each host knows the node ids of all others, dials
//! a host by its number, and admits nobody else.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use samara_cat::CatFrame;
use samara_engine::{Driver, Engine, PeerId, PeerIdentity, PeerInfo};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::codec::CatCodec;
use super::handshake::{Handshake, Opened};
use super::identity::{NodeId, NodeKey};
use super::layer::Channels;
use super::node::{Flush, Options};
use crate::hosted::{self, Host, Hosting, Names, Numbered, secret_of};
use crate::hub::{Attempted, FrameOf, LinkLayer, Task};
use crate::link::{Established, Links, Ports, connect_from};
use crate::status::Closed;

/// The network (chain) of all hosts. Other runs have other keys.
const NETWORK: &str = "samara";
/// The interval of pings that are not to be sent: longer than any run.
const NEVER: Duration = Duration::from_secs(1 << 24);

/// Begins to accept links of CometBFT, with pings after this time or none. The channels of both ends
/// decide on their protocol.
pub fn host<E: Engine<Frame = CatFrame> + 'static>(
    options: &hosted::Options,
    (flush, ping_interval): (Flush, Option<Duration>),
    listener: TcpListener,
    codec: CatCodec,
    driver: Driver<E>,
) -> impl Host<E> + use<E> {
    let queues = codec.queues();
    let own = Options {
        flush,
        ping_interval: ping_interval.unwrap_or(NEVER),
        // The time until a link is up covers its handshake.
        handshake_timeout: options.dial_timeout,
        ..Options::new(NETWORK)
    };
    let key = NodeKey::from_secret(secret_of(&options.token, options.own));
    let handshake = Handshake::new(key, codec, own, Some(options.listen));
    Hosting::new(options, listener, Known::new(options, handshake), queues, driver)
}

/// The other hosts of a run.
struct Others {
    own: u32,
    address: IpAddr,
    peers: Vec<(NodeId, SocketAddr)>,
    numbers: BTreeMap<NodeId, u32>,
    names: Names,
    timeout: Duration,
    handshake: Arc<Handshake>,
}

impl Others {
    async fn dial<E: Engine<Frame = CatFrame> + 'static>(self: Arc<Self>, host: u32) -> Attempted<Known<E>> {
        let call = async {
            let (id, to) = *self.peers.get(host as usize).ok_or(Closed::NoAddress)?;
            let stream = connect_from(self.address, to).await?;
            self.recognise(self.handshake.establish::<E>(stream, to, Some(id)).await?)
        };
        timeout(self.timeout, call).await.map_err(|_| Closed::HandshakeTimeout)?
    }

    async fn greet<E: Engine<Frame = CatFrame> + 'static>(
        self: Arc<Self>,
        stream: TcpStream,
        from: SocketAddr,
    ) -> Attempted<Known<E>> {
        self.recognise(self.handshake.establish::<E>(stream, from, None).await?)
    }

    /// Finds the number of the host that has proved its node id, and names it as engines of hosts do.
    fn recognise<E: Engine<Frame = CatFrame> + 'static>(
        &self,
        new: Established<Channels<E>>,
    ) -> Attempted<Known<E>> {
        let Established { name, remote, info, number, traffic, connection, .. } = new;
        let host = self.numbers.get(&name).copied();
        let host = host.ok_or_else(|| Closed::handshake("the peer is no host of this run"))?;
        let identity = (self.names.identity)(host);
        let info = PeerInfo { identity, address: Some(remote.ip()), ..info };
        Ok(Established { name: host, remote, info, about: (), number, traffic, connection })
    }
}

/// The connections of CometBFT between hosts that know each other.
struct Known<E> {
    channels: Channels<E>,
    others: Arc<Others>,
}

impl<E> Known<E> {
    fn new(options: &hosted::Options, handshake: Handshake) -> Self {
        let id = |host| NodeKey::from_secret(secret_of(&options.token, host)).id();
        let peers: Vec<(NodeId, SocketAddr)> =
            (0..).zip(&options.peers).map(|(host, address)| (id(host), *address)).collect();
        let channels = Channels::new(handshake);
        let others = Others {
            own: options.own,
            address: options.listen.ip(),
            numbers: peers.iter().map(|(id, _)| *id).zip(0..).collect(),
            peers,
            names: options.names.clone(),
            timeout: options.dial_timeout,
            handshake: Arc::clone(&channels.handshake),
        };
        Self { channels, others: Arc::new(others) }
    }
}

impl<E: Engine<Frame = CatFrame> + 'static> LinkLayer for Known<E> {
    type Engine = E;
    type Name = u32;
    type Connection = Opened;
    type About = ();

    fn own_name(&self) -> Option<u32> {
        Some(self.others.own)
    }

    fn name(&self, identity: &PeerIdentity) -> Option<u32> {
        (self.others.names.host)(identity).filter(|host| *host != self.others.own)
    }

    fn identity(&self, name: &u32) -> PeerIdentity {
        (self.others.names.identity)(*name)
    }

    fn dial(&self, name: u32) -> Task<Attempted<Self>> {
        Box::pin(Arc::clone(&self.others).dial(name))
    }

    fn admit(&self, _: &Links<Self>, _: &Established<Self>) -> Result<(), Closed> {
        Ok(())
    }

    fn run(&self, connection: Opened, ports: Ports<FrameOf<Self>>) -> Task<()> {
        self.channels.run(connection, ports)
    }

    /// An experiment has as many hosts as numbers.
    fn forget(_: &mut E, _: PeerId) -> bool {
        false
    }
}

impl<E: Engine<Frame = CatFrame> + 'static> Numbered for Known<E> {
    fn greet(&self, stream: TcpStream, from: SocketAddr) -> Task<Attempted<Self>> {
        Box::pin(Arc::clone(&self.others).greet(stream, from))
    }
}
