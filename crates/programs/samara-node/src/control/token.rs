//! The token of a server: who has it may use the server.

use std::fmt;
use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::identity::check_mode;

/// Minimum number of characters in a token, as for the dashboard.
const CHARACTERS_MIN: usize = 16;

/// The hash of a token. Comparing hashes takes the same time for all inputs.
#[derive(Clone)]
pub(crate) struct Token([u8; 32]);

impl Token {
    /// Reads the token in a file, without the white space around it.
    ///
    /// # Errors
    /// A text that says what to do: others can read the file, or the token is too short.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let wrong = |what: String| format!("{}: {what}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| {
            wrong(format!(
                "cannot read the token: {error}; write one with `umask 077; openssl rand -hex 32 > FILE`"
            ))
        })?;
        check_mode(path).map_err(wrong)?;
        let token = text.trim();
        let characters = token.chars().count();
        if characters < CHARACTERS_MIN {
            let expected =
                format!("expected at least {CHARACTERS_MIN}, such as `openssl rand -hex 32` prints");
            return Err(wrong(format!("found a token of {characters} characters; {expected}")));
        }
        Ok(Self(hash(token)))
    }

    /// Returns true if the header `Authorization` has any token.
    pub(super) fn is_given(authorization: Option<&str>) -> bool {
        authorization.is_some_and(|value| value.contains(' '))
    }

    /// Returns true if the header `Authorization` has the token.
    pub(super) fn is_in(&self, authorization: Option<&str>) -> bool {
        let given = authorization.and_then(|value| value.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        given.is_some_and(|(_, token)| bool::from(hash(token.trim()).ct_eq(&self.0)))
    }
}

impl fmt::Debug for Token {
    /// Omits the hash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_in_the_header_counts() {
        let token = Token(hash("0123456789abcdef"));
        for good in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef "] {
            assert!(token.is_in(Some(good)), "{good}");
        }
        for bad in
            ["", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Basic 0123456789abcdef", "0123456789abcdef"]
        {
            assert!(!token.is_in(Some(bad)), "{bad}");
        }
        assert!(!token.is_in(None));
    }
}
