//! Messages between the sender and the receivers of a file.

use bytes::Bytes;
use samara_files::{Control, FileId, Message};

/// A control is read as it is written, and a piece is within its bounds.
pub fn files(bytes: &[u8]) {
    match Message::read(&Bytes::copy_from_slice(bytes)) {
        Ok(Message::Control(control)) => {
            let again = Message::read(&control.write());
            assert_eq!(again, Ok(Message::Control(control)));
        }
        Ok(Message::Piece { offset, data, .. }) => {
            assert!(data.len() as u64 <= samara_files::PIECE_BYTES);
            assert!(offset.checked_add(data.len() as u64).is_some());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub fn files_seeds() -> Vec<Vec<u8>> {
    let file = FileId(7);
    let controls = [
        Control::Offer { file, name: "file.bin".to_owned(), size: 5 },
        Control::Digest { file, digest: "0".repeat(64) },
        Control::Want { file, is_corrupt: false, missing: vec![(0, 3), (4, 5)] },
        Control::Want { file, is_corrupt: true, missing: vec![(0, 5)] },
        Control::Progress { file, bytes: 3 },
        Control::Done { file },
        Control::Failed { file, cause: "why".to_owned() },
        Control::End { file, is_complete: true },
    ];
    let piece = [&[1][..], &7_u64.to_le_bytes(), &3_u64.to_le_bytes(), b"ab"].concat();
    controls.iter().map(|control| control.write().to_vec()).chain([piece]).collect()
}
