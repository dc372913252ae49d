//! The sender: fills every batch with its own payloads, and checks the results.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, channel};
use std::time::{Duration, Instant};

use samara_engine::{NodeRng, Purpose};
use samara_mix::Parameters;
use samara_net::mix::{Client, ClientOptions, Contact, Ended, Outcome, Round, Sealed};
use samara_spec::Scenario;
use samara_spec::mix::Mix;
use samara_trace::live::{Clock, Event, Latencies, LiveWriter};
use tokio::sync::Semaphore;

use super::{Participants, nodes};
use crate::TestbedError;
use crate::process::NodeProcess;
use crate::run::{Stop, unix_ns};
use crate::wire::Wire;

/// The outcome of a round as the sender saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundOutcome {
    pub(crate) delivered: bool,
    /// Payloads that are missing, duplicated or changed in the result.
    pub(crate) wrong: u32,
    /// Whether the result has the payloads in the order of the input.
    pub(crate) is_unmixed: bool,
    pub(crate) error: Option<String>,
}

struct Stocked {
    round: Round,
    sealed: Vec<Sealed>,
    sent: Vec<Vec<u8>>,
}

/// The sender, with its own runtime.
pub(super) struct Sender {
    runtime: tokio::runtime::Runtime,
    sending: Sending,
    stocked: Vec<Stocked>,
    content_bytes: usize,
    batch_rng: NodeRng,
    /// The outcomes of rounds, from the tasks that wait for them.
    went: Receiver<(u64, RoundOutcome)>,
}

impl Sender {
    pub(super) fn start(
        scenario: &Scenario,
        cast: &Participants,
        wire: &Wire,
        directory: &Path,
    ) -> Result<Self, TestbedError> {
        let (mix, parameters): (&Mix, &Parameters) = (scenario.part(), scenario.part());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(TestbedError::io("starting a runtime for the sender"))?;
        let contact = |node: u32| Contact {
            fingerprint: cast.fingerprint(node),
            address: nodes::gateway(wire.dialled(cast.sender(), node)),
        };
        let group = mix.group;
        let identity = cast.keys[cast.sender() as usize].clone();
        let config = scenario.mix_config();
        let options = ClientOptions {
            team_min: config.team,
            batch_max: config.batch_max,
            announced_max: config.node_rounds_max,
            ..ClientOptions::new(identity, (0..cast.nodes).map(contact).collect(), group)
        };
        let client = {
            let _in_runtime = runtime.enter();
            Client::start(options).map_err(|error| TestbedError::Scenario(error.to_string()))?
        };
        let live =
            nodes::live_directory(directory).and_then(|directory| LiveWriter::create(&directory, "sender"));
        let live = live.map_err(TestbedError::io("creating the live file of the sender"))?;
        let started = unix_ns();
        let role = "client".to_owned();
        live.say(started, Event::Started { role, clock: Clock::Wall, started_unix_ns: started, run: None });
        let (went, results) = channel();
        let sending = Sending {
            client,
            room: Arc::new(Semaphore::new((parameters.realtime_max * mix.teams) as usize)),
            went,
            live: Arc::new(live),
            pause: mix.pause.duration(),
        };
        Ok(Self {
            runtime,
            sending,
            stocked: Vec::new(),
            content_bytes: group.content_bytes(),
            batch_rng: NodeRng::new(0, 0, Purpose::Workload),
            went: results,
        })
    }

    /// Waits until the sender shares secrets with all nodes.
    pub(super) fn wait_ready(&self, timeout: Duration, stop: &Stop<'_>) -> Result<(), TestbedError> {
        let start = Instant::now();
        loop {
            stop.check()?;
            let ready = self.runtime.block_on(async {
                tokio::time::timeout(Duration::from_millis(500), self.sending.client.ready()).await.is_ok()
            });
            if ready {
                return Ok(());
            }
            if start.elapsed() > timeout {
                return Err(TestbedError::Scenario(format!(
                    "the sender does not share secrets with all nodes after {timeout:?}"
                )));
            }
        }
    }

    /// Waits until `rounds` rounds are precomputed, and seals payloads for them.
    pub(super) fn stock(
        &mut self,
        rounds: u32,
        seed: u64,
        stop: &Stop<'_>,
        processes: &mut [NodeProcess],
        progress: &mut impl FnMut(&str, f64),
    ) -> Result<(), TestbedError> {
        self.batch_rng = NodeRng::new(seed, 0, Purpose::Workload);
        while (self.stocked.len() as u32) < rounds {
            stop.check()?;
            for process in processes.iter_mut() {
                process.check("precomputation")?;
            }
            progress("precomputing", self.stocked.len() as f64 / f64::from(rounds));
            let next = self.runtime.block_on(async {
                tokio::time::timeout(Duration::from_millis(500), self.sending.client.next_round()).await
            });
            let Ok(round) = next else { continue };
            let sent = contents(&mut self.batch_rng, round.batch, self.content_bytes);
            let sealed = self.runtime.block_on(self.sending.client.seal(&round, sent.clone()));
            let sealed = sealed.map_err(|error| TestbedError::Scenario(error.to_string()))?;
            self.stocked.push(Stocked { round, sealed, sent });
        }
        Ok(())
    }

