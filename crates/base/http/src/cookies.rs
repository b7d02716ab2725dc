//! Cookies in the values of Cookie and Set-Cookie fields, taken apart as HAProxy does it.
//!
//! Pieces end at a `;` or `,` outside of a quoted value. In Set-Cookie fields a `,` does not end a name, since dates among
//! the attributes have one.

use memchr::{memchr2, memchr3};

use crate::bytes::trim;

/// What stands between two delimiters of a Cookie field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookiePiece<'a> {
    /// The name without blanks around it; all there is, where there is no `=`.
    pub name: &'a [u8],
    /// What stands behind the `=`, without blanks around it.
    pub value: Option<&'a [u8]>,
    /// Where it begins: behind the delimiter before it.
    pub start: usize,
    /// Where it ends: at the delimiter behind it, or at the end of the field.
    pub end: usize,
}

impl<'a> CookiePiece<'a> {
    /// Whether it is an attribute of the cookie before it, as in `$Path=/` (RFC 2965).
    #[must_use]
    pub fn is_attribute(&self) -> bool {
        self.name.starts_with(b"$")
    }

    /// Name and value, if it is a cookie: pieces without `=` and attributes are none.
    #[must_use]
    pub fn cookie(&self) -> Option<(&'a [u8], &'a [u8])> {
        let value = self.value.filter(|_| !self.is_attribute())?;
        Some((self.name, value))
    }
}

/// The pieces of a field, in order.
#[derive(Clone, Debug)]
pub struct CookiePieces<'a> {
    field: &'a [u8],
    next: Option<usize>,
    comma_ends_name: bool,
}

/// The pieces of a Cookie field's value from `start` on: 0, or behind the end of an earlier piece.
#[must_use]
pub fn cookie_pieces(field: &[u8], start: usize) -> CookiePieces<'_> {
    CookiePieces { field, next: Some(start), comma_ends_name: true }
}

/// The pieces of a Set-Cookie field's value: the cookie, then its attributes.
#[must_use]
pub fn set_cookie_pieces(field: &[u8]) -> CookiePieces<'_> {
    CookiePieces { field, next: Some(0), comma_ends_name: false }
}

/// Name and value of each cookie in the value of a Cookie field, in order.
pub fn cookies(field: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    cookie_pieces(field, 0).filter_map(|piece| piece.cookie())
}

/// Name and value of the cookie that a Set-Cookie value sets, and what stands after it.
#[must_use]
pub fn set_cookie(field: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let piece = set_cookie_pieces(field).next()?;
    Some((piece.name, piece.value?, field.get(piece.end..)?))
}

impl<'a> Iterator for CookiePieces<'a> {
    type Item = CookiePiece<'a>;

    fn next(&mut self) -> Option<CookiePiece<'a>> {
        let start = self.next.take()?;
        let rest = self.field.get(start..)?;
        let name_end = if self.comma_ends_name { memchr3(b'=', b';', b',', rest) } else { memchr2(b'=', b';', rest) };
        let name_end = name_end.unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(name_end)?;
        let value = after.strip_prefix(b"=").map(|value| value.get(..value_end(value)).unwrap_or_default());
        let end = start + name_end + value.map_or(0, |value| 1 + value.len());
        if end < self.field.len() {
            self.next = Some(end + 1);
        }
        Some(CookiePiece { name: trim(name), value: value.map(trim), start, end })
    }
}

/// Where a value ends: at the next comma or semicolon outside of quotes.
fn value_end(value: &[u8]) -> usize {
    let Some(first) = memchr3(b',', b';', b'"', value) else { return value.len() };
    let (mut quoted, mut escaped) = (false, false);
    for (position, byte) in value.iter().enumerate().skip(first) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b';' if !quoted => return position,
            _ => {}
        }
    }
    value.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cookies() {
        let check = |value: &str, expected: &[(&str, &str)]| {
            let found: Vec<_> = cookies(value.as_bytes()).collect();
            let expected: Vec<_> = expected.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            assert_eq!(found, expected, "{value}");
        };
        check("", &[]);
        check("a=b", &[("a", "b")]);
        check("a=b; c=d;e=f, g=h", &[("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")]);
        check(" a = b ; c = ", &[("a", "b"), ("c", "")]);
        check("a=b=c", &[("a", "b=c")]);
        check("noequals; a=b", &[("a", "b")]);
        check("$Version=1; a=b; $Path=/", &[("a", "b")]);
        check("a=\"b;c\"; d=e", &[("a", "\"b;c\""), ("d", "e")]);
        check("a=\"b\\\";c\"; d=e", &[("a", "\"b\\\";c\""), ("d", "e")]);
        check("a=\"open; d=e", &[("a", "\"open; d=e")]);
        // A quotation mark in a name quotes nothing.
        check("\"a;b\"=c", &[("b\"", "c")]);
    }

    #[test]
    fn pieces_join_to_the_field() {
        for field in ["", ";", "a", "a=b;", ";a=b", "a=b; c , $d=\"e;\" ;;f", "=", "a==;=\"", "\"", "a=\"\\"] {
            let pieces: Vec<_> = cookie_pieces(field.as_bytes(), 0).collect();
            let texts: Vec<_> = pieces.iter().map(|piece| &field[piece.start..piece.end]).collect();
            let mut joined = texts[0].to_owned();
            for (before, text) in pieces.iter().zip(&texts[1..]) {
                joined.push_str(&field[before.end..=before.end]);
                joined.push_str(text);
            }
            assert_eq!(joined, field);
            for (index, piece) in pieces.iter().enumerate() {
                let rest: Vec<_> = cookie_pieces(field.as_bytes(), piece.start).collect();
                assert_eq!(rest, pieces[index..], "{field} from {}", piece.start);
            }
        }
    }

    #[test]
    fn parts_set_cookie() {
        let check = |value: &str, expected: Option<(&str, &str, &str)>| {
            let expected = expected.map(|(name, value, rest)| (name.as_bytes(), value.as_bytes(), rest.as_bytes()));
            assert_eq!(set_cookie(value.as_bytes()), expected, "{value}");
        };
        check("a=b", Some(("a", "b", "")));
        check("a=b; Path=/; Secure", Some(("a", "b", "; Path=/; Secure")));
        check("a = b,c ;", Some(("a", "b", ",c ;")));
        check(
            "a,b=c; Expires=Thu, 01-Jan-1970 00:00:01 GMT",
            Some(("a,b", "c", "; Expires=Thu, 01-Jan-1970 00:00:01 GMT")),
        );
        check("a", None);
        check("; a=b", None);
    }
}
