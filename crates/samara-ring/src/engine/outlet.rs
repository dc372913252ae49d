//! The way to the application: counts what goes there, and keeps it while the application takes nothing.

use std::collections::VecDeque;

use super::{Cx, Event};

/// Events on their way to the application.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    is_paused: bool,
    waiting: VecDeque<Event>,
    bytes: u64,
}

fn bytes_of(event: &Event) -> u64 {
    match event {
        Event::Delivered { payload, .. } => payload.len() as u64,
        _ => 0,
    }
}

impl Outlet {
    /// Passes an event on whose place among others matters: deliveries, views, and the end.
    pub(super) fn emit(&mut self, event: Event, cx: &mut Cx<'_>) {
        if self.is_paused {
            self.bytes += bytes_of(&event);
            self.waiting.push_back(event);
        } else {
            cx.emit(event);
        }
    }

    pub(super) fn pause(&mut self) {
        self.is_paused = true;
    }

    pub(super) fn unpause(&mut self, cx: &mut Cx<'_>) {
        self.is_paused = false;
        self.bytes = 0;
        self.waiting.drain(..).for_each(|event| cx.emit(event));
    }

    /// Bytes of messages that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
