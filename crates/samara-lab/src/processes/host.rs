//! A host in a process of its own.

use std::io::{BufRead, BufWriter, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use samara_engine::{Engine, Time};
use samara_net::hosted::{Look, Names, Options, Request, TOKEN_BYTES, serve};
use samara_sim::{App, host_of, identity_of};
use samara_spec::{Point, TransportKind};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Listen, Looked, Order, Told, line};
use crate::experiment::Experiment;
use crate::run::{Course, RunError, RunOptions};

/// Lines that may wait for the coordinator. A host that is further ahead waits.
const LINES_MAX: usize = 1 << 16;
/// Orders that may wait for the host.
const ORDERS_MAX: usize = 1 << 12;
/// Bytes of a link between the outbox and the socket.
const IN_FLIGHT_BYTES: usize = 64 << 10;
/// Time until a link is up: six attempts of TCP (`tcp_syn_retries`) take longer.
const DIAL_TIMEOUT: Duration = Duration::from_secs(60);

type Command<E> = <<E as Experiment>::App as Engine>::Command;
type Event<E> = <<E as Experiment>::App as Engine>::Event;
/// Orders, up to the first that is not valid.
type Orders<E> = Receiver<Result<Order<Command<E>>, RunError>>;
type Counters<E> = <<E as Experiment>::App as App>::Counters;

