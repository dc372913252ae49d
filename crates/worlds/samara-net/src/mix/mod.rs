//! A pool of nodes that mixes payloads, over gRPC with mutual TLS; its scheduler; and its senders.
//!
//! ```no_run
//! use samara_net::mix::{Contact, Event, GatewayOptions, Identity, Options, Member, What};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = Identity::from_pem(&std::fs::read_to_string("node.pem")?)?;
//! let contact = |fingerprint: &str, address: &str| -> Result<Contact, Box<dyn std::error::Error>> {
//!     Ok(Contact { fingerprint: fingerprint.parse()?, address: address.parse()? })
//! };
//! let pool = vec![contact("1f..", "192.0.2.1:7900")?, contact("77..", "192.0.2.2:7900")?];
//! let scheduler = contact("a0..", "192.0.2.9:7900")?;
//! let mut options = Options::new(identity, "0.0.0.0:7900".parse()?, pool, scheduler);
//! options.gateway = Some(GatewayOptions::new("0.0.0.0:7901".parse()?));
//! let (mix, mut events) = Member::start(options).await?;
//! while let Some(happened) = events.recv().await {
//!     if let What::Event(Event::Delivered { round, outcomes }) = happened.what {
//!         println!("{} payloads came out of round {round} at node {}", outcomes.len(), mix.number());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`samara_mix`] describes the protocol and its promises, `proto/mix-services.proto` the services.
//! The path of a payload:
//!
//! ```text
//! sender -> Gateway.Submit -> batch -> engine -> outbox -> Team.Stream or Team.Post -> engine
//!        -> ... -> Gateway.Result -> sender
//! ```
//!
//! **Identities.** Every node and sender has a certificate, and its SHA-256 is the name
//! ([`Fingerprint`]). Nodes know each other's fingerprints and reject all others. TLS (1.3 only)
//! proves that the other side has the key. The signer and the dates of a certificate do not matter.
//! The gateway accepts every certificate, and identifies the sender by its fingerprint
//! ([`Client`]).
//!
//! **Links.** A link has two connections: each side is a client of the other's server, as in the
//! original, so that slots are always uploads. The engine decides who dials, when a link has
//! failed, and when to dial again; there is no reconnecting channel here. On each connection one
//! call for each lane lasts as long as the link. If the scheduler chooses unary transfer, all slots
//! of a phase are a call of their own. PINGs keep connections warm, and detect that the other side
//! is gone.
//!
//! **Windows** of HTTP/2 are the receiver's ([`Windows`]): fixed, or estimated. Between batches
//! Linux lets the congestion window shrink (`net.ipv4.tcp_slow_start_after_idle`). This setting
//! belongs to the whole network namespace, not to a socket, so this crate cannot turn it off.
//!
//! **Priority.** The outbox decides as late as possible what leaves next: a link has at most 256
//! KiB on the way into HTTP/2, HTTP/2 has 64 KiB for each call, and the kernel 128 KiB unsent
//! (`TCP_NOTSENT_LOWAT`). So real time overtakes precomputation.
//!
//! **Computation** runs on its own threads ([`Pool`](samara_mix::Pool)), never on those of the
//! runtime.
//!
//! **Bounds.** All state that others can fill is bounded: handshakes by time and number,
//! connections and calls by number, frames by the limits of the protocol, frames that wait for the
//! engine by 1 MiB for each link (beyond that, windows close), and announcements of rounds by the
//! options of the sender ([`ClientOptions`]). Senders make their own certificates, so that a gateway
//! also has limits by address: connections, bytes that arrive, registrations ([`GatewayOptions`]). A
//! sender has a share of each batch, and a batch needs several senders. A peer that breaks the rules
//! loses the link. All causes are counted ([`Counters`], [`GatewayCounters`], [`ClientStatus`]).

mod announced;
mod board;
mod client;
mod gateway;
mod grpc;
#[cfg(feature = "hosted")]
mod hosted;
mod layer;
mod mailbox;
mod node;
mod options;
pub mod proto;
mod quota;
mod reader;
mod recipient;
mod task;

use samara_engine::PeerIdentity;
use samara_mix::SenderId;

/// The parsers that the fuzz targets call.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use super::announced::{Announced, Rules};
    pub use super::board::Board;
    pub use super::node::Tally;
}

pub use board::{GatewayCounters, GatewayStatus, RoundTimes};
pub use client::{Client, ClientError, ClientOptions, ClientStatus, Round};
pub use gateway::Ended;
#[cfg(feature = "hosted")]
pub use hosted::host;
pub use node::{Happened, LinkStatus, Member, Status, What};
pub use options::{Contact, GatewayOptions, Options, Sockets, Windows};
pub use reader::{Kept, Reader};
pub use recipient::{Address, KeyError, NoAddress, OVERHEAD_BYTES, RecipientKey};
pub use samara_mix::{Batch, Config, Event, Group, Outcome, Sealed};

pub use crate::identity::{Fingerprint, Identity, IdentityError, NoFingerprint};
pub use crate::status::{Closed, Counters, Gone, OptionError, StartError};

impl Fingerprint {
    fn peer(self) -> PeerIdentity {
        PeerIdentity::new(&self.0)
    }

    pub const fn sender(self) -> SenderId {
        SenderId(self.0)
    }
}
