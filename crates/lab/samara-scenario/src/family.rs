//! The families of experiments, as far as scenarios depend on them.
//!
//! A scenario selects a family by the one section with the family's name. The family reads that
//! section and the parameters in `[protocol]`, and checks them. Other crates run it.

use std::any::Any;
use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use samara_document::keys::is_within;
use samara_document::{Inputs, Mismatch, from_value};
use samara_engine::outbox::Policies;
use samara_engine::settings::{Overlay, Section};
use samara_engine::units::{Rate, Span};
use samara_sim::Transport;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::check::Checks;
use crate::{Builtin, FaultKind, Scenario};

/// A table of a scenario whose type a family knows: the content of its section, or the parameters
/// of a protocol.
pub trait Part: Any + fmt::Debug + Send + Sync {
    /// Converts the part to the table that it is read from.
    ///
    /// # Errors
    /// A value is outside of the range of TOML.
    fn to_toml(&self) -> Result<toml::Table, toml::ser::Error>;
    fn boxed_clone(&self) -> Box<dyn Part>;
    /// Returns true if the other part has the same type and the same values.
    fn equals(&self, other: &dyn Part) -> bool;
}

impl<T: Any + fmt::Debug + Clone + PartialEq + Send + Sync + Serialize> Part for T {
    fn to_toml(&self) -> Result<toml::Table, toml::ser::Error> {
        toml::Table::try_from(self)
    }

    fn boxed_clone(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn Part) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }
}

impl Clone for Box<dyn Part> {
    fn clone(&self) -> Self {
        // Clones the part in the box; calling it on the box would recurse.
        (**self).boxed_clone()
    }
}

/// A function that reads a part from its table.
type Read = fn(&toml::Value) -> Result<Box<dyn Part>, Mismatch>;

