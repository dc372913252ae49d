//! Reads the files that replace keys, so that each point of a loaded scenario matches its files.

use std::sync::Arc;

use samara_document::keys::get;
use samara_document::{
    HostClass, HostTable, Inputs, LatencyOf, LatencyTable, PREFIX, Placed, Problem, RegionWeights, Regions,
    host_names, listed_regions, topology, unused_attributes,
};
use samara_engine::units::Span;
use samara_sim::{Latency, Losses, PairLatencies};

use crate::Scenario;
use crate::check::{REGIONS_MAX, keep_one, wrong_class, wrong_nodes};
use crate::layers::{BOTH_RATES, RATES, replaced};

impl Scenario {
    /// The files that the scenario needs to run, including those of Samara (`builtin:`), as pairs
    /// of key and file.
    pub fn files(&self) -> Vec<(&'static str, &str)> {
        let network = &self.network;
        let latencies = network.latency_file.as_ref();
        let named = [
            ("network.topology.file", network.topology.file()),
            ("network.nodes_file", network.nodes_file.as_deref()),
            ("network.latency_file", latencies.map(|spec| &*spec.file)),
            ("network.latency_file.names", latencies.and_then(|spec| spec.names.as_deref())),
            (
                "network.regions.weights_file",
                network.regions.as_ref().and_then(|regions| regions.weights_file.as_deref()),
            ),
        ];
        let named = named.into_iter().filter_map(|(key, file)| Some((key, file?)));
        named.chain((self.family().files.named)(self)).collect()
    }

    /// The files that the scenario needs to run, except those of Samara, each once.
    pub fn own_files(&self) -> Vec<String> {
        let mut files: Vec<String> = Vec::new();
        for (_, file) in self.files() {
            if !file.starts_with(PREFIX) && !files.iter().any(|known| known == file) {
                files.push(file.to_owned());
            }
        }
        files
    }
}

/// Reads the files of a scenario: counts hosts, fills in regions, and checks that all of them
/// match. `given` is the table of the scenario. Returns messages for the user about unexpected
/// treatment of the files.
pub(crate) fn resolve(
    scenario: &mut Scenario,
    given: &toml::Table,
    text: &str,
    inputs: &Inputs,
) -> Result<Vec<String>, Vec<Problem>> {
    let mut work = Work { scenario, given, text, inputs, notes: Vec::new(), problems: Vec::new() };
    // Each step needs the results of those before.
    let _ = work.conflicts().and_then(|()| work.all());
    if work.problems.is_empty() { Ok(work.notes) } else { Err(work.problems) }
}

/// A step has failed, and has recorded its problems.
struct Wrong;

struct Work<'a> {
    scenario: &'a mut Scenario,
    given: &'a toml::Table,
    text: &'a str,
    inputs: &'a Inputs,
    notes: Vec<String>,
    problems: Vec<Problem>,
}

