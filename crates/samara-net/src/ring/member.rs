//! The task of a member: a hub over framed TCP, what the owner broadcasts, and what the application has not taken yet.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::Input;
use samara_ring::{Command, Event, View};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::sync::{Semaphore, oneshot, watch};

use super::events::Outlet;
use super::framed::Framed;
use super::group::Status;
use crate::hub::{self, BATCH_MAX, Hub};

/// What the owner of a member wants.
pub(super) enum Request {
    Leave(oneshot::Sender<()>),
    Status(oneshot::Sender<Status>),
}

/// What comes from the owner.
pub(super) struct Inbound {
    pub(super) messages: UnboundedReceiver<Bytes>,
    pub(super) requests: Receiver<Request>,
    /// The room in the queue of messages, in bytes.
    pub(super) room: Arc<Semaphore>,
    /// All of that room.
    pub(super) queue_bytes: usize,
}

/// A member.
pub(super) struct Member {
    hub: Hub<Framed>,
    inbound: Inbound,
    /// Bytes of the queue's room that messages take.
    taken: usize,
    outlet: Outlet,
    is_paused: bool,
    view: watch::Sender<Option<Arc<View>>>,
    leaving: Vec<oneshot::Sender<()>>,
    has_left: bool,
}

impl Member {
    pub(super) fn new(
        hub: Hub<Framed>,
        inbound: Inbound,
        outlet: Outlet,
        view: watch::Sender<Option<Arc<View>>>,
    ) -> Self {
        let (leaving, has_left) = (Vec::new(), false);
        Self { hub, inbound, taken: 0, outlet, is_paused: false, view, leaving, has_left }
    }

    /// Runs until the member has left, or its owner has dropped it.
    pub(super) async fn run(mut self) {
        loop {
            self.hub.driver.fire_timers();
            self.settle();
            if self.has_left {
                return self.finish().await;
            }
            tokio::select! {
                turn = self.hub.next(None) => {
                    if let Some((stream, remote)) = self.hub.handle(turn) {
                        self.hub.greet(remote, self.hub.layer.handshake.greet(stream, false));
                    }
                }
                Some(message) = self.inbound.messages.recv() => self.broadcast(message),
                () = self.outlet.wait_for_room(), if self.is_paused => {}
                request = self.inbound.requests.recv() => match request {
                    Some(request) => self.handle_request(request),
                    // Links end with the tasks.
                    None => return,
                },
            }
        }
    }

    fn broadcast(&mut self, first: Bytes) {
        let mut next = Some(first);
        for _ in 0..BATCH_MAX {
            let Some(message) = next.take().or_else(|| self.inbound.messages.try_recv().ok()) else { break };
            self.taken += message.len().clamp(1, self.inbound.queue_bytes);
            // There is room: the semaphore counts what the queue counts. And after the request to leave nothing comes.
            let taken = self.hub.driver.with(|ring, cx| ring.broadcast(message, cx));
            debug_assert_eq!(taken, Ok(()));
        }
    }

    fn handle_request(&mut self, request: Request) {
        match request {
            Request::Leave(answer) => {
                // The messages that were taken until now leave with it.
                self.inbound.room.close();
                self.inbound.messages.close();
                while let Ok(message) = self.inbound.messages.try_recv() {
                    self.broadcast(message);
                }
                self.leaving.push(answer);
                self.hub.driver.input(Input::Command(Command::Leave));
            }
            Request::Status(answer) => {
                // Fails only if the caller has given up.
                let _ = answer.send(self.status());
            }
        }
    }

    fn status(&mut self) -> Status {
        let lanes = self.hub.lanes();
        let ring = self.hub.driver.engine();
        Status {
            ring: ring.metrics().clone(),
            transport: self.hub.counters(),
            lanes,
            links: self.hub.links.len(),
            queued_bytes: ring.queued_bytes(),
            window_bytes: ring.window_bytes(),
            kept_bytes: ring.kept_bytes(),
            waiting_bytes: self.outlet.bytes(),
        }
    }

    /// Passes on events, carries out what the engine wants, and gives room in the queue back.
    fn settle(&mut self) {
        self.pass_events();
        self.pause_or_resume();
        self.hub.settle();
        self.pass_events();
        self.hub.drain();
        let queued = self.hub.driver.engine().queued_bytes().min(self.taken);
        if queued < self.taken {
            self.inbound.room.add_permits(self.taken - queued);
            self.taken = queued;
        }
    }

    fn pass_events(&mut self) {
        for event in self.hub.take_events() {
            let hub::Event::Engine(event) = event else { continue };
            match event {
                // The semaphore counts the room in the queue.
                Event::Room | Event::Refused(_) => {}
                Event::Left => self.has_left = true,
                event => {
                    if let Event::View(view) = &event {
                        self.view.send_replace(Some(Arc::clone(view)));
                    }
                    self.outlet.push(event);
                }
            }
        }
    }

    fn pause_or_resume(&mut self) {
        if !self.is_paused && self.outlet.is_full() {
            self.is_paused = true;
            self.hub.counters.pauses += 1;
            self.hub.driver.input(Input::Command(Command::Pause));
        } else if self.is_paused && self.outlet.has_room() {
            self.is_paused = false;
            self.hub.driver.input(Input::Command(Command::Unpause));
        }
    }

    async fn finish(mut self) {
        // The news that this member has left is still owed.
        self.hub.limits.in_flight_bytes = usize::MAX;
        self.hub.drain();
        self.hub.finish().await;
        // Each fails only if the caller has given up.
        for answer in self.leaving.drain(..) {
            let _ = answer.send(());
        }
    }
}
