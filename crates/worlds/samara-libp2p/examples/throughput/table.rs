//! The measurements of all rounds.

use std::fmt;

use crate::histogram::median;

/// Rows in order of their first value, with the values of all rounds for each implementation.
pub(crate) struct Table {
    names: Vec<&'static str>,
    rows: Vec<(String, Vec<Vec<f64>>)>,
}

impl Table {
    /// Creates an empty table. The others are compared with the first implementation.
    pub(crate) fn new(names: Vec<&'static str>) -> Self {
        Self { names, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, row: &str, implementation: usize, value: f64) {
        let known = self.rows.iter().position(|(name, _)| name == row);
        let at = known.unwrap_or_else(|| {
            self.rows.push((row.to_owned(), vec![Vec::new(); self.names.len()]));
            self.rows.len() - 1
        });
        self.rows[at].1[implementation].push(value);
    }
}

/// Prints medians over all rounds. The other implementations also show the median and range of the
/// ratio of the first one's value to theirs, with one ratio per round.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<36}", "median (ratio to it, from to)")?;
        self.names.iter().try_for_each(|name| write!(f, "  {name:>26}"))?;
        writeln!(f)?;
        for (name, values) in &self.rows {
            write!(f, "{name:<36}")?;
            for (at, theirs) in values.iter().enumerate() {
                let ratios = sorted(values[0].iter().zip(theirs).map(|(ours, theirs)| ours / theirs));
                let ratio = match (&ratios[..], at) {
                    ([least, .., most], 1..) => {
                        format!(" ({:.2}, {least:.2} {most:.2})", median(&ratios))
                    }
                    ([only], 1..) => format!(" ({only:.2})"),
                    _ => String::new(),
                };
                let value = median(theirs);
                write!(f, "  {:>26}", format!("{value:.*}{ratio}", usize::from(value < 1000.0)))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        let mut table = Table::new(vec!["a", "b"]);
        for (a, b) in [(1.0, 2.0), (4.0, 2.0), (3.0, 3.0)] {
            table.add("row", 0, a);
            table.add("row", 1, b);
        }
        let text = table.to_string();
        let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row, ["row", "3.0", "2.0", "(1.00,", "0.50", "2.00)"]);
    }
}
