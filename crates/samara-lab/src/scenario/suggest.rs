//! "Did you mean ...?"

/// The candidate that is most like what was written, if one is like it at all: up to a third of its letters differ, or one
/// of them begins with the other.
pub(crate) fn closest<'a>(written: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let folded = fold(written);
    let scored = candidates.iter().filter_map(|candidate| {
        let other = fold(candidate);
        let distance = edit_distance(&folded, &other);
        let length = folded.len().max(other.len());
        let near = distance <= (length / 3).max(1);
        let prefix = folded.len() >= 3 && (other.starts_with(&folded[..]) || folded.starts_with(&other[..]));
        (near || prefix).then_some((distance, *candidate))
    });
    scored.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

fn fold(text: &str) -> Vec<char> {
    text.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Levenshtein distance in which two neighbouring letters that changed places count once (optimal string alignment).
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut rows: [Vec<usize>; 3] = [Vec::new(), (0..=b.len()).collect(), Vec::new()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[1][j] + 1).min(row[j - 1] + 1).min(rows[1][j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[0][j - 2] + 1);
            }
            row.push(best);
        }
        rows[2] = row;
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}