    /// Submits the stock, and then batches for new rounds, with a bounded number in flight.
    pub(super) fn begin(&mut self) {
        let stocked = std::mem::take(&mut self.stocked);
        let sender = self.sending.clone();
        let mut rng = self.batch_rng.clone();
        let content_bytes = self.content_bytes;
        self.runtime.spawn(async move {
            for stocked in stocked {
                sender.send(stocked).await;
            }
            loop {
                let round = sender.client.next_round().await;
                let sent = contents(&mut rng, round.batch, content_bytes);
                let sealed = sender.client.seal(&round, sent.clone()).await;
                match sealed {
                    Ok(sealed) => sender.send(Stocked { round, sealed, sent }).await,
                    Err(error) => report(&sender.went, round.round, Err(error.to_string())),
                }
            }
        });
    }

    /// Describes the announcements that the sender ignored, if there are any.
    pub(super) fn doubt(&self) -> Option<String> {
        let ignored = self.sending.client.status().ignored;
        (!ignored.is_empty()).then(|| format!("the sender ignored announcements of rounds: {ignored:?}"))
    }

    pub(super) fn finish(&mut self) -> BTreeMap<u64, RoundOutcome> {
        // Rounds that have ended for the scheduler are about to end for the sender.
        std::thread::sleep(Duration::from_secs(1));
        self.went.try_iter().collect()
    }
}

/// The parts of the sender that a task needs.
#[derive(Clone)]
struct Sending {
    client: Client,
    room: Arc<Semaphore>,
    went: mpsc::Sender<(u64, RoundOutcome)>,
    live: Arc<LiveWriter>,
    /// Time from the end of a batch until the next one may leave.
    pause: Duration,
}

impl Sending {
    /// Submits a batch as soon as there is room. A separate task waits for the result.
    async fn send(&self, stocked: Stocked) {
        let Ok(place) = Arc::clone(&self.room).acquire_owned().await else { return };
        let this = self.clone();
        let Stocked { round, sealed, sent } = stocked;
        let entered = Instant::now();
        if let Err(error) = this.client.submit(&round, sealed).await {
            return report(&self.went, round.round, Err(error.to_string()));
        }
        tokio::spawn(async move {
            let result = this.client.result(&round).await.map_err(|error| error.to_string());
            let pause = this.pause;
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                drop(place);
            });
            if matches!(result, Ok(Ended::Delivered(_))) {
                let mut latencies = Latencies::default();
                let took = entered.elapsed().as_nanos() as u64;
                latencies.add(took, sent.len() as u64);
                this.live.say(unix_ns(), Event::Latencies { round: round.round, latencies });
            }
            report(&this.went, round.round, result.map(|ended| compare(&ended, &sent)));
        });
    }
}

fn report(went: &mpsc::Sender<(u64, RoundOutcome)>, round: u64, how: Result<RoundOutcome, String>) {
    let how = how.unwrap_or_else(|error| RoundOutcome {
        error: Some(format!("round {round}: {error}")),
        ..RoundOutcome::default()
    });
    // Fails only if the run is over.
    let _ = went.send((round, how));
}

fn contents(rng: &mut NodeRng, count: u32, bytes: usize) -> Vec<Vec<u8>> {
    let payload = |_| {
        let words = std::iter::repeat_with(|| rng.next_u64().to_le_bytes());
        words.flatten().take(bytes).collect()
    };
    (0..count).map(payload).collect()
}

/// Compares the output with the input: the same payloads in another order.
fn compare(ended: &Ended, sent: &[Vec<u8>]) -> RoundOutcome {
    let Ended::Delivered(outcomes) = ended else { return RoundOutcome::default() };
    let mut missing: HashMap<&[u8], i64> = HashMap::new();
    for content in sent {
        *missing.entry(content).or_default() += 1;
    }
    let mut is_unmixed = true;
    for (place, outcome) in outcomes.iter().enumerate() {
        let Outcome::Content(content) = outcome else { continue };
        is_unmixed &= sent.get(place).is_some_and(|sent| sent[..] == content[..]);
        if let Some(count) = missing.get_mut(&content[..]) {
            *count -= 1;
        }
    }
    let wrong = missing.values().map(|count| count.unsigned_abs() as u32).sum();
    RoundOutcome { delivered: true, wrong, is_unmixed, error: None }
}
