//! Payloads for a recipient: whoever fetches the results of a round sees them, and only the holder of
//! one key reads them.
//!
//! A payload has the length of the mix's contents, whatever is in it:
//!
//! ```text
//! ephemeral public key (32) | ciphertext | tag (16)
//! ```
//!
//! The ephemeral key (X25519) is drawn for each payload. Key of the ciphertext is BLAKE3 of the shared
//! secret and both public keys; the cipher is ChaCha20-Poly1305 with a nonce of zeros, since no key
//! encrypts twice. Nothing in a payload names its recipient: to find theirs, recipients try all. A
//! dummy begins with a public key as well, so that both look alike to everybody else.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::{BASE32_NOPAD, BASE64};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
/// Bytes of a payload beside what the recipient reads.
pub const OVERHEAD_BYTES: usize = KEY_BYTES + TAG_BYTES;
/// The end of an address, by which readers notice a wrong letter.
const CHECK_BYTES: usize = 3;
/// Letters and digits of an address: five bits each.
const ADDRESS_LEN: usize = (KEY_BYTES + CHECK_BYTES) * 8 / 5;

const CIPHER_CONTEXT: &str = "samara mix payload for a recipient v1";
const CHECK_CONTEXT: &str = "samara mix address check v1";

/// The bytes before the secret of an X25519 key in PKCS #8 (RFC 8410, 7), as
/// `openssl genpkey -algorithm x25519` writes them.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20];
const PEM_FIRST: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_LAST: &str = "-----END PRIVATE KEY-----";
/// Maximum bytes of a key file.
const FILE_BYTES_MAX: u64 = 4096;

/// The public key of a recipient. It prints as 56 letters and digits, of which the last five notice
/// errors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address([u8; KEY_BYTES]);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAddress {
    #[error(
        "found {found:?}; expected an address of {ADDRESS_LEN} letters and digits, as `samara mix key` prints it"
    )]
    Form { found: String },
    #[error("found {found:?}, in which a letter is wrong; copy the address again")]
    Check { found: String },
    #[error("found {found:?}, which is the address of no key; the recipient's `samara mix key` prints one")]
    Weak { found: String },
}

impl Address {
    fn check_of(public: &[u8; KEY_BYTES]) -> [u8; CHECK_BYTES] {
        let mut check = [0; CHECK_BYTES];
        check.copy_from_slice(&blake3::derive_key(CHECK_CONTEXT, public)[..CHECK_BYTES]);
        check
    }

    /// Encrypts what the recipient reads into a payload that is [`OVERHEAD_BYTES`] longer.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn encrypt(&self, plain: &[u8]) -> Result<Vec<u8>, getrandom::Error> {
        let (ephemeral, public) = draw()?;
        let shared = Zeroizing::new(x25519(*ephemeral, self.0));
        let mut payload = [&public[..], plain].concat();
        let cipher = cipher(&shared, &public, &self.0);
        let tag = cipher.seal_in_place_separate_tag(nonce(), Aad::empty(), &mut payload[KEY_BYTES..]);
        // Fails only for plain texts of 256 GiB.
        let tag = tag.map_err(|_| getrandom::Error::UNEXPECTED)?;
        payload.extend_from_slice(tag.as_ref());
        Ok(payload)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.0[..], &Self::check_of(&self.0)].concat();
        f.write_str(&BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let found = || text.to_owned();
        let bytes = BASE32_NOPAD.decode(text.trim().to_ascii_uppercase().as_bytes());
        let bytes = bytes.map_err(|_| NoAddress::Form { found: found() })?;
        let parts = bytes.split_first_chunk::<KEY_BYTES>().filter(|(_, check)| check.len() == CHECK_BYTES);
        let (public, check) = parts.ok_or_else(|| NoAddress::Form { found: found() })?;
        if *check != Self::check_of(public) {
            return Err(NoAddress::Check { found: found() });
        }
        // All scalars are multiples of eight, so that any of them shows a point of low order.
        if is_zero(&x25519([1; KEY_BYTES], *public)) {
            return Err(NoAddress::Weak { found: found() });
        }
        Ok(Self(*public))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("cannot get random numbers: {0}")]
    Random(#[from] getrandom::Error),
    #[error("found no X25519 key in PEM; expected one, as `samara mix key` writes it")]
    Form,
    #[error("found mode {0:04o}, which lets others read it; expected 0600 (chmod 600)")]
    Mode(u32),
}

/// The private key of a recipient, which is never printed and erased when dropped.
#[derive(Clone)]
pub struct RecipientKey {
    secret: Arc<Zeroizing<[u8; KEY_BYTES]>>,
    address: Address,
}

impl fmt::Debug for RecipientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecipientKey({})", self.address)
    }
}

