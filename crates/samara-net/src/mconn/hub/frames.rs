//! Frames come and go.

use samara_engine::{Engine, Frame, Input, LinkRequest};

use super::Hub;
use crate::mconn::codec::Codec;
use crate::mconn::connection::{FromPeer, ToConnection};
use crate::mconn::error::Closed;
use crate::mconn::key::NodeId;
use crate::mconn::send::Progress;

/// Frames that are handled before anything else gets its turn again.
const FRAMES_AT_ONCE: usize = 64;

impl<E, C> Hub<E, C>
where
    E: Engine + 'static,
    E::Event: 'static,
    C: Codec<Frame = E::Frame>,
{
    pub(super) fn received(&mut self, first: FromPeer<E::Frame>) {
        let mut next = Some(first);
        for _ in 0..FRAMES_AT_ONCE {
            match next.take().or_else(|| self.frames.try_recv().ok()) {
                None => break,
                Some(FromPeer::Down { connection, why }) => {
                    if let Some(handle) = self.links.of_connection(connection) {
                        self.take_down(handle, why);
                    }
                }
                Some(FromPeer::Frame { connection, frame, share }) => {
                    // The connection may have been replaced, or closed here.
                    let Some(peer) = self.links.of_connection(connection) else { continue };
                    let (len, payload) = (frame.encoded_len() as u64, frame.payload_len() as u64);
                    self.counters.frames_down += 1;
                    self.counters.payload_down += payload;
                    self.counters.control_down += len.saturating_sub(payload);
                    self.driver.input(Input::Frame { peer, frame });
                    drop(share);
                }
            }
        }
    }

    pub(super) fn progressed(&mut self, connection: u64, progress: &Progress) {
        let Some(handle) = self.links.of_connection(connection) else { return };
        let Some(link) = self.links.get_mut(handle) else { return };
        for (queued, taken) in link.queued.iter_mut().zip(&progress.taken) {
            *queued -= taken;
        }
        link.in_flight -= progress.written_bytes;
        self.ready.push(handle);
    }

    /// Carries out what the engine wants, and hands copies to links with room.
    pub(super) fn settle(&mut self) {
        for request in self.driver.take_links() {
            match request {
                LinkRequest::Close(handle) => self.take_down(handle, Closed::Here),
                LinkRequest::Dial(identity) => {
                    // Engines know names, not addresses: only peers that are dialled anyway can be reached.
                    let id = NodeId::from_identity(&identity);
                    if !id.is_some_and(|id| self.peers.contains(&id) || self.links.of_peer(&id).is_some()) {
                        self.driver.input(Input::DialFailed { identity });
                    }
                }
            }
        }
        self.tell_events();
        self.drain();
    }

    fn drain(&mut self) {
        let now = self.driver.now();
        let budget = self.party.options.in_flight_bytes;
        let mut ready = std::mem::take(&mut self.ready);
        self.driver.outbox().take_touched(&mut ready);
        while let Some(handle) = ready.pop() {
            let Some(link) = self.links.get_mut(handle) else { continue };
            for (at, channel) in self.channels.iter().enumerate() {
                while link.has_room(at, channel.queue, budget)
                    && let Some(copy) = self.driver.outbox().pop_lanes_for(now, handle, &channel.lanes)
                {
                    link.queued[at] += 1;
                    link.in_flight += u64::from(copy.len);
                    let payload = copy.frame.payload_len() as u64;
                    self.counters.frames_up += 1;
                    self.counters.payload_up += payload;
                    self.counters.control_up += u64::from(copy.len).saturating_sub(payload);
                    // Fails only if the connection has just ended, which is told next.
                    let _ = link.orders.send(ToConnection::Copy(at, copy.frame));
                }
            }
            // A copy that leaves can release one for another link.
            if ready.is_empty() {
                self.driver.outbox().take_touched(&mut ready);
            }
        }
        self.ready = ready;
    }
}
