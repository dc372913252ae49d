//! Access control of the dashboard.
//!
//! At a loopback address, every user of this machine has access, but no page of another site. DNS
//! rebinding would lead a browser here under a foreign name, which the `Host` header reveals. At
//! any other address, a request needs the token.

use std::net::{IpAddr, SocketAddr};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;

/// Minimum number of characters in a token.
pub const TOKEN_MIN: usize = 16;
const COOKIE: &str = "samara_dashboard";

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AccessError {
    #[error(
        "other machines can reach {0}: set a token with --token (or SAMARA_DASHBOARD_TOKEN), or listen on 127.0.0.1"
    )]
    NeedsToken(SocketAddr),
    #[error("the token has {0} characters, expected at least {TOKEN_MIN}")]
    ShortToken(usize),
}

/// The token in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// It is right, or none is needed.
    Right,
    Nothing,
    /// A guess, or a token that was changed.
    Wrong,
}

#[derive(Clone)]
pub(crate) struct Access {
    /// The hash of the token. Comparing hashes takes the same time for all inputs, and cookies do
    /// not reveal the token.
    token: Option<[u8; 32]>,
    is_loopback: bool,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("needs_token", &self.token.is_some()).finish_non_exhaustive()
    }
}

impl Access {
    /// Creates the rules for an address, with a token or without.
    pub(crate) fn new(address: SocketAddr, token: Option<&str>) -> Result<Self, AccessError> {
        let is_loopback = address.ip().is_loopback();
        match token {
            Some(token) if token.chars().count() < TOKEN_MIN => {
                Err(AccessError::ShortToken(token.chars().count()))
            }
            None if !is_loopback => Err(AccessError::NeedsToken(address)),
            token => Ok(Self { token: token.map(hash), is_loopback }),
        }
    }

    /// Returns true if a request with this host name is meant for this machine. With a token, all
    /// names are accepted.
    pub(crate) fn is_named(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((ip, _)) => ip,
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let is_local = name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok();
        is_local || !self.is_loopback || self.token.is_some()
    }

    /// Checks whether one of the headers has the token.
    pub(crate) fn check(&self, authorization: Option<&str>, cookies: Option<&str>) -> Given {
        let Some(token) = &self.token else { return Given::Right };
        let bearer = authorization.and_then(|value| value.split_once(' '));
        let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let bearer = bearer.map(|(_, given)| self.is_token(given.trim()));
        let cookies = cookies.unwrap_or_default().split(';').filter_map(|pair| pair.trim().split_once('='));
        let is_right = |value: &str| bool::from(hash(value).ct_eq(&hash(&cookie_value(token))));
        let cookies = cookies.filter(|(name, _)| *name == COOKIE).map(|(_, value)| is_right(value));
        bearer.into_iter().chain(cookies).fold(Given::Nothing, |given, is_right| match given {
            Given::Right => Given::Right,
            _ if is_right => Given::Right,
            _ => Given::Wrong,
        })
    }

    pub(crate) fn is_token(&self, given: &str) -> bool {
        self.token.is_some_and(|token| bool::from(hash(given).ct_eq(&token)))
    }

    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// The value of the cookie that stands for the token. It is the same after a restart, and does
    /// not reveal the token.
    pub(crate) fn cookie(&self) -> String {
        let value = self.token.as_ref().map(cookie_value).unwrap_or_default();
        format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000")
    }
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::new().chain_update(b"samara dashboard token").chain_update(text).finalize().into()
}

fn cookie_value(token: &[u8; 32]) -> String {
    let value = Sha256::new().chain_update(b"samara dashboard cookie").chain_update(token).finalize();
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn access(address: &str, token: Option<&str>) -> Result<Access, AccessError> {
        Access::new(address.parse().unwrap(), token)
    }

    #[test]
    fn address_beyond_loopback_requires_token() {
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[2001:db8::1]:1"] {
            assert_eq!(access(address, None).unwrap_err(), AccessError::NeedsToken(address.parse().unwrap()));
            assert!(access(address, Some(TOKEN)).is_ok());
        }
        for address in ["127.0.0.1:1", "127.3.0.1:1", "[::1]:1"] {
            assert!(access(address, None).is_ok());
        }
        assert_eq!(access("127.0.0.1:1", Some("short")).unwrap_err(), AccessError::ShortToken(5));
    }

    #[test]
    fn only_the_token_gives_access() {
        let access = access("0.0.0.0:1", Some(TOKEN)).unwrap();
        let cookie = access.cookie();
        let cookie = cookie.split(';').next().unwrap();
        assert!(!cookie.contains(TOKEN));
        let bearer = |token: &str| format!("Bearer {token}");
        assert_eq!(access.check(Some(&bearer(TOKEN)), None), Given::Right);
        assert_eq!(access.check(None, Some(&format!("other=1; {cookie}"))), Given::Right);
        assert_eq!(access.check(Some(&bearer("0")), Some(cookie)), Given::Right);
        for wrong in ["", "0123456789abcde", "0123456789abcdef0"] {
            assert_eq!(access.check(Some(&bearer(wrong)), None), Given::Wrong, "{wrong}");
        }
        assert_eq!(access.check(None, Some(&format!("{cookie}0"))), Given::Wrong);
        assert_eq!(access.check(None, Some(&format!("samara_dashboard={TOKEN}"))), Given::Wrong);
        assert_eq!(access.check(Some(&format!("Basic {TOKEN}")), Some("other=1")), Given::Nothing);
        assert_eq!(access.check(None, None), Given::Nothing);
    }

    #[test]
    fn rejects_foreign_host_names_without_token() {
        let open = access("127.0.0.1:1", None).unwrap();
        for host in ["127.0.0.1:7000", "localhost:1", "LOCALHOST", "[::1]:7000", "10.0.0.1"] {
            assert!(open.is_named(host), "{host}");
        }
        for host in ["", "evil.example:7000", "localhost.evil.example", "127.0.0.1.evil.example", "[x]:1"] {
            assert!(!open.is_named(host), "{host}");
        }
        assert!(access("0.0.0.0:1", Some(TOKEN)).unwrap().is_named("samara.example:80"));
    }
}
