//! Percent-encoding (RFC 3986 section 2.1) and the parameters of queries and forms.

use basics::hex;
/// Appends `byte` as `%XX`.
pub fn push_encoded(byte: u8, out: &mut Vec<u8>) {
    let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'A' + nibble - 10 };
    out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
}

/// How `+` is read when decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plus {
    /// It stands for itself, as in a path.
    Literal,
    /// It stands for a space, as in a form.
    Space,
    /// It stands for itself up to the first question mark and for a space after it, as in a whole target.
    SpaceInQuery,
}

/// Appends `bytes` decoded. None, with `out` as it was, when a `%` is not followed by two hexadecimal digits.
#[must_use]
pub fn percent_decode(bytes: &[u8], plus: Plus, out: &mut Vec<u8>) -> Option<()> {
    let before = out.len();
    let mut plus_is_space = plus == Plus::Space;
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'+' if plus_is_space => out.push(b' '),
            b'%' => {
                let decoded = match after {
                    [high, low, after @ ..] => hex::value(*high).zip(hex::value(*low)).map(|digits| (digits, after)),
                    _ => None,
                };
                let Some(((high, low), after)) = decoded else {
                    out.truncate(before);
                    return None;
                };
                out.push(high << 4 | low);
                rest = after;
            }
            byte => {
                plus_is_space |= *byte == b'?' && plus == Plus::SpaceInQuery;
                out.push(*byte);
            }
        }
    }
    Some(())
}

/// Name and value of each parameter of a query or form, as they stand there: parted by `&` or `;`, the value empty
/// without `=`. Empty parameters are left out.
pub fn query_parameters(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    query.split(|byte| matches!(byte, b'&' | b';')).filter(|parameter| !parameter.is_empty()).map(|parameter| {
        match parameter.iter().position(|byte| *byte == b'=').and_then(|at| parameter.split_at_checked(at)) {
            Some((name, value)) => (name, value.get(1..).unwrap_or_default()),
            None => (parameter, &[][..]),
        }
    })
}

#[cfg(test)]
mod tests;
