//! For every batch, the output is a permutation of the input.

use std::time::Duration;

use proptest::prelude::*;
use samara_engine::Shape;
use samara_mix::{Config, Group, ResultShape, Transfer};

use crate::config;
use crate::net::Net;

fn mixes(seed: u64, config: Config) -> Net {
    let mut net = Net::new(seed, config);
    net.run_until(Duration::from_secs(30), |net| net.record.complete().len() >= 2);
    net.record.check(&[]);
    assert!(net.record.failed.is_empty());
    net
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn outputs_are_the_inputs_permuted(
        seed in any::<u64>(),
        team in 2usize..8,
        batch in 1u32..70,
        precomputation_slots in 1u32..20,
        realtime_slots in 1u32..80,
        is_unary in any::<bool>(),
        shape in 0usize..4,
        in_flight in 1usize..4,
    ) {
        mixes(seed, Config {
            batch,
            precomputation_slots,
            realtime_slots,
            transfer: if is_unary { Transfer::Unary } else { Transfer::Streamed },
            shape: ResultShape::Fixed(Shape::ALL[shape]),
            precomputing_max: in_flight,
            realtime_max: in_flight,
            rounds_max: 3,
            ..config(team as u32, team, Group::Small256)
        });
    }
}

#[test]
fn real_groups_mix() {
    for (group, team, batch) in [(Group::Modp2048, 3, 5), (Group::Modp4096, 2, 2)] {
        let net = mixes(
            1,
            Config {
                batch,
                precomputing_max: 1,
                realtime_max: 1,
                rounds_max: 1,
                ..config(team as u32, team, group)
            },
        );
        let content = &net.record.sent.values().next().unwrap()[0];
        assert_eq!(content.len(), group.slot_bytes() - 4);
    }
}

#[test]
fn formula_chooses_the_shape_of_results() {
    let of = |team, transfer| {
        Config {
            shape: ResultShape::ByFormula { link_bytes_per_s: 3.75e6, hop_s: 0.0001 },
            batch: 1_000,
            realtime_slots: 32,
            transfer,
            ..config(team as u32, team, Group::Modp2048)
        }
        .result_shape()
    };
    // Many pieces hide the length of a chain; one frame does not.
    assert_eq!(of(5, Transfer::Streamed), Shape::Ring);
    assert_eq!(of(16, Transfer::Unary), Shape::DoubleTree);
}
