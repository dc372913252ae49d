//! Runs that somebody looks at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::follow::Follower;
use crate::hub::Hub;
use crate::runs::Runs;
use crate::state::State;

/// How often files are looked at, and pages told.
const EVERY: Duration = Duration::from_millis(200);
/// A run that nobody looks at any more is followed for so long, in case that somebody comes back.
const LINGER: Duration = Duration::from_secs(60);
/// Runs that are followed at the same time.
const WATCHED_MAX: usize = 16;

/// All runs that are followed.
#[derive(Debug)]
pub(crate) struct Watches {
    runs: Runs,
    hubs: Mutex<BTreeMap<String, Arc<Hub>>>,
}

impl Watches {
    pub(crate) fn new(runs: Runs) -> Arc<Self> {
        Arc::new(Self { runs, hubs: Mutex::default() })
    }

    pub(crate) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// The hub of a run, which is followed from now on.
    ///
    /// # Errors
    /// What to tell whoever asked.
    pub(crate) fn hub(self: &Arc<Self>, name: &str) -> Result<Arc<Hub>, WatchError> {
        let live = self.runs.live(name).ok_or(WatchError::Unknown)?;
        let mut hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hub) = hubs.get(name) {
            return Ok(Arc::clone(hub));
        }
        if hubs.len() >= WATCHED_MAX {
            return Err(WatchError::TooMany);
        }
        let hub = Arc::new(Hub::new());
        // What is there already is in the first snapshot.
        let mut run = Watched { follower: Follower::new(&live), state: State::default() };
        run.step(&hub);
        let (watches, weak, of_run) = (Arc::downgrade(self), Arc::downgrade(&hub), name.to_owned());
        let work = move || follow(&mut run, &weak, &watches, &of_run);
        std::thread::Builder::new().name("follow".to_owned()).spawn(work).map_err(|_| WatchError::TooMany)?;
        hubs.insert(name.to_owned(), Arc::clone(&hub));
        Ok(hub)
    }
}

/// Why a run cannot be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchError {
    /// There is no such run.
    Unknown,
    /// Too many are looked at.
    TooMany,
}

struct Watched {
    follower: Follower,
    state: State,
}

impl Watched {
    fn step(&mut self, hub: &Hub) {
        // Pages are told between portions of long files, too.
        while self.follower.poll(&mut self.state) {
            hub.publish(self.state.view());
        }
        hub.publish(self.state.view());
    }
}

/// Follows a run until nobody has looked at it for a while.
fn follow(run: &mut Watched, hub: &Weak<Hub>, watches: &Weak<Watches>, name: &str) {
    let mut looked = Instant::now();
    loop {
        std::thread::sleep(EVERY);
        let (Some(hub), Some(watches)) = (hub.upgrade(), watches.upgrade()) else { return };
        if hub.has_lookers() {
            looked = Instant::now();
        } else if looked.elapsed() > LINGER {
            let mut hubs = watches.hubs.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody can join while this is locked, but who has the hub already may.
            if Arc::strong_count(&hub) <= 2 {
                hubs.remove(name);
                return;
            }
        }
        run.step(&hub);
    }
}
