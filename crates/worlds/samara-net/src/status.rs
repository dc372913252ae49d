//! Shared by all runtimes: causes of ended links, counters of transports, errors of starts, and
//! requests to a runtime's task.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

pub use samara_engine::config::ConfigError as OptionError;
#[cfg(any(feature = "mconnection", feature = "mix", feature = "ring"))]
pub(crate) use samara_engine::config::check;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Closed {
    #[error("cannot reach the peer: {0}")]
    Unreachable(String),
    /// The engine requested a peer with an unknown address.
    #[error("the peer's address is unknown")]
    NoAddress,
    #[error("the handshake failed: {0}")]
    Handshake(String),
    #[error("the peer did not answer in time")]
    HandshakeTimeout,
    #[error("the peer refused the link: {0}")]
    Refused(String),
    #[error("the peer belongs to another group")]
    OtherGroup,
    /// The peer has other options than all members of the group must share. The text names those that
    /// differ, if this node knows them.
    #[error("the peer has other options{0}")]
    OtherOptions(String),
    /// A node other than the dialled one answered, or this node reached itself.
    #[error("another node answered: {0}")]
    OtherNode(SocketAddr),
    /// The peer has not proved that it is a member of the group, or that it has the name it claims.
    #[error("the peer did not prove that it is a member")]
    Unauthenticated,
    /// Without authentication, the host of a name must be the one that the connection comes from.
    #[error("the peer calls itself {0}, which is not the address of its host")]
    OtherAddress(SocketAddr),
    /// A node claims the name of a peer whose link is alive.
    #[error("the link to the peer with this name is alive")]
    NameTaken,
    /// A frame that the peer did not send, or not at this place.
    #[error("a frame is not authentic")]
    Forged,
    #[cfg(feature = "mconnection")]
    #[error("{0}")]
    Incompatible(#[from] crate::mconn::Incompatible),
    #[cfg(feature = "mconnection")]
    #[error("the peer broke the rules: {0}")]
    Broken(#[from] crate::mconn::Broken),
    #[error("a frame of {found} bytes exceeds the limit of {max}")]
    FrameTooLong { found: usize, max: usize },
    #[error("a frame does not decode: {0}")]
    Malformed(String),
    #[error("the peer was silent for too long")]
    Idle,
    #[error("the peer did not answer a ping")]
    PongTimeout,
    #[error("the connection ended: {0}")]
    Ended(String),
    #[error("another connection to the peer exists")]
    Duplicate,
    #[error("the limit of connections is reached")]
    Full,
    /// The handshake was the oldest of the prefix of addresses with the most, when all places were
    /// taken.
    #[error("the handshake made room for another one")]
    Evicted,
    /// The peer did not take what it had asked for.
    #[error("the peer does not take its answers")]
    Stalled,
    #[error("this node closed the link")]
    Here,
}

impl Closed {
    /// Returns the name in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::NoAddress => "no_address",
            Self::Handshake(_) => "handshake",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::Refused(_) => "refused",
            Self::OtherGroup => "other_group",
            Self::OtherOptions(_) => "other_options",
            Self::OtherNode(_) => "other_node",
            Self::Unauthenticated => "unauthenticated",
            Self::OtherAddress(_) => "other_address",
            Self::NameTaken => "name_taken",
            Self::Forged => "forged",
            #[cfg(feature = "mconnection")]
            Self::Incompatible(_) => "incompatible",
            #[cfg(feature = "mconnection")]
            Self::Broken(_) => "broken",
            Self::FrameTooLong { .. } => "frame_too_long",
            Self::Malformed(_) => "malformed",
            Self::Idle => "idle",
            Self::PongTimeout => "pong_timeout",
            Self::Ended(_) => "ended",
            Self::Duplicate => "duplicate",
            Self::Full => "full",
            Self::Evicted => "evicted",
            Self::Stalled => "stalled",
            Self::Here => "here",
        }
    }

    /// Returns true if the peer answered, but can never be in the same group as this node.
    #[cfg(feature = "ring")]
    pub(crate) fn is_mismatch(&self) -> bool {
        matches!(self, Self::OtherGroup | Self::OtherOptions(_))
    }

    pub(crate) fn ended(error: impl ToString) -> Self {
        Self::Ended(error.to_string())
    }

    pub(crate) fn handshake(error: impl ToString) -> Self {
        Self::Handshake(error.to_string())
    }
}

