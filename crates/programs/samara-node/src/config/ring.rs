//! `[ring]`: a member of a group.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use samara_engine::Shape;
use samara_engine::units::{Size, Span};
use samara_net::ring::{self, Authentication, Certificates, Frames, OptionError, Preset, Secret};
use samara_ring::ShapeChoice;
use serde::{Deserialize, Serialize};

use super::Network;
use super::check::{Wrong, check, is_loopback};
use super::mix::{Peer, load};

/// A member of a group, over framed TCP.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    /// The name of the protocol's preset.
    #[serde(default = "default_preset")]
    pub preset: String,
    /// The name of the shape in which messages travel; by default that of the preset.
    pub shape: Option<String>,
    /// The name of the group. The member rejects nodes of another group.
    pub group: String,
    /// Address to listen on, such as `192.0.2.1:7800`.
    pub listen: SocketAddr,
    /// The address at which others dial this member, if it differs from `listen`.
    pub advertise: Option<SocketAddr>,
    #[serde(default)]
    pub seeds: Vec<SocketAddr>,
    /// The file with the secret of all members: at least 16 random bytes, without white space at
    /// its ends. Only its owner can read it.
    pub secret: Option<PathBuf>,
    /// The scope of the secret: everything by default.
    pub frames: Option<Protected>,
    /// The file with certificate and key in PEM, as [`new_certificate`](crate::new_certificate)
    /// writes it, instead of a secret.
    pub identity: Option<PathBuf>,
    /// With a certificate, all members.
    #[serde(default)]
    pub members: Vec<Peer>,
    /// Everybody who reaches the address can join.
    #[serde(default)]
    pub unauthenticated: bool,
    /// The time within which a seed must answer; otherwise the node does not start. By default a
    /// member without a seed founds a group.
    pub require_seed: Option<Span>,
    /// Bytes of own messages that may wait to be broadcast. Beyond that, senders wait.
    #[serde(default = "default_queue")]
    pub queue: Size,
}

/// A valid configuration. Its secret or certificate is read at the start.
#[derive(Clone, Debug)]
pub struct CheckedRing {
    written: Ring,
    pub options: ring::Options,
}