#[derive(Clone, Copy, Debug)]
pub struct PartType {
    pub(crate) read: Read,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl PartType {
    pub const fn of<T>() -> Self
    where
        T: Part + DeserializeOwned + JsonSchema,
    {
        Self { read: |value| Ok(Box::new(from_value::<T>(value)?)), schema: T::json_schema }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ProtocolKind {
    /// The value of `protocol.kind`.
    pub name: &'static str,
    /// The other keys of `[protocol]`.
    pub parameters: PartType,
    /// Gives a scenario the policies that schedules of the kind custom can name.
    pub set_policies: fn(&mut Scenario, &Policies),
    /// Returns values of `[protocol]` that the scenario does not set and that follow others.
    pub followers: fn(&Scenario) -> Option<Followers>,
    /// Returns the time between two heartbeats of a node, for an estimate of a run's work.
    pub heartbeat: fn(&Scenario) -> Option<Span>,
    /// Returns the keys of `[protocol]` with the values in effect, also those of the preset. `None` if
    /// the protocol has no such values.
    pub in_effect: fn(&Scenario) -> Option<toml::Table>,
}

impl ProtocolKind {
    /// Returns a protocol without policies, followers and heartbeats.
    pub const fn of<T>(name: &'static str) -> Self
    where
        T: Part + DeserializeOwned + JsonSchema,
    {
        Self {
            name,
            parameters: PartType::of::<T>(),
            set_policies: |_, _| (),
            followers: |_| None,
            heartbeat: |_| None,
            in_effect: |_| None,
        }
    }

    /// Returns a protocol whose keys are settings over those of a preset.
    pub const fn of_settings<S: Section>(name: &'static str) -> Self {
        Self {
            in_effect: |scenario| {
                let values = serde_json::to_value(scenario.find::<Overlay<S>>()?.in_effect()).ok()?;
                toml_of(values)?.try_into().ok()
            },
            ..Self::of::<Overlay<S>>(name)
        }
    }
}

/// Returns a value as TOML, without what a file cannot state: absent values, and numbers beyond those of
/// TOML, which stand for no limit.
fn toml_of(value: serde_json::Value) -> Option<toml::Value> {
    use serde_json::Value;
    Some(match value {
        Value::Null => return None,
        Value::Bool(is_on) => is_on.into(),
        Value::String(text) => text.into(),
        Value::Number(number) if number.is_f64() => number.as_f64()?.into(),
        Value::Number(number) => number.as_i64()?.into(),
        Value::Array(list) => toml::Value::Array(list.into_iter().filter_map(toml_of).collect()),
        Value::Object(map) => {
            let values = map.into_iter().filter_map(|(key, value)| Some((key, toml_of(value)?)));
            toml::Value::Table(values.collect())
        }
    })
}

/// Values of `[protocol]` that follow others.
#[derive(Clone, Debug, PartialEq)]
pub struct Followers {
    /// The reason, for a note: "protocol.degree = 12 moves the sizes that are not set".
    pub cause: String,
    /// The keys, with their values.
    pub values: Vec<(&'static str, String)>,
}

/// The parameters of a protocol that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoParameters {}

/// A function that reads files into a scenario. Its last argument returns true for keys that are
/// given. The error is a key and a message.
type Resolve = fn(&mut Scenario, &Inputs, &dyn Fn(&str) -> bool) -> Result<(), (String, String)>;

/// The files that the section of a family names.
pub struct Files {
    /// Returns the files, as pairs of key and name.
    pub named: fn(&Scenario) -> Vec<(&'static str, &str)>,
    pub resolve: Resolve,
    /// Keys of files, each with the keys that it replaces.
    pub replaced: &'static [(&'static str, &'static [&'static str])],
    /// Further keys that a scenario with files may omit.
    pub left_out: &'static [&'static str],
}

/// For families whose nodes have no channels.
pub const NO_CHANNELS: (&str, &str) = ("transport.connection", "channels belong to transaction pools");
/// For families whose transport is not that of groups.
pub const NO_UNSENT: (&str, &str) = ("transport.unsent", "only sockets of groups have this limit");
/// For families whose messages have one topic.
pub const NO_TOPICS: (&str, &str) = ("network.topology.topic_peers_min", "all nodes have one topic");

pub struct FamilySpec {
    /// The section of a scenario that selects it.
    pub section: &'static str,
    /// The experiment in a few words, for lists.
    pub title: &'static str,
    /// The page on its protocol below `docs` of the repository; empty without one.
    pub docs: &'static str,
    pub content: PartType,
    /// The protocols that its nodes can speak; the first one is the default.
    pub protocols: &'static [ProtocolKind],
    /// Keys of the common sections that have no effect, each with the reason.
    pub unused: &'static [(&'static str, &'static str)],
    /// Returns the columns that each node keeps, for families whose topology depends on them.
    pub custody: Option<Custody>,
    /// The publishing host, which faults spare.
    pub publisher: fn(&Scenario) -> Option<Publisher<'_>>,
    /// The maximum of `network.nodes`.
    pub nodes_max: u32,
    /// Returns the number of hosts beyond those of `network.nodes`.
    pub extra_hosts: fn(&Scenario) -> u32,
    pub files: Files,
    /// Returns the time at which a run ends at the latest; `None` if it is not known before.
    pub end: fn(&Scenario) -> Option<Span>,
    /// Returns the number of topics in each of which a node looks for peers of its own.
    pub topics: fn(&Scenario) -> u64,
    /// Remedies for errors in its keys.
    pub remedies: &'static [Remedy],
    /// The built-in scenarios of the family.
    pub scenarios: &'static [Builtin],
    /// Returns true if a node can leave the group on its own.
    pub can_leave: bool,
    /// Explains why the nodes of a scenario cannot have a fault.
    pub wrong_fault: fn(&Scenario, &FaultKind) -> Option<&'static str>,
    /// Returns the least time of silence after which the protocol gives a peer up; `None` if only the
    /// transport does.
    pub least_timeout: fn(&Scenario) -> Option<Duration>,
    /// Returns keys outside of `[protocol]` that follow from the protocol if the scenario does not set
    /// them, with the values in effect.
    pub in_effect: fn(&Scenario) -> Vec<(&'static str, toml::Value)>,
    /// Changes the transport to that of the family's real nodes.
    pub transport: fn(&Scenario, &mut Transport),
    pub check: fn(&mut Checks<'_>, &Scenario),
    /// Returns notes on values that are allowed, but probably not what the author wants.
    pub notes: fn(&Scenario) -> Vec<String>,
}

/// The start of a key, a part of the message about it, and the remedy that the message gets.
pub type Remedy = (&'static str, &'static str, &'static str);

/// A publishing host, and its class and rates if it has some of its own.
#[derive(Clone, Copy, Debug)]
pub struct Publisher<'a> {
    pub host: u32,
    /// The name of its class.
    pub class: Option<&'a str>,
    pub uplink: Option<Rate>,
    pub downlink: Option<Rate>,
}

/// Computes the number of columns and the columns of each node, from a scenario, its files and a
/// seed.
pub type Custody = fn(&Scenario, &Inputs, u64) -> Result<(u32, Vec<Vec<u32>>), String>;

impl FamilySpec {
    /// Values that most families have. Each family sets its own section, content, protocols and
    /// check.
    pub const BASE: Self = Self {
        section: "",
        title: "",
        docs: "",
        content: PartType::of::<NoParameters>(),
        protocols: &[],
        unused: &[],
        custody: None,
        publisher: |_| None,
        nodes_max: 1 << 20,
        extra_hosts: |_| 0,
        files: Files { named: |_| Vec::new(), resolve: |_, _, _| Ok(()), replaced: &[], left_out: &[] },
        end: |_| None,
        topics: |_| 0,
        remedies: &[],
        scenarios: &[],
        can_leave: false,
        wrong_fault: |_, _| None,
        least_timeout: |_| None,
        in_effect: |_| Vec::new(),
        transport: |_, _| (),
        check: |_, _| (),
        notes: |_| Vec::new(),
    };

    /// Returns true if hosts have the links of `network.topology`. The nodes of other families make
    /// their own links.
    pub fn has_topology(&self) -> bool {
        !self.is_unused("network.topology")
    }

    /// Returns true if the key of a common section, or a table around it, has no effect.
    pub fn is_unused(&self, key: &str) -> bool {
        self.unused.iter().any(|(unused, _)| is_within(key, unused))
    }
}

impl fmt::Debug for FamilySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.section)
    }
}

/// The families of the program: those that it is made of, and those that were added.
static FAMILIES: RwLock<Registry> = RwLock::new(Registry { base: Vec::new(), added: Vec::new() });

struct Registry {
    base: Vec<&'static FamilySpec>,
    added: Vec<&'static FamilySpec>,
}

impl Registry {
    fn all(&self) -> impl Iterator<Item = &'static FamilySpec> {
        self.base.iter().chain(&self.added).copied()
    }

