use super::*;

#[test]
fn copies_become_deliveries() {
    let custody = vec![vec![0, 1], vec![1], vec![0, 1]];
    let mut collector = Collector::new(2, 2, &custody, 0, vec![true; 3]);
    assert_eq!(collector.missing_until(1), 6);
    let row = |at, host, from, segment| CopyRow { at, host, from, segment, first: true };
    collector.copy(row(1_000_000, 1, 0, 1));
    collector.copy(row(2_000_000, 2, 1, 1));
    collector.copy(row(3_000_000, 2, 0, 0));
    collector.copy(CopyRow { first: false, ..row(4_000_000, 2, 0, 1) });
    collector.copy(row(5_000_000, 0, 2, 1));
    assert_eq!((collector.missing_until(0), collector.missing_until(1)), (0, 3));
    let hops: Vec<u16> = collector.deliveries().iter().map(|delivery| delivery.hops).collect();
    // Host 1 has column 1 in slots 0 and 1; host 2 has columns 0 and 1 in slot 0, then in slot 1.
    assert_eq!(hops, [1, 0, 1, 2, 0, 0]);
    assert_eq!(collector.deliveries()[3].copies, 2);
    assert_eq!(collector.returned, 1);
    assert_eq!(collector.custody_ms(0, 0), [(1, Some(1.0)), (2, Some(3.0))]);
    assert_eq!(collector.custody_ms(1, 0), [(1, None), (2, None)]);
}

#[test]
fn hosts_that_do_not_count_still_forward() {
    let custody = vec![vec![0], vec![0], vec![0]];
    let mut collector = Collector::new(1, 1, &custody, 0, vec![true, false, true]);
    assert_eq!(collector.missing_until(0), 1);
    let row = |at, host, from| CopyRow { at, host, from, segment: 0, first: true };
    collector.copy(row(1, 1, 0));
    assert_eq!(collector.missing_until(0), 1);
    collector.copy(row(2, 2, 1));
    assert_eq!(collector.missing_until(0), 0);
    assert_eq!((collector.deliveries().len(), collector.deliveries()[0].hops), (1, 2));
    assert_eq!(collector.custody_ms(0, 0), [(2, Some(2e-6))]);
}
