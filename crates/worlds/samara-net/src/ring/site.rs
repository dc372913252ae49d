//! The place of a member in a federation: its site, and the other sites with contacts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use sha2::{Digest, Sha256};

use crate::status::{OptionError, check};

/// The site of a member of a federation, and all other sites. All members of a federation name the same
/// sites.
///
/// ```
/// use samara_net::ring::Site;
///
/// let site = Site::new("Paris")
///     .with_other("London", ["192.0.2.1:7800".parse().unwrap()])
///     .with_other("Zurich", ["198.51.100.1:7800".parse().unwrap(), "198.51.100.2:7800".parse().unwrap()]);
/// // Numbers follow the order of names.
/// assert_eq!((site.number(), site.name_of(0)), (1, Some("London")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    name: String,
    /// The other sites by name, with the members that a leader dials and asks for the site's leader.
    others: BTreeMap<String, Vec<SocketAddr>>,
}

impl Site {
    /// The possible numbers of sites of a federation.
    pub const COUNT: RangeInclusive<usize> = 2..=256;

    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), others: BTreeMap::new() }
    }

    /// Adds another site. If all of its contacts are down, that site can still dial this one.
    #[must_use]
    pub fn with_other(
        mut self,
        name: impl Into<String>,
        contacts: impl IntoIterator<Item = SocketAddr>,
    ) -> Self {
        self.others.entry(name.into()).or_default().extend(contacts);
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of this site in events: its place among all names in their order.
    pub fn number(&self) -> u16 {
        self.others.keys().filter(|other| **other < self.name).count() as u16
    }

    /// Returns the name of the site with a number.
    pub fn name_of(&self, number: u16) -> Option<&str> {
        if number == self.number() {
            return Some(&self.name);
        }
        self.numbered().find(|(other, ..)| *other == number).map(|(_, name, _)| name)
    }

    /// Returns the other sites by number, with their contacts.
    pub(super) fn others(&self) -> impl Iterator<Item = (u16, &[SocketAddr])> {
        self.numbered().map(|(number, _, contacts)| (number, contacts))
    }

    fn numbered(&self) -> impl Iterator<Item = (u16, &str, &[SocketAddr])> {
        let own = self.number();
        let others = (0..).filter(move |number| *number != own).zip(&self.others);
        others.map(|(number, (name, contacts))| (number, name.as_str(), contacts.as_slice()))
    }

    /// Returns what all members of the federation must have in common, in words.
    pub(super) fn terms(&self) -> String {
        let mut names: Vec<&str> = self.others.keys().map(String::as_str).chain([self.name()]).collect();
        names.sort_unstable();
        let mut digest = Sha256::new();
        for name in &names {
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name);
        }
        let digest: String = digest.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("a federation of {} sites with names {digest}", names.len())
    }

    pub(super) fn check(&self) -> Result<(), OptionError> {
        let count = self.others.len() + 1;
        let expected = "2 to 256 sites: name the others with `Site::with_other`";
        check(Self::COUNT.contains(&count), "site", format_args!("{count} sites"), expected)?;
        let is_named = |name: &String| !name.is_empty();
        let all = self.others.keys().all(is_named) && is_named(&self.name);
        check(all, "site", format_args!("a site without a name"), "a name for each site")?;
        let is_other = !self.others.contains_key(&self.name);
        check(is_other, "site", &self.name, "a name that no other site has")
    }
}
