//! Frames of any type, so that the simulator is compiled once and not for every protocol.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use samara_engine::Frame;

use crate::explain::Trace;
use crate::node::OTHER_TYPE;

/// A frame of any type, with the record of its copy if there is one. All nodes of a simulation
/// exchange frames of one type.
#[derive(Clone)]
pub(crate) struct AnyFrame(Arc<Load<dyn Any + Send + Sync>>);

struct Load<F: ?Sized> {
    trace: Option<Arc<Trace>>,
    encoded_len: u32,
    payload_len: u32,
    frame: F,
}

impl AnyFrame {
    /// Creates a frame of `encoded_len` bytes.
    pub(crate) fn new(frame: impl Frame, encoded_len: u32) -> Self {
        let payload_len = frame.payload_len() as u32;
        Self(Arc::new(Load { trace: None, encoded_len, payload_len, frame }))
    }

    pub(crate) fn typed<F: Frame>(&self) -> &F {
        match self.0.frame.downcast_ref() {
            Some(frame) => frame,
            None => unreachable!("{OTHER_TYPE}"),
        }
    }

    pub(crate) fn trace(&self) -> Option<&Arc<Trace>> {
        self.0.trace.as_ref()
    }

    /// Adds the record of the copy. The frame must not have been cloned yet.
    pub(crate) fn set_trace(&mut self, trace: Arc<Trace>) {
        match Arc::get_mut(&mut self.0) {
            Some(load) => load.trace = Some(trace),
            None => unreachable!("a copy has its record before it is sent"),
        }
    }
}

impl Frame for AnyFrame {
    fn encoded_len(&self) -> usize {
        self.0.encoded_len as usize
    }

    fn payload_len(&self) -> usize {
        self.0.payload_len as usize
    }
}

impl fmt::Debug for AnyFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a frame of {} bytes", Frame::encoded_len(self))
    }
}
