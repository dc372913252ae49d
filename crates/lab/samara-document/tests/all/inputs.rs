//! Tests of scenario files: in a directory, in memory, and compressed.

use std::sync::Arc;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use samara_document::Inputs;

#[test]
fn files_in_memory_take_precedence() {
    let inputs = Inputs::directory("nowhere").with("a.csv", "x").with("a.csv", "y").with("b.csv", "z");
    assert_eq!(inputs.read("a.csv"), Ok("y".to_owned()));
    let error = inputs.read("c.csv").expect_err("a missing file");
    assert!(error.starts_with("c.csv: ") && error.contains("nowhere/c.csv"), "{error}");
    assert_eq!(inputs.in_memory().collect::<Vec<_>>(), ["a.csv", "b.csv"]);
    assert_eq!(inputs.with("a.csv", "new").read("a.csv"), Ok("new".to_owned()));
}

#[test]
fn decompresses_files_and_rejects_binary_content() {
    let pack = |text: &str| compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
    // A frame that decoders skip: its magic number, its length and its content.
    let skipped = [&0x184d_2a50u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"abc"].concat();
    let packed = [pack("te"), skipped, pack("xt")].concat();
    let inputs = Inputs::default().with("a.csv.zst", packed.clone()).with("b.csv", b"a\nb\xff".to_vec());
    assert_eq!(inputs.read("a.csv.zst"), Ok("text".to_owned()));
    assert_eq!(inputs.bytes("a.csv.zst"), Ok(packed.clone()));
    let cut = Inputs::default().with("a.csv.zst", packed[..packed.len() - 1].to_vec());
    assert!(cut.read("a.csv.zst").is_err_and(|error| error.starts_with("a.csv.zst: ")));
    let mut altered = pack("a,b\n1,2\n");
    let last = altered.len() - 1;
    altered[last] ^= 1;
    let error = Inputs::default().with("a.csv.zst", altered).read("a.csv.zst").expect_err("a checksum error");
    assert_eq!(error, "a.csv.zst: the checksum of the compressed content does not match");
    assert_eq!(inputs.read("b.csv"), Err("b.csv:2: is not UTF-8 text".to_owned()));
}

#[test]
fn changed_file_is_an_error() {
    let directory = std::env::temp_dir().join(format!("samara-inputs-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory.join("a"), "1").expect("a file");
    let inputs = Inputs::directory(&directory);
    assert_eq!(inputs.read("a"), Ok("1".to_owned()));
    let digest = inputs.sha256("a").expect("was read");
    assert_eq!(&digest[..8], "6b86b273");
    std::fs::write(directory.join("a"), "2").expect("a file");
    assert_eq!(inputs.read("a"), Err("a: has changed while in use; start again".to_owned()));
    assert_eq!(Inputs::directory(&directory).read("a"), Ok("2".to_owned()));
    std::fs::remove_dir_all(&directory).expect("the directory");
}

#[test]
fn values_are_computed_once() {
    let inputs = Inputs::default();
    let first = inputs.made("key", || Ok(7_u32)).expect("made");
    assert!(Arc::ptr_eq(&first, &inputs.made("key", || Ok(8_u32)).expect("made")));
    assert_eq!(inputs.made("other", || Err::<u32, _>("no".to_owned())), Err("no".to_owned()));
}
