use super::*;
use samara_lab::statistics::Statistics;

#[test]
fn deliveries_make_rows() {
    let mut collector = MessageCollector::new(&[0, 1], 3);
    assert_eq!(collector.missing, 4);
    assert!(!collector.delivered(0, 1, 0, 5), "not published yet");
    collector.published(0, 1_000_000);
    assert!(collector.delivered(0, 2, 0, 3_000_000));
    assert!(collector.delivered(0, 1, 2, 4_000_000));
    assert!(!collector.delivered(0, 1, 0, 5_000_000), "a repeated delivery");
    assert!(!collector.delivered(0, 0, 1, 5_000_000), "its publisher has it");
    assert!(!collector.delivered(9, 0, 1, 5_000_000), "an unknown message");
    let row = collector.rows[0];
    assert_eq!((row.delivered, row.last_hop, row.last_at), (2, 2, 4_000_000));
    assert!((row.dissemination_ms() - 3.0).abs() < 1e-9);
    collector.published(1, 5_000_000);
    assert!(collector.delivered(1, 2, 1, 6_000_000));
    assert_eq!((collector.missing, collector.latest), (1, 6_000_000));
    assert_eq!(collector.delivered, [0, 1, 2]);
    let gaps = Statistics::of_durations(&collector.inter_arrival).unwrap();
    assert!((gaps.max - 3.0).abs() < 0.01, "{gaps:?}");
    let latency = Statistics::of_durations(&collector.latency).unwrap();
    assert!((latency.mean - 2.0).abs() < 0.01 && (latency.p50 - 2.0).abs() < 0.01, "{latency:?}");
    assert_eq!(collector.latency.distribution_ms().last().map(|(_, share)| *share), Some(1.0));
}
