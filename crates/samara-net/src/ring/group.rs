//! A member as its owner sees it.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::Outbox;
use samara_ring::{BroadcastError, ConfigError, Ring, View};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::events::{Events, outlet};
use super::hello::identity_of;
use super::hub::{Hub, Inbound, Request};
use super::options::Options;
use super::status::Status;
use crate::driver::Driver;

/// Requests that wait at most; whoever asks waits then.
const REQUESTS: usize = 64;

/// Why a node does not become a member.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on: {error}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// An option is not possible.
    #[error("{0}")]
    Options(#[from] ConfigError),
    /// The system has no random numbers.
    #[error("there are no random numbers: {0}")]
    Random(getrandom::Error),
    /// It was stopped before it was a member.
    #[error("the member has stopped")]
    Gone,
}

/// The member has left, or its task is gone with its runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the member has left")]
pub struct Gone;

/// A member of a group. Cheap to clone.
///
/// It ends with [`leave`](Self::leave). If all of these are dropped without that, it ends as if it had crashed: the others go on
/// without it, and what it had broadcast last may be lost.
#[derive(Clone, Debug)]
pub struct Group {
    address: SocketAddr,
    message_bytes_max: usize,
    queue_bytes: usize,
    /// Room in the queue of messages to broadcast, in bytes.
    room: Arc<Semaphore>,
    messages: mpsc::UnboundedSender<Bytes>,
    requests: mpsc::Sender<Request>,
    view: watch::Receiver<Option<Arc<View>>>,
}

impl Group {
    /// Starts a member, and waits until it is in a view: that of the seeds, or one of its own if none of them answers.
    ///
    /// # Errors
    /// An option is not possible, or the address cannot be listened on.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time and input and output.
    pub async fn join(options: Options) -> Result<(Self, Events), JoinError> {
        let (mut group, events) = Self::start(options).await?;
        group.view.wait_for(Option::is_some).await.map_err(|_| JoinError::Gone)?;
        Ok((group, events))
    }

    /// Starts a member without waiting for a view. What is broadcast before there is one waits for it.
    ///
    /// # Errors
    /// An option is not possible, or the address cannot be listened on.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time and input and output.
    pub async fn start(mut options: Options) -> Result<(Self, Events), JoinError> {
        let address = options.listen;
        let failed = |error| JoinError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        options.listen = listener.local_addr().map_err(failed)?;
        let address = *options.advertise.get_or_insert(options.listen);
        options.check()?;
        let config = Arc::new(options.engine_config());
        let (message_bytes_max, queue_bytes) = (config.message_bytes_max, config.own_queue_bytes);
        let outbox = Outbox::new(config.outbox());
        let engine = Ring::new(config, identity_of(address))?;
        let driver = Driver::new(engine, outbox).map_err(JoinError::Random)?;
        let (messages, message_queue) = mpsc::unbounded_channel();
        let (requests, request_queue) = mpsc::channel(REQUESTS);
        let (view_sender, view) = watch::channel(None);
        let (outlet, events) = outlet(options.waiting_bytes);
        let room = Arc::new(Semaphore::new(queue_bytes));
        let inbound = Inbound { messages: message_queue, requests: request_queue, room: Arc::clone(&room) };
        let hub = Hub::new(driver, address, options, listener, inbound, outlet, view_sender);
        tokio::spawn(hub.run());
        let group = Self { address, message_bytes_max, queue_bytes, room, messages, requests, view };
        Ok((group, events))
    }

    /// The name of this member: the address at which others dial it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The view, once there is one.
    pub fn view(&self) -> Option<Arc<View>> {
        self.view.borrow().clone()
    }

    /// Sends a message to all members, this one included. Waits while the group takes no more: that is all the flow control that
    /// a sender needs. What is taken is delivered by all that stay, if this member does or leaves.
    ///
    /// # Errors
    /// The message is too long, or this member leaves.
    pub async fn broadcast(&self, message: impl Into<Bytes>) -> Result<(), BroadcastError> {
        let message = message.into();
        let room = self.room_for(&message)?;
        let permit = self.room.acquire_many(room).await.map_err(|_| BroadcastError::Leaving)?;
        // The hub gives it back when the message has left the queue.
        permit.forget();
        self.messages.send(message).map_err(|_| BroadcastError::Leaving)
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// There is no room for the message, it is too long, or this member leaves.
    pub fn try_broadcast(&self, message: impl Into<Bytes>) -> Result<(), BroadcastError> {
        let message = message.into();
        let permit = self.room.try_acquire_many(self.room_for(&message)?);
        permit
            .map_err(|error| match error {
                tokio::sync::TryAcquireError::Closed => BroadcastError::Leaving,
                tokio::sync::TryAcquireError::NoPermits => BroadcastError::Full,
            })?
            .forget();
        self.messages.send(message).map_err(|_| BroadcastError::Leaving)
    }

    fn room_for(&self, message: &Bytes) -> Result<u32, BroadcastError> {
        let (found, max) = (message.len(), self.message_bytes_max);
        if found > max {
            return Err(BroadcastError::TooLong { found, max });
        }
        // A message that is longer than the queue has it alone.
        Ok(found.clamp(1, self.queue_bytes) as u32)
    }

    /// How the member stands, and what it has counted.
    ///
    /// # Errors
    /// It has left.
    pub async fn status(&self) -> Result<Status, Gone> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Status(answer)).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }

    /// Leaves: what was broadcast is delivered by all that stay, and only then this returns.
    ///
    /// # Errors
    /// It has left already.
    pub async fn leave(&self) -> Result<(), Gone> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Leave(answer)).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }
}
