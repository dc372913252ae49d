//! Which runs can be compared, by how much they differ, and where over a sweep one overtakes another.

use samara_lab::results::TransactionMetrics;
use samara_lab::scenario::{Cat, Loaded, Scenario};

use super::{Row, TransactionsReport, Value};
use crate::draw::Swept;

/// Ways to count bytes: what it is called, and the value.
pub(super) const BYTES: [(&str, Value); 2] = [
    ("In connections", |metrics: &TransactionMetrics| metrics.connection_bytes),
    ("On the wire", |metrics: &TransactionMetrics| metrics.bytes.total),
];

/// What a run was done with but for the pool: transactions, network, connections, faults, and nodes with other pools.
pub(super) fn circumstances(
    loaded: &Loaded,
    run: &str,
    axes: &[(String, String)],
    point: &[String],
) -> Option<Scenario> {
    let value = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let found = loaded.points.iter().find(|candidate| {
        let swept = axes.iter().map(|(key, _)| candidate.sweep.get(key).map(value));
        candidate.run == run && swept.eq(point.iter().cloned().map(Some))
    })?;
    let mut scenario = found.scenario.clone();
    if let Some(cat) = scenario.find_mut::<Cat>() {
        *cat = Cat::default();
    }
    Some(scenario)
}

/// The first run that differs from this one in its pool only.
pub(super) fn base<'a>(rows: &'a [Row], row: &Row) -> Option<&'a Row> {
    row.circumstances.as_ref()?;
    rows.iter().find(|other| other.point == row.point && other.circumstances == row.circumstances)
}

/// How many times the bytes of a run its base needs: more than 1 where the run saves some. Nothing for runs without others to compare.
pub(super) fn saved(rows: &[Row], row: &Row, value: Value) -> Option<f64> {
    let base = base(rows, row)?;
    let alone = |other: &&Row| other.point == row.point && other.circumstances == row.circumstances;
    if rows.iter().filter(alone).count() < 2 {
        return None;
    }
    let factor = base.mean(&value) / row.mean(&value);
    (factor.is_finite() && factor > 0.0).then_some(factor)
}

/// A run over one axis beside the first run of the scenario.
pub(super) struct Race<'a> {
    pub(super) row: &'a Row,
    /// Place on the axis, value of the first run, value of this one.
    points: Vec<(f64, f64, f64)>,
    by_powers: bool,
}

/// A place on an axis where two runs need the same, and whether the first run needs more from there on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crossover {
    pub(super) at: f64,
    pub(super) value: f64,
    pub(super) base_loses: bool,
}

/// All runs beside the first, where they can be compared at every value of the axis, and values are numbers.
pub(super) fn races<'a>(
    report: &'a TransactionsReport,
    swept: &Swept,
    xs: &[f64],
    value: Value,
) -> Vec<Race<'a>> {
    let rows = &report.rows;
    let Some(first) = rows.first().filter(|_| swept.numbers) else { return Vec::new() };
    let mut races: Vec<Race<'a>> = Vec::new();
    for (row, x) in rows.iter().zip(xs).filter(|(row, _)| row.run != first.run) {
        let Some(base) = base(rows, row).filter(|base| base.run == first.run) else { return Vec::new() };
        let point = (*x, base.mean(&value), row.mean(&value));
        match races.iter_mut().find(|race| race.row.run == row.run) {
            Some(race) => race.points.push(point),
            None => races.push(Race { row, points: vec![point], by_powers: swept.by_powers }),
        }
    }
    races.iter_mut().for_each(|race| race.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    races.retain(|race| {
        race.points.len() > 1 && race.points.iter().all(|(_, base, own)| *base > 0.0 && *own > 0.0)
    });
    races
}

impl Race<'_> {
    /// How many times the bytes of this run the first run needs: the least and the most over the axis, with their places.
    pub(super) fn factors(&self) -> [(f64, f64); 2] {
        let all = || self.points.iter().map(|(x, base, own)| (base / own, *x));
        let least = all().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, 0.0));
        let most = all().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, 0.0));
        [least, most]
    }

    /// Where both need the same: between two measured points as on a straight line in the figure, by powers of ten where the axis is.
    pub(super) fn crossovers(&self) -> Vec<Crossover> {
        let across = |x: f64| if self.by_powers { x.ln() } else { x };
        let pairs = self.points.windows(2).filter_map(|pair| {
            let [(x0, base0, own0), (x1, base1, own1)] = [pair[0], pair[1]];
            let (before, after) = ((base0 / own0).ln(), (base1 / own1).ln());
            if (before > 0.0) == (after > 0.0) {
                return None;
            }
            let share = before / (before - after);
            let at = across(x0) + share * (across(x1) - across(x0));
            let at = if self.by_powers { at.exp() } else { at };
            let value = (own0.ln() + share * (own1.ln() - own0.ln())).exp();
            Some(Crossover { at, value, base_loses: after > 0.0 })
        });
        pairs.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transactions::Row;

    fn race<'a>(row: &'a Row, points: &[(f64, f64, f64)], by_powers: bool) -> Race<'a> {
        Race { row, points: points.to_vec(), by_powers }
    }

    #[test]
    fn crossovers_lie_where_both_need_the_same() {
        let row = Row::default();
        // 10 for any size against 1 kB in 100 B: the same at 100 B.
        let rising = race(&row, &[(10.0, 1.0, 10.0), (1e3, 100.0, 10.0)], true);
        let [only] = rising.crossovers()[..] else { panic!("one crossover") };
        assert!((only.at - 100.0).abs() < 1e-9 && (only.value - 10.0).abs() < 1e-9 && only.base_loses);
        assert_eq!(rising.factors(), [(0.1, 10.0), (10.0, 1e3)]);
        let falling = race(&row, &[(5.0, 4.0, 2.0), (10.0, 2.0, 4.0), (20.0, 2.0, 8.0)], false);
        let [only] = falling.crossovers()[..] else { panic!("one crossover") };
        assert!((only.at - 7.5).abs() < 1e-9 && !only.base_loses);
        assert!(race(&row, &[(5.0, 4.0, 2.0), (10.0, 4.0, 3.0)], false).crossovers().is_empty());
    }
}
