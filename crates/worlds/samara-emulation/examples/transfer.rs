//! Compares transfer times over emulated links, with the kernel's TCP and with quinn's QUIC, with
//! those of the simulator.
//!
//! ```sh
//! cargo run --release -p samara-emulation --example transfer -- [RATE in Mbit/s] [LATENCY in ms] [COUNT] [LOSS in %]
//! ```
//!
//! Every transfer is the first one on a new connection. Its time is that from the first write to
//! the last read.
//!
//! Without loss, host 0 sends to COUNT receivers at once (default 1), which share its uplink. The
//! time is that of the last one, and the example prints the median of five runs. With loss, COUNT
//! pairs of hosts transfer at once, each over its own links and with its own losses. This is
//! repeated with 16 seeds, and the example prints means and their standard errors. More pairs than
//! the processors can carry make times longer. Sizes whose transfer takes at least 8 s are skipped.

#[cfg(target_os = "linux")]
#[path = "transfer/kernel.rs"]
mod kernel;
#[cfg(target_os = "linux")]
#[path = "transfer/quic.rs"]
mod quic;
#[cfg(target_os = "linux")]
#[path = "transfer/simulated.rs"]
mod simulated;
#[cfg(target_os = "linux")]
#[path = "transfer/summary.rs"]
mod summary;

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("{}", samara_emulation::availability().unwrap_err());
    std::process::exit(1);
}

