//! A host in a process of its own.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use samara_engine::{Driver, Engine, NodeRng, Time, lock};
use samara_hosts::{Happened, Place, Request, TOKEN_BYTES};
use samara_scenario::Point;
use samara_sim::{App, Contents};
use serde::Serialize;
use tokio::sync::mpsc;

use super::limits::transport;
use super::{Listen, Moved, Order, Report, line};
use crate::experiment::Experiment;
use crate::network;
use crate::run::{Course, RunError, RunOptions};

/// Bytes of events that wait for an answer at most, and messages of them that may wait for the
/// coordinator. A host that is further ahead waits.
const WAITING_BYTES_MAX: usize = 64 << 10;
const MESSAGES_MAX: usize = 1 << 6;
/// Orders that may wait for the host.
const ORDERS_MAX: usize = 1 << 12;
type Command<E> = <<E as Experiment>::App as Engine>::Command;
type Event<E> = <<E as Experiment>::App as Engine>::Event;
/// Orders, up to the first that is not valid.
type Orders<E> = Receiver<Result<Order<Command<E>>, RunError>>;
type Counters<E> = <<E as Experiment>::App as App>::Counters;

/// Where a host reads its orders.
pub type Input = Box<dyn BufRead + Send>;

/// Runs one host of a point: takes orders, and tells what happens on standard output.
///
/// # Errors
/// The run cannot be planned, its frames have no encoding, or an order is not valid.
pub fn host<E: Experiment>(
    point: &Point,
    options: RunOptions<'_>,
    host: u32,
    orders: Input,
) -> Result<(), RunError> {
    let Course { experiment, setup, graph, .. } = Course::<E>::in_processes(point, options)?;
    let codec = experiment.codec().ok_or_else(|| failed("this protocol has no encoding of frames"))?;
    let (spec, sockets) = (&point.scenario.transport, E::worlds().sockets);
    let transport = transport(&spec.kind, sockets.layer).ok_or_else(|| {
        failed(format!("transport.kind: found {:?}, which hosts in processes lack", spec.kind.name()))
    })?;
    let (lines, orders) = (writer()?, reader::<E>(orders)?);
    let listen = match orders.recv().ok().transpose()? {
        Some(Order::Listen(listen)) => listen,
        Some(_) => return Err(failed("the first order was not to listen")),
        // Nobody needs this host.
        None => return Ok(()),
    };
    if listen.host != host {
        return Err(failed(format!("the orders are for host {}; this is host {host}", listen.host)));
    }
    let factory = experiment.hosts();
    let mut rng = setup.links_rng();
    let more = experiment.links(&mut rng);
    let edges = graph.edges.iter().copied().chain(more);
    let dials = setup.dials(listen.host, listen.restart, edges, &mut rng);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(format!("the runtime: {error}")))?;
    runtime.block_on(async {
        let Listen { host: own, address, peers, token: secret, restart, brief: _ } = listen;
        let mut token = [0; TOKEN_BYTES];
        hex::decode_to_slice(&secret, &mut token).map_err(|error| failed(format!("token: {error}")))?;
        let place = Place {
            own,
            token,
            listen: address,
            peers,
            protocol: experiment.protocols(),
            transport,
            // Before the host's own interface, a program on sockets has nothing else to know its
            // uplink by.
            has_limit: spec.kind.node_limit().unwrap_or(true),
            unsent_bytes: u32::try_from(spec.kind.unsent_bytes()).unwrap_or(u32::MAX),
            connection: network::transport(&point.scenario).connection,
        };
        let begin = (sockets.open)(place, codec).await.map_err(failed)?;
        lines.answer(&Report::<Event<E>, Counters<E>>::Ready { host: own })?;
        let start = match orders.recv().ok().transpose()? {
            Some(Order::Begin { at_unix_ns }) => instant(at_unix_ns),
            // The coordinator needs no host any more.
            Some(Order::Stop) | None => return Ok(()),
            Some(_) => return Err(failed("the second order was not to begin")),
        };
        let rng = NodeRng::from_entropy(getrandom::fill).map_err(failed)?;
        let at = if restart { Time::ZERO + start.elapsed() } else { Time::ZERO };
        let (engine, outbox) = factory(own);
        let mut driver = Driver::since(start, at, engine, outbox, rng);
        let misconduct = setup.misconduct(own);
        if !misconduct.is_empty() {
            let rng = NodeRng::from_entropy(getrandom::fill).map_err(failed)?;
            driver.misbehave(misconduct, experiment.forge(), rng);
        }
        let links = begin(driver).map_err(failed)?;
        let (requests, queue) = mpsc::channel(ORDERS_MAX);
        let answers = lines.clone();
        let asking = std::thread::Builder::new().name("orders".to_owned());
        asking
            .spawn(move || pass_on::<E>(start, &orders, &requests, &answers))
            .map_err(|error| failed(format!("the thread for orders: {error}")))?;
        let answers = lines.clone();
        let contents = experiment.contents();
        let tell = move |at: Time, happened| {
            let at_ns = at.as_nanos();
            let said: Report<Event<E>, Counters<E>> = match happened {
                Happened::Event(event) => Report::Event { at_ns, event },
                Happened::Frame { peer, is_sent, frame } => {
                    let Some(contents) = &contents else { return };
                    let Contents { items, names, asked, .. } = contents(&frame, None);
                    if items.is_empty() && asked.is_empty() {
                        return;
                    }
                    let (items, names, asked) = (items.to_vec(), names.to_vec(), asked.to_vec());
                    Report::Frame(Moved { at_ns, peer, is_sent, items, names, asked })
                }
            };
            // Fails only if the coordinator is gone, and then the orders end, too.
            let _ = answers.event(&said);
        };
        (sockets.serve)(links, start, dials, queue, Box::new(tell)).await;
        Ok(())
    })?;
    lines.end();
    Ok(())
}

