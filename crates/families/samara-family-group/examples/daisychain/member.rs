//! A process with one member. It reads commands as lines on standard input, answers each with a
//! line on standard output, and ends at the end of its input. `interop/java` does the same with
//! JGroups.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::{BufMut, BytesMut};
use samara_net::ring::{Authentication, Event, Events, Group, Options};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::Anyhow;
use crate::histogram::Histogram;

/// Bytes at the start of a payload: its sender (1), its number (8), and its due time in nanoseconds
/// since 1970 (8).
const HEADER_BYTES: usize = 17;

/// Statistics about received messages.
struct Tally {
    /// Messages by sender.
    received: Vec<u64>,
    disordered: u64,
    total: u64,
    /// The number of messages after which to report the time that they took, and when the count
    /// began.
    expected: Option<(u64, Instant)>,
    latencies: Histogram,
    last: Instant,
    longest_gap: Duration,
}

impl Tally {
    fn new(members: usize) -> Self {
        Self {
            received: vec![0; members],
            disordered: 0,
            total: 0,
            expected: None,
            latencies: Histogram::default(),
            last: Instant::now(),
            longest_gap: Duration::ZERO,
        }
    }

    fn take(&mut self, data: &[u8]) {
        let Some((header, _)) = data.split_at_checked(HEADER_BYTES) else { return };
        let number =
            |at: usize| header[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let received = &mut self.received[usize::from(header[0])];
        self.disordered += u64::from(*received != number(1));
        *received += 1;
        self.latencies.add(unix_ns().saturating_sub(number(9)) / 1000);
        let now = Instant::now();
        self.longest_gap = self.longest_gap.max(now - self.last);
        self.last = now;
        self.total += 1;
        self.check();
    }

    fn check(&mut self) {
        if let Some((_, since)) = self.expected.take_if(|(expected, _)| self.total >= *expected) {
            println!("done {}", since.elapsed().as_nanos());
        }
    }
}

/// Runs a member until its input ends or it has left.
#[tokio::main]
pub(crate) async fn run(index: usize, members: &[SocketAddr], authentication: Authentication) -> Anyhow<()> {
    let options = Options::new("head-to-head", members[index]).with_seeds(members.iter().copied());
    let options = Options { authentication, ..options };
    let (group, events) = Group::join(options).await?;
    println!("joined");
    let tally = Arc::new(Mutex::new(Tally::new(members.len())));
    tokio::spawn(listen(events, Arc::clone(&tally)));
    let mut member =
        Member { group, index, tally, sending: None, sent: Arc::default(), halt: Arc::default() };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await?
        && member.handle_command(&line).await?
    {}
    Ok(())
}

async fn listen(mut events: Events, tally: Arc<Mutex<Tally>>) {
    while let Some(event) = events.next().await {
        if let Event::Delivered { payload, .. } = event {
            tally.lock().unwrap_or_else(PoisonError::into_inner).take(&payload.to_bytes());
        }
    }
}

struct Member {
    group: Group,
    index: usize,
    tally: Arc<Mutex<Tally>>,
    sending: Option<JoinHandle<()>>,
    sent: Arc<AtomicU64>,
    halt: Arc<AtomicBool>,
}

impl Member {
    /// Returns false if this was the last command.
    async fn handle_command(&mut self, line: &str) -> Anyhow<bool> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let tally = || self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        match words[..] {
            ["members"] => println!("members {}", self.group.view().map_or(0, |view| view.len())),
            ["send", count, bytes, rate, expected] => {
                {
                    let mut tally = tally();
                    tally.expected = Some((expected.parse()?, Instant::now()));
                    tally.check();
                }
                self.send(count.parse()?, bytes.parse()?, rate.parse()?);
            }
            ["flow", bytes, rate] => {
                self.send(u64::MAX, bytes.parse()?, rate.parse()?);
                println!("flowing");
            }
            ["halt"] => {
                self.halt.store(true, Ordering::Relaxed);
                if let Some(sending) = self.sending.take() {
                    sending.await?;
                }
                println!("halted {}", self.sent.load(Ordering::Relaxed));
            }
            ["gap"] => {
                let mut tally = tally();
                let longest = tally.longest_gap.max(tally.last.elapsed());
                (tally.longest_gap, tally.last) = (Duration::ZERO, Instant::now());
                println!("gap {}", longest.as_nanos());
            }
            ["counts"] => {
                let tally = tally();
                let counts: Vec<String> = tally.received.iter().map(u64::to_string).collect();
                println!("counts {} {}", tally.disordered, counts.join(" "));
            }
            ["latencies"] => println!("latencies{}", std::mem::take(&mut tally().latencies)),
            ["leave"] => {
                self.group.leave().await?;
                println!("left");
                return Ok(false);
            }
            _ => return Err(format!("unknown command {line:?}").into()),
        }
        Ok(true)
    }

    /// Sends `count` messages: at `rate` messages a second or, if it is 0, as fast as the group
    /// accepts them.
    fn send(&mut self, count: u64, bytes: usize, rate: f64) {
        self.halt.store(false, Ordering::Relaxed);
        let (group, index) = (self.group.clone(), self.index as u8);
        let (sent, halt) = (Arc::clone(&self.sent), Arc::clone(&self.halt));
        let mut pace = (rate > 0.0).then(|| pace(count, rate));
        self.sending = Some(tokio::spawn(async move {
            for _ in 0..count {
                let due = match &mut pace {
                    None => unix_ns(),
                    Some(times) => times.recv().await.unwrap_or_else(unix_ns),
                };
                if halt.load(Ordering::Relaxed) {
                    return;
                }
                let mut data = BytesMut::with_capacity(bytes.max(HEADER_BYTES));
                data.put_u8(index);
                data.put_u64(sent.load(Ordering::Relaxed));
                data.put_u64(due);
                data.resize(bytes.max(HEADER_BYTES), 0);
                if let Err(error) = group.broadcast(data.freeze()).await {
                    eprintln!("sending failed: {error}");
                    return;
                }
                sent.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
}

/// Sends the due times of messages, in nanoseconds since 1970, each at that time. It uses a thread
/// of its own, since tokio's timers have a resolution of a millisecond.
fn pace(count: u64, rate: f64) -> mpsc::UnboundedReceiver<u64> {
    let (sender, times) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let (start, start_ns) = (Instant::now(), unix_ns());
        for number in 0..count {
            let offset = Duration::from_secs_f64(number as f64 / rate);
            std::thread::sleep((start + offset).saturating_duration_since(Instant::now()));
            if sender.send(start_ns + offset.as_nanos() as u64).is_err() {
                return;
            }
        }
    });
    times
}

/// Nanoseconds since 1970, by a clock that all processes share.
fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
