use super::*;

fn table(text: &str) -> Result<Arc<MessageTable>, String> {
    let find = |name: &str| name.parse().map_err(|_| format!("no host {name}"));
    MessageTable::read("m.csv", &Inputs::default().with("m.csv", text), ("numbers", find), (4, 1_000))
}

#[test]
fn messages_are_sorted_by_time_then_row() {
    let read = table("at_s,publisher,size\n2,1,4 B\n0.5,7,5 B\n2,0,6 B\n").expect("a valid table");
    assert_eq!(read.at, [500_000_000, 2_000_000_000, 2_000_000_000]);
    assert_eq!(read.publishers, Some(vec![7, 1, 0]));
    assert_eq!(read.sizes, Some(vec![5, 4, 6]));
    let bare = table("at\n0 ms\n").expect("a valid table");
    assert_eq!((bare.publishers.as_ref(), bare.sizes.as_ref()), (None, None));
}

#[test]
fn errors_name_the_line() {
    let error = |text: &str| table(text).expect_err("an error");
    assert_eq!(error("at_ms,publisher\n1,x\n"), "m.csv:2: no host x");
    assert_eq!(error("at_ms,size\n\n1,3 B\n"), "m.csv:3: size is 3 B; allowed is 4 to 1000");
    assert_eq!(
        error("publisher\n1\n"),
        "m.csv:1: the column at is missing; expected a header with at, publisher (optional), size (optional)"
    );
}