    fn assert_is_free(&self, section: &str) {
        let is_free = self.all().all(|known| known.section != section);
        assert!(
            is_free,
            "the section [{section}] is taken; an experiment needs a SECTION that no other one has"
        );
    }
}

/// Registers the families that a program is made of, in the order of the documentation. Further calls
/// have no effect.
///
/// # Panics
/// If a family that was added has the section of one of them.
pub fn set_base(families: impl IntoIterator<Item = &'static FamilySpec>) {
    let mut registry = FAMILIES.write().unwrap_or_else(PoisonError::into_inner);
    if registry.base.is_empty() {
        for family in families {
            registry.assert_is_free(family.section);
            registry.base.push(family);
        }
    }
}

/// Adds a family to those of the program, so that scenarios can select it.
///
/// # Panics
/// If a family with this section is registered already.
pub fn register(family: &'static FamilySpec) {
    let mut registry = FAMILIES.write().unwrap_or_else(PoisonError::into_inner);
    registry.assert_is_free(family.section);
    registry.added.push(family);
}

/// Returns all families: those of the program in the order of the documentation, then the added ones.
pub fn all() -> Vec<&'static FamilySpec> {
    FAMILIES.read().unwrap_or_else(PoisonError::into_inner).all().collect()
}

/// Returns true if families were added to those of the program.
pub fn has_added() -> bool {
    !FAMILIES.read().unwrap_or_else(PoisonError::into_inner).added.is_empty()
}

