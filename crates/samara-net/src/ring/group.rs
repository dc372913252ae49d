//! A member as its owner sees it.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::{Outbox, outbox};
use samara_ring::{BroadcastError, Metrics, Ring, View};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::events::{Events, outlet};
use super::framed::{Framed, identity_of};
use super::member::{Inbound, Member, Request};
use super::options::Options;
use crate::driver::Driver;
use crate::hub::{Hub, Limits};
use crate::status::{Counters, Gone, OptionError, StartError};

/// Requests that may wait in the queue.
const REQUESTS: usize = 64;

/// A member's state and counters.
#[derive(Clone, Debug)]
pub struct Status {
    /// The protocol's counters.
    pub ring: Metrics,
    /// The transport's counters.
    pub transport: Counters,
    /// The outbox's counters by lane.
    pub lanes: Vec<(&'static str, outbox::Counters)>,
    /// Nodes with a link.
    pub links: usize,
    /// Bytes of own messages that wait to be broadcast.
    pub queued_bytes: usize,
    /// Bytes of its own that the member may have on the way at present.
    pub window_bytes: u64,
    /// Bytes of messages that are kept until all members have them.
    pub kept_bytes: u64,
    /// Bytes of deliveries that the application has not taken yet.
    pub waiting_bytes: usize,
}

/// A member of a group. Cheap to clone.
///
/// It ends with [`leave`](Self::leave). If all clones are dropped without that, it ends as in a crash: the others go on
/// without it, and its last messages may be lost.
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
    /// Starts a member, and waits until it is in a view: that of the seeds, or its own if no seed answers.
    ///
    /// # Errors
    /// An option is not valid, or the node cannot listen on the address.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time and input and output.
    pub async fn join(options: Options) -> Result<(Self, Events), StartError> {
        let (mut group, events) = Self::start(options).await?;
        group.view.wait_for(Option::is_some).await.map_err(|_| Gone)?;
        Ok((group, events))
    }

    /// Starts a member without waiting for a view. Messages wait for the first view.
    ///
    /// # Errors
    /// An option is not valid, or the node cannot listen on the address.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time and input and output.
    pub async fn start(mut options: Options) -> Result<(Self, Events), StartError> {
        let address = options.listen;
        let failed = |error| StartError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        options.listen = listener.local_addr().map_err(failed)?;
        let address = *options.advertise.get_or_insert(options.listen);
        options.check()?;
        let config = Arc::new(options.engine_config());
        let (message_bytes_max, queue_bytes) = (config.message_bytes_max, config.own_queue_bytes);
        let limits = Limits {
            in_flight_bytes: options.in_flight_bytes,
            pending_max: options.max_pending,
            // The layer bounds the links of an address.
            inbound_per_ip_max: usize::MAX,
            dials_max: config.members_max,
        };
        let outbox = Outbox::new(config.outbox());
        let engine = Ring::new(config, identity_of(address)).map_err(OptionError::from)?;
        let driver = Driver::new(engine, outbox).map_err(StartError::Random)?;
        let hub = Hub::new(driver, Framed::new(&options, address), Some(listener), limits, Vec::new());
        let (messages, message_queue) = mpsc::unbounded_channel();
        let (requests, request_queue) = mpsc::channel(REQUESTS);
        let (view_sender, view) = watch::channel(None);
        let (outlet, events) = outlet(options.waiting_bytes);
        let room = Arc::new(Semaphore::new(queue_bytes));
        let inbound = Inbound {
            messages: message_queue,
            requests: request_queue,
            room: Arc::clone(&room),
            queue_bytes,
        };
        tokio::spawn(Member::new(hub, inbound, outlet, view_sender).run());
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

    /// Sends a message to all members, this one included. Waits while the group takes no more, which is all the flow control
    /// that a sender needs. All members that stay deliver it, if this member stays or leaves.
    ///
    /// # Errors
    /// The message is too long, or this member leaves.
    pub async fn broadcast(&self, message: impl Into<Bytes>) -> Result<(), BroadcastError> {
        let message = message.into();
        let room = self.room_for(&message)?;
        let permit = self.room.acquire_many(room).await.map_err(|_| BroadcastError::Leaving)?;
        // The member's task gives the room back when the message has left the queue.
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

    /// Returns the member's state and counters.
    ///
    /// # Errors
    /// The member has left.
    pub async fn status(&self) -> Result<Status, Gone> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Status(answer)).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }

    /// Leaves. Returns once all members that stay have delivered this member's messages.
    ///
    /// # Errors
    /// The member has left already.
    pub async fn leave(&self) -> Result<(), Gone> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Leave(answer)).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }
}
