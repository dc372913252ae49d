//! What a node remembers of messages: which it has seen ([`SeenCache`]), and the recent ones in full
//! ([`MessageCache`]).

mod message;
mod seen;

pub use message::MessageCache;
pub use seen::{Seen, SeenCache, SeenStrategy};
