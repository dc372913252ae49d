//! The node's key pair.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use libp2p::identity::Keypair;

use crate::config::Identity;

/// A key pair, and the file to write if the key is new.
pub(crate) struct Key<'a> {
    pub(crate) pair: Keypair,
    new_file: Option<&'a Path>,
}

impl<'a> Key<'a> {
    /// Returns the key pair of a configuration, or a new one if its file does not exist. Writes
    /// nothing.
    pub(crate) fn of(identity: &'a Identity) -> Result<Self, String> {
        match (&identity.key_file, identity.seed) {
            (Some(path), _) => Self::from_file(path),
            (None, Some(seed)) => Ok(Self { pair: from_seed(seed)?, new_file: None }),
            (None, None) => Err("found neither key_file nor seed; expected one of them".to_owned()),
        }
    }

    fn from_file(path: &'a Path) -> Result<Self, String> {
        match std::fs::read(path) {
            Ok(bytes) => {
                check_mode(path).map_err(|what| wrong(path, what))?;
                let pair = Keypair::from_protobuf_encoding(&bytes);
                let pair = pair.map_err(|_| {
                    wrong(path, "found no key in libp2p's protobuf; expected one, or no file: the node writes a new key then".to_owned())
                })?;
                Ok(Self { pair, new_file: None })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                    let what = format!("the folder {} does not exist; create it", folder.display());
                    return Err(wrong(path, what));
                }
                Ok(Self { pair: Keypair::generate_ed25519(), new_file: Some(path) })
            }
            Err(error) => Err(wrong(path, format!("cannot read the file: {error}"))),
        }
    }

    /// Writes a new key to its file, readable only for its owner.
    pub(crate) fn save(&self) -> Result<(), String> {
        let Some(path) = self.new_file else { return Ok(()) };
        let bytes = self.pair.to_protobuf_encoding().map_err(|error| wrong(path, error.to_string()))?;
        write(path, &bytes).map_err(|error| wrong(path, format!("cannot create the file: {error}")))
    }
}

fn wrong(path: &Path, what: String) -> String {
    format!("identity.key_file: {}: {what}", path.display())
}

/// Returns the secret of the same key for the connections of CometBFT: a node has one identity.
pub(crate) fn secret(pair: &Keypair) -> Result<[u8; 32], String> {
    let wrong = || "identity.key_file: found a key that is not Ed25519; expected one for [pool]".to_owned();
    let pair = pair.clone().try_into_ed25519().map_err(|_| wrong())?;
    pair.secret().as_ref().try_into().map_err(|_| wrong())
}

/// Converts a number to a key as in libp2p's test-plans
/// (`gossipsub-interop/test-specs/implementation.md`): little endian.
fn from_seed(seed: u64) -> Result<Keypair, String> {
    let mut secret = [0; 32];
    secret[..8].copy_from_slice(&seed.to_le_bytes());
    Keypair::ed25519_from_bytes(secret).map_err(|error| format!("identity.seed: found {seed}: {error}"))
}

/// Rejects files that others can read: a process that can read the key can impersonate this node.
pub(crate) fn check_mode(path: &Path) -> Result<(), String> {
    let mode = std::fs::metadata(path).map_err(|error| error.to_string())?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(format!("found mode {mode:04o}, which lets others read it; expected 0600 (chmod 600)"))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_is_an_error_before_the_node_starts() {
        let folder = std::env::temp_dir().join(format!("samara-no-folder-{}", std::process::id()));
        let error = Key::from_file(&folder.join("a.key")).err().unwrap();
        assert!(
            error.ends_with(&format!("the folder {} does not exist; create it", folder.display())),
            "{error}"
        );
    }

    #[test]
    fn a_key_is_created_once_and_for_its_owner_only() {
        let path = std::env::temp_dir().join(format!("samara-key-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let first = Key::from_file(&path).unwrap();
        assert!(!path.exists(), "the key is not saved yet");
        first.save().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Key::from_file(&path).unwrap().pair.public(), first.pair.public());
        assert!(first.save().unwrap_err().contains("cannot create the file"), "an existing file is kept");

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = Key::from_file(&path).err().unwrap();
        assert!(error.contains("0644") && error.contains("chmod 600"), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, b"x").unwrap();
        let error = Key::from_file(&path).err().unwrap();
        assert!(error.contains("found no key") && error.contains("samara-key"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn seeds_become_keys() {
        assert_eq!(from_seed(7).unwrap().public(), from_seed(7).unwrap().public());
        assert_ne!(from_seed(7).unwrap().public(), from_seed(8).unwrap().public());
    }
}