/// Returns the family whose section a scenario has, of several the first.
pub(crate) fn of(table: &toml::Table) -> Option<&'static FamilySpec> {
    all().into_iter().find(|family| table.contains_key(family.section))
}

/// Selects the family whose section a scenario has, and reads that section and `[protocol]`.
pub(crate) fn select(table: &toml::Table) -> Result<Selected, Mismatch> {
    let Some(family) = of(table) else {
        let names: Vec<String> = all().iter().map(|family| format!("[{}]", family.section)).collect();
        let message = format!("found no experiment; add one of the sections {}", names.join(", "));
        return Err(Mismatch::of(message));
    };
    let is_other = |other: &&FamilySpec| other.section != family.section && table.contains_key(other.section);
    if let Some(second) = all().into_iter().find(is_other) {
        let message = format!(
            "found [{}] and [{}]; a scenario has one experiment, so remove one section",
            family.section, second.section
        );
        return Err(Mismatch::of(message).below(second.section));
    }
    let empty = toml::Value::Table(toml::Table::new());
    let content = (family.content.read)(table.get(family.section).unwrap_or(&empty));
    let content = content.map_err(|error| error.below(family.section))?;
    let mut parameters = table.get("protocol").unwrap_or(&empty).clone();
    let kind = parameters.as_table_mut().and_then(|table| table.remove("kind"));
    let protocol = match &kind {
        None => family.protocols.first(),
        Some(kind) => family.protocols.iter().find(|protocol| kind.as_str() == Some(protocol.name)),
    };
    let Some(protocol) = protocol else {
        let kinds: Vec<String> =
            family.protocols.iter().map(|protocol| format!("\"{}\"", protocol.name)).collect();
        let found = kind.map(|kind| kind.to_string()).unwrap_or_default();
        let expected = kinds.join(", ");
        let message = format!("found {found}; expected {expected}, the protocols of [{}]", family.section);
        return Err(Mismatch::of(message).below("protocol.kind"));
    };
    let parameters = (protocol.parameters.read)(&parameters).map_err(|error| error.below("protocol"))?;
    Ok(Selected { family, content, protocol, parameters })
}

/// Adds the sections and protocols of all families to the common schema.
pub(crate) fn add_to_schema(schema: &mut Schema, generator: &mut SchemaGenerator) {
    let mut protocols: Vec<ProtocolKind> = Vec::new();
    let mut sections = Vec::new();
    for family in all() {
        let content = (family.content.schema)(generator);
        insert_property(schema, family.section, content.to_value());
        sections.push(serde_json::json!({ "required": [family.section] }));
        for protocol in family.protocols {
            if !protocols.iter().any(|known| known.name == protocol.name) {
                protocols.push(*protocol);
            }
        }
    }
    let variants: Vec<serde_json::Value> = protocols
        .iter()
        .map(|protocol| {
            let mut parameters = (protocol.parameters.schema)(generator);
            insert_property(&mut parameters, "kind", serde_json::json!({ "const": protocol.name }));
            parameters.to_value()
        })
        .collect();
    let protocol = serde_json::json!({
        "description": "The protocol that nodes speak, and its parameters.",
        "anyOf": variants,
    });
    insert_property(schema, "protocol", protocol);
    schema.insert("oneOf".to_owned(), sections.into());
}

