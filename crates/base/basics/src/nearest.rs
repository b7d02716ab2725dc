//! The known word nearest to an unknown one.

/// The candidate with the smallest distance to `word` ([`distance_with_swaps`]), if it is near enough to be what was meant.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = match word.len() {
        0..=2 => 1,
        3..=7 => 2,
        8..=64 => 3,
        _ => return None,
    };
    candidates
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= most)
        .map(|candidate| (distance_with_swaps(word.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(distance, candidate)| *distance <= most && *distance < candidate.len())
        // Of several that are as near the first by name: candidates come in any order.
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters must be inserted, removed or replaced to make one text of the other (Levenshtein).
#[must_use]
pub fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    measure(&left, &right, false)
}

/// The same where two neighbours that have changed places count as one change (Damerau-Levenshtein).
#[must_use]
pub fn distance_with_swaps(left: &[u8], right: &[u8]) -> usize {
    measure(left, right, true)
}

fn measure<T: PartialEq>(left: &[T], right: &[T], with_swaps: bool) -> usize {
    let width = right.len() + 1;
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (vec![0; width], (0..width).collect());
    for (row, a) in left.iter().enumerate() {
        let mut current = Vec::with_capacity(width);
        current.push(row + 1);
        for (column, b) in right.iter().enumerate() {
            let at = |line: &[usize], position: usize| line.get(position).copied().unwrap_or(usize::MAX);
            let replace = at(&last, column) + usize::from(a != b);
            let remove = at(&last, column + 1) + 1;
            let insert = at(&current, column) + 1;
            let mut best = replace.min(remove).min(insert);
            let swapped =
                with_swaps && row > 0 && column > 0 && left.get(row - 1) == Some(b) && right.get(column - 1) == Some(a);
            if swapped {
                best = best.min(at(&before, column - 1) + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (left, right, plain, with_swaps) in [
            ("", "", 0, 0),
            ("a", "", 1, 1),
            ("", "abc", 3, 3),
            ("abc", "acb", 2, 1),
            ("info", "inof", 2, 1),
            ("kitten", "sitting", 3, 3),
            ("ca", "abc", 3, 3),
            ("same", "same", 0, 0),
            ("über", "uber", 1, 2),
        ] {
            assert_eq!(distance(left, right), plain, "{left} {right}");
            assert_eq!(distance_with_swaps(left.as_bytes(), right.as_bytes()), with_swaps, "{left} {right}");
        }
    }

    #[test]
    fn far_words_are_not_suggested() {
        let known = ["path", "path_beg", "src"];
        assert_eq!(nearest("pahth", known.into_iter()), Some("path"));
        assert_eq!(nearest("path_bge", known.into_iter()), Some("path_beg"));
        assert_eq!(nearest("completely", known.into_iter()), None);
    }

    #[test]
    fn the_order_of_candidates_does_not_matter() {
        assert_eq!(nearest("is_es", ["is_rs", "is_hs"].into_iter()), Some("is_hs"));
        assert_eq!(nearest("is_es", ["is_hs", "is_rs"].into_iter()), Some("is_hs"));
    }
}
