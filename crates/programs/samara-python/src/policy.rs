//! Scheduling policies in Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};
use samara_engine::Time;
use samara_engine::outbox::{Orderer, PendingCopy as Pending, Policy};

use crate::errors::PolicyError;

/// A pending copy in an outbox, as a policy sees it.
///
/// The numbers of peers and messages have a meaning at one node only.
#[pyclass(frozen, module = "samara._samara")]
pub(crate) struct PendingCopy {
    #[pyo3(get)]
    message: u64,
    #[pyo3(get)]
    peer: u32,
    /// The length on the wire in bytes.
    #[pyo3(get)]
    bytes: u32,
    /// The time at which the copy was queued, in milliseconds of the run.
    #[pyo3(get)]
    owed_ms: f64,
    /// The time since then, in milliseconds.
    #[pyo3(get)]
    waiting_ms: f64,
    /// "publish" for own messages, "forward" for messages of others.
    #[pyo3(get)]
    lane: &'static str,
    /// The number of the call that queued the copy: equal for copies of one batch, and ascending.
    #[pyo3(get)]
    batch: u64,
    /// The position of the message in its batch.
    #[pyo3(get)]
    index: u32,
    /// The position among the copies of the message, in the order of the protocol.
    #[pyo3(get)]
    rank: u32,
    /// Number of copies of the message already sent.
    #[pyo3(get)]
    sent: u32,
    /// Number of peers known to have the message.
    #[pyo3(get)]
    noted: u32,
    at: u32,
}

#[pymethods]
impl PendingCopy {
    fn __repr__(&self) -> String {
        let Self { message, peer, bytes, sent, noted, lane, rank, .. } = self;
        format!(
            "PendingCopy(message={message}, peer={peer}, bytes={bytes}, lane={lane:?}, rank={rank}, sent={sent}, noted={noted})"
        )
    }
}

/// The exception that a policy raised, which ends all runs.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    error: Mutex<Option<PyErr>>,
    /// Set to end all runs.
    pub(crate) stop: AtomicBool,
}

impl Failure {
    fn set(&self, error: PyErr) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Returns the first exception.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A policy: a class with an object for each node, or one object for all nodes.
pub(crate) struct PythonPolicy {
    name: String,
    object: Py<PyAny>,
    is_class: bool,
    /// Whether the class takes a `random.Random` of the node.
    wants_random: bool,
    failure: Arc<Failure>,
}

impl PythonPolicy {
    pub(crate) fn new(name: &str, object: &Bound<'_, PyAny>, failure: &Arc<Failure>) -> PyResult<Self> {
        let is_class = object.is_instance_of::<PyType>();
        if !object.hasattr("order")? {
            return Err(PyTypeError::new_err(format!(
                "policies[{name:?}]: {} has no method order(self, pending)",
                object.repr()?
            )));
        }
        let wants_random = is_class && {
            let inspect = object.py().import("inspect")?;
            let parameters = inspect.call_method1("signature", (object,))?.getattr("parameters")?;
            parameters.len()? > 0
        };
        Ok(Self {
            name: name.to_owned(),
            object: object.clone().unbind(),
            is_class,
            wants_random,
            failure: Arc::clone(failure),
        })
    }

    /// Returns true if all nodes share the object. The order of calls then matters, and everything
    /// runs on one thread.
    pub(crate) fn is_shared(&self) -> bool {
        !self.is_class
    }

    fn object(&self, py: Python<'_>, seed: u64) -> PyResult<Py<PyAny>> {
        if !self.is_class {
            return Ok(self.object.clone_ref(py));
        }
        if self.wants_random {
            let random = py.import("random")?.call_method1("Random", (seed,))?;
            return self.object.call1(py, (random,));
        }
        self.object.call0(py)
    }
}

impl Policy for PythonPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn orderer(&self, seed: u64) -> Box<dyn Orderer> {
        let object = Python::attach(|py| self.object(py, seed));
        let object = object.map_err(|error| self.failure.set(error)).ok();
        Box::new(PythonOrderer { name: self.name.clone(), object, failure: Arc::clone(&self.failure) })
    }
}

/// Orders the copies of one node.
struct PythonOrderer {
    name: String,
    object: Option<Py<PyAny>>,
    failure: Arc<Failure>,
}

impl Orderer for PythonOrderer {
    fn order(&mut self, now: Time, lane: &'static str, pending: &[Pending], order: &mut Vec<u32>) {
        // Runs that are ending do not wait for Python.
        if self.failure.stop.load(Ordering::Relaxed) {
            return;
        }
        let Some(object) = &self.object else { return };
        let answer = Python::attach(|py| call_order(py, object.bind(py), (now, lane), pending, &self.name));
        match answer {
            Ok(chosen) => *order = chosen,
            Err(error) => self.failure.set(error),
        }
    }
}

/// Calls the method `order` of a policy. Returns its order as indices into `pending`.
fn call_order(
    py: Python<'_>,
    object: &Bound<'_, PyAny>,
    (now, lane): (Time, &'static str),
    pending: &[Pending],
    name: &str,
) -> PyResult<Vec<u32>> {
    let ms = |time: Time| time.as_nanos() as f64 / 1e6;
    let copies = pending.iter().zip(0..).map(|(copy, at)| PendingCopy {
        message: copy.message.0,
        peer: copy.peer.0,
        bytes: copy.len,
        owed_ms: ms(copy.owed_at),
        waiting_ms: (now.as_nanos() - copy.owed_at.as_nanos()) as f64 / 1e6,
        lane,
        batch: copy.batch,
        index: copy.index,
        rank: copy.rank,
        sent: copy.sent,
        noted: copy.noted,
        at,
    });
    let list = PyList::new(py, copies.map(|copy| Py::new(py, copy)).collect::<PyResult<Vec<_>>>()?)?;
    let answer = object.call_method1("order", (&list,))?;
    // The method may sort the list in place and return None.
    let answer = if answer.is_none() { list.into_any() } else { answer };
    let wrong = |what: String| {
        PolicyError::new_err(format!(
            "policy {name}: order() received {} copies and {what}; it must return all of them, each once",
            pending.len()
        ))
    };
    let mut is_there = vec![false; pending.len()];
    let mut order = Vec::with_capacity(pending.len());
    let items = answer.try_iter().map_err(|_| wrong(format!("returned {}", kind(&answer))))?;
    for item in items {
        let item = item?;
        let copy =
            item.cast::<PendingCopy>().map_err(|_| wrong(format!("returned {} among them", kind(&item))))?;
        let at = copy.get().at;
        match is_there.get_mut(at as usize) {
            Some(is_there) if !*is_there => *is_there = true,
            _ => return Err(wrong(format!("returned {:?} twice", copy.repr()?.to_string()))),
        }
        order.push(at);
    }
    if order.len() < pending.len() {
        return Err(wrong(format!("returned {}", order.len())));
    }
    Ok(order)
}

fn kind(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "something else".to_owned(), |name| format!("a {name}"))
}