#[cfg(target_os = "linux")]
fn main() {
    if let Err(error) = linux::main() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::time::Duration;

    use samara_emulation::{EmulationConfig, Relay, RelayConfig, enter_private_network};

    use super::summary::{Summary, ms};
    use super::{kernel, quic, simulated};

    /// Payload of a segment and its overhead on the wire, in bytes: a packet has 1,500 bytes with
    /// the timestamp option (RFC 7323), which Linux always uses.
    pub(super) const MSS: u32 = 1448;
    pub(super) const HEADER: u32 = 52;

    /// Number of transfers without loss, of which the median counts.
    const RUNS: u64 = 5;
    /// Number of seeds for losses. The simulator uses more, as they cost little there.
    const SEEDS: u64 = 16;
    const SIMULATED_SEEDS: u64 = 400;

    /// Sizes with a longer expected time are skipped.
    const LONGEST: Duration = Duration::from_secs(8);

    /// An error that can cross threads and tasks.
    pub(super) type Failure = Box<dyn Error + Send + Sync>;

    pub(super) struct Case {
        pub(super) rate_bps: u64,
        pub(super) latency: Duration,
        pub(super) loss: f64,
        /// Senders and receivers.
        pub(super) pairs: Vec<(u32, u32)>,
        pub(super) bytes: usize,
    }

    impl Case {
        /// One host sends to several. With loss, separate pairs of hosts transfer.
        fn new(rate: u64, latency: u64, count: u32, loss: f64) -> Self {
            let pair = |i| if loss > 0.0 { (2 * i, 2 * i + 1) } else { (0, i + 1) };
            Self {
                rate_bps: rate * 1_000_000,
                latency: Duration::from_millis(latency),
                loss,
                pairs: (0..count).map(pair).collect(),
                bytes: 0,
            }
        }

        pub(super) fn hosts(&self) -> u32 {
            self.pairs.iter().map(|(from, to)| from.max(to) + 1).max().unwrap_or(0)
        }

        /// The least possible time: the last bit of the last packet leaves the uplink, and travels.
        fn least(&self) -> Duration {
            let wire = self.bytes + self.bytes.div_ceil(MSS as usize) * HEADER as usize;
            let shared = if self.loss > 0.0 { 1 } else { self.pairs.len() };
            let bits = (wire * shared * 8) as f64;
            Duration::from_secs_f64(bits / self.rate_bps as f64) + self.latency
        }

        /// The least possible time, or with loss the mean: the throughput in a round trip is
        /// bounded if every `1 / loss`th packet halves the window (Mathis et al., "The macroscopic
        /// behavior of the TCP congestion avoidance algorithm", 1997).
        fn expected(&self) -> Duration {
            if self.loss == 0.0 {
                return self.least();
            }
            let round_trips = self.bytes as f64 / f64::from(MSS) / (1.5 / self.loss).sqrt();
            self.least().max(Duration::from_secs_f64(round_trips * 2.0 * self.latency.as_secs_f64()))
        }

        fn relay(&self, seed: u64) -> Result<Relay, Failure> {
            let mut emulation = EmulationConfig::uniform(self.hosts() as usize, self.rate_bps, self.latency);
            emulation.seed = seed;
            emulation.loss = self.loss;
            Ok(Relay::start(RelayConfig::new(emulation))?)
        }

        /// Times of transfers, over several runs with a seed each.
        fn measure(
            &self,
            seeds: u64,
            mut transfer: impl FnMut(u64) -> Result<Vec<Duration>, Failure>,
        ) -> Result<Summary, Failure> {
            let runs = (1..=seeds).map(&mut transfer).collect::<Result<Vec<_>, _>>()?;
            Ok(if self.loss > 0.0 { Summary::mean(&runs) } else { Summary::median(&runs) })
        }

        fn measure_real(
            &self,
            mut transfer: impl FnMut(&Relay, &Self) -> Result<Vec<Duration>, Failure>,
        ) -> Result<Summary, Failure> {
            self.measure(if self.loss > 0.0 { SEEDS } else { RUNS }, |seed| {
                let mut relay = self.relay(seed)?;
                let times = transfer(&relay, self)?;
                relay.report()?.doubts().iter().for_each(|doubt| eprintln!("DOUBT: {doubt}"));
                Ok(times)
            })
        }
    }

    pub(super) fn main() -> Result<(), Failure> {
        let rate = argument(1, "RATE", 20)?;
        let latency = argument(2, "LATENCY", 50)?;
        let count = argument(3, "COUNT", 1)?;
        let loss = loss(4)?;
        enter_private_network()?;
        let settings = kernel::prepare()?;
        println!(
            "{rate} Mbit/s up and down, {latency} ms one way, {count} at once, {:.1} % loss; {settings}\n",
            loss * 100.0
        );
        println!("| transport | bytes | bound | NewReno | CUBIC | simulated | simulated / NewReno |");
        println!("|---|--:|--:|--:|--:|--:|--:|");
        let mut case = Case::new(rate, latency, count as u32, loss);
        let quic = quic::Settings::new()?;
        for kib in [16, 64, 256, 1024, 4096] {
            case.bytes = kib << 10;
            if case.expected() >= LONGEST {
                println!("| | {} | {} | skipped | | | |", case.bytes, ms(case.expected()));
                continue;
            }
            let reno = case.measure_real(|relay, case| kernel::transfer(relay, case, "reno"))?;
            let cubic = case.measure_real(|relay, case| kernel::transfer(relay, case, "cubic"))?;
            row("TCP", &case, [reno, cubic], &simulated::tcp())?;
            let reno =
                case.measure_real(|relay, case| quic.transfer(relay, case, &quic::as_in_the_model()))?;
            let cubic = case.measure_real(|relay, case| quic.transfer(relay, case, &quic::defaults()))?;
            row("QUIC", &case, [reno, cubic], &samara_sim::Transport::quic())?;
        }
        Ok(())
    }

    fn row(
        name: &str,
        case: &Case,
        [reno, cubic]: [Summary; 2],
        transport: &samara_sim::Transport,
    ) -> Result<(), Failure> {
        let seeds = if case.loss > 0.0 { SIMULATED_SEEDS } else { 1 };
        let model = case.measure(seeds, |seed| simulated::transfer(case, transport, seed))?;
        println!(
            "| {name} | {} | {} | {reno} | {cubic} | {model} | {:.2} |",
            case.bytes,
            ms(case.least()),
            model.time.as_secs_f64() / reno.time.as_secs_f64()
        );
        Ok(())
    }

    fn argument(index: usize, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = std::env::args().nth(index) else { return Ok(default) };
        match text.parse() {
            Ok(value) if (1..=10_000).contains(&value) => Ok(value),
            _ => Err(format!("{name}: found {text:?}, expected a whole number from 1 to 10000")),
        }
    }

    /// Parses a percentage as a share.
    fn loss(index: usize) -> Result<f64, String> {
        let Some(text) = std::env::args().nth(index) else { return Ok(0.0) };
        match text.parse::<f64>() {
            Ok(percent) if (0.0..=50.0).contains(&percent) => Ok(percent / 100.0),
            _ => Err(format!("LOSS: found {text:?}, expected a percentage from 0 to 50")),
        }
    }
}
