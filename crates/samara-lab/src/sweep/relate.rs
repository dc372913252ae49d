//! Figures that set a run beside another one, over records of points.

use std::collections::BTreeMap;

use serde_json::Value;

use super::PointRecord;

/// A figure that sets a run beside a base: its name, the figure that both have, and whether the base's is above the line.
const RELATIVE: [(&str, &str, bool); 3] = [
    ("bytes_saved_factor", "connection_bytes", true),
    ("gain", "throughput_mb_per_s", false),
    ("gain_bound", "shape_bound_mb_per_s", false),
];

/// Sets figures beside those of a base with the same parameters, as [`relate`](crate::results::relate) does with whole results: points are run
/// alone and cannot know of each other. The base of pools is the scenario's run `first`, that of groups the first run that there is.
pub fn relate_points(first: &str, records: &mut [PointRecord]) {
    for (name, of, base_above) in RELATIVE {
        let figure = |record: &PointRecord| record.metrics.get(of).and_then(Value::as_f64);
        let key = |record: &PointRecord| Value::Object(record.parameters.clone()).to_string();
        let has = |record: &&PointRecord| record.metrics.get(name).is_some();
        let mut bases: BTreeMap<String, Option<f64>> = BTreeMap::new();
        for record in records.iter().filter(has).filter(|record| !base_above || record.name == first) {
            bases.entry(key(record)).or_insert_with(|| figure(record));
        }
        for record in records.iter_mut() {
            let base = bases.get(&key(record)).copied().flatten();
            if let Some((own, base)) = figure(record).zip(base).filter(|_| has(&&*record)) {
                let (above, below) = if base_above { (base, own) } else { (own, base) };
                record.metrics[name] = if below > 0.0 { (above / below).into() } else { Value::Null };
            }
        }
    }
}
