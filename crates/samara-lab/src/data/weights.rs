//! Regions and how many of the hosts are in each, from a table.

use std::sync::Arc;

use super::hosts::REGIONS_MAX;
use super::table::{Shape, scan};
use super::{Inputs, Names};

const SHAPE: Shape = Shape { needed: &["region", "weight"], allowed: &[], units: &[], rows_max: REGIONS_MAX };

/// Regions in the order of their rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionWeights {
    /// Their names.
    pub names: Vec<String>,
    /// How many of the hosts are in each, as weights.
    pub weights: Vec<f64>,
}

impl RegionWeights {
    /// Reads a file with a row for each region.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong; the message names file and line.
    pub fn read(file: &str, inputs: &Inputs) -> Result<Arc<Self>, String> {
        inputs.made(&format!("weights {file}"), || {
            let (mut names, mut weights) = (Names::default(), Vec::new());
            scan(file, &inputs.read(file)?, &SHAPE, |row| {
                let name = row.text("region")?.unwrap_or_default();
                if names.number(name) as usize != weights.len() {
                    return Err(row.wrong(format_args!("the region {name} is there twice")));
                }
                let weight = row.text("weight")?.unwrap_or_default();
                match weight.parse::<f64>() {
                    Ok(weight) if weight.is_finite() && weight >= 0.0 => weights.push(weight),
                    _ => {
                        let what = format_args!("weight is \"{weight}\"; expected a positive number or 0");
                        return Err(row.wrong(what));
                    }
                }
                Ok(())
            })?;
            Ok(Self { names: names.all().to_vec(), weights })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_have_weights() {
        let read = |text: &str| RegionWeights::read("w.csv", &Inputs::default().with("w.csv", text));
        let weights = read("region,weight\neu,60\nus,39.5\n").expect("is right");
        assert_eq!((weights.names.len(), weights.weights.as_slice()), (2, [60.0, 39.5].as_slice()));
        assert_eq!(
            read("region,weight\neu,-1\n"),
            Err("w.csv:2: weight is \"-1\"; expected a positive number or 0".to_owned())
        );
        assert_eq!(
            read("region,weight\neu,1\neu,1\n"),
            Err("w.csv:3: the region eu is there twice".to_owned())
        );
    }
}
