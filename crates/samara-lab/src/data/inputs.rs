//! Where the files come from that a scenario names.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use super::{PREFIX, unpacked};

/// A file of more bytes (after decompression) is taken for a mistake.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Where the files come from that a scenario names: a directory, and files in memory, which are looked for first. Names that start with
/// `builtin:` are data files of Samara. A file has to stay as it is while these inputs are in use: one that was changed meanwhile is an
/// error, never half of a result. Clones are cheap, and share what was read.
///
/// ```
/// use samara_lab::data::Inputs;
///
/// let inputs = Inputs::directory("").with("hosts.csv", "host,uplink\n0,20 Mbit/s\n");
/// assert!(inputs.read("hosts.csv").is_ok_and(|text| text.starts_with("host,uplink")));
/// ```
#[derive(Clone, Default)]
pub struct Inputs(Arc<Shared>);

#[derive(Default)]
struct Shared {
    directory: PathBuf,
    files: BTreeMap<String, Arc<[u8]>>,
    /// The SHA-256 of each file that was read.
    seen: Mutex<BTreeMap<String, [u8; 32]>>,
    /// What was made of files, by what made it and its parameters: the points of a scenario share it.
    made: Mutex<FxHashMap<String, Arc<dyn Any + Send + Sync>>>,
}

impl Inputs {
    /// The files of a directory; the empty path is the working directory.
    pub fn directory(path: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Shared { directory: path.into(), ..Shared::default() }))
    }

    /// The same, and a file in memory. A name that ends in `.zst` means compressed bytes, as on disk.
    #[must_use]
    pub fn with(self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let mut files = self.0.files.clone();
        files.insert(name.into(), bytes.into().into());
        Self(Arc::new(Shared { directory: self.0.directory.clone(), files, ..Shared::default() }))
    }

    /// Where relative paths start.
    pub fn path(&self) -> &Path {
        &self.0.directory
    }

    /// The names of the files in memory.
    pub fn in_memory(&self) -> impl Iterator<Item = &str> {
        self.0.files.keys().map(String::as_str)
    }

    /// Reads a text file, decompressed if its name ends in `.zst`.
    ///
    /// # Errors
    /// It cannot be read, is no text or too large, or was changed since it was read first; the message names it.
    pub fn read(&self, name: &str) -> Result<String, String> {
        let fail = |error: std::io::Error| format!("{name}: {error}");
        let mut bytes = self.bytes(name)?;
        if name.ends_with(".zst") && !name.starts_with(PREFIX) {
            let mut unpacked = Vec::new();
            let decoder = zstd::Decoder::new(bytes.as_slice()).map_err(fail)?;
            decoder.take(FILE_BYTES_MAX + 1).read_to_end(&mut unpacked).map_err(fail)?;
            within_bounds(name, unpacked.len() as u64)?;
            bytes = unpacked;
        }
        String::from_utf8(bytes).map_err(|error| {
            let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            format!("{name}:{line}: is not UTF-8 text")
        })
    }

    /// Reads a table, a list or a graph, without a byte order mark.
    ///
    /// # Errors
    /// As of [`read`](Self::read); or it has a format that the Python package converts.
    pub(super) fn table(&self, name: &str) -> Result<String, String> {
        let text = self.read(name)?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        let words: Vec<&str> = text.split_whitespace().take(16).collect();
        let begins = |pair: [&str; 2]| words.windows(2).any(|words| words == pair);
        let is_foreign = words.first().is_some_and(|word| word.starts_with(['{', '[']))
            || begins(["graph", "["])
            || begins(["topology", "E2EGraph"])
            || text.contains("REGION_LIST");
        if is_foreign {
            return Err(format!(
                "{name}: is no CSV, edge list or GraphML; `python -m samara.data {name}` converts GML, JSON, SimBlock and p2psim"
            ));
        }
        Ok(text)
    }

    /// The bytes of a file as they are stored.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, String> {
        let bytes = if let Some(data) = name.strip_prefix(PREFIX) {
            unpacked(data)?
        } else if let Some(bytes) = self.0.files.get(name) {
            bytes.to_vec()
        } else {
            self.stored(name)?
        };
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        let first = *lock(&self.0.seen).entry(name.to_owned()).or_insert(digest);
        if first == digest {
            Ok(bytes)
        } else {
            Err(format!("{name}: was changed while it was in use; start again"))
        }
    }

    /// The SHA-256 of a file as it is stored, in hexadecimal digits.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    pub fn sha256(&self, name: &str) -> Result<String, String> {
        let known = lock(&self.0.seen).get(name).copied();
        let digest = match known {
            Some(digest) => digest,
            None => Sha256::digest(self.bytes(name)?).into(),
        };
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn stored(&self, name: &str) -> Result<Vec<u8>, String> {
        let path = self.0.directory.join(name);
        let fail = |error: std::io::Error| format!("{name}: {error} (looked for {})", path.display());
        let file = std::fs::File::open(&path).map_err(fail)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fail)?;
        within_bounds(name, bytes.len() as u64)?;
        Ok(bytes)
    }

    /// What was made with this key before, or what is made now and kept.
    pub(crate) fn made<T: Any + Send + Sync>(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        // Not under the lock: what is made may be made of what else is made.
        let known = lock(&self.0.made).get(key).cloned();
        if let Some(known) = known.and_then(|known| known.downcast().ok()) {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        lock(&self.0.made).insert(key.to_owned(), Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
        Ok(made)
    }
}

impl PartialEq for Inputs {
    /// Whether the files are the same that names stand for.
    fn eq(&self, other: &Self) -> bool {
        self.0.directory == other.0.directory && self.0.files == other.0.files
    }
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.in_memory().collect();
        f.debug_struct("Inputs").field("directory", &self.0.directory).field("in_memory", &names).finish()
    }
}

