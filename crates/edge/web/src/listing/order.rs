//! Names as people order them: `file2` before `file10`, small and large letters together.

use std::cmp::Ordering;

/// Compares two names; numbers within them by their value.
pub fn natural(left: &[u8], right: &[u8]) -> Ordering {
    let (mut one, mut other) = (left, right);
    loop {
        let (Some((a, rest_one)), Some((b, rest_other))) = (one.split_first(), other.split_first()) else {
            // Names that differ in letters' case alone, or in zeros before numbers, keep an order all the same.
            return one.len().cmp(&other.len()).then_with(|| left.cmp(right));
        };
        if a.is_ascii_digit() && b.is_ascii_digit() {
            let (number, behind) = number(one);
            let (other_number, other_behind) = self::number(other);
            let compared = number.len().cmp(&other_number.len()).then_with(|| number.cmp(other_number));
            if compared != Ordering::Equal {
                return compared;
            }
            (one, other) = (behind, other_behind);
            continue;
        }
        let compared = a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase());
        if compared != Ordering::Equal {
            return compared;
        }
        (one, other) = (rest_one, rest_other);
    }
}

/// The digits that a text begins with, without zeros before them, and what is behind.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end).unwrap_or((text, b""));
    let zeros = digits.iter().position(|byte| *byte != b'0').unwrap_or(digits.len());
    (digits.get(zeros..).unwrap_or_default(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_order() {
        let names = [
            "",
            "1",
            "02",
            "2",
            "10",
            "99999999999999999999999",
            "100000000000000000000000",
            "a",
            "A1",
            "a01",
            "a1b",
            "a2",
            "a10",
            "B",
            "b.c",
            "b1",
            "é",
        ];
        for (place, name) in names.iter().enumerate() {
            for (other_place, other) in names.iter().enumerate() {
                let compared = natural(name.as_bytes(), other.as_bytes());
                assert_eq!(compared, natural(other.as_bytes(), name.as_bytes()).reverse(), "{name} {other}");
                assert_eq!(compared, place.cmp(&other_place), "{name} {other}");
            }
        }
    }
}
