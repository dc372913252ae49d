//! How long transfers take over emulated links with the kernel's own TCP, beside what the simulator says.
//!
//! ```sh
//! cargo run --release -p samara-emulation --example transfer -- [RATE in Mbit/s] [LATENCY in ms] [FAN-OUT]
//! ```
//!
//! Every transfer is the first one on a new connection. Transfers go from host 0 to as many receivers at once as FAN-OUT
//! says (1 if not given), and share its uplink. Times run from the first write to the last read of the last receiver; the
//! median of five is printed. Sizes whose transfer takes 5 s or more are left out.

#[cfg(target_os = "linux")]
#[path = "transfer/kernel.rs"]
mod kernel;
#[cfg(target_os = "linux")]
#[path = "transfer/simulated.rs"]
mod simulated;

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

    use super::{kernel, simulated};

    /// What a segment carries, and what it costs on the wire: 1,500 bytes with the timestamp option (RFC 7323), which
    /// Linux always uses.
    pub(super) const MSS: u32 = 1448;
    pub(super) const HEADER: u32 = 52;

    const RUNS: usize = 5;

    /// Sizes that take longer at the least are left out.
    const LONGEST: Duration = Duration::from_secs(5);

    pub(super) struct Case {
        pub(super) rate_bps: u64,
        pub(super) latency: Duration,
        pub(super) receivers: u32,
        pub(super) bytes: usize,
    }

    impl Case {
        /// The last bit of the last packet leaves the uplink, and travels.
        fn least(&self) -> Duration {
            let wire = self.bytes + self.bytes.div_ceil(MSS as usize) * HEADER as usize;
            let bits = (wire * self.receivers as usize * 8) as f64;
            Duration::from_secs_f64(bits / self.rate_bps as f64) + self.latency
        }
    }

    pub(super) fn main() -> Result<(), Box<dyn Error>> {
        let rate = argument(1, "RATE", 20)?;
        let latency = argument(2, "LATENCY", 50)?;
        let receivers = argument(3, "FAN-OUT", 1)?;
        enter_private_network()?;
        let settings = kernel::prepare()?;
        println!(
            "{rate} Mbit/s up and down, {latency} ms one way, {receivers} receiver(s) at once; {settings}\n"
        );
        println!("| bytes | bound | kernel, reno | kernel, cubic | simulated | simulated / reno |");
        println!("|--:|--:|--:|--:|--:|--:|");
        let emulation = EmulationConfig::uniform(
            receivers as usize + 1,
            rate * 1_000_000,
            Duration::from_millis(latency),
        );
        let mut relay = Relay::start(RelayConfig::new(emulation))?;
        for kib in [16, 64, 256, 1024, 4096] {
            let case = Case {
                rate_bps: rate * 1_000_000,
                latency: Duration::from_millis(latency),
                receivers: receivers as u32,
                bytes: kib << 10,
            };
            if case.least() >= LONGEST {
                println!("| {} | {} | left out | | | |", case.bytes, ms(case.least()));
                continue;
            }
            let reno = median(RUNS, || kernel::transfer(&relay, &case, "reno"))?;
            let cubic = median(RUNS, || kernel::transfer(&relay, &case, "cubic"))?;
            let model = simulated::transfer(&case)?;
            println!(
                "| {} | {} | {} | {} | {} | {:.2} |",
                case.bytes,
                ms(case.least()),
                ms(reno),
                ms(cubic),
                ms(model),
                model.as_secs_f64() / reno.as_secs_f64()
            );
        }
        let report = relay.report()?;
        println!(
            "\nrelay: {} packets, lateness p50 {:?}, p99 {:?}, max {:?}; {:.1} % of a processor; lost {:?}",
            report.lateness.packets,
            report.lateness.p50,
            report.lateness.p99,
            report.lateness.max,
            report.cpu_share() * 100.0,
            report.total().drops.total()
        );
        report.doubts().iter().for_each(|doubt| println!("DOUBT: {doubt}"));
        Ok(())
    }

    fn argument(index: usize, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = std::env::args().nth(index) else { return Ok(default) };
        match text.parse() {
            Ok(value) if (1..=10_000).contains(&value) => Ok(value),
            _ => Err(format!("{name}: found {text:?}, expected a whole number from 1 to 10000")),
        }
    }

    fn median(
        runs: usize,
        mut run: impl FnMut() -> Result<Duration, Box<dyn Error>>,
    ) -> Result<Duration, Box<dyn Error>> {
        let mut times = (0..runs).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
        times.sort();
        Ok(times[runs / 2])
    }

    fn ms(duration: Duration) -> String {
        format!("{:.1} ms", duration.as_secs_f64() * 1e3)
    }
}