fn within_bounds(name: &str, bytes: u64) -> Result<(), String> {
    if bytes <= FILE_BYTES_MAX {
        return Ok(());
    }
    Err(format!("{name}: has more than {} MiB; larger files are not read", FILE_BYTES_MAX >> 20))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind it is never half written.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_memory_come_first() {
        let inputs = Inputs::directory("nowhere").with("a.csv", "x").with("a.csv", "y").with("b.csv", "z");
        assert_eq!(inputs.read("a.csv"), Ok("y".to_owned()));
        let error = inputs.read("c.csv").expect_err("there is none");
        assert!(error.starts_with("c.csv: ") && error.contains("nowhere/c.csv"), "{error}");
        assert_eq!(inputs.in_memory().collect::<Vec<_>>(), ["a.csv", "b.csv"]);
        assert_eq!(inputs.with("a.csv", "new").read("a.csv"), Ok("new".to_owned()));
    }

    #[test]
    fn compressed_files_are_unpacked_and_what_is_no_text_is_refused() {
        let packed = zstd::encode_all(b"text".as_slice(), 0).expect("packs");
        let inputs = Inputs::default().with("a.csv.zst", packed.clone()).with("b.csv", b"a\nb\xff".to_vec());
        assert_eq!(inputs.read("a.csv.zst"), Ok("text".to_owned()));
        assert_eq!(inputs.bytes("a.csv.zst"), Ok(packed));
        assert_eq!(inputs.read("b.csv"), Err("b.csv:2: is not UTF-8 text".to_owned()));
    }

    #[test]
    fn a_file_that_changes_is_an_error() {
        let directory = std::env::temp_dir().join(format!("samara-inputs-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join("a"), "1").expect("a file");
        let inputs = Inputs::directory(&directory);
        assert_eq!(inputs.read("a"), Ok("1".to_owned()));
        let digest = inputs.sha256("a").expect("was read");
        assert_eq!(&digest[..8], "6b86b273");
        std::fs::write(directory.join("a"), "2").expect("a file");
        assert_eq!(inputs.read("a"), Err("a: was changed while it was in use; start again".to_owned()));
        assert_eq!(Inputs::directory(&directory).read("a"), Ok("2".to_owned()));
        std::fs::remove_dir_all(&directory).expect("is there");
    }

    #[test]
    fn things_are_made_once() {
        let inputs = Inputs::default();
        let first = inputs.made("key", || Ok(7_u32)).expect("made");
        assert!(Arc::ptr_eq(&first, &inputs.made("key", || Ok(8_u32)).expect("made")));
        assert_eq!(inputs.made("other", || Err::<u32, _>("no".to_owned())), Err("no".to_owned()));
    }
}
