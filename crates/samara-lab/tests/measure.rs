//! Statistics and the figures of a run, held against values worked out by hand.

use samara_engine::Time;
use samara_lab::measure::{Collector, NodeTraffic, Statistics, Totals, confidence_interval, quantile};

#[test]
fn quantiles_are_those_of_numpy() {
    // numpy.percentile([1, 2, 4, 8], [0, 25, 50, 95, 100])
    let sorted = [1.0, 2.0, 4.0, 8.0];
    let expected = [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.95, 7.4), (1.0, 8.0)];
    for (share, value) in expected {
        assert!((quantile(&sorted, share) - value).abs() < 1e-12, "{share}");
    }
}

#[test]
fn statistics_of_one_value_are_that_value_and_of_none_are_none() {
    let one = Statistics::of([7.0]).expect("there is a value");
    assert_eq!([one.mean, one.p50, one.p95, one.p99, one.max], [7.0; 5]);
    assert_eq!(Statistics::of([]), None);
}

#[test]
fn confidence_intervals_are_those_of_student() {
    // scipy.stats.t.interval(0.95, 4, 3, scale = sqrt(2.5 / 5)): 3 +- 1.9632
    let interval = confidence_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("there are values");
    assert!((interval.half_width - 1.9634).abs() < 1e-3, "{interval:?}");
    assert_eq!(confidence_interval(&[4.0]).expect("one value").half_width, 0.0);
    assert_eq!(confidence_interval(&[]), None);
    // Beyond the table: t(0.975, 19) = 2.0930.
    let twenty: Vec<f64> = (0..20).map(f64::from).collect();
    let interval = confidence_interval(&twenty).expect("twenty values");
    assert!((interval.half_width / (35.0f64 / 20.0).sqrt() - 2.0930).abs() < 1e-3, "{interval:?}");
}

fn millis(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// Node 0 publishes at 1 s; 1 gets columns 0 and 1, 2 gets column 1 from 1 and again from 0; 3 gets nothing.
fn collector() -> Collector {
    let custody = vec![vec![0, 1], vec![1, 0], vec![1], vec![0]];
    let mut collector = Collector::new(&custody, 0, None, vec![millis(1000)]);
    collector.delivered(millis(1000), 0, 0, 0, None);
    collector.delivered(millis(1000), 0, 0, 1, None);
    for (at, node, column, from) in [(1060, 1, 0, 0), (1080, 1, 1, 0), (1140, 2, 1, 1)] {
        collector.copy(millis(at), node, 0, column);
        collector.delivered(millis(at), node, 0, column, Some(from));
    }
    collector.copy(millis(1200), 2, 0, 1);
    collector
}

#[test]
fn figures_of_a_small_run_are_as_worked_out_by_hand() {
    let collector = collector();
    assert!(!collector.is_complete(0));
    assert_eq!(collector.last_copy_at(), millis(1200));
    let node = NodeTraffic {
        bytes_up: 1000,
        payload_up: 800,
        uplink_busy_nanos: 100_000_000,
        ..NodeTraffic::default()
    };
    let traffic = vec![node, NodeTraffic::default(), NodeTraffic::default(), NodeTraffic::default()];
    let metrics = Totals {
        deliveries: collector.deliveries(),
        traffic: &traffic,
        publisher: 0,
        slots: 1,
        message_bytes: 1_000_000,
        watched_nanos: 400_000_000,
        lower_bound_ms: 50.0,
    }
    .metrics();
    let custody = metrics.time_to_custody_ms.expect("two nodes got there");
    assert_eq!((custody.mean, custody.max), (110.0, 140.0));
    assert_eq!(metrics.incomplete, 1);
    assert_eq!(metrics.share_of_bound, None, "the node that never got there is not in the mean");
    assert_eq!(metrics.delivery_ratio, 3.0 / 4.0);
    assert_eq!(metrics.duplication_factor, 4.0 / 3.0);
    assert_eq!(metrics.duplicate_share, 1.0 / 4.0);
    // Column 0 reached one of two, column 1 both.
    assert_eq!(metrics.dissemination_ms.expect("column 1").max, 140.0);
    let hops = metrics.last_delivery_hop.expect("two columns");
    assert_eq!((hops.mean, hops.max), (1.5, 2.0));
    // One copy for one node, three for two.
    assert_eq!(metrics.relative_redundancy, 0.25);
    assert_eq!(metrics.bytes_up_per_node.mean, 250.0);
    assert_eq!((metrics.payload_share, metrics.control_share), (0.8, 1.0 - 0.8));
    assert_eq!((metrics.uplink_utilisation.publisher, metrics.uplink_utilisation.mean), (0.25, 0.0625));
    assert_eq!(metrics.longest_gap_ms, 60.0);
    // 2 MB in 80 ms, 1 MB in 140 ms.
    assert!((metrics.throughput_mb_per_s - (25.0 + 1.0 / 0.14) / 2.0).abs() < 1e-9);
    assert_eq!(metrics.slots.len(), 1);
    assert_eq!(metrics.slots[0].time_to_custody_ms, metrics.time_to_custody_ms);
}

#[test]
fn the_digest_tells_deliveries_apart() {
    let (one, mut other) = (collector(), collector());
    assert_eq!(one.digest(), other.digest());
    other.delivered(millis(1500), 3, 0, 0, Some(0));
    assert_ne!(one.digest(), other.digest());
}

#[test]
fn what_nobody_waits_for_does_not_count() {
    let mut collector = collector();
    let before = collector.digest();
    collector.delivered(millis(1500), 3, 0, 1, Some(0));
    collector.copy(millis(1500), 3, 0, 1);
    assert_eq!(collector.digest(), before);
}
