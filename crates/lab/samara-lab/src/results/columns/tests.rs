//! Tests of reading and writing Parquet files.

use super::{Rows, column};

#[test]
fn all_types_survive_a_round_trip_with_gaps() {
    let directory = std::env::temp_dir().join(format!("samara-columns-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("table.parquet");
    let all = 0..3000;
    let gaps = |row: &u64| (row % 3 != 1).then_some(*row);
    let rows = Rows::new([
        ("u16", column(all.clone().map(|row| row as u16 + 60_000))),
        ("u32", column(all.clone().map(|row| u32::MAX - row as u32))),
        ("u64", column(all.clone().map(|row| u64::MAX - row))),
        ("i64", column(all.clone().map(|row| i64::MIN + row as i64))),
        ("f64", column(all.clone().map(|row| row as f64 / 3.0))),
        ("bool", column(all.clone().map(|row| row % 2 == 0))),
        ("text", column(all.clone().map(|row| format!("row {row}")))),
        ("gaps", column(all.clone().map(|row| gaps(&row)))),
        ("words", column(all.clone().map(|row| gaps(&row).map(|_| "there")))),
        ("nothing", column(all.map(|_| None::<f64>))),
    ]);
    rows.write(std::fs::File::create(&path).unwrap()).unwrap();
    let names: Vec<&str> = rows.columns.iter().map(|(name, _)| name.as_str()).collect();
    let mut read = Vec::new();
    Rows::read(&path, &names, |group| {
        read.push(group.clone());
        Some(())
    })
    .unwrap();
    assert_eq!(read, [rows]);

    let error = |columns: &[&str]| Rows::read(&path, columns, |rows| rows.cells::<f64>("u32").map(drop));
    assert!(error(&["u32"]).unwrap_err().contains("a column has an unexpected type"));
    assert!(error(&["u8"]).unwrap_err().contains("there is no column u8"));
    let bytes = std::fs::read(&path).unwrap();
    for cut in [0, 4, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        assert!(error(&["u32"]).unwrap_err().contains("table.parquet"));
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
