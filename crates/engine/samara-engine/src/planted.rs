//! Bugs that tests plant in engines, to see that a search for broken promises finds them.
//!
//! Without the feature `planted`, which only tests enable, no bug can be planted, and the questions
//! cost nothing. With it, all engines of the process keep the rules until `plant` is called.

crate::names! {
    /// A bug of an engine.
    pub enum Bug {
        /// GossipSub withdraws no copy, whatever peers have or do not want.
        GossipsubWithdraw = "gossipsub-withdraw",
        /// GossipSub does not answer requests for messages.
        GossipsubIwant = "gossipsub-iwant",
        /// GossipSub forgets at each heartbeat which messages it has seen.
        GossipsubSeen = "gossipsub-seen",
        /// GossipSub blames peers for answers and requests that were lost with a link.
        GossipsubForgive = "gossipsub-forgive",
        /// A member of a group does not send the first missing unit again when a link resumes.
        RingResume = "ring-resume",
        /// A member is ready for a view before it has all units up to the cut.
        RingReady = "ring-ready",
        /// Every second `Install` of a view is lost.
        RingInstall = "ring-install",
        /// A member forgets the cut at the end of a view.
        RingCut = "ring-cut",
        /// A pool asks no other peer after a timeout.
        CatTimeout = "cat-timeout",
        /// A mix node sends nothing again on a new link.
        MixResend = "mix-resend",
    }
}

#[cfg(feature = "planted")]
mod state {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Bug;

    /// The number of the planted bug plus one; 0 for none.
    static PLANTED: AtomicUsize = AtomicUsize::new(0);

    /// Plants a bug in all engines of the process in place of the one before.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(0, |bug| bug as usize + 1), Ordering::Relaxed);
    }

    /// Returns true if this bug is planted.
    pub fn is_planted(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as usize + 1
    }
}

#[cfg(feature = "planted")]
pub use state::{is_planted, plant};

/// Returns true if this bug is planted: never, without the feature `planted`.
#[cfg(not(feature = "planted"))]
pub const fn is_planted(_: Bug) -> bool {
    false
}