samara_engine::counters! {
    /// Counters of the links of a node since its start.
    #[derive(Eq)]
    pub struct Counters {
        /// Links that came up.
        pub links_up: u64,
        /// Connections that ended or were not established.
        pub links_closed[cause]: BTreeMap<&'static str, u64>,
        /// Bytes that sockets (over gRPC: HTTP/2) accepted after the handshakes, framing and
        /// encryption included.
        pub bytes_up: u64,
        /// Bytes that sockets (over gRPC: HTTP/2) delivered after the handshakes.
        pub bytes_down: u64,
        /// Frames handed to links.
        pub frames_up: u64,
        /// Frames that links delivered.
        pub frames_down: u64,
        /// Bytes of application payload in the frames handed to links.
        pub payload_bytes_up: u64,
        /// Bytes of application payload in the frames that links delivered.
        pub payload_bytes_down: u64,
        /// All other bytes of the frames handed to links.
        pub control_bytes_up: u64,
        /// All other bytes of the frames that links delivered.
        pub control_bytes_down: u64,
        /// Copies that were still in the outbox when their link went down.
        pub lost_copies: u64,
        /// Events that the application did not read in time.
        pub events_lost: u64,
        /// In a group: times that the group waited for the application to take deliveries.
        pub pauses: u64,
        /// Over gRPC: frames sent as unary calls.
        pub unary_calls: u64,
        /// In a mix: processor time of all compute threads.
        pub work_cpu_seconds: Duration,
    }
}

/// The reason why a runtime does not start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error("cannot listen on {address}: {error}; expected a free port at an address of this machine")]
    Listen { address: SocketAddr, error: std::io::Error },
    #[error("{0}")]
    Options(#[from] OptionError),
    /// Each seed, with the reason why the last attempt to reach it failed.
    #[cfg(feature = "ring")]
    #[error("{}", no_seed(.seeds, *.within))]
    NoSeed { seeds: Vec<(SocketAddr, Option<Closed>)>, within: Duration },
    #[cfg(feature = "ring")]
    #[error("the member cannot join through the seed {seed}: {why}")]
    Mismatch { seed: SocketAddr, why: Closed },
    #[cfg(any(feature = "mix", feature = "ring"))]
    #[error("invalid certificate: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    #[error("cannot get random numbers: {0}")]
    Random(#[from] getrandom::Error),
    #[error("cannot start threads: {0}")]
    Threads(String),
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// As `Display`, since a `main` that returns an error prints it by `Debug`.
impl std::fmt::Debug for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Names each seed with the reason, and the remedy. A member that refuses a node may be one of another
/// group, but founding a further group is no remedy then.
#[cfg(feature = "ring")]
fn no_seed(seeds: &[(SocketAddr, Option<Closed>)], within: Duration) -> String {
    let reason = |why: &Option<Closed>| why.as_ref().map_or("no answer yet".to_owned(), Closed::to_string);
    let reasons: Vec<String> = seeds.iter().map(|(seed, why)| format!("{seed}: {}", reason(why))).collect();
    let is_refused = |why: &Option<Closed>| {
        matches!(why, Some(Closed::Refused(_) | Closed::Unauthenticated | Closed::OtherGroup))
    };
    let (verb, remedy) = if seeds.iter().any(|(_, why)| is_refused(why)) {
        (
            "admitted this node",
            "a member refuses nodes with another secret, group name or kind of authentication; compare these with \
             the seed's, whose log has the reason",
        )
    } else {
        (
            "answered",
            "expected a member of the group at one of these addresses; start it first, or unset `require_seed` to \
             found the group",
        )
    };
    format!("no seed {verb} within {within:?}: {}; {remedy}", reasons.join("; "))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node has stopped")]
pub struct Gone;

/// A request of a runtime's owner to its task `T`.
pub type Request<T> = Box<dyn FnOnce(&mut T) + Send>;

/// Sends a request that the task can answer at once.
///
/// # Errors
/// Returns an error if the task has ended.
pub async fn ask<T: 'static, R: Send + 'static>(
    requests: &mpsc::Sender<Request<T>>,
    request: impl FnOnce(&mut T) -> R + Send + 'static,
) -> Result<R, Gone> {
    // Fails only if the caller has given up.
    ask_later(requests, |task, answer| drop(answer.send(request(task)))).await
}

/// Sends a request that the task answers when it can.
pub(crate) async fn ask_later<T: 'static, R: Send + 'static>(
    requests: &mpsc::Sender<Request<T>>,
    request: impl FnOnce(&mut T, oneshot::Sender<R>) + Send + 'static,
) -> Result<R, Gone> {
    let (answer, answered) = oneshot::channel();
    requests.send(Box::new(|task| request(task, answer))).await.map_err(|_| Gone)?;
    answered.await.map_err(|_| Gone)
}

/// Listens on an address. Returns the address with the port that the system chose.
pub(crate) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |error| StartError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