fn failed(why: impl ToString) -> RunError {
    RunError::Failed(why.to_string())
}

/// Returns the moment of a Unix time on the monotonic clock.
fn instant(unix_ns: u64) -> Instant {
    let (now, since) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH));
    let since = since.map_or(0, |since| since.as_nanos() as u64);
    if unix_ns >= since {
        now + Duration::from_nanos(unix_ns - since)
    } else {
        now.checked_sub(Duration::from_nanos(since - unix_ns)).unwrap_or(now)
    }
}

/// Passes orders on to the host until it is to stop, or the coordinator is gone.
fn pass_on<E: Experiment>(
    start: Instant,
    orders: &Orders<E>,
    requests: &mpsc::Sender<Request<E::App>>,
    lines: &Lines,
) {
    while let Ok(Ok(order)) = orders.recv() {
        let lines = lines.clone();
        let request = match order {
            Order::Wait { at_ns } => {
                let until = start + Duration::from_nanos(at_ns);
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
                continue;
            }
            Order::Command { at_ns, command } => Request::Command(Time::from_nanos(at_ns), command),
            Order::Sync(number) => Request::Sync(Box::new(move || {
                let _ = lines.answer(&Report::<Event<E>, Counters<E>>::Synced(number));
            })),
            Order::Look => Request::Look(Box::new(move |look| {
                let _ = lines.answer(&Report::<Event<E>, _>::Looked(Box::new(look)));
            })),
            Order::Reconnect { host } => Request::Reconnect(host),
            Order::Stop => Request::Stop,
            Order::Listen(_) | Order::Begin { .. } => {
                eprintln!("an order to listen or to begin came twice");
                return;
            }
        };
        if requests.blocking_send(request).is_err() {
            return;
        }
    }
}

// ---- the channel to the coordinator ----

/// Reads orders in a thread of its own. An order that does not parse is an error, and the last one.
fn reader<E: Experiment>(orders: Input) -> Result<Orders<E>, RunError> {
    let (sender, receiver) = sync_channel(ORDERS_MAX);
    let read = move || {
        for line in orders.lines() {
            let order = line.map_err(failed).and_then(|line| {
                serde_json::from_str(&line).map_err(|error| failed(format!("an order: {error}")))
            });
            if let Err(error) = &order {
                eprintln!("{error}");
            }
            let is_last = order.is_err();
            if sender.send(order).is_err() || is_last {
                return;
            }
        }
    };
    std::thread::Builder::new().name("reader".to_owned()).spawn(read).map_err(failed)?;
    Ok(receiver)
}

/// Lines for the coordinator.
///
/// Events wait for the next answer, unless they are many: the coordinator wants them then, and a host
/// that spreads something has no time for lines.
#[derive(Clone)]
struct Lines {
    waiting: Arc<Mutex<String>>,
    sender: SyncSender<String>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Lines {
    fn event(&self, event: &impl Serialize) -> Result<(), RunError> {
        let waiting = self.add(event)?;
        if waiting.len() < WAITING_BYTES_MAX { Ok(()) } else { self.flush(waiting) }
    }

    fn answer(&self, answer: &impl Serialize) -> Result<(), RunError> {
        let waiting = self.add(answer)?;
        self.flush(waiting)
    }

    fn add(&self, report: &impl Serialize) -> Result<MutexGuard<'_, String>, RunError> {
        let line = line(report)?;
        let mut waiting = lock(&self.waiting);
        waiting.push_str(&line);
        waiting.push('\n');
        Ok(waiting)
    }

    fn flush(&self, mut waiting: MutexGuard<'_, String>) -> Result<(), RunError> {
        self.sender.send(std::mem::take(&mut waiting)).map_err(|_| failed("the coordinator is gone"))
    }

    /// Waits until all lines are written.
    fn end(self) {
        let Self { waiting, sender, thread } = self;
        // Fails only if the coordinator is gone.
        let _ = sender.send(std::mem::take(&mut lock(&waiting)));
        let _ = sender.send(String::new());
        if let Some(thread) = lock(&thread).take() {
            let _ = thread.join();
        }
    }
}

/// Writes lines to standard output, in a thread of its own, until there are none in a message.
fn writer() -> Result<Lines, RunError> {
    let (sender, receiver) = sync_channel::<String>(MESSAGES_MAX);
    let write = move || {
        let mut out = std::io::stdout();
        while let Ok(lines) = receiver.recv() {
            let written = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
            if written.is_err() || lines.is_empty() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("stdout".to_owned()).spawn(write).map_err(failed)?;
    Ok(Lines { waiting: Arc::default(), sender, thread: Arc::new(Mutex::new(Some(thread))) })
}
