//! Measures the packets a second that a relay carries, and its punctuality.
//!
//! ```sh
//! cargo run --release -p samara-emulation --example load -- [PACKETS a second] [BYTES of payload] [SECONDS]
//! ```
//!
//! Host 0 sends datagrams to hosts 1 to 4 over links of 10 Gbit/s and 10 ms, in a burst every
//! millisecond. A rate of 0 packets a second means as many as possible. The same process reads and
//! discards the datagrams.

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
    use std::net::{SocketAddr, UdpSocket};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use samara_emulation::{EmulationConfig, Relay, RelayConfig, RelayReport};

    const RECEIVERS: u32 = 4;
    const TICK: Duration = Duration::from_millis(1);

    pub(super) fn main() -> Result<(), Box<dyn Error>> {
        let rate = argument(1, "PACKETS", 10_000)?;
        let bytes = argument(2, "BYTES", 1_000)?.min(1_472) as usize;
        let seconds = Duration::from_secs(argument(3, "SECONDS", 5)?);
        let emulation =
            EmulationConfig::uniform(RECEIVERS as usize + 1, 10_000_000_000, Duration::from_millis(10));
        let mut relay = Relay::start(RelayConfig::new(emulation))?;
        let sender = UdpSocket::bind((relay.bind_address(0), 0))?;
        let mut targets = Vec::new();
        let mut sockets = Vec::new();
        for host in 1..=RECEIVERS {
            let socket = UdpSocket::bind((relay.bind_address(host), 0))?;
            socket.set_read_timeout(Some(50 * TICK))?;
            targets.push(SocketAddr::from((relay.dial_address(0, host), socket.local_addr()?.port())));
            sockets.push(socket);
        }
        let done = AtomicBool::new(false);
        let sent = std::thread::scope(|scope| {
            for socket in sockets {
                let done = &done;
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        // A timeout is harmless: the loop checks the flag again.
                        let _ = socket.recv(&mut [0; 2048]);
                    }
                });
            }
            let sent = send(&sender, &targets, rate, bytes, seconds);
            std::thread::sleep(50 * TICK);
            done.store(true, Ordering::Relaxed);
            sent
        })?;
        print(sent, seconds, &relay.report()?);
        Ok(())
    }

    fn send(
        socket: &UdpSocket,
        targets: &[SocketAddr],
        rate: u64,
        bytes: usize,
        seconds: Duration,
    ) -> std::io::Result<u64> {
        let payload = vec![7; bytes];
        let start = Instant::now();
        let mut sent = 0;
        while start.elapsed() < seconds {
            let due =
                if rate == 0 { sent + 64 } else { (start.elapsed().as_secs_f64() * rate as f64) as u64 };
            while sent < due {
                socket.send_to(&payload, targets[sent as usize % targets.len()])?;
                sent += 1;
            }
            if rate > 0 {
                std::thread::sleep(TICK);
            }
        }
        Ok(sent)
    }

    fn print(sent: u64, seconds: Duration, report: &RelayReport) {
        let carried: u64 = report.hosts.iter().map(|host| host.received.packets).sum();
        println!("sent          {:.0} packets/s", sent as f64 / seconds.as_secs_f64());
        println!("carried       {:.0} packets/s", carried as f64 / seconds.as_secs_f64());
        println!("device drops  {} packets", report.device_drops);
        let precedence = if report.realtime { "" } else { ", without real-time priority" };
        println!("relay         {:.1} % of a processor{precedence}", report.cpu_share() * 100.0);
        println!(
            "              {:.0} packets for a second of processor time",
            carried as f64 / report.cpu.as_secs_f64()
        );
        let lateness = report.lateness;
        println!("lateness      p50 {:?}, p99 {:?}, max {:?}", lateness.p50, lateness.p99, lateness.max);
        report.doubts().iter().for_each(|doubt| println!("DOUBT: {doubt}"));
    }

    fn argument(index: usize, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = std::env::args().nth(index) else { return Ok(default) };
        text.parse().map_err(|_| format!("{name}: found {text:?}, expected a whole number"))
    }
}
