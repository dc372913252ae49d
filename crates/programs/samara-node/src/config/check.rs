//! Turns a parsed configuration into the options of the node's parts, and checks everything that
//! can be checked before the start.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId, StreamProtocol};
use samara_document::closest;
use samara_engine::PeerIdentity;
use samara_engine::outbox::{ScheduleSpec, SourceKind};
use samara_engine::settings::Ranges;
use samara_engine::units::Size;
use samara_gossipsub::Config;
use samara_gossipsub::config::Authenticity;
use samara_gossipsub::config::{Preset, Version, expected_of, key_of};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::Topic;
use samara_libp2p::{KeyVerifier, Options, PROTOCOLS, identity_of};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::group::CheckedGroup;
use super::mix::CheckedMix;
use super::pool::CheckedPool;
use super::{AuthenticityKind, IdKind, NodeConfig, Server};
use crate::payload::{BATCH_BYTES_MAX, BATCH_MESSAGES_MAX};

/// Bytes of a frame around the longest message: fields, signature, key and topic. Other tests of
/// this repository leave as much; go-libp2p-pubsub includes these bytes in its maximum.
const FRAME_OVERHEAD: usize = 4096;
/// Maximum payload that can be configured: frames are held in memory whole.
const MAX_SIZE: u64 = 64 << 20;
/// Maximum bytes of own messages that a node owes to one peer: the longest batch of the control API.
const PUBLISH_BYTES_MAX: u64 = (BATCH_BYTES_MAX + BATCH_MESSAGES_MAX * FRAME_OVERHEAD) as u64;
/// Length of truncated `SHA-256` ids in bytes, as in Ethereum.
const SHA256_ID_LEN: u8 = 20;
/// The levels of a log.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A checked configuration, and the options derived from it.
#[derive(Clone, Debug)]
pub struct Checked {
    pub written: NodeConfig,
    pub engine: Config,
    pub options: Options,
    pub listen: Vec<Multiaddr>,
    pub dial: Vec<Multiaddr>,
    pub topics: Vec<Topic>,
    pub pool: Option<CheckedPool>,
    /// The configuration of the member of a group, if there is one.
    pub group: Option<CheckedGroup>,
    /// The configuration of the node or the scheduler of a mix pool, if there is one.
    pub mix: Option<CheckedMix>,
}

/// The key with the fault, and the description of the fault.
pub(super) type Wrong = (String, String);

pub(super) fn check(
    holds: bool,
    key: impl Into<String>,
    message: impl FnOnce() -> String,
) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err((key.into(), message())) }
}

impl NodeConfig {
    pub(super) fn check(self) -> Result<Checked, Wrong> {
        self.check_ranges().map_err(|error| {
            (error.field.to_string(), format!("found {}; expected {}", error.found, error.expected))
        })?;
        let identity = &self.identity;
        check(identity.key_file.is_some() != identity.seed.is_some(), "identity", || {
            let found = if identity.seed.is_some() { "both" } else { "neither" };
            format!("found {found}; expected either key_file or seed")
        })?;
        self.check_network()?;
        check_server("control", self.control.as_ref(), " with a token_file")?;
        check_server("metrics", self.metrics.as_ref(), "")?;
        let is_open =
            self.control.as_ref().is_some_and(|server| server.allow_remote && server.token_file.is_none());
        check(!is_open, "control.token_file", || {
            "found none, although other machines may reach the control API; expected the path of a file with a token, \
             which nobody else can read: `umask 077; openssl rand -hex 32 > control.token`"
                .to_owned()
        })?;
        check_filter(&self.log.filter).map_err(|message| ("log.filter".to_owned(), message))?;
        let engine = self.engine()?;
        let options = Options {
            in_flight_bytes: self.transport.in_flight.bytes() as usize,
            report_sent: true,
            report_frames: self.trace.is_some(),
            protocols: offered(self.protocol.config.version),
            ..Options::default()
        };
        let options = if self.transport.node_limit { options } else { Options { uplink: None, ..options } };
        let topics = topics(&self.topics, options.limits_with(&engine).topic_bytes)?;
        let listen = addresses("network.listen", &self.network.listen)?;
        self.check_seed(&listen)?;
        let dial = addresses("network.dial", &self.network.dial)?;
        let pool = self.pool.as_ref().map(|pool| pool.checked(&self.network, &self.transport)).transpose()?;
        let group = self.group.as_ref().map(|group| group.checked(&self.network)).transpose()?;
        let mix = self.mix.as_ref().map(super::mix::Mix::checked).transpose()?;
        Ok(Checked { engine, options, listen, dial, topics, pool, group, mix, written: self })
    }

    /// Rejects a key that everybody can compute where other machines could use it.
    fn check_seed(&self, listen: &[Multiaddr]) -> Result<(), Wrong> {
        let pool = self.pool.as_ref().and_then(|pool| pool.listen).map(|address| address.ip());
        let remote = listen.iter().filter_map(ip_of).chain(pool).find(|ip| !ip.to_canonical().is_loopback());
        let is_allowed = self.identity.seed.is_none() || self.identity.allow_seed;
        check(is_allowed || remote.is_none(), "identity.seed", || {
            let remote = remote.map(|ip| ip.to_string()).unwrap_or_default();
            format!(
                "found a key that everybody can compute, although other machines can reach {remote}; \
                 expected key_file, or allow_seed = true in [identity] for a test network"
            )
        })
    }

