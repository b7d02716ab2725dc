//! Numbers of things, as people say them.

/// So many of something: `1 key`, `2 keys`.
#[must_use]
pub fn many(count: impl TryInto<u64>, one: &str, more: &str) -> String {
    // What is larger is several, too.
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {}", if count == 1 { one } else { more })
}

/// The place in a row: `1st`, `2nd`, `3rd`, `11th`.
#[must_use]
pub fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_others_are_several() {
        assert_eq!((many(0_u64, "key", "keys"), many(1_usize, "key", "keys")), ("0 keys".into(), "1 key".into()));
        assert_eq!(many(12_u32, "library", "libraries"), "12 libraries");
    }

    #[test]
    fn places_in_a_row_have_their_endings() {
        let found: Vec<String> = [1, 2, 3, 4, 10, 11, 12, 13, 21, 22, 101, 111, 112, 123].map(ordinal).into();
        let expected = "1st 2nd 3rd 4th 10th 11th 12th 13th 21st 22nd 101st 111th 112th 123rd";
        assert_eq!(found.join(" "), expected);
    }
}
