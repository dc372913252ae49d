//! A node as its owner sees it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::{Context, Engine, Input, Outbox};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::codec::Codec;
use super::error::{Gone, StartError};
use super::handshake::Party;
use super::hub::{Hub, Request};
use super::info::NodeInfo;
use super::key::{NodeId, NodeKey, PeerAddress};
use super::options::Options;
use super::status::{Event, Status, Stopped};
use crate::driver::Driver;

/// Requests that wait at most; whoever asks waits then.
const REQUESTS: usize = 1024;

/// An engine on the connections of CometBFT: a task that listens, dials, and moves frames.
///
/// [`call`](Self::call) reaches the engine; [`Event`]s tell what happens. Cheap to clone; the node ends with
/// [`stop`](Self::stop), or when the last clone is dropped.
#[derive(Debug)]
pub struct Node<E: Engine> {
    id: NodeId,
    listen: Option<SocketAddr>,
    requests: mpsc::Sender<Request<E>>,
}

impl<E: Engine> Clone for Node<E> {
    fn clone(&self) -> Self {
        Self { id: self.id, listen: self.listen, requests: self.requests.clone() }
    }
}

impl<E: Engine> std::fmt::Debug for Request<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Request")
    }
}

impl<E: Engine + 'static> Node<E>
where
    E::Event: 'static,
{
    /// Starts a node. Its events must be read: what finds the queue full ([`Options::events`]) is dropped and counted.
    ///
    /// # Errors
    /// An option is not possible, the address cannot be listened on, or the system has no random numbers.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time and input and output.
    pub async fn start<C: Codec<Frame = E::Frame>>(
        key: NodeKey,
        options: Options,
        codec: C,
        engine: E,
        outbox: Outbox<E::Frame>,
    ) -> Result<(Self, mpsc::Receiver<Event<E::Event>>), StartError> {
        options.check(&codec.channels()).map_err(StartError::Options)?;
        let (listener, listen) = match options.listen {
            None => (None, None),
            Some(address) => {
                let failed = |error| StartError::Listen { address, error };
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?;
                (Some(listener), Some(address))
            }
        };
        let driver = Driver::new(engine, outbox).map_err(StartError::Random)?;
        let id = key.id();
        let info = NodeInfo {
            block_version: options.block_version,
            app_version: options.app_version,
            id: id.to_string(),
            // CometBFT insists on an address, also of those that do not listen.
            listen_addr: format!("tcp://{}", listen.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 1)))),
            network: options.network.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            channels: codec.offered(),
            moniker: options.moniker.clone(),
        };
        let (requests, receiver) = mpsc::channel(REQUESTS);
        let (events_in, events) = mpsc::channel(options.events);
        let party = Party { key, info, codec: Arc::new(codec), options };
        let hub = Hub::new(driver, party, listener, receiver, events_in);
        tokio::spawn(hub.run());
        Ok((Self { id, listen, requests }, events))
    }

    /// Its name.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Where it listens.
    pub fn listen(&self) -> Option<SocketAddr> {
        self.listen
    }

    /// Where others reach it, if it listens at an address that can be dialled.
    pub fn address(&self) -> Option<PeerAddress> {
        let host = self.listen.filter(|listen| !listen.ip().is_unspecified())?.to_string();
        Some(PeerAddress { id: self.id, host })
    }

    /// Calls the engine, and waits for its answer.
    ///
    /// # Errors
    /// The node has stopped.
    pub async fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut E, &mut Context<'_, E::Frame, E::Event>) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let (answer, answered) = oneshot::channel();
        let call = move |engine: &mut E, cx: &mut Context<'_, E::Frame, E::Event>| {
            // Fails only if the asker has given up.
            let _ = answer.send(call(engine, cx));
        };
        self.request(Request::Call(Box::new(call))).await?;
        answered.await.map_err(|_| Gone)
    }

    /// Gives the engine a command.
    ///
    /// # Errors
    /// The node has stopped.
    pub async fn command(&self, command: E::Command) -> Result<(), Gone>
    where
        E::Command: 'static,
    {
        self.call(|engine, cx| engine.handle(Input::Command(command), cx)).await
    }

    /// Stays connected to another peer from now on.
    ///
    /// # Errors
    /// The node has stopped.
    pub async fn dial(&self, peer: PeerAddress) -> Result<(), Gone> {
        self.request(Request::Dial(peer)).await
    }

    /// Ends the link to a peer, and does not dial it any more. It can dial again.
    ///
    /// # Errors
    /// The node has stopped.
    pub async fn disconnect(&self, peer: NodeId) -> Result<(), Gone> {
        self.request(Request::Disconnect(peer)).await
    }

    /// How it stands.
    ///
    /// # Errors
    /// The node has stopped.
    pub async fn status(&self) -> Result<Status, Gone> {
        let (answer, answered) = oneshot::channel();
        self.request(Request::Status(answer)).await?;
        answered.await.map_err(|_| Gone)
    }

    /// Stops: no new connections, what is owed may still leave for so long, and all connections are closed such that peers get
    /// what was sent.
    ///
    /// # Errors
    /// The node has stopped already.
    pub async fn stop(&self, drain: Duration) -> Result<Stopped, Gone> {
        let (answer, answered) = oneshot::channel();
        self.request(Request::Stop(drain, answer)).await?;
        answered.await.map_err(|_| Gone)
    }

    async fn request(&self, request: Request<E>) -> Result<(), Gone> {
        self.requests.send(request).await.map_err(|_| Gone)
    }
}
