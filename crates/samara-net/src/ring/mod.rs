//! A member of a group over TCP: what one member broadcasts all deliver, around the ring or whatever shape is chosen.
//!
//! ```no_run
//! use samara_net::ring::{Event, Group, Options};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options::new("example", "192.0.2.1:7800".parse()?).with_seeds(["192.0.2.2:7800".parse()?]);
//! let (group, mut events) = Group::join(options).await?;
//! group.broadcast("a message").await?;
//! while let Some(event) = events.next().await {
//!     match event {
//!         Event::Delivered { origin, payload, .. } => println!("{} bytes from {origin:?}", payload.len()),
//!         Event::View(view) => println!("{} members", view.len()),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The protocol and its promises are in [`samara_ring`]. What is here:
//!
//! ```text
//! broadcast -> own queue -> engine -> outbox -> link -> socket -> link -> engine -> deliveries
//! ```
//!
//! A connection begins with `samring`, a byte of version (1), the group (the first 8 bytes of SHA-256 of its name), and the name of the
//! sender with a byte of length in front; both sides send that at once. Then come frames ([`samara_ring::wire`]), each with its length
//! in front (4 bytes, little endian).
//!
//! The name of a member is the address at which it is dialled. Of two connections between the same members both ends keep the one
//! that the member with the smaller address dialled.
//!
//! One task runs the engine, one more each link. Contents are not copied between the socket that they come from and those that they go to:
//! they are slices of the blocks in which they came, and leave in vectored writes. A delivered message keeps its block of 256 KiB alive
//! as long as it is kept itself: whoever stores small messages for long should copy them.
//!
//! What a peer can fill is bounded: a handshake by time and number, a frame by its announced length, what waits for the engine
//! by 512 KiB a link, everything else by the engine. Whoever breaks the rules loses its connection; all causes are counted ([`Counters`]).
//! Members are not authenticated: run a group where only its members can connect.
//!
//! `examples/group.rs` is a whole program.

mod buffers;
mod events;
mod framed;
mod group;
mod options;

pub use events::Events;
pub use group::{Group, Status};
pub use options::Options;
pub use samara_ring::{BroadcastError, Config, Event, Member, Payload, Preset, View};

pub use crate::status::{Closed, Counters, Gone, OptionError, StartError};
