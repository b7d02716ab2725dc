//! Lists inside field values: comma-separated elements, cookies.

use crate::bytes::trim;

/// The elements of a comma-separated value, without blanks around them; empty ones are left out (RFC 9110 section 5.6.1).
/// A comma inside a quoted string parts nothing.
pub fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    Pieces { rest: Some(value), ends: |byte| byte == b',' }.map(trim).filter(|element| !element.is_empty())
}

/// Name and value of each cookie in the value of a Cookie field, in order. As HAProxy reads them: parted by `;` or `,`
/// outside quoted strings, blanks around name and value dropped, those without `=` left out, and so are the attributes
/// of old that begin with `$`.
pub fn cookies(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    Pieces { rest: Some(value), ends: |byte| matches!(byte, b';' | b',') }
        .filter_map(name_and_value)
        .filter(|(name, _)| !name.starts_with(b"$"))
}

/// Name and value of the cookie that a Set-Cookie value sets, and the attributes after it.
#[must_use]
pub fn set_cookie(value: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    let (pair, attributes) = value.split_at_checked(end)?;
    let (name, value) = name_and_value(pair)?;
    Some((name, value, attributes))
}

fn name_and_value(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    let (name, value) = pair.split_at_checked(equals)?;
    Some((trim(name), trim(value.get(1..)?)))
}

/// Parts a value at the bytes for which `ends` holds, except inside quoted strings.
struct Pieces<'a> {
    rest: Option<&'a [u8]>,
    ends: fn(u8) -> bool,
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
                byte => return !quoted && (self.ends)(*byte),
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
mod tests;