    fn check_network(&self) -> Result<(), Wrong> {
        let network = &self.network;
        let (first, max) = (network.redial_first, network.redial_max);
        check(max >= first, "network.redial_max", || {
            format!("found {max}; expected at least redial_first = {first}")
        })
    }

    fn engine(&self) -> Result<Config, Wrong> {
        let schedules = [
            ("protocol.schedule_publish", self.protocol.schedule_publish.as_ref()),
            ("protocol.schedule_forward", self.protocol.schedule_forward.as_ref()),
        ];
        for (key, schedule) in schedules {
            check_schedule(key, schedule)?;
            let is_observed =
                matches!(schedule, Some(ScheduleSpec::Feedback { source: Some(SourceKind::Observer), .. }));
            check(!is_observed || !self.network.observers.is_empty(), format!("{key}.source"), || {
                "found observer, but network.observers names none; expected peers, or peer ids there"
                    .to_owned()
            })?;
        }
        let mut config = self.protocol.build();
        let ethereum = self.protocol.preset == Preset::Ethereum;
        let authenticity = self.format.authenticity;
        let fallback = if ethereum { AuthenticityKind::Anonymous } else { AuthenticityKind::Signed };
        let authenticity = authenticity.unwrap_or(fallback);
        config.authenticity = match authenticity {
            AuthenticityKind::Anonymous => Authenticity::anonymous(),
            AuthenticityKind::Unsigned => Authenticity::unsigned(),
            AuthenticityKind::Signed => Authenticity::strict(KeyVerifier),
        };
        let id = self.format.id.unwrap_or(if ethereum { IdKind::Ethereum } else { IdKind::FromSeqno });
        let of_author = matches!(id, IdKind::FromSeqno | IdKind::FromSeqnoBase58);
        check(!of_author || authenticity != AuthenticityKind::Anonymous, "format.id", || {
            "found an id of author and number, but anonymous messages have neither, so all ids would be equal; \
             expected ethereum or sha256, or another format.authenticity"
                .to_owned()
        })?;
        config.message_id = match id {
            IdKind::Ethereum => MessageIdFn::ethereum(true, None),
            IdKind::FromSeqno => MessageIdFn::FromSeqno,
            IdKind::FromSeqnoBase58 => MessageIdFn::FromSeqnoBase58,
            IdKind::Sha256 => MessageIdFn::Sha256Data { len: SHA256_ID_LEN },
        };
        if let Some(max) = self.protocol.message_max {
            check((1..=MAX_SIZE).contains(&max.bytes()), "protocol.message_max", || {
                format!("found {max}; expected 1 B to {}", Size::from_bytes(MAX_SIZE))
            })?;
            config.max_rpc_bytes = config.max_message_bytes + FRAME_OVERHEAD;
            config.history_bytes_max = config.history_bytes_max.max(config.max_rpc_bytes);
        }
        config.observers = identities("network.observers", &self.network.observers)?;
        config.report_to = identities("network.report_to", &self.network.report_to)?;
        // A batch of the control API fits whole. Other lanes have the default of the options.
        config.sending.publish.bytes = PUBLISH_BYTES_MAX;
        // The trace has own messages as delivered, like that of go-libp2p-pubsub.
        config.deliver_own = true;
        config.trace = self.trace.is_some();
        config.validate().map_err(|error| {
            let key = key_of(&error.field).unwrap_or_else(|| error.field.to_string());
            let key = format!("protocol.{key}");
            (key, format!("found {}; expected {}", error.found, expected_of(&error)))
        })?;
        Ok(config)
    }
}

/// Returns the identities of peers by their ids.
fn identities(key: &str, peers: &[String]) -> Result<Vec<PeerIdentity>, Wrong> {
    let parse = |(at, text): (usize, &String)| -> Result<PeerIdentity, Wrong> {
        let peer = text.parse::<PeerId>().map_err(|error| {
            let expected = "expected a peer id such as 12D3KooW...";
            (format!("{key}.{at}"), format!("found {text:?}: {error}; {expected}"))
        })?;
        Ok(identity_of(&peer))
    };
    peers.iter().enumerate().map(parse).collect()
}

/// Rejects schedules that only a simulation has, instead of taking them for another one.
pub(crate) fn check_schedule(key: &str, schedule: Option<&ScheduleSpec>) -> Result<(), Wrong> {
    let is_custom = matches!(schedule, Some(ScheduleSpec::Custom { .. }));
    check(!is_custom, format!("{key}.kind"), || {
        "found custom, which exists only in simulations started by a program; expected sequential, interleaved, staggered or feedback"
            .to_owned()
    })
}

/// Removes the kind that a node refuses from an error that lists the kinds of schedules.
pub(crate) fn without_custom(message: &str) -> String {
    message.replace(", `custom`", "")
}

