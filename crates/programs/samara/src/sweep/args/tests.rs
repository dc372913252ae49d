use super::*;

#[test]
fn parses_seeds_from_number_range_or_list() {
    let of = |text: &str| seeds(text).map(|seeds| seeds.0);
    assert_eq!(of("3"), Ok(vec![1, 2, 3]));
    assert_eq!(of("5..7"), Ok(vec![5, 6, 7]));
    assert_eq!(of("5..=6"), Ok(vec![5, 6]));
    assert_eq!(of("9,1, 4"), Ok(vec![9, 1, 4]));
    for wrong in ["0", "x", "", "7..5", "1..2,3", "-1", "1..999999999"] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}
