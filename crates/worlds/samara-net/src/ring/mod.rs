//! A member of a group over TCP: all members deliver the messages that any member broadcasts,
//! around the ring or in another topology.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use samara_net::ring::{Event, Group, Member, Options, Secret};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // At least 16 random bytes that all members have.
//! let secret = Secret::new(std::fs::read("group.secret")?.trim_ascii())?;
//! let options = Options::new("example", "192.0.2.1:7800".parse()?)
//!     .with_seeds(["192.0.2.2:7800".parse()?])
//!     .with_secret(secret)
//!     .require_seed(Duration::from_secs(10));
//! let (group, mut events) = Group::join(options).await?;
//! group.broadcast("a message").await?;
//! while let Some(event) = events.next().await {
//!     match event {
//!         Event::Delivered { origin, payload, .. } => println!("{} bytes from {origin}", payload.len()),
//!         Event::View(view) => {
//!             println!("members: {:?}", view.members.iter().map(Member::to_string).collect::<Vec<_>>());
//!         }
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A member can also be one of a site of a federation ([`Group::join_site`]): the leaders of sites
//! exchange messages over links of the same kind.
//!
//! [`samara_ring`] describes the protocol and its promises. The path of a message:
//!
//! ```text
//! broadcast -> own queue -> engine -> outbox -> link -> socket -> link -> engine -> deliveries
//! ```
//!
//! A connection begins with a handshake in which both sides prove that they are members
//! ([`Authentication`]), the dialler first: a member tells strangers nothing but a random number.
//! Frames follow ([`samara_ring::wire`]), each with its length in front (4 bytes, little endian)
//! and, with a secret, a tag of 16 bytes behind it. `docs/protocols/ring.md` has the bytes.
//!
//! The name of a member is the address at which others dial it; `Display` prints it. Of two
//! connections between the same members both ends keep the one that the member with the smaller
//! address dialled.
//!
//! One task runs the engine, and one more runs each link. Without encryption, contents are not
//! copied between the socket of arrival and the sockets of departure: they are slices of the blocks
//! that received them, and leave in vectored writes. A delivered message keeps its block of 256 KiB alive, so an
//! application that stores small messages for long should copy them.
//!
//! All state that a peer can fill is bounded: a handshake by time and number, a frame by its
//! announced length, frames that wait for the engine by 512 KiB for each link, everything else by
//! the engine. A peer that breaks the rules loses its connection, and all causes are counted
//! ([`Counters`]).
//!
//! `examples/group` in the root of the repository is a complete program.

mod auth;
mod buffers;
mod engine;
mod events;
mod framed;
mod group;
mod options;
mod refusals;
mod site;
mod wire;

/// The parsers that the fuzz targets call.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use super::auth::{
        CONTENT_MIN, DIGEST_BYTES, INSTANCE_BYTES, Instance, Keys, NONCE_BYTES, PROOF_BYTES, Protection,
        Role, Seal, TAG_BYTES,
    };
    pub use super::buffers::{PREFIX, Receiving, Sending};
    pub use super::framed::{Duplex, Handshake, MAGIC};
}

pub use auth::{Authentication, Certificates, Frames, Secret, ShortSecret};
pub use engine::FederationStatus;
pub use events::Events;
pub use group::{Group, Status};
pub use options::Options;
pub use refusals::Refusal;
pub use samara_ring::{
    BroadcastError, Config, Event, FederationEvent, FederationMetrics, Member, Payload, Preset, View, ViewId,
};
pub use site::Site;

pub use crate::identity::{Fingerprint, Identity, IdentityError, NoFingerprint};
pub use crate::status::{Closed, Counters, Gone, OptionError, StartError};