impl RecipientKey {
    /// Draws a key.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        let (secret, public) = draw()?;
        Ok(Self { secret: Arc::new(secret), address: Address(public) })
    }

    pub const fn address(&self) -> Address {
        self.address
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or it has no key.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let file = fs::File::open(path)?;
        let about = file.metadata()?;
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777;
            if about.is_file() && mode & 0o077 != 0 {
                return Err(KeyError::Mode(mode));
            }
        }
        let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_MAX as usize));
        io::Read::read_to_string(&mut io::Read::take(file, FILE_BYTES_MAX), &mut text)?;
        Self::from_pem(&text)
    }

    fn from_pem(text: &str) -> Result<Self, KeyError> {
        let between = text.split_once(PEM_FIRST).and_then(|(_, rest)| rest.split_once(PEM_LAST));
        let (base64, _) = between.ok_or(KeyError::Form)?;
        let base64 = Zeroizing::new(base64.split_whitespace().collect::<String>());
        let bytes = Zeroizing::new(BASE64.decode(base64.as_bytes()).map_err(|_| KeyError::Form)?);
        let secret = bytes.strip_prefix(&PKCS8).ok_or(KeyError::Form)?;
        let secret = Zeroizing::new(<[u8; KEY_BYTES]>::try_from(secret).map_err(|_| KeyError::Form)?);
        let address = Address(x25519(*secret, X25519_BASEPOINT_BYTES));
        Ok(Self { secret: Arc::new(secret), address })
    }

    /// Writes the key to a new file in PEM that only the owner can read.
    ///
    /// # Errors
    /// The file exists already, or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), KeyError> {
        let bytes = Zeroizing::new([&PKCS8[..], &self.secret[..]].concat());
        let base64 = Zeroizing::new(BASE64.encode(&bytes));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        for line in [PEM_FIRST, &base64, PEM_LAST] {
            file.write_all(line.as_bytes())?;
            file.write_all(b"\n")?;
        }
        Ok(file.sync_all()?)
    }

    /// Returns the content of a payload for this key, or `None` for all others.
    pub fn decrypt(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let (public, rest) = payload.split_first_chunk::<KEY_BYTES>()?;
        let (ciphertext, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
        let shared = Zeroizing::new(x25519(**self.secret, *public));
        if is_zero(&shared) {
            return None;
        }
        let cipher = cipher(&shared, public, &self.address.0);
        let mut plain = ciphertext.to_vec();
        let opened = cipher.open_in_place_separate_tag(nonce(), Aad::empty(), (*tag).into(), &mut plain, 0..);
        opened.is_ok().then_some(plain)
    }
}

/// Returns a content of nobody: like a payload for a recipient, of which nobody has the key.
pub(super) fn dummy(len: usize) -> Result<Vec<u8>, getrandom::Error> {
    let mut content = vec![0; len];
    getrandom::fill(&mut content)?;
    if let Some(public) = content.first_chunk_mut() {
        *public = draw()?.1;
    }
    Ok(content)
}

/// Draws a secret scalar, and computes its public key.
fn draw() -> Result<(Zeroizing<[u8; KEY_BYTES]>, [u8; KEY_BYTES]), getrandom::Error> {
    let mut secret = Zeroizing::new([0; KEY_BYTES]);
    getrandom::fill(&mut *secret)?;
    let public = x25519(*secret, X25519_BASEPOINT_BYTES);
    Ok((secret, public))
}

fn is_zero(shared: &[u8; KEY_BYTES]) -> bool {
    shared.iter().fold(0, |all, byte| all | byte) == 0
}