impl Work<'_> {
    fn wrong(&mut self, key: &str, message: impl Into<String>) {
        self.problems.push(Problem::at(self.text, key, message));
    }

    fn fail<T>(&mut self, key: &str, message: impl Into<String>) -> Result<T, Wrong> {
        self.wrong(key, message);
        Err(Wrong)
    }

    /// Returns the value, or records the problem with a key.
    fn at<T>(&mut self, key: &str, result: Result<T, String>) -> Result<T, Wrong> {
        result.or_else(|message| self.fail(key, message))
    }

    /// Adds notes, each once: several keys may name the same file.
    fn note(&mut self, notes: Vec<String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    fn is_given(&self, key: &str) -> bool {
        get(self.given, key).is_some()
    }

    /// Returns true if there are hosts beyond those of `network.nodes`.
    fn has_other_hosts(&self) -> bool {
        (self.scenario.family().extra_hosts)(self.scenario) > 0
    }

    fn conflicts(&mut self) -> Result<(), Wrong> {
        for (file, replaced) in replaced(self.scenario.family()) {
            // For the keys of hosts it depends on the columns of the file: see `hosts`.
            if file == "network.nodes_file" || !self.is_given(file) {
                continue;
            }
            for key in replaced {
                if self.is_given(key) {
                    self.wrong(key, format!("is replaced by {file}; {}", keep_one(key, file)));
                }
            }
        }
        if self.problems.is_empty() { Ok(()) } else { Err(Wrong) }
    }

    fn all(&mut self) -> Result<(), Wrong> {
        self.rates();
        let hosts = self.hosts()?;
        self.graph()?;
        // Latencies between nodes may set their number later.
        if self.is_given("network.nodes") || self.scenario.network.latency_file.is_none() {
            self.nodes()?;
        }
        self.regions(hosts.as_deref())?;
        self.latencies(hosts.as_deref())?;
        self.nodes()?;
        let notes = self.at("network", unused_attributes(&self.scenario.network, self.inputs))?;
        self.note(notes);
        self.family()
    }

    /// Checks the number of hosts, on which the sizes of all that follows depend.
    fn nodes(&mut self) -> Result<(), Wrong> {
        wrong_nodes(self.scenario, self.given).map_or(Ok(()), |(key, message)| self.fail(key, message))
    }

    fn rates(&mut self) {
        let Some(both) = get(self.given, BOTH_RATES) else { return };
        if let Some(rate) =
            RATES.into_iter().find(|rate| get(self.given, rate).is_some_and(|one| one != both))
        {
            self.wrong(
                BOTH_RATES,
                format!(
                    "sets uplink and downlink, but {rate} is set as well; {}",
                    keep_one(BOTH_RATES, rate)
                ),
            );
        }
    }

    /// Reads the file of hosts, and sets the number of hosts.
    fn hosts(&mut self) -> Result<Option<Arc<HostTable>>, Wrong> {
        let Some(file) = self.scenario.network.nodes_file.clone() else {
            self.classes(None);
            return if self.problems.is_empty() { Ok(None) } else { Err(Wrong) };
        };
        let key = "network.nodes_file";
        let table = self.at(key, HostTable::read(&file, self.inputs))?;
        let columns = [
            ("uplink", table.uplink.is_some()),
            ("downlink", table.downlink.is_some()),
            ("validation_time", table.validation.is_some()),
        ];
        for (column, _) in columns.into_iter().filter(|(_, there)| *there) {
            let keys = [format!("network.{column}"), "network.bandwidth".to_owned()];
            let rates = if column == "validation_time" { 1 } else { 2 };
            for replaced in &keys[..rates] {
                if self.is_given(replaced) && !self.has_other_hosts() {
                    self.wrong(
                        replaced,
                        format!("{file} has a column {column}, which replaces it; remove one of them (--set {replaced}= removes the key)"),
                    );
                }
            }
            for (i, class) in self.scenario.network.classes.clone().iter().enumerate() {
                let is_set = match column {
                    "uplink" => class.uplink.is_some(),
                    "downlink" => class.downlink.is_some(),
                    _ => class.validation_time.is_some(),
                };
                if is_set {
                    self.wrong(
                        &format!("network.class.{i}.{column}"),
                        format!("{file} has a column {column}, which replaces it; remove one of them"),
                    );
                }
            }
        }
        self.classes(Some((&file, &table)));
        self.count(key, &file, table.count)?;
        if self.problems.is_empty() { Ok(Some(table)) } else { Err(Wrong) }
    }

    /// Checks that each class has its hosts either from its share or from the file of hosts, and adds
    /// the classes that only the file has.
    fn classes(&mut self, hosts: Option<(&str, &HostTable)>) {
        let own = self.scenario.network.classes.clone();
        let Some((file, table)) = hosts.filter(|(_, table)| table.class.is_some()) else {
            for i in (0..own.len()).filter(|i| own[*i].share.is_none()) {
                let message = "missing key `share`; add one, such as share = \"20 %\", or a column class in network.nodes_file";
                self.wrong(&format!("network.class.{i}"), message);
            }
            return;
        };
        for (i, class) in own.iter().enumerate() {
            if class.share.is_some() {
                let message = format!(
                    "{file} has a column class, which gives the class of each node; remove one of them (--set network.class= removes \
                     all classes here)"
                );
                self.wrong(&format!("network.class.{i}.share"), message);
            } else if !table.classes.contains(&class.name) {
                let known = table.classes.join(", ");
                let message =
                    format!("is \"{}\", which is no class of {file}; its classes are {known}", class.name);
                self.wrong(&format!("network.class.{i}.name"), message);
            }
        }
        if self.is_given("network.classes_from") {
            let message =
                format!("{file} has a column class, which gives the class of each node; remove one of them");
            self.wrong("network.classes_from", message);
        }
        let of_file = table.classes.iter().filter(|name| own.iter().all(|class| class.name != **name));
        for name in of_file {
            if let Some(why) = wrong_class(name) {
                self.wrong("network.nodes_file", format!("{file}: a class {why}"));
            }
            self.scenario.network.classes.push(HostClass { name: name.clone(), ..HostClass::default() });
        }
    }

    /// Sets the number of hosts by a file, or checks that the given number is the same.
    fn count(&mut self, key: &str, file: &str, count: u32) -> Result<(), Wrong> {
        let nodes = self.scenario.network.nodes;
        if !self.is_given("network.nodes") {
            self.scenario.network.nodes = count;
        } else if nodes != count {
            return self.fail(
                key,
                format!("{file} has {count} nodes, but network.nodes = {nodes}; remove the key, or use the same number"),
            );
        }
        Ok(())
    }

    /// Reads the graph, and sets the number of hosts by it if no other file does.
    fn graph(&mut self) -> Result<(), Wrong> {
        let Some(file) = self.scenario.network.topology.file().map(str::to_owned) else { return Ok(()) };
        if !self.scenario.family().has_topology() {
            return Ok(());
        }
        let key = "network.topology.file";
        let in_file = self.at(key, topology::nodes_of(&file, self.inputs))?;
        if !self.is_given("network.nodes") && self.scenario.network.nodes_file.is_none() {
            self.scenario.network.nodes = in_file;
        }
        let nodes = self.scenario.network.nodes;
        if nodes > in_file && self.scenario.network.nodes_file.is_none() {
            return self.fail(
                key,
                format!(
                    "{file} has {in_file} nodes, but network.nodes = {nodes}; remove network.nodes, or use another graph, for \
                     example network.topology = {{ kind = \"random-regular\", degree = 20 }}"
                ),
            );
        }
        let (_, notes) = self.at(key, topology::read_file(&self.scenario.network, self.inputs))?;
        self.note(notes);
        Ok(())
    }

    fn regions(&mut self, hosts: Option<&HostTable>) -> Result<(), Wrong> {
        let hosts = hosts.and_then(|table| Some((table, table.region.as_deref()?)));
        let network = &mut self.scenario.network;
        let has_regions = hosts.is_some() || network.regions.is_some();
        if let Some(spec) = &mut network.latency_file {
            spec.of.get_or_insert(if has_regions { LatencyOf::Regions } else { LatencyOf::Nodes });
        }
        let spec = network.latencies_of(LatencyOf::Regions).cloned();
        if !has_regions && spec.is_some() {
            return self.fail(
                "network.latency_file",
                "has latencies between regions, but there are none; assign nodes to regions by a column region in network.nodes_file or by \
                 weights in [network.regions]",
            );
        }
        if network.regions.is_none() && spec.is_none() {
            // Without latencies, regions of hosts are only names.
            return Ok(());
        }
        let mut regions = network.regions.take().unwrap_or_default();
        self.weights(&mut regions, hosts)?;
        if let Some(spec) = &spec {
            let key = "network.latency_file";
            let table = self.at(key, LatencyTable::read(spec, self.inputs))?;
            if regions.names.is_empty()
                && let Some(names) = table.names()
            {
                regions.names = names.all().to_vec();
            }
            let count = regions.names.len();
            if count > REGIONS_MAX {
                let message = format!("has {count} regions; allowed are at most {REGIONS_MAX}");
                return self.fail(key, message);
            }
            let latency =
                table.rows_of_regions(&regions.names).and_then(|rows| table.between_regions(&rows, spec));
            regions.latency = self.at(key, latency)?;
            self.note(table.notes().to_vec());
            self.scenario.network.latency = mean(&regions).unwrap_or(self.scenario.network.latency);
        }
        self.scenario.network.regions = Some(regions);
        Ok(())
    }

    fn weights(&mut self, regions: &mut Regions, hosts: Option<(&HostTable, &[u16])>) -> Result<(), Wrong> {
        let has_own = !regions.weights.is_empty() || regions.weights_file.is_some();
        if let Some((table, region_of)) = hosts {
            if has_own || regions.placed != Placed::Drawn {
                return self.fail(
                    "network.regions",
                    "network.nodes_file assigns nodes to regions; remove weights and placed here",
                );
            }
            if regions.names.is_empty() {
                regions.names.clone_from(&table.regions);
            }
            let count = |name: &String| {
                let number = table.regions.iter().position(|own| own == name);
                region_of.iter().filter(|region| Some(usize::from(**region)) == number).count() as f64
            };
            regions.weights = regions.names.iter().map(count).collect();
        }
        if let Some(file) = &regions.weights_file {
            let key = "network.regions.weights_file";
            if !regions.names.is_empty() || !regions.weights.is_empty() {
                let own = if regions.names.is_empty() { "weights" } else { "names" };
                let remedy = keep_one(key, &format!("network.regions.{own}"));
                return self.fail(key, format!("{own} are set as well; {remedy}"));
            }
            let read = self.at(key, RegionWeights::read(file, self.inputs))?;
            (regions.names, regions.weights) = (read.names.clone(), read.weights.clone());
        }
        Ok(())
    }

    /// Checks latencies between hosts, and sets the number of hosts by them if no other file does.
    fn latencies(&mut self, hosts: Option<&HostTable>) -> Result<(), Wrong> {
        let Some(spec) = self.scenario.network.latencies_of(LatencyOf::Nodes).cloned() else {
            return self.regions_fit(hosts);
        };
        let key = "network.latency_file";
        if self.has_other_hosts() {
            return self.fail(
                key,
                "has latencies between the counted hosts only, but there are others (an observer or a sender of batches); use latencies of \
                 regions, or network.latency",
            );
        }
        if self.scenario.network.regions.is_some() {
            return self.fail(
                "network.regions",
                format!(
                    "have latencies, but network.latency_file has latencies between nodes; {}, or use of = \"regions\"",
                    keep_one("network.regions", key)
                ),
            );
        }
        if spec.within.is_some() {
            return self.fail(
                key,
                "within is the latency within a region, but this file has latencies between nodes; remove it",
            );
        }
        let table = self.at(key, LatencyTable::read(&spec, self.inputs))?;
        self.note(table.notes().to_vec());
        let is_counted = self.is_given("network.nodes")
            || hosts.is_some()
            || (self.scenario.family().has_topology() && self.scenario.network.topology.file().is_some());
        if !is_counted {
            self.scenario.network.nodes = table.size() as u32;
        }
        let nodes = self.scenario.network.nodes;
        if table.size() > nodes as usize {
            self.notes.push(format!("{}: uses {nodes} of its {} rows", spec.file, table.size()));
        }
        if let Latency::Pairs(pairs) = self.at(key, latency(self.scenario, self.inputs, nodes))? {
            self.scenario.network.latency = Span::from_nanos(pairs.mean().as_nanos() as u64);
        }
        Ok(())
    }

    fn regions_fit(&mut self, hosts: Option<&HostTable>) -> Result<(), Wrong> {
        let Some((table, region)) = hosts.and_then(|table| Some((table, table.region.as_deref()?))) else {
            return Ok(());
        };
        let fit = listed_regions(&self.scenario.network, table, region, table.count);
        self.at("network.nodes_file", fit).map(drop)
    }

    fn family(&mut self) -> Result<(), Wrong> {
        let resolve = self.scenario.family().files.resolve;
        let given = self.given;
        let read = resolve(self.scenario, self.inputs, &|key| get(given, key).is_some());
        read.or_else(|(key, message)| self.fail(&key, message))
    }
}

