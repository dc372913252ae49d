//! Throughput of an outbox, in copies per second: every copy is owed once and popped once.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig, Owe, Schedule};
use samara_engine::{Frame, MessageKey, NodeRng, Outbox, PeerId, Purpose, Time};

#[derive(Clone)]
struct Blob;

impl Frame for Blob {
    fn encoded_len(&self) -> usize {
        2048
    }

    fn payload_len(&self) -> usize {
        2000
    }
}

/// Owes each message to `degree` of the peers, which are drawn at random for each message.
fn batch(messages: u64, degree: usize, peers: u32) -> Vec<Owe<Blob>> {
    let mut rng = NodeRng::new(1, 0, Purpose::Workload);
    let mut all: Vec<PeerId> = (0..peers).map(PeerId).collect();
    let mut owe = |id| {
        rng.shuffle(&mut all);
        Owe { message: MessageKey(id), frame: Blob, peers: all[..degree].to_vec(), deadline: None }
    };
    (0..messages).map(&mut owe).collect()
}

fn run(dispatch: Dispatch, peers: u32, batch: Vec<Owe<Blob>>) {
    let lanes = vec![LaneConfig::unbounded("control", 0), LaneConfig::unbounded("messages", 1)];
    let mut outbox = Outbox::new(OutboxConfig { dispatch, lanes });
    (0..peers).for_each(|peer| outbox.link_up(PeerId(peer)));
    let mut rng = NodeRng::new(2, 0, Purpose::Engine);
    outbox.owe_batch(Time::ZERO, Lane(1), batch, &Schedule::INTERLEAVED, &mut rng, &mut Vec::new());
    match dispatch {
        Dispatch::Node => while outbox.pop(Time::ZERO, |_| true).is_some() {},
        Dispatch::PerLink => {
            (0..peers).for_each(|peer| while outbox.pop_for(Time::ZERO, PeerId(peer)).is_some() {});
        }
    }
    assert_eq!(outbox.pending(), 0);
}

fn outbox(c: &mut Criterion) {
    for (messages, degree, peers) in [(128, 8, 70), (100, 100, 100), (100, 8, 1000)] {
        let batch = batch(messages, degree, peers);
        let mut group = c.benchmark_group(format!("{messages} messages to {degree} of {peers} peers"));
        group.throughput(Throughput::Elements(messages * degree as u64)).sample_size(10);
        for dispatch in [Dispatch::PerLink, Dispatch::Node] {
            group.bench_function(format!("{dispatch:?}"), |b| {
                b.iter_batched(|| batch.clone(), |batch| run(dispatch, peers, batch), BatchSize::LargeInput);
            });
        }
        group.finish();
    }
}

criterion_group!(benches, outbox);
criterion_main!(benches);
