//! Copies of the files that a scenario names, with which its result can be reproduced.

use std::collections::BTreeMap;
use std::path::Path;

use samara_document::PREFIX;
use samara_scenario::{FileNames, Loaded};
use serde::Serialize;

use super::{FileError, create_dir_all, kind, remove, write};

/// The directory of the copies in a result.
pub(crate) const COPIES: &str = "inputs";
/// The file that lists the scenario's files with their digests.
pub(crate) const INPUTS: &str = "inputs.json";
/// Maximum size of all copies of files on disk together. A scenario can read gigabytes, and a study has
/// many results.
const COPIES_BYTES_MAX: usize = 64 << 20;

/// A file that a scenario names.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct InputFile {
    /// The key of the scenario that names it.
    key: &'static str,
    /// The name in the scenario that ran.
    file: String,
    /// SHA-256 of the stored bytes, in hexadecimal digits.
    sha256: String,
    /// The name in the `scenario.toml` of the result: a copy, or the place of a file that is not copied.
    named: String,
}

/// The files of a scenario for the directory of its result, read before anything there is removed: they
/// may be the copies of the result that it replaces.
///
/// Files that would make the copies larger than their maximum stay where they are, and so do files that
/// have changed or disappeared since they were read; the text has their absolute paths. Files in memory
/// have no other place, and are always copied.
pub(crate) struct Stored {
    /// The text of the scenario with the names of the copies.
    pub(crate) text: String,
    files: Vec<InputFile>,
    /// Names and contents.
    copies: BTreeMap<String, Vec<u8>>,
}

impl Stored {
    pub(crate) fn read(loaded: &Loaded) -> Result<Self, String> {
        Self::up_to(COPIES_BYTES_MAX, loaded)
    }

    fn up_to(bytes_max: usize, loaded: &Loaded) -> Result<Self, String> {
        let (mut files, mut copies, mut left) = (Vec::<InputFile>::new(), BTreeMap::new(), bytes_max);
        for (key, file) in loaded.files() {
            // The digest of the content that was read, even if the file has another one by now.
            let sha256 = loaded.inputs.sha256(&file)?;
            let known = files.iter().find(|other| other.file == file);
            let named = match known.map(|other| other.named.clone()) {
                Some(named) => named,
                None => name(loaded, &file, (&mut copies, &mut left)),
            };
            files.push(InputFile { key, file, sha256, named });
        }
        let names: FileNames =
            files.iter().map(|input| ((input.key, input.file.clone()), input.named.clone())).collect();
        let text = loaded.text_with(&names).map_err(|error| error.to_string())?;
        Ok(Self { text, files, copies })
    }

    /// Writes the copies and their list into the directory of a result, in place of older ones.
    pub(crate) fn write(&self, result: &Path) -> Result<(), FileError> {
        let directory = result.join(COPIES);
        if kind(&directory).is_some() {
            remove(&directory)?;
        }
        if self.files.is_empty() {
            return Ok(());
        }
        if !self.copies.is_empty() {
            create_dir_all(&directory)?;
        }
        self.copies.iter().try_for_each(|(name, bytes)| write(&directory.join(name), bytes))?;
        let json = serde_json::to_string_pretty(&self.files).unwrap_or_default();
        write(&result.join(INPUTS), (json + "\n").as_bytes())
    }
}

/// Returns the name of a file in the scenario of the result, and adds its copy.
fn name(loaded: &Loaded, file: &str, (copies, left): (&mut BTreeMap<String, Vec<u8>>, &mut usize)) -> String {
    if file.starts_with(PREFIX) {
        return file.to_owned();
    }
    let inputs = &loaded.inputs;
    let is_in_memory = inputs.in_memory().any(|name| name == file);
    let path = inputs.path().join(file);
    let is_small = || std::fs::metadata(&path).is_ok_and(|data| data.len() <= *left as u64);
    let bytes = if is_in_memory || is_small() { inputs.bytes(file).ok() } else { None };
    let Some(bytes) = bytes else {
        return std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned();
    };
    *left = left.saturating_sub(bytes.len());
    let name = unused(file, |name| copies.contains_key(name));
    copies.insert(name.clone(), bytes);
    format!("{COPIES}/{name}")
}