/// Runs one host of a point: takes orders from standard input, and tells what happens on standard
/// output.
///
/// # Errors
/// The run cannot be planned, its frames have no encoding, or an order is not valid.
pub fn host<E: Experiment>(point: &Point, options: RunOptions<'_>, host: u32) -> Result<(), RunError> {
    let Course { experiment, setup, graph, .. } = Course::<E>::plan(point, options)?;
    let codec = experiment.codec().ok_or_else(|| failed("this protocol has no encoding of frames"))?;
    if point.scenario.transport.kind != TransportKind::Tcp {
        let kind = point.scenario.transport.kind;
        return Err(failed(format!("transport.kind: found {kind:?}; hosts in processes have \"tcp\"")));
    }
    let (lines, orders) = (writer()?, reader::<E>()?);
    let Some(Order::Listen(listen)) = orders.recv().ok().transpose()? else {
        return Err(failed("the first order was not to listen"));
    };
    if listen.host != host {
        return Err(failed(format!("the orders are for host {}; this is host {host}", listen.host)));
    }
    let factory = experiment.hosts();
    let mut rng = setup.links_rng();
    let more = experiment.links(&mut rng);
    let edges = graph.edges.iter().copied().chain(more);
    let dials = setup.dials(listen.host, listen.restart, edges, &mut rng);
    let protocol = experiment.protocols();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(format!("the runtime: {error}")))?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen.address).await;
        let listener = listener.map_err(|error| failed(format!("{}: {error}", listen.address)))?;
        lines.tell(&Told::<Event<E>, Counters<E>>::Ready { host: listen.host })?;
        let begin = match orders.recv().ok().transpose()? {
            Some(Order::Begin { at_unix_ns }) => instant(at_unix_ns),
            // The coordinator needs no host any more.
            Some(Order::Stop) | None => return Ok(()),
            Some(_) => return Err(failed("the second order was not to begin")),
        };
        let Listen { host: own, address, peers, token, restart } = listen;
        let mut secret = [0; TOKEN_BYTES];
        hex::decode_to_slice(&token, &mut secret).map_err(|error| failed(format!("token: {error}")))?;
        let options = Options {
            own,
            token: secret,
            listen: address,
            peers,
            dials,
            names: Names {
                identity: identity_of,
                host: host_of,
                protocol: Arc::new(move |dialler, listener| {
                    protocol.as_ref().map_or_else(Arc::default, |protocol| protocol(dialler, listener))
                }),
            },
            start: begin,
            is_restart: restart,
            in_flight_bytes: IN_FLIGHT_BYTES,
            not_sent_bytes: u32::try_from(point.scenario.transport.unsent_bytes()).unwrap_or(u32::MAX),
            dial_timeout: DIAL_TIMEOUT,
        };
        let (requests, mut queue) = mpsc::channel(ORDERS_MAX);
        let answers = lines.clone();
        let asking = std::thread::Builder::new().name("orders".to_owned());
        asking
            .spawn(move || pass_on::<E>(&orders, &requests, &answers))
            .map_err(|error| failed(format!("the thread for orders: {error}")))?;
        let told = lines.clone();
        let tell = move |at: Time, event| {
            let event: Told<Event<E>, Counters<E>> = Told::Event { at_ns: at.as_nanos(), event };
            // Fails only if the coordinator is gone, and then the orders end, too.
            let _ = told.tell(&event);
        };
        serve(options, listener, codec, factory(own), &mut queue, tell).await.map_err(failed)
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
fn pass_on<E: Experiment>(orders: &Orders<E>, requests: &mpsc::Sender<Request<E::App>>, lines: &Lines) {
    while let Ok(Ok(order)) = orders.recv() {
        let lines = lines.clone();
        let request = match order {
            Order::Command { at_ns, command } => Request::Command(Time::from_nanos(at_ns), command),
            Order::Sync(number) => Request::Look(Box::new(move |_| {
                let _ = lines.tell(&Told::<Event<E>, Counters<E>>::Synced(number));
            })),
            Order::Look => Request::Look(Box::new(move |look| {
                let looked = Told::<Event<E>, _>::Looked(Box::new(looked(look)));
                let _ = lines.tell(&looked);
            })),
            Order::Reconnect { host } => Request::Disconnect { host, again: true },
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

fn looked<A: App>(look: Look<'_, A>) -> Looked<A::Counters> {
    let Look { engine, links, lanes, owed, late, .. } = look;
    Looked {
        counters: engine.counters(),
        frames_sent: links.frames_up,
        payload_bytes_sent: links.payload_up,
        control_bytes_sent: links.control_up,
        frames_received: links.frames_down,
        payload_bytes_received: links.payload_down,
        control_bytes_received: links.control_down,
        bytes_sent: links.bytes_up,
        bytes_received: links.bytes_down,
        withdrawn: lanes.iter().map(|(_, lane)| lane.withdrawn.copies).sum(),
        owed: owed as u64,
        late_ns: std::mem::take(late).iter().map(|late| late.as_nanos() as u64).collect(),
    }
}

// ---- the channel to the coordinator ----

/// Reads orders from standard input, in a thread of its own. An order that does not parse is an
/// error, and the last one.
fn reader<E: Experiment>() -> Result<Orders<E>, RunError> {
    let (sender, receiver) = sync_channel(ORDERS_MAX);
    let read = move || {
        for line in std::io::stdin().lock().lines() {
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
    std::thread::Builder::new().name("stdin".to_owned()).spawn(read).map_err(failed)?;
    Ok(receiver)
}

/// Lines for the coordinator.
#[derive(Clone)]
struct Lines(SyncSender<Option<String>>, Arc<std::sync::Mutex<Option<std::thread::JoinHandle<()>>>>);

impl Lines {
    fn tell(&self, told: &impl Serialize) -> Result<(), RunError> {
        self.0.send(Some(line(told)?)).map_err(|_| failed("the coordinator is gone"))
    }

    /// Waits until all lines are written.
    fn end(&self) {
        let _ = self.0.send(None);
        if let Some(thread) = crate::run::lock(&self.1).take() {
            let _ = thread.join();
        }
    }
}

/// Writes lines to standard output, in a thread of its own.
fn writer() -> Result<Lines, RunError> {
    let (sender, receiver) = sync_channel::<Option<String>>(LINES_MAX);
    let write = move || {
        let mut out = BufWriter::new(std::io::stdout());
        while let Ok(Some(first)) = receiver.recv() {
            let mut next = Some(first);
            while let Some(line) = next {
                if writeln!(out, "{line}").is_err() {
                    return;
                }
                next = match receiver.try_recv() {
                    Ok(None) => {
                        let _ = out.flush();
                        return;
                    }
                    Ok(line) => line,
                    Err(_) => None,
                };
            }
            if out.flush().is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("stdout".to_owned()).spawn(write).map_err(failed)?;
    Ok(Lines(sender, Arc::new(std::sync::Mutex::new(Some(thread)))))
}
