//! Lists inside field values: comma-separated elements.

use crate::bytes::trim;

/// The elements of a comma-separated value, without blanks around them; empty ones are left out (RFC 9110 section 5.6.1).
/// A comma inside a quoted string parts nothing.
pub fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    Pieces { rest: Some(value) }.map(trim).filter(|element| !element.is_empty())
}

/// Parts a value at commas, except inside quoted strings.
struct Pieces<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let mut quoted = false;
        let mut escaped = false;
        let end = rest.iter().position(|byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                byte => return !quoted && *byte == b',',
            }
            false
        });
        match end.and_then(|end| rest.split_at_checked(end)) {
            Some((piece, after)) => {
                self.rest = after.get(1..);
                Some(piece)
            }
            None => {
                self.rest = None;
                Some(rest)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::elements;

    #[test]
    fn parts_lists() {
        let check = |value: &str, expected: &[&str]| {
            let found: Vec<_> = elements(value.as_bytes()).map(String::from_utf8_lossy).collect();
            assert_eq!(found, expected, "{value}");
        };
        check("", &[]);
        check(" , ,", &[]);
        check("a", &["a"]);
        check(" a ,b\t,, c", &["a", "b", "c"]);
        check("\"a, b\", c", &["\"a, b\"", "c"]);
        check("\"a\\\", b\", c", &["\"a\\\", b\"", "c"]);
        check("\\\"a, b\", c", &["\\\"a, b\"", "c"]);
        check("\"open, b", &["\"open, b"]);
        check("a b, c;q=0.5", &["a b", "c;q=0.5"]);
    }
}