fn insert_property(schema: &mut Schema, name: &str, property: serde_json::Value) {
    let properties = schema.ensure_object().entry("properties").or_insert_with(|| serde_json::json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(name.to_owned(), property);
    }
}

/// The family that a scenario selects, with the content of its section and of `[protocol]`.
#[derive(Clone, Debug)]
pub struct Selected {
    family: &'static FamilySpec,
    content: Box<dyn Part>,
    protocol: &'static ProtocolKind,
    parameters: Box<dyn Part>,
}

impl Selected {
    pub fn protocol(&self) -> &'static str {
        self.protocol.name
    }

    /// Returns the kind of protocol, with what it adds to the reading of a scenario.
    pub(crate) fn protocol_kind(&self) -> &'static ProtocolKind {
        self.protocol
    }

    /// The sections in a scenario: `[protocol]`, and that of the experiment.
    pub(crate) fn sections(&self) -> Result<[(&'static str, toml::Table); 2], toml::ser::Error> {
        Ok([("protocol", self.protocol_keys()?), (self.family.section, self.content.to_toml()?)])
    }

    /// Returns the keys of `[protocol]`.
    ///
    /// # Errors
    /// A value has no form in TOML.
    pub fn protocol_keys(&self) -> Result<toml::Table, toml::ser::Error> {
        let mut protocol = toml::Table::new();
        protocol.insert("kind".to_owned(), self.protocol.name.into());
        protocol.extend(self.parameters.to_toml()?);
        Ok(protocol)
    }

    /// The same family and protocol with the values of an empty scenario.
    pub(crate) fn defaults(&self) -> Self {
        let empty = toml::Value::Table(toml::Table::new());
        let read = |part: PartType, own: &dyn Part| (part.read)(&empty).unwrap_or_else(|_| own.boxed_clone());
        Self {
            family: self.family,
            content: read(self.family.content, &*self.content),
            protocol: self.protocol,
            parameters: read(self.protocol.parameters, &*self.parameters),
        }
    }
}

impl Default for Selected {
    /// No family: serde needs a value for the skipped field until the scenario's family is known.
    fn default() -> Self {
        static NO_FAMILY: FamilySpec = FamilySpec::BASE;
        static NO_PROTOCOL: ProtocolKind = ProtocolKind::of::<NoParameters>("");
        let nothing = || -> Box<dyn Part> { Box::new(NoParameters {}) };
        Self { family: &NO_FAMILY, content: nothing(), protocol: &NO_PROTOCOL, parameters: nothing() }
    }
}

impl PartialEq for Selected {
    fn eq(&self, other: &Self) -> bool {
        self.protocol.name == other.protocol.name
            && self.content.equals(&*other.content)
            && self.parameters.equals(&*other.parameters)
    }
}

impl Scenario {
    pub fn family(&self) -> &'static FamilySpec {
        self.selected.family
    }

    /// The content of the experiment's section or the parameters of its protocol, whichever has
    /// this type.
    ///
    /// # Panics
    /// If neither has this type. Each family knows its own types.
    pub fn part<T: Any>(&self) -> &T {
        self.find().unwrap_or_else(|| panic!("[{}] has another type", self.selected.family.section))
    }

    /// As [`part`](Self::part), but `None` if neither has this type.
    pub fn find<T: Any>(&self) -> Option<&T> {
        let (content, parameters): (&dyn Any, &dyn Any) =
            (&*self.selected.content, &*self.selected.parameters);
        content.downcast_ref().or_else(|| parameters.downcast_ref())
    }

    pub fn find_mut<T: Any>(&mut self) -> Option<&mut T> {
        let (content, parameters): (&mut dyn Any, &mut dyn Any) =
            (&mut *self.selected.content, &mut *self.selected.parameters);
        content.downcast_mut().or_else(|| parameters.downcast_mut())
    }
}
