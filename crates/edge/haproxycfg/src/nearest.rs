//! The known word nearest to an unknown one.

/// Longest word that is compared; longer ones are nobody's misspelling.
const WORD_LEN_MAX: usize = 64;

/// The known word at the smallest Damerau-Levenshtein distance, if that is at most a third of the word's length (and at
/// least 1, at most 4). Of equals the first is taken.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > WORD_LEN_MAX {
        return None;
    }
    let word: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
    let distance_max = (word.len() / 3).clamp(1, 4);
    let mut best = None;
    for candidate in known {
        let length = candidate.chars().count();
        if length.abs_diff(word.len()) > distance_max {
            continue;
        }
        let distance = distance(&word, &candidate.chars().collect::<Vec<_>>());
        if distance <= distance_max && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, replacements and swaps of neighbours.
fn distance(left: &[char], right: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    let mut left_before = None;
    for (row, &left_char) in left.iter().enumerate() {
        let mut current = Vec::with_capacity(right.len() + 1);
        current.push(row + 1);
        let mut right_before = None;
        for (column, &right_char) in right.iter().enumerate() {
            let cost = usize::from(left_char != right_char);
            let at = |cells: &[usize], index: usize| cells.get(index).copied().unwrap_or(usize::MAX - 1);
            let mut best = at(&last, column + 1) + 1;
            best = best.min(at(&current, column) + 1);
            best = best.min(at(&last, column) + cost);
            if column > 0 && left_before == Some(right_char) && right_before == Some(left_char) {
                best = best.min(at(&before_last, column - 1) + 1);
            }
            current.push(best);
            right_before = Some(right_char);
        }
        before_last = std::mem::replace(&mut last, current);
        left_before = Some(left_char);
    }
    last.last().copied().unwrap_or(left.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swaps_count_once() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        assert_eq!(distance(&chars("maxcnon"), &chars("maxconn")), 1);
        assert_eq!(distance(&chars(""), &chars("abc")), 3);
        assert_eq!(distance(&chars("kitten"), &chars("sitting")), 3);
    }

    #[test]
    fn far_words_are_not_suggested() {
        let known = ["maxconn", "mode", "bind"];
        assert_eq!(nearest("maxcon", known), Some("maxconn"));
        assert_eq!(nearest("mdoe", known), Some("mode"));
        assert_eq!(nearest("frobnicate", known), None);
        assert_eq!(nearest("", known), None);
    }
}
