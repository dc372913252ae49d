//! Two binary trees over the places 1 to `others`, fed by the origin at place 0.
//!
//! The first tree is the in-order one of NCCL (`ncclGetBtree` in `src/graph/trees.cc`): a place is as high in it as its
//! number has trailing zeros, so that odd places are leaves. The second one is the first one with all places moved by one, so
//! that even places are leaves.

use smallvec::SmallVec;

/// The children of a place in the first or the second tree. Place 0 has one child, the root.
pub(super) fn children(others: usize, place: usize, second: bool) -> impl Iterator<Item = usize> {
    let places: SmallVec<[usize; 2]> = match (others, place) {
        (0, _) => SmallVec::new(),
        (_, 0) => SmallVec::from_iter([1 << others.ilog2()]),
        _ => below(others, if second { place % others + 1 } else { place }),
    };
    let moved =
        move |label: usize| if !second || label == 0 { label } else { (label + others - 2) % others + 1 };
    places.into_iter().map(moved)
}

fn below(others: usize, label: usize) -> SmallVec<[usize; 2]> {
    let height = label & label.wrapping_neg();
    let mut found = SmallVec::new();
    let mut step = height / 2;
    if step > 0 {
        found.push(label - step);
    }
    // To the right, the tree may be cut off: the next lower place that exists takes over.
    while step > 0 && label + step > others {
        step /= 2;
    }
    if step > 0 {
        found.push(label + step);
    }
    found
}

/// The most links from the origin to a place.
pub(super) fn depth(others: usize) -> usize {
    if others == 0 { 0 } else { others.ilog2() as usize + 1 }
}