/// The latency between `count` hosts.
pub fn latency(scenario: &Scenario, inputs: &Inputs, count: u32) -> Result<Latency, String> {
    let network = &scenario.network;
    if let Some(spec) = network.latencies_of(LatencyOf::Nodes) {
        let file = network.topology.file();
        let key = format!("between {spec:?} {:?} {file:?} {count}", network.nodes_file);
        let pairs = inputs.made(&key, || {
            let table = LatencyTable::read(spec, inputs)?;
            let rows = table.rows_of_hosts(count, host_names(network, inputs)?.as_deref())?;
            let pairs = PairLatencies::new(rows.len(), table.between_hosts(&rows, spec)?);
            pairs.ok_or_else(|| format!("{}: has fewer than two rows", spec.file))
        })?;
        return Ok(Latency::Pairs((*pairs).clone()));
    }
    Ok(match &network.regions {
        None => Latency::Constant(network.latency.duration()),
        Some(regions) => Latency::Regions(
            regions.latency.iter().map(|row| row.iter().copied().map(Span::duration).collect()).collect(),
        ),
    })
}

/// The losses between `count` hosts in the file of latencies, if they differ from pair to pair.
pub fn losses(scenario: &Scenario, inputs: &Inputs, count: u32) -> Result<Option<Losses>, String> {
    let network = &scenario.network;
    let Some(spec) = network.latency_file.as_ref().filter(|spec| spec.loss.is_some()) else {
        return Ok(None);
    };
    let table = LatencyTable::read(spec, inputs)?;
    let made = match (spec.of, &network.regions) {
        (Some(LatencyOf::Regions), Some(regions)) => {
            let rows = table.rows_of_regions(&regions.names)?;
            let Some(losses) = table.losses(&rows) else { return Ok(None) };
            Losses::of_regions(rows.len(), losses)
        }
        _ => {
            let rows = table.rows_of_hosts(count, host_names(network, inputs)?.as_deref())?;
            let Some(losses) = table.losses(&rows) else { return Ok(None) };
            Losses::of_hosts(rows.len(), losses)
        }
    };
    made.map(Some).ok_or_else(|| format!("{}: has a loss of 100 % or more", spec.file))
}

/// The mean latency between two hosts, for computations that need one value per network.
fn mean(regions: &Regions) -> Option<Span> {
    let weights: &[f64] = &regions.weights;
    if weights.len() != regions.latency.len() {
        return None;
    }
    let total: f64 = weights.iter().sum();
    let rows = regions.latency.iter().zip(weights);
    let sum: f64 = rows
        .flat_map(|(row, from)| row.iter().zip(weights).map(move |(one, to)| from * to * one.nanos() as f64))
        .sum();
    (total > 0.0).then(|| Span::from_nanos((sum / (total * total)) as u64))
}
