//! `[group]`: a member of a group.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use samara_engine::Shape;
use samara_engine::settings::above;
use samara_engine::shape::{ShapeSetting, Workload};
use samara_engine::units::{Size, Span};
use samara_net::ring::{self, Authentication, Certificates, Frames, OptionError, Secret};
use samara_ring::{Config, Parameters, key_of};
use serde::{Deserialize, Serialize};

use super::Network;
use super::check::{Wrong, check, is_loopback};
use super::mix::{Peer, load};

const QUEUE_MAX: Size = Size::from_bytes(*ring::Options::QUEUE_BYTES.end() as u64);

samara_engine::ranges! {
    /// A member of a group, over framed TCP.
    #[derive(Clone, Debug, Deserialize, Serialize)]
    #[serde(deny_unknown_fields)]
    pub struct Group {
        /// The name of the group. The member rejects nodes of another group.
        pub name: String,
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
        #[range(above(Span::default()))]
        pub require_seed: Option<Span>,
        /// Bytes of own messages that may wait to be broadcast. Beyond that, senders wait.
        #[serde(default = "default_queue")]
        #[range(Size::from_bytes(1)..=QUEUE_MAX)]
        pub queue: Size,
        /// The keys of a scenario's `[protocol]`.
        #[serde(default)]
        pub protocol: Parameters,
    }
}

/// A valid configuration. Its secret or certificate is read at the start.
#[derive(Clone, Debug)]
pub struct CheckedGroup {
    written: Group,
    pub options: ring::Options,
}

impl CheckedGroup {
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

fn default_queue() -> Size {
    Size::from_bytes(256 << 10)
}

impl Group {
    pub(super) fn checked(&self, network: &Network) -> Result<CheckedGroup, Wrong> {
        let config = self.engine()?;
        check(!self.name.trim().is_empty(), "group.name", || {
            "found an empty name; expected the name of a group".to_owned()
        })?;
        let options = ring::Options {
            authentication: self.kind()?,
            advertise: self.advertise,
            seeds: self.seeds.clone(),
            require_seed: self.require_seed.map(|within| within.duration()),
            config,
            queue_bytes: usize::try_from(self.queue.bytes()).unwrap_or(usize::MAX),
            max_pending: network.pending_max as usize,
            ..ring::Options::new(&self.name, self.listen)
        };
        options.check().map_err(|error| self.wrong(&error))?;
        Ok(CheckedGroup { written: self.clone(), options })
    }

    fn engine(&self) -> Result<Config, Wrong> {
        let protocol = &self.protocol;
        let shapes = Shape::ALL.map(Shape::name).join(", ");
        check(protocol.shape != Some(ShapeSetting::ByFormula), "group.protocol.shape", || {
            format!("found by-formula, which needs the rates of links; expected one of {shapes}")
        })?;
        for key in ["federated", "bridge_shape", "absent_after"] {
            let is_used = protocol.given().has(key) && (key != "federated" || protocol.federated);
            check(!is_used, format!("group.protocol.{key}"), || {
                "belongs to federations, and a node is in a plain group; remove it, or join one with a program \
                 (docs/guides/groups.md)"
                    .to_owned()
            })?;
        }
        // The formula alone needs the load on the members.
        let load = Workload {
            members: 0,
            senders: 1,
            message_bytes: 1,
            chunk_bytes: 1,
            link_bytes_per_s: 1.0,
            hop_s: 0.0,
        };
        protocol.build(load).ok_or_else(|| {
            let message = "found \"daisychain\", which has no members; expected ring, ring-total or direct";
            ("group.protocol.preset".to_owned(), message.to_owned())
        })
    }

    fn wrong(&self, error: &OptionError) -> Wrong {
        let key = match &*error.field {
            "authentication" => return ("group.secret".to_owned(), self.unprotected()),
            "authentication.members" => "group.members",
            "authentication.identity" => "group.identity",
            "advertise" => "group.advertise",
            "seeds" => "group.seeds",
            field => {
                let key = key_of(field).unwrap_or_else(|| field.to_owned());
                let message = format!("found {}; expected {}", error.found, error.expected);
                return (format!("group.protocol.{key}"), message);
            }
        };
        let remedy = if key == "group.identity" {
            "; correct group.members at all members, or use the file of that certificate"
        } else {
            ""
        };
        (key.to_owned(), format!("found {}; expected {}{remedy}", error.found, error.expected))
    }

    /// Checks which kind of authentication there is. Its files are read at the start.
    fn kind(&self) -> Result<Authentication, Wrong> {
        let ways = [self.secret.is_some(), self.identity.is_some(), self.unauthenticated];
        let found = ways.into_iter().filter(|is_set| *is_set).count();
        check(found <= 1, "group.secret", || {
            "found several kinds of authentication; expected one of secret, identity and unauthenticated"
                .to_owned()
        })?;
        check(self.frames.is_none() || self.secret.is_some(), "group.frames", || {
            "found no secret that could protect them; expected a secret too".to_owned()
        })?;
        check(self.members.is_empty() == self.identity.is_none(), "group.members", || {
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
                .map_err(|error| ("group.secret".to_owned(), format!("{}: {error}", path.display())))?;
            return Ok(Authentication::Secret(secret, frames));
        }
        if let Some(path) = &self.identity {
            let identity = load(path, "group.members")
                .map_err(|error| ("group.identity".to_owned(), format!("{}: {error}", path.display())))?;
            let pinned = self.members.iter().enumerate().map(|(at, member)| {
                let fingerprint = member.fingerprint.parse();
                let fingerprint = fingerprint
                    .map_err(|error| (format!("group.members.{at}.fingerprint"), format!("{error}")))?;
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
             or unauthenticated = true in [group], with which everybody who reaches them can join",
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
