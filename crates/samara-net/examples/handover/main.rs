//! Batches over real gRPC and an emulated path, beside the simulator:
//! `cargo run --release -p samara-net --features mix --example handover [RUN ...]`.
//!
//! Runs of the scenario `mix-window` (all, if none is named) are made twice: by the simulator, and with tonic at both ends of a path that
//! `samara-emulation` delays, through the kernel's TCP. Nothing but the scenario file says what differs between them. Needs Linux and
//! the right to make network namespaces, in which idle restart (`tcp_slow_start_after_idle`) is switched. See docs/guides/mix.md.

mod transfer;

use samara_lab::scenario::Handover;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use samara_emulation::{DownlinkQueue, EmulationConfig, Relay, RelayConfig};
use samara_lab::data::Inputs;
use samara_lab::results::HandoverData;
use samara_lab::run::{self, RunOptions};
use samara_lab::scenario::{Congestion, Point, load};

type Anyhow<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// As many bytes may wait before the path as in the scenario.
const QUEUE_BYTES: u64 = 64 << 20;

/// Settings of the kernel's TCP in the namespace: those of the simulator's, and nothing remembered from one connection to the next.
const SETTINGS: [(&str, &str); 3] =
    [("tcp_no_metrics_save", "1"), ("tcp_wmem", "4096 16384 67108864"), ("tcp_rmem", "4096 131072 67108864")];

fn set(name: &str, value: &str) -> Anyhow<()> {
    let path = format!("/proc/sys/net/ipv4/{name}");
    std::fs::write(&path, value).map_err(|error| format!("{path}: {error}").into())
}

/// The first batch, and the median of the later ones, in milliseconds.
fn simulated(point: &Point) -> Anyhow<(f64, f64)> {
    let stop = AtomicBool::new(false);
    let inputs = Inputs::directory(".");
    let options = RunOptions { threads: 1, inputs: &inputs, stop: &stop };
    let measured = run::run(point, options, |_| {})?;
    let outcome = measured.outcome();
    let metrics = &outcome.data::<HandoverData>().ok_or("expected a run with batches")?.metrics;
    Ok((metrics.first_ms, metrics.later_ms))
}

/// The same over a real connection.
fn real(point: &Point, runtime: &tokio::runtime::Runtime) -> Anyhow<(f64, f64)> {
    let scenario = &point.scenario;
    let idle_restart = scenario.transport.idle_restart.unwrap_or(true);
    set("tcp_slow_start_after_idle", if idle_restart { "1" } else { "0" })?;
    let congestion = scenario.transport.congestion.unwrap_or(Congestion::Reno);
    set("tcp_congestion_control", congestion.name())?;
    // The emulated uplink is beyond the kernel, and so a link on the way.
    let rate = scenario.network.uplink.bps().min(scenario.network.downlink.bps());
    let latency = scenario.network.latency.duration();
    let mut emulation = EmulationConfig::uniform(2, rate, latency);
    emulation.downlink_queue = DownlinkQueue::DropTail { bytes: QUEUE_BYTES };
    let mut relay = Relay::start(RelayConfig::new(emulation))?;
    let handover = scenario.part::<Handover>().clone();
    let addresses = (relay.bind_address(0), relay.bind_address(1), relay.dial_address(0, 1));
    let window = scenario.transport.http2_window.map(|window| window.bytes() as u32);
    let mut times = runtime.block_on(transfer::batches(&handover, window, addresses))?;
    let doubts = relay.report()?.doubts();
    if !doubts.is_empty() {
        eprintln!("{}: {}", point.name(), doubts.join("; "));
    }
    let first = times.remove(0);
    times.sort();
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    Ok((millis(first), times.get(times.len() / 2).copied().map_or(f64::NAN, millis)))
}

fn main() -> Anyhow<()> {
    // Before there are threads.
    samara_emulation::enter_private_network()?;
    for (name, value) in SETTINGS {
        set(name, value)?;
    }
    let only: Vec<String> = std::env::args().skip(1).collect();
    let loaded = load("mix-window", &[], &only, None).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("milliseconds from the moment in which all payloads are ready until all are there");
    println!("{:24} {:>9} {:>9} {:>7}   {:>9} {:>9} {:>7}", "run", "first", "real", "", "later", "real", "");
    for point in &loaded.points {
        let (model, found) = (simulated(point)?, real(point, &runtime)?);
        let share = |model: f64, found: f64| format!("{:+.0} %", (model / found - 1.0) * 100.0);
        println!(
            "{:24} {:9.0} {:9.0} {:>7}   {:9.0} {:9.0} {:>7}",
            point.name(),
            model.0,
            found.0,
            share(model.0, found.0),
            model.1,
            found.1,
            share(model.1, found.1),
        );
    }
    Ok(())
}
