//! Counters as metrics of a registry of Prometheus.

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::{Counted, Counter, Kind, Number, Rows};

/// Writes counters, from within the `encode` of a
/// [`Collector`](prometheus_client::collector::Collector). `prefix` precedes their names, and the names of
/// counters end in `_total`.
///
/// # Errors
/// The destination of the encoder fails.
pub fn encode<C: Counted>(
    prefix: &str,
    counted: &C,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    C::declared()
        .iter()
        .zip(counted.rows())
        .try_for_each(|(counter, rows)| write(prefix, counter, &rows, encoder))
}

fn write(
    prefix: &str,
    counter: &Counter,
    rows: &Rows,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    let (stem, unit) = counter.unit();
    let (name, unit) = (format!("{prefix}{stem}"), unit.map(|unit| Unit::Other(unit.to_owned())));
    let kind = match counter.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
    };
    let mut family = encoder.encode_descriptor(&name, &counter.help, unit.as_ref(), kind)?;
    for (value, number) in rows {
        match counter.label.zip(value.as_deref()) {
            Some(label) => put(&mut family.encode_family(&[label])?, counter.kind, *number)?,
            None => put(&mut family, counter.kind, *number)?,
        }
    }
    Ok(())
}

fn put(row: &mut MetricEncoder<'_>, kind: Kind, number: Number) -> Result<(), Error> {
    match (kind, number) {
        (Kind::Counter, Number::Count(count)) => row.encode_counter::<NoLabelSet, _, u64>(&count, None),
        (Kind::Counter, Number::Real(real)) => row.encode_counter::<NoLabelSet, _, u64>(&real, None),
        (Kind::Gauge, Number::Count(count)) => row.encode_gauge(&count),
        (Kind::Gauge, Number::Real(real)) => row.encode_gauge(&real),
    }
}
