//! The files that a scenario names.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use samara_engine::lock;
use sha2::{Digest, Sha256};

use crate::file;
use crate::text::{control, is_control};

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../data/", $name, ".zst")).as_slice())),*]
    };
}

const FILES: &[(&str, &[u8])] = files!(
    "graphs/barabasi_albert_95_m2_seed42.csv",
    "graphs/barabasi_albert_95_m6_seed42.csv",
    "graphs/barabasi_albert_95_m12_seed42.csv",
    "graphs/barabasi_albert_95_m16_seed42.csv",
    "graphs/barabasi_albert_10000_m6_seed42.csv",
    "graphs/barabasi_albert_95_m2_networkx24.csv",
    "graphs/barabasi_albert_95_m6_networkx24.csv",
    "graphs/barabasi_albert_95_m12_networkx24.csv",
    "graphs/barabasi_albert_95_m16_networkx24.csv",
    "reference/edges_n100.csv",
    "reference/custody_n100.csv",
    "reference/mesh_n100_s1.csv",
    "reference/arrivals_n100_bw20_seq_s1.csv",
    "reference/arrivals_n100_bw20_seq_s2.csv",
    "reference/arrivals_n100_bw20_seq_s3.csv",
    "reference/arrivals_n100_bw20_seq_rr.csv",
    "reference/arrivals_n100_bw20_batch_s1.csv",
    "reference/arrivals_n100_bw20_batch_s2.csv",
    "reference/arrivals_n100_bw20_batch_s3.csv",
    "reference/arrivals_n100_bw20_batch_rr.csv",
    "study/segments_regions.csv",
    "study/segments_latency_ms.csv",
);

/// Prefix of paths in a scenario that name a data file of Samara.
pub const PREFIX: &str = "builtin:";

/// Decompresses a data file of Samara. `name` has no prefix.
fn unpacked(name: &str) -> Result<Vec<u8>, String> {
    let (_, packed) = FILES.iter().find(|(own, _)| *own == name).ok_or_else(|| {
        format!(
            "{PREFIX}{name}: unknown data file; expected one of {}",
            FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        )
    })?;
    unpack(packed).map_err(|error| format!("{PREFIX}{name}: {error}"))
}

/// Decompresses the content of all zstd frames, up to one byte more than the maximum size of files.
fn unpack(mut packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    while !packed.is_empty() && unpacked.len() as u64 <= FILE_BYTES_MAX {
        let frame = match StreamingDecoder::new(&mut packed) {
            Ok(frame) => frame,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                packed = packed.get(length as usize..).ok_or(io::ErrorKind::UnexpectedEof)?;
                continue;
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        let room = FILE_BYTES_MAX + 1 - unpacked.len() as u64;
        let mut frame = frame.take(room);
        frame.read_to_end(&mut unpacked)?;
        // The decoder computes the checksum, but its caller must compare it.
        let decoder = &frame.get_ref().decoder;
        let stated = decoder.get_checksum_from_data();
        if frame.limit() > 0 && stated.is_some() && stated != decoder.get_calculated_checksum() {
            return Err(io::Error::other("the checksum of the compressed content does not match"));
        }
    }
    Ok(unpacked)
}

/// Maximum size of a file in bytes, after decompression. Larger files are probably a mistake.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The files that a scenario names.
///
/// They are in a directory or in memory; files in memory take precedence. Names that start with
/// `builtin:` are data files of Samara. A file must not change while these inputs are in use: a
/// changed file is an error, so that no result mixes two versions. Clones are cheap, and share the
/// content that was read.
///
/// ```
/// use samara_document::Inputs;
///
/// let inputs = Inputs::directory("").with("nodes.csv", "node,uplink\n0,20 Mbit/s\n");
/// assert!(inputs.read("nodes.csv").is_ok_and(|text| text.starts_with("node,uplink")));
/// ```
#[derive(Clone, Default)]
pub struct Inputs(Arc<Shared>);

#[derive(Default)]
struct Shared {
    directory: PathBuf,
    files: BTreeMap<String, Arc<[u8]>>,
    /// The SHA-256 of each file that was read.
    seen: Mutex<BTreeMap<String, [u8; 32]>>,
    /// Values computed from files, by their type and parameters. The points of a scenario share
    /// them.
    made: Mutex<FxHashMap<String, Arc<dyn Any + Send + Sync>>>,
}

impl Inputs {
    /// The files of a directory; the empty path is the working directory.
    pub fn directory(path: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Shared { directory: path.into(), ..Shared::default() }))
    }

    /// Adds a file in memory. A name that ends in `.zst` means compressed bytes, as on disk.
    #[must_use]
    pub fn with(self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let mut files = self.0.files.clone();
        files.insert(name.into(), bytes.into().into());
        Self(Arc::new(Shared { directory: self.0.directory.clone(), files, ..Shared::default() }))
    }

    /// The base of relative paths.
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
    /// The file cannot be read, is not text, is too large, or has changed since it was first read.
    /// The message names it.
    pub fn read(&self, name: &str) -> Result<String, String> {
        let fail = |error: std::io::Error| format!("{name}: {error}");
        let mut bytes = self.bytes(name)?;
        if name.ends_with(".zst") && !name.starts_with(PREFIX) {
            bytes = unpack(&bytes).map_err(fail)?;
            within_bounds(name, bytes.len() as u64)?;
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
    /// As for [`read`](Self::read), or the file has a format that the Python package converts.
    pub(crate) fn table(&self, name: &str) -> Result<String, String> {
        let text = self.read(name)?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        // Names come into pages, figures and terminals.
        if let Some(line) = text.lines().position(|line| line.contains(is_control)) {
            let message = text.lines().nth(line).and_then(control).unwrap_or_default();
            return Err(format!("{name}:{}: {message}", line + 1));
        }
        let is_comment = |line: &&str| line.trim_start().starts_with(['#', '/']);
        let content = text.lines().filter(|line| !is_comment(line)).flat_map(str::split_whitespace);
        let words: Vec<&str> = content.take(64).collect();
        let begins = |pair: [&str; 2]| words.windows(2).any(|words| words == pair);
        let is_foreign = words.first().is_some_and(|word| word.starts_with(['{', '[']))
            || begins(["graph", "["])
            || words.contains(&"graph[")
            || begins(["topology", "E2EGraph"])
            || text.contains("REGION_LIST");
        if is_foreign {
            return Err(format!(
                "{name}: is not CSV, an edge list or GraphML; `python -m samara.data {name}` converts GML, JSON, SimBlock and p2psim"
            ));
        }
        Ok(text)
    }

    /// Returns the stored bytes of a file.
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
            Err(format!("{name}: has changed while in use; start again"))
        }
    }

    /// Returns the SHA-256 of the stored bytes of a file, in hexadecimal digits.
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
        let fail = |error: std::io::Error| match path == Path::new(name) {
            true if error.kind() == std::io::ErrorKind::NotFound => {
                format!(
                    "{name}: {error}; a relative path starts from the folder of the scenario file, here the working directory"
                )
            }
            true => format!("{name}: {error}"),
            false => format!("{name}: {error} (looked for {})", path.display()),
        };
        let file = file::open(&path).map_err(fail)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fail)?;
        within_bounds(name, bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Returns the value computed for this key before, or computes and keeps it.
    pub fn made<T: Any + Send + Sync>(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        // Not under the lock, since computing a value may need other values.
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
    /// Returns true if the names stand for the same files.
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
    Err(format!("{name}: has more than {} MiB, the maximum size of a file", FILE_BYTES_MAX >> 20))
}
