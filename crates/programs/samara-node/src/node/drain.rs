//! Stopping: owed copies leave, and the node accepts nothing new.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use libp2p::PeerId;
use samara_gossipsub::config::{ValidatorHook, Verdict};
use samara_gossipsub::rpc::{Message, Topic};
use samara_trace::Counts;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Node;
use crate::model::{Stopped, TraceReport};
use crate::part::Stopping;

/// Interval between checks for owed copies.
const CHECK_EVERY: Duration = Duration::from_millis(20);
/// Time that connections stay open after the last copy was written to its stream. Below the streams
/// there are buffers of Yamux, QUIC and the socket. libp2p does not report when they are empty, and
/// QUIC drops their content when a connection closes.
const LINGER: Duration = Duration::from_millis(250);
/// Time for peers to notice that connections are closed.
const CLOSE: Duration = Duration::from_secs(1);

/// A node that stops does not leave its topics. Leaving would also keep messages away, but every
/// PRUNE comes with a backoff, and a node that merely restarts would be in no mesh until the
/// backoff ends.
impl Stopping {
    /// Accepts messages until the node stops. From then on it neither delivers nor forwards them,
    /// so that it owes nothing new.
    pub(crate) fn validator(&self) -> ValidatorHook {
        let stopping = self.clone();
        ValidatorHook::new(
            move |_: samara_engine::PeerId, _: &Topic, _: &Message| {
                if stopping.get() { Verdict::Ignore } else { Verdict::Accept }
            },
        )
    }
}

impl Node {
    /// Lets owed copies leave until there are none, the time is over, or `hurried` becomes true.
    /// Then closes all connections.
    pub(crate) async fn drain(&mut self, hurried: &mut watch::Receiver<bool>) -> Stopped {
        self.stopping.begin();
        let drain = self.config.written.stop.drain.duration();
        let lost_before = self.counts.link_lost_copies + self.counts.link_cut_copies;
        tracing::info!(copies = self.owed().values().sum::<usize>(), ?drain, "stopping");
        let is_hurried = self.drain_until(Instant::now() + drain, hurried).await;
        let left = self.owed();
        let lost = self.counts.link_lost_copies + self.counts.link_cut_copies - lost_before;
        let lost_copies = usize::try_from(lost).unwrap_or(usize::MAX);
        if !is_hurried && left.is_empty() {
            self.serve_until(Instant::now() + LINGER).await;
        }
        self.close().await;

        let left_copies = left.values().sum();
        for (peer, copies) in &left {
            tracing::warn!(%peer, copies, "owed copies did not leave");
        }
        tracing::info!(left_copies, lost_copies, "stopped");
        Stopped {
            stopped: true,
            drained: left_copies + lost_copies == 0,
            left_copies,
            lost_copies,
            left: left.iter().map(|(peer, copies)| (peer.to_string(), *copies)).collect(),
            trace: self.finish_trace(),
            ..Stopped::default()
        }
    }

    fn owed(&mut self) -> BTreeMap<PeerId, usize> {
        self.swarm.behaviour_mut().gossip.owed_by_peer()
    }

    async fn drain_until(&mut self, deadline: Instant, hurried: &mut watch::Receiver<bool>) -> bool {
        while !self.owed().is_empty() && Instant::now() < deadline {
            let check_at = (Instant::now() + CHECK_EVERY).min(deadline);
            tokio::select! {
                biased;
                Ok(_) = hurried.wait_for(|is_hurried| *is_hurried) => return true,
                () = self.serve_until(check_at) => {}
            }
        }
        false
    }

    async fn serve_until(&mut self, deadline: Instant) {
        loop {
            tokio::select! {
                biased;
                () = sleep_until(deadline) => return,
                Some(request) = self.requests.recv() => request(self),
                event = self.swarm.select_next_some() => self.on_event(event),
            }
        }
    }

    async fn close(&mut self) {
        for peer in self.swarm.connected_peers().copied().collect::<Vec<_>>() {
            // Fails only for peers that are not connected.
            let _ = self.swarm.disconnect_peer_id(peer);
        }
        let deadline = Instant::now() + CLOSE;
        while !self.peers.is_empty() {
            match timeout_at(deadline, self.swarm.select_next_some()).await {
                Ok(event) => self.on_event(event),
                Err(_) => return,
            }
        }
    }

    /// Waits for the disk: no other work remains.
    fn finish_trace(&mut self) -> Option<TraceReport> {
        let writer = self.tracer.take()?.writer;
        let (Counts { written, dropped, failed }, finished) = writer.finish();
        let error = finished.err().map(|error| error.to_string());
        if let Some(error) = &error {
            tracing::error!(error, "the trace is incomplete");
        } else if dropped > 0 {
            tracing::warn!(dropped, "the trace lacks events: its queue or its file was full");
        }
        Some(TraceReport { written, dropped, failed, error })
    }
}
