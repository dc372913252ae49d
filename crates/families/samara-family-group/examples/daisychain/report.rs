//! The results, as a table and as JSON.

use std::fmt;

use serde_json::{Map, Value, json};

/// One measurement: its case, network, implementation and values. Names of values include the unit.
pub(crate) struct Row {
    pub(crate) case: &'static str,
    pub(crate) network: &'static str,
    pub(crate) implementation: &'static str,
    pub(crate) members: usize,
    /// The number of senders, or the position of the member that crashes or leaves.
    pub(crate) parameter: (&'static str, usize),
    pub(crate) values: Vec<(&'static str, f64)>,
}

#[derive(Default)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
}

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        println!("{row}");
        self.rows.push(row);
    }

    pub(crate) fn json(&self, conditions: Value) -> Value {
        let rows = self.rows.iter().map(|row| {
            let mut object = Map::new();
            object.insert("case".to_owned(), row.case.into());
            object.insert("network".to_owned(), row.network.into());
            object.insert("implementation".to_owned(), row.implementation.into());
            object.insert("members".to_owned(), row.members.into());
            object.insert(row.parameter.0.to_owned(), row.parameter.1.into());
            for (name, value) in &row.values {
                object.insert((*name).to_owned(), json!(value));
            }
            Value::Object(object)
        });
        json!({ "conditions": conditions, "measurements": rows.collect::<Vec<_>>() })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, parameter) = self.parameter;
        write!(
            f,
            "{:<10} {:<9} {:<19} {} members, {name} {parameter}:",
            self.case, self.network, self.implementation, self.members
        )?;
        for (name, value) in &self.values {
            let digits = if *value >= 1000.0 {
                0
            } else if *value >= 100.0 {
                1
            } else {
                2
            };
            write!(f, "  {name} {value:.digits$}")?;
        }
        Ok(())
    }
}

/// Writes one line for each network, number of senders and implementation: first throughput and
/// latency, then crashes and leaves.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in ["throughput", "crash", "leave"] {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.case == case).collect();
            let Some(first) = rows.first() else { continue };
            // Not every row has all columns: only shaped rows have a bound, only ours a simulation.
            let mut names: Vec<&str> = Vec::new();
            for (name, _) in rows.iter().flat_map(|row| &row.values) {
                if !names.contains(name) {
                    names.push(name);
                }
            }
            writeln!(f, "\n| {case} | members | {} | | {} |", first.parameter.0, names.join(" | "))?;
            writeln!(f, "|---|--:|--:|---|{}", "--:|".repeat(names.len()))?;
            for row in rows {
                write!(
                    f,
                    "| {} | {} | {} | {} |",
                    row.network, row.members, row.parameter.1, row.implementation
                )?;
                for name in &names {
                    let value = row.values.iter().find(|(other, _)| other == name);
                    match value {
                        None => write!(f, " |")?,
                        Some((_, value)) if value.fract() == 0.0 => write!(f, " {value} |")?,
                        Some((_, value)) => write!(f, " {value:.2} |")?,
                    }
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
