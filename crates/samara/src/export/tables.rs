//! `samara export hosts` and `samara export latencies`.

use std::process::ExitCode;

use samara_sim::Latency;

use super::network::{OneRun, latency, millis};

/// Hosts of a matrix: 100 million values.
const HOSTS_MAX: u32 = 10_000;

/// Writes the hosts of a run.
pub(super) fn hosts(options: &OneRun) -> Result<ExitCode, String> {
    let built = options.build()?;
    let hosts = &built.hosts;
    let has_regions = !hosts.regions.is_empty();
    let columns = ["host", "uplink_bps", "downlink_bps", "validation_time_ms", "region"];
    let columns = &columns[..if has_regions { 5 } else { 4 }];
    let head = columns.iter().map(|column| (*column).to_owned()).collect();
    let rows = (0..built.nodes()).map(|host| {
        let config = &hosts.configs[host as usize];
        let mut row = vec![
            built.name(host),
            config.uplink_bps.to_string(),
            config.downlink_bps.to_string(),
            millis(hosts.validation[host as usize]).to_string(),
        ];
        row.extend(built.region(host).map(str::to_owned));
        row
    });
    options.write(&csv(std::iter::once(head).chain(rows))?)
}

/// Writes the latencies of a run.
pub(super) fn latencies(options: &OneRun) -> Result<ExitCode, String> {
    let built = options.build()?;
    let hosts = &built.hosts;
    let is_regional = matches!(hosts.latency, Latency::Regions(_));
    if !is_regional && built.nodes() > HOSTS_MAX {
        return Err(format!(
            "{}: {} hosts; a matrix of more than {HOSTS_MAX} is not written",
            built.loaded.source,
            built.nodes()
        ));
    }
    let names: Vec<String> = match is_regional {
        true => hosts.regions.clone(),
        false => (0..built.nodes()).map(|host| built.name(host)).collect(),
    };
    let between = |from: usize, to: usize| match &hosts.latency {
        Latency::Regions(matrix) => millis(matrix[from][to]),
        _ if from == to => 0.0,
        _ => millis(latency(hosts, from as u32, to as u32)),
    };
    let head = std::iter::once(String::new()).chain(names.iter().cloned()).collect();
    let rows = names.iter().enumerate().map(|(from, name)| {
        let values = (0..names.len()).map(|to| between(from, to).to_string());
        std::iter::once(name.clone()).chain(values).collect()
    });
    options.write(&csv(std::iter::once(head).chain(rows))?)
}

/// Rows as CSV.
pub(super) fn csv(rows: impl Iterator<Item = Vec<String>>) -> Result<String, String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(&row).map_err(|error| error.to_string())?;
    }
    let bytes = writer.into_inner().map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}
