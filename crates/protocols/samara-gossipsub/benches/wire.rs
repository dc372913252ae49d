//! Benchmarks of encoding and decoding: a message of 1 KiB, and an IHAVE of 100 ids.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use samara_gossipsub::rpc::{Control, IHave, Message, MessageId, Rpc, Topic};
use samara_gossipsub::wire::{Limits, decode, encode, encoded_len};

fn publish() -> Rpc {
    let message =
        Message::new(Topic::new("/eth2/data_column_sidecar_7/ssz_snappy"), Bytes::from(vec![7; 1024]));
    Rpc { publish: [Arc::new(message)].into_iter().collect(), ..Rpc::default() }
}

fn ihave() -> Rpc {
    let ids = (0..100u8).map(|number| MessageId::new(&[number; 20])).collect();
    let ihave = vec![IHave { topic: Topic::new("/eth2/data_column_sidecar_7/ssz_snappy"), ids }];
    let control = Control { ihave, ..Control::default() };
    Rpc { control: Some(Box::new(control)), ..Rpc::default() }
}

fn wire(criterion: &mut Criterion) {
    let limits = Limits::default();
    for (name, rpc) in [("message=1KiB", publish()), ("ihave=100", ihave())] {
        let mut encoded = Vec::new();
        encode(&rpc, &mut encoded);
        let frame = Bytes::from(encoded.clone());
        criterion.bench_function(&format!("wire::encoded_len/{name}"), |bencher| {
            bencher.iter(|| encoded_len(black_box(&rpc)));
        });
        criterion.bench_function(&format!("wire::encode/{name}"), |bencher| {
            bencher.iter(|| {
                encoded.clear();
                encode(black_box(&rpc), &mut encoded);
            });
        });
        criterion.bench_function(&format!("wire::decode/{name}"), |bencher| {
            bencher.iter(|| decode(black_box(frame.clone()), &limits));
        });
    }
}

criterion_group!(benches, wire);
criterion_main!(benches);