impl CheckedRing {
    /// Returns the options of the member. Reads the secret or the certificate.
    pub fn options(&self) -> Result<ring::Options, String> {
        let authentication = self.written.authentication();
        let options = authentication
            .map(|authentication| ring::Options { authentication, ..self.options.clone() })
            .and_then(|options| match options.check() {
                Ok(()) => Ok(options),
                Err(error) => Err(self.written.wrong(&error)),
            });
        options.map_err(|(key, message)| format!("{key}: {message}"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protected {
    Encrypted,
    /// All fields, but not the contents of messages of 1 KiB and more.
    Fields,
}

fn default_preset() -> String {
    Preset::Ring.name().to_owned()
}

fn default_queue() -> Size {
    Size::from_bytes(256 << 10)
}

impl Ring {
    pub(super) fn checked(&self, network: &Network) -> Result<CheckedRing, Wrong> {
        let unknown = |key: &str, found: &str, names: &[&str]| {
            (key.to_owned(), format!("found {found:?}; expected one of {}", names.join(", ")))
        };
        let preset = Preset::from_name(&self.preset).and_then(Preset::config);
        let presets = [Preset::Ring, Preset::RingTotal, Preset::Direct];
        let mut config =
            preset.ok_or_else(|| unknown("ring.preset", &self.preset, &presets.map(Preset::name)))?;
        if let Some(name) = &self.shape {
            let shape = Shape::from_name(name)
                .ok_or_else(|| unknown("ring.shape", name, &Shape::ALL.map(|shape| shape.name())))?;
            config.shape = ShapeChoice::Fixed(shape);
        }
        check(!self.group.trim().is_empty(), "ring.group", || {
            "found an empty name; expected the name of a group".to_owned()
        })?;
        let options = ring::Options {
            authentication: self.kind()?,
            advertise: self.advertise,
            seeds: self.seeds.clone(),
            require_seed: self.require_seed.map(|within| within.duration()),
            config,
            queue_bytes: usize::try_from(self.queue.bytes()).unwrap_or(usize::MAX),
            max_pending: network.max_pending as usize,
            ..ring::Options::new(&self.group, self.listen)
        };
        options.check().map_err(|error| self.wrong(&error))?;
        Ok(CheckedRing { written: self.clone(), options })
    }

    fn wrong(&self, error: &OptionError) -> Wrong {
        let key = match &*error.field {
            "authentication" => return ("ring.secret".to_owned(), self.unprotected()),
            "authentication.members" => "ring.members",
            "authentication.identity" => "ring.identity",
            "queue_bytes" => "ring.queue",
            "advertise" => "ring.advertise",
            "seeds" => "ring.seeds",
            "require_seed" => "ring.require_seed",
            // The configuration can set nothing else: total order needs the ring.
            _ => "ring.shape",
        };
        let remedy = if key == "ring.identity" {
            "; correct ring.members at all members, or use the file of that certificate"
        } else {
            ""
        };
        (key.to_owned(), format!("found {}; expected {}{remedy}", error.found, error.expected))
    }

    /// Checks which kind of authentication there is. Its files are read at the start.
    fn kind(&self) -> Result<Authentication, Wrong> {
        let ways = [self.secret.is_some(), self.identity.is_some(), self.unauthenticated];
        let found = ways.into_iter().filter(|is_set| *is_set).count();
        check(found <= 1, "ring.secret", || {
            "found several kinds of authentication; expected one of secret, identity and unauthenticated"
                .to_owned()
        })?;
        check(self.frames.is_none() || self.secret.is_some(), "ring.frames", || {
            "found no secret that could protect them; expected a secret too".to_owned()
        })?;
        check(self.members.is_empty() == self.identity.is_none(), "ring.members", || {
            "found a certificate without members, or members without one; expected both".to_owned()
        })?;
        Ok(if found == 0 { Authentication::Loopback } else { Authentication::Unauthenticated })
    }

    /// Reads the files of the authentication.
    fn authentication(&self) -> Result<Authentication, Wrong> {
        if let Some(path) = &self.secret {
            let frames = match self.frames {
                None | Some(Protected::Encrypted) => Frames::Encrypted,
                Some(Protected::Fields) => Frames::Fields,
            };
            let secret = secret(path)
                .map_err(|error| ("ring.secret".to_owned(), format!("{}: {error}", path.display())))?;
            return Ok(Authentication::Secret(secret, frames));
        }
        if let Some(path) = &self.identity {
            let identity = load(path, "ring.members")
                .map_err(|error| ("ring.identity".to_owned(), format!("{}: {error}", path.display())))?;
            let pinned = self.members.iter().enumerate().map(|(at, member)| {
                let fingerprint = member.fingerprint.parse();
                let fingerprint = fingerprint
                    .map_err(|error| (format!("ring.members.{at}.fingerprint"), format!("{error}")))?;
                Ok((member.address, fingerprint))
            });
            let members = pinned.collect::<Result<_, Wrong>>()?;
            return Ok(Authentication::Certificates(Certificates { identity, members }));
        }
        self.kind()
    }

    fn unprotected(&self) -> String {
        let all = [self.listen].into_iter().chain(self.advertise).chain(self.seeds.iter().copied());
        let outside: Vec<String> =
            all.filter(|address| !is_loopback(address)).map(|address| address.to_string()).collect();
        format!(
            "found none, and other machines reach {}; expected a file with a secret of all members \
             (`umask 077; openssl rand -hex 32 > group.secret`), identity and members, \
             or unauthenticated = true in [ring], with which everybody who reaches them can join",
            outside.join(", ")
        )
    }
}

fn secret(path: &Path) -> Result<Secret, String> {
    match std::fs::read(path) {
        Ok(bytes) => {
            crate::identity::check_mode(path)?;
            Secret::new(bytes.trim_ascii()).map_err(|error| error.to_string())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!(
            "there is no such file; `umask 077; openssl rand -hex 32 > {}` writes one for all members",
            path.display()
        )),
        Err(error) => Err(format!("cannot read the file: {error}")),
    }
}