/// Rejects filters with a word that `EnvFilter` takes for a target although it is a misspelt level:
/// they would silence the log.
fn check_filter(filter: &str) -> Result<(), String> {
    EnvFilter::try_new(filter).map_err(|error| {
        format!("found {filter:?}: {error}; expected levels such as \"info,samara_node=debug\"")
    })?;
    // Other targets have a level or a path.
    let is_known = |word: &str| {
        word.is_empty()
            || word.contains(['=', '['])
            || word.contains("::")
            || word.starts_with("samara")
            || word.parse::<LevelFilter>().is_ok()
    };
    let Some(word) = filter.split(',').map(str::trim).find(|word| !is_known(word)) else { return Ok(()) };
    let meant = closest(word, LEVELS);
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
    Err(format!(
        "found {word:?}; expected a level ({}), or a target with a level such as \"samara_node=debug\"{meant}",
        LEVELS.join(", ")
    ))
}

fn check_server(section: &str, server: Option<&Server>, with: &str) -> Result<(), Wrong> {
    let Some(Server { listen: address, allow_remote, .. }) = server else { return Ok(()) };
    check(*allow_remote || is_loopback(address), format!("{section}.listen"), || {
        format!(
            "found {address}, which other machines can reach; \
             expected a loopback address such as 127.0.0.1:{}, or allow_remote = true{with} in [{section}]",
            address.port()
        )
    })
}

/// Returns the IP address at the start of an address.
pub(crate) fn ip_of(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(ip.into()),
        _ => None,
    }
}

pub(super) fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn topics(names: &[String], bytes_max: usize) -> Result<Vec<Topic>, Wrong> {
    let mut known = BTreeSet::new();
    for (at, name) in names.iter().enumerate() {
        let key = format!("topics.{at}");
        check_topic(name, bytes_max).map_err(|message| (key.clone(), message))?;
        check(known.insert(name), key, || format!("duplicate topic {name:?}; expected each topic once"))?;
    }
    Ok(names.iter().map(|name| Topic::new(name)).collect())
}

/// Checks that peers with the same limits accept the name as a topic.
pub(crate) fn check_topic(name: &str, bytes_max: usize) -> Result<(), String> {
    if name.is_empty() || name.len() > bytes_max {
        return Err(format!("found a topic of {} bytes; expected 1 to {bytes_max}", name.len()));
    }
    Ok(())
}

fn addresses(key: &str, texts: &[String]) -> Result<Vec<Multiaddr>, Wrong> {
    let each = texts.iter().enumerate();
    each.map(|(at, text)| address(text).map_err(|message| (format!("{key}.{at}"), message))).collect()
}

/// Describes the first part of an address that does not parse.
fn wrong_part(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('/').collect();
    parts.windows(2).find_map(|part| {
        let (value, wanted) = (
            part[1],
            match part[0] {
                "tcp" | "udp" if part[1].parse::<u16>().is_err() => "a port from 0 to 65535",
                "ip4" if part[1].parse::<Ipv4Addr>().is_err() => "an IPv4 address",
                "ip6" if part[1].parse::<Ipv6Addr>().is_err() => "an IPv6 address",
                "p2p" if part[1].parse::<PeerId>().is_err() => {
                    "a peer id: copy the one that the peer prints as peer_id at its start, or leave out /p2p/"
                }
                _ => return None,
            },
        );
        Some(format!(", in which {value:?} is not {wanted}"))
    })
}

/// Parses an address that this node has a transport for.
pub(crate) fn address(text: &str) -> Result<Multiaddr, String> {
    let wrong = |what: &str| {
        format!(
            "found {text:?}{what}; expected an address such as /ip4/127.0.0.1/tcp/4001 or \
             /ip4/127.0.0.1/udp/4001/quic-v1, or for dialling also with /p2p/ and a peer id"
        )
    };
    let address: Multiaddr =
        text.parse().map_err(|error| wrong(&wrong_part(text).unwrap_or_else(|| format!(": {error}"))))?;
    let is_name = |part: Protocol<'_>| {
        matches!(part, Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_) | Protocol::Dnsaddr(_))
    };
    if address.iter().any(is_name) {
        return Err(wrong(", but a node resolves no names (DNS)"));
    }
    let mut parts = address.iter();
    let ip = matches!(parts.next(), Some(Protocol::Ip4(_) | Protocol::Ip6(_)));
    let port = match parts.next() {
        Some(Protocol::Tcp(_)) => true,
        Some(Protocol::Udp(_)) => matches!(parts.next(), Some(Protocol::QuicV1)),
        _ => false,
    };
    let end = matches!((parts.next(), parts.next()), (None | Some(Protocol::P2p(_)), None));
    if ip && port && end { Ok(address) } else { Err(wrong("")) }
}

/// All protocols of the node, or only those up to version 1.0 or 1.1.
fn offered(version: Version) -> Arc<[StreamProtocol]> {
    let all = PROTOCOLS.into_iter();
    match version {
        Version::V1_2 | Version::V1_3 => all.collect(),
        Version::V1_0 | Version::V1_1 => {
            all.skip_while(|protocol| protocol.as_ref() != version.protocol()).collect()
        }
    }
}