fn cipher(shared: &[u8; KEY_BYTES], ephemeral: &[u8; KEY_BYTES], recipient: &[u8; KEY_BYTES]) -> LessSafeKey {
    let mut material = Zeroizing::new([0; 3 * KEY_BYTES]);
    for (into, part) in material.chunks_exact_mut(KEY_BYTES).zip([shared, ephemeral, recipient]) {
        into.copy_from_slice(part);
    }
    let key = Zeroizing::new(blake3::derive_key(CIPHER_CONTEXT, &*material));
    let key = UnboundKey::new(&CHACHA20_POLY1305, &*key).expect("a key of this cipher has 32 bytes");
    LessSafeKey::new(key)
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> RecipientKey {
        RecipientKey::generate().expect("random numbers")
    }

    #[test]
    fn only_the_recipient_reads_a_payload_and_no_byte_of_it_can_change() {
        let (key, other) = (key(), key());
        for len in [0, 1, 460] {
            let plain: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
            let payload = key.address().encrypt(&plain).expect("random numbers");
            assert_eq!(payload.len(), plain.len() + OVERHEAD_BYTES);
            assert_eq!(key.decrypt(&payload), Some(plain.clone()));
            assert_eq!(other.decrypt(&payload), None);
            for at in 0..payload.len() {
                let mut changed = payload.clone();
                changed[at] ^= 1;
                assert_eq!(key.decrypt(&changed), None, "byte {at}");
                assert_eq!(key.decrypt(&payload[..at]), None, "{at} bytes");
            }
            let again = key.address().encrypt(&plain).expect("random numbers");
            assert_ne!(payload, again, "each payload has a key of its own");
        }
    }

    /// A point of low order has the same shared secret with everybody, so that anybody could write to
    /// all recipients at once.
    #[test]
    fn points_of_low_order_are_no_keys() {
        let key = key();
        for point in [[0; 32], {
            let mut one = [0; 32];
            one[0] = 1;
            one
        }] {
            let cipher = cipher(&[0; 32], &point, &key.address().0);
            let mut payload = [&point[..], b"for all"].concat();
            let tag = cipher.seal_in_place_separate_tag(nonce(), Aad::empty(), &mut payload[32..]).unwrap();
            payload.extend_from_slice(tag.as_ref());
            assert_eq!(key.decrypt(&payload), None);
            let weak = Address(point).to_string();
            assert_eq!(weak.parse::<Address>(), Err(NoAddress::Weak { found: weak }));
        }
    }

    #[test]
    fn an_address_is_short_and_notices_errors() {
        let address = key().address();
        let text = address.to_string();
        assert_eq!((text.len(), text.parse()), (56, Ok(address)));
        assert_eq!(text.to_uppercase().parse(), Ok(address));
        for at in 0..text.len() {
            let other = if &text[at..=at] == "a" { "b" } else { "a" };
            let wrong = [&text[..at], other, &text[at + 1..]].concat();
            assert_eq!(wrong.parse::<Address>(), Err(NoAddress::Check { found: wrong.clone() }));
        }
        for wrong in ["", "a", &text[1..], &format!("{text}a"), "ä"] {
            let error = wrong.parse::<Address>().expect_err("no address").to_string();
            assert!(error.contains("56 letters and digits"), "{error}");
        }
    }

    #[test]
    fn a_key_file_is_read_as_it_was_written_and_is_for_its_owner() {
        let path = std::env::temp_dir().join(format!("samara-recipient-{}.pem", std::process::id()));
        let _ = fs::remove_file(&path);
        let key = key();
        key.save(&path).expect("a new file");
        let read = RecipientKey::load(&path).expect("a key");
        assert_eq!((&read.secret, read.address), (&key.secret, key.address));
        assert!(matches!(key.save(&path), Err(KeyError::Io(_))), "an existing key is kept");
        let text = fs::read_to_string(&path).expect("a file");
        #[cfg(unix)]
        {
            let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            fs::set_permissions(&path, readable).expect("the owner may");
            assert!(matches!(RecipientKey::load(&path), Err(KeyError::Mode(0o644))));
        }
        fs::remove_file(&path).expect("the file");
        for wrong in ["", PEM_FIRST, &text[..60], &text.replace("MC4", "MC5")] {
            assert!(matches!(RecipientKey::from_pem(wrong), Err(KeyError::Form)), "{wrong:?}");
        }
        assert!(!format!("{key:?}").contains(&BASE64.encode(&key.secret[..])[..8]));
    }

    /// As RFC 7748, 6.1, and what `openssl genpkey` writes.
    #[test]
    fn keys_of_openssl_are_understood() {
        let text = "-----BEGIN PRIVATE KEY-----\n\
                    MC4CAQAwBQYDK2VuBCIEIHcHbQpzGKV9PBbBclGyZkXfTC+H68CZKrF3+6UduSwq\n\
                    -----END PRIVATE KEY-----\n";
        let key = RecipientKey::from_pem(text).expect("a key");
        let public = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
        assert_eq!(hex::encode(key.address.0), public);
    }

    /// The first bytes of a payload are no random bytes: the highest bit is never set, and they are on
    /// one of two curves. Dummies have to be alike.
    #[test]
    fn dummies_begin_with_a_public_key() {
        let key = key();
        for _ in 0..64 {
            let dummy = dummy(508).expect("random numbers");
            assert_eq!((dummy.len(), dummy[31] & 0x80), (508, 0));
            // On the curve and not on its twist: u^3 + A u^2 + u is a square.
            let point = curve25519_dalek::montgomery::MontgomeryPoint(*dummy.first_chunk().unwrap());
            assert!(point.to_edwards(0).is_some());
            assert_eq!(key.decrypt(&dummy), None);
        }
        assert_eq!(dummy(7).expect("random numbers").len(), 7);
    }
}