/// Returns the name of a copy: that of the file without its directory, with a number if it is used. Its
/// end stays, since `.zst` says that a file is compressed.
fn unused(file: &str, is_used: impl Fn(&str) -> bool) -> String {
    let own = file.rsplit('/').find(|part| !part.is_empty()).unwrap_or("file");
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let own: String = own.chars().map(plain).collect();
    let own = if own.starts_with('.') { format!("file{own}") } else { own };
    let numbered = (2..).map(|number| format!("{number}-{own}"));
    std::iter::once(own.clone()).chain(numbered).find(|name| !is_used(name)).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use samara_document::Inputs;
    use samara_scenario::{Overrides, load_source};

    use super::*;
    use crate::toy;

    const TEXT: &str = r#"
[scenario]
name = "with-files"
[toy]
[network]
nodes_file = "a/nodes.csv"
[[run]]
name = "own"
set = { "network.nodes_file" = "b/nodes.csv" }
[[run]]
name = "table"
set."network.latency_file" = { file = "../far.csv", kind = "one-way", unit = "ms" }
[[sweep.axis]]
key = "network.validation_time"
values = ["1 ms"]
"#;
    const NODES: &str = "node,uplink\n0,1 Mbit/s\n1,1 Mbit/s\n";

    fn loaded(inputs: Inputs) -> Loaded {
        toy::loaded(&[]);
        load_source("t.toml", TEXT, inputs, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn in_memory() -> Inputs {
        let other = NODES.replace('1', "2").replace("2,2", "1,2");
        Inputs::directory("d")
            .with("a/nodes.csv", NODES)
            .with("b/nodes.csv", other)
            .with("../far.csv", "0,9\n9,0\n")
    }

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("samara-inputs-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_stored_scenario_reads_the_copies_of_its_files() {
        let (scratch, loaded) = (Scratch::new("copies"), loaded(in_memory()));
        let stored = Stored::read(&loaded).unwrap();
        stored.write(&scratch.0).unwrap();
        let text = stored.text;
        let again = load_source("t.toml", &text, Inputs::directory(&scratch.0), &Overrides::default());
        let again = again.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let digests = |loaded: &Loaded| -> Vec<String> {
            loaded.files().iter().map(|(_, file)| loaded.inputs.sha256(file).unwrap()).collect()
        };
        let sorted = |mut all: Vec<String>| {
            all.sort_unstable();
            all
        };
        assert_eq!(sorted(digests(&again)), sorted(digests(&loaded)));
        for (before, after) in loaded.points.iter().zip(&again.points) {
            let contents = |loaded: &Loaded, point: &samara_scenario::Point| -> Vec<String> {
                point.scenario.own_files().iter().map(|file| loaded.inputs.sha256(file).unwrap()).collect()
            };
            assert_eq!(contents(&loaded, before), contents(&again, after), "{}", before.run);
        }
        assert_eq!(fs::read_dir(scratch.0.join(COPIES)).unwrap().count(), 3);
    }

    #[test]
    fn large_and_changed_files_are_named_by_their_place() {
        let scratch = Scratch::new("places");
        let from = scratch.0.join("from");
        ["a", "b"].iter().for_each(|part| fs::create_dir_all(from.join("d").join(part)).unwrap());
        fs::write(from.join("d/a/nodes.csv"), NODES).unwrap();
        fs::write(from.join("d/b/nodes.csv"), NODES).unwrap();
        fs::write(from.join("far.csv"), "0,9\n9,0\n").unwrap();
        let loaded = loaded(Inputs::directory(from.join("d")));
        let text = Stored::up_to(10, &loaded).unwrap().text;
        let place = from.join("d/a/nodes.csv");
        assert!(text.contains(&format!("nodes_file = \"{}\"", place.display())), "{text}");
        assert!(text.contains("\"inputs/far.csv\""), "{text}");
        // The result of a long run is not lost because a file has changed meanwhile.
        fs::write(&place, "other").unwrap();
        fs::remove_file(from.join("d/b/nodes.csv")).unwrap();
        let stored = Stored::read(&loaded).unwrap();
        assert!(stored.text.contains(&format!("nodes_file = \"{}\"", place.display())), "{}", stored.text);
        stored.write(&scratch.0).unwrap();
        let listed = fs::read_to_string(scratch.0.join(INPUTS)).unwrap();
        assert!(listed.contains(&loaded.inputs.sha256("b/nodes.csv").unwrap()), "{listed}");
    }

    #[test]
    fn copies_have_plain_names_of_their_own() {
        let used = ["nodes.csv", "2-nodes.csv"];
        let name = |file| unused(file, |name| used.contains(&name));
        assert_eq!(name("../x/nodes.csv"), "3-nodes.csv");
        assert_eq!(name("my table.csv.zst"), "my_table.csv.zst");
        assert_eq!(["..", ".hidden", "a/"].map(name), ["file..", "file.hidden", "a"]);
    }
}
