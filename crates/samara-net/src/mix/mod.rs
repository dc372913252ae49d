//! A pool of nodes that mixes payloads, over gRPC with mutual TLS; its scheduler; and those who send by it.
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
//! The protocol and its promises are in [`samara_mix`], the services in `proto/mix-services.proto`. What is here:
//!
//! ```text
//! sender -> Gateway.Submit -> batch -> engine -> outbox -> Team.Stream or Team.Post -> engine -> ... -> Gateway.Result -> sender
//! ```
//!
//! **Who is who.** Everybody has a certificate, and its SHA-256 is the name ([`Fingerprint`]): nodes know each other's, and let nobody else
//! in; TLS (1.3 only) proves that the other side has the key. Nothing depends on who has signed a certificate, or on its dates. At the
//! gateway whoever has a certificate is let in, and is the sender of its fingerprint ([`Client`]).
//!
//! **Links.** A link is two connections: each side is a client of the other's server, as in the original, so that slots are always
//! uploads. Who dials, when a link has failed, and when to dial again are the engine's business; there is no reconnecting
//! channel here. On each connection one call of frames for each lane lasts as long as the link; where the scheduler wants unary transfer,
//! all slots of a phase are a call of their own. PINGs keep connections warm, and find out when the other side is gone.
//!
//! **Windows** of HTTP/2 are the receiver's ([`Windows`]): fixed, or estimated. Between batches Linux lets the congestion window shrink
//! (`net.ipv4.tcp_slow_start_after_idle`), for the whole network namespace and not for a socket: nothing here can turn that off.
//!
//! **What leaves next** is decided by the outbox, as late as can be: a link has 256 KiB on the way into HTTP/2 at most, HTTP/2 64 KiB for each call, and
//! the kernel 128 KiB unsent (`TCP_NOTSENT_LOWAT`). So real time overtakes precomputation.
//!
//! **Work on numbers** runs on threads of its own ([`Pool`](samara_mix::Pool)), never on those of the runtime.
//!
//! What others can fill is bounded: handshakes by time and number, connections and calls by number, frames by the limits of the
//! protocol, what waits for the engine by 1 MiB a link (beyond, windows close), payloads that wait for a batch, results and those who wait for them by the options
//! of the gateway, announcements of rounds by those of the sender ([`ClientOptions`]). Whoever breaks the rules loses the link; all causes
//! are counted ([`Counters`], [`ClientStatus`]).

mod announced;
mod board;
mod client;
mod gateway;
mod grpc;
mod identity;
mod layer;
mod node;
mod options;
pub mod proto;
mod task;

pub use board::{GatewayStatus, RoundTimes};
pub use client::{Client, ClientError, ClientOptions, ClientStatus, Round};
pub use gateway::Ended;
pub use identity::{Fingerprint, Identity, IdentityError, NoFingerprint};
pub use node::{Happened, LinkStatus, Member, Status, What};
pub use options::{Contact, GatewayOptions, Options, Sockets, Windows};
pub use samara_mix::{Batch, Config, Event, Group, Outcome, Sealed};

pub use crate::status::{Closed, Counters, Gone, OptionError, StartError};
