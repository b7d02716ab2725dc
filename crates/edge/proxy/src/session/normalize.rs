//! `http-request normalize-uri`: one spelling for each resource.

use haproxycfg::model::NormalizeUri;

/// The path and query after one normalizer; `None` if it does not apply or, under `strict`, if a percent sign is not
/// followed by two hexadecimal digits.
#[must_use]
pub fn normalize(target: &[u8], how: NormalizeUri) -> Option<Vec<u8>> {
    let at = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at_checked(at)?;
    let with_query = |path: Vec<u8>| Some([path, query.to_vec()].concat());
    match how {
        NormalizeUri::FragmentStrip => {
            let end = target.iter().position(|byte| *byte == b'#')?;
            target.get(..end).map(<[u8]>::to_vec)
        }
        NormalizeUri::FragmentEncode => Some(replace_all(target, b'#', b"%23")),
        NormalizeUri::PathMergeSlashes => {
            let mut out = path.to_vec();
            out.dedup_by(|next, before| *next == b'/' && *before == b'/');
            with_query(out)
        }
        NormalizeUri::PathStripDot => with_query(strip_dots(path)),
        NormalizeUri::PathStripDotdot { full } => with_query(strip_parents(path, full)),
        NormalizeUri::PercentDecodeUnreserved { strict } => {
            rewrite_escapes(target, strict, |byte, _| unreserved(byte).then(|| vec![byte]))
        }
        NormalizeUri::PercentToUppercase { strict } => {
            rewrite_escapes(target, strict, |_, digits| Some([b"%", &*digits.to_ascii_uppercase()].concat()))
        }
        NormalizeUri::QuerySortByName => {
            let text = query.strip_prefix(b"?")?;
            let mut parts: Vec<&[u8]> = text.split(|byte| *byte == b'&').collect();
            parts.sort_by_key(|part| part.split(|byte| *byte == b'=').next().unwrap_or_default().to_vec());
            Some([path, b"?", &parts.join(&b'&')].concat())
        }
    }
}

fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn replace_all(text: &[u8], what: u8, by: &[u8]) -> Vec<u8> {
    text.iter().flat_map(|byte| if *byte == what { by.to_vec() } else { vec![*byte] }).collect()
}

fn strip_dots(path: &[u8]) -> Vec<u8> {
    let segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let last = segments.len().saturating_sub(1);
    let mut kept: Vec<&[u8]> = segments.iter().copied().filter(|segment| *segment != b".").collect();
    if segments.get(last) == Some(&&b"."[..]) {
        kept.push(b"");
    }
    kept.join(&b'/')
}

/// RFC 3986 section 5.2.4. Without `full`, parents above the root stay.
fn strip_parents(path: &[u8], full: bool) -> Vec<u8> {
    let segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let last = segments.len().saturating_sub(1);
    let mut kept: Vec<&[u8]> = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        if *segment != b".." {
            kept.push(segment);
            continue;
        }
        // The first segment is the empty one before the leading slash.
        let removable = kept.len() > 1 && kept.last() != Some(&&b".."[..]);
        if removable {
            kept.pop();
        } else if !full {
            kept.push(segment);
            continue;
        }
        if index == last {
            kept.push(b"");
        }
    }
    kept.join(&b'/')
}

fn rewrite_escapes(text: &[u8], strict: bool, change: impl Fn(u8, &[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let digits = tail.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let value =
            digits.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|d| u8::from_str_radix(d, 16).ok());
        match (digits, value) {
            (Some(digits), Some(value)) => {
                match change(value, digits) {
                    Some(new) => out.extend_from_slice(&new),
                    None => {
                        out.push(b'%');
                        out.extend_from_slice(digits);
                    }
                }
                rest = tail.get(2..).unwrap_or_default();
            }
            _ if strict => return None,
            _ => out.push(b'%'),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_normalizer() {
        let full = NormalizeUri::PathStripDotdot { full: true };
        let part = NormalizeUri::PathStripDotdot { full: false };
        let decode = NormalizeUri::PercentDecodeUnreserved { strict: false };
        for (how, before, after) in [
            (NormalizeUri::FragmentStrip, "/a#b", Some("/a")),
            (NormalizeUri::FragmentEncode, "/a#b", Some("/a%23b")),
            (NormalizeUri::PathMergeSlashes, "//a///b/?x=//", Some("/a/b/?x=//")),
            (NormalizeUri::PathStripDot, "/./a/./b/.", Some("/a/b/")),
            (full, "/a/../b/../../c", Some("/c")),
            (part, "/a/../../c", Some("/../c")),
            (full, "/a/b/..?q", Some("/a/?q")),
            (decode, "/%41%2f%7e", Some("/A%2f~")),
            (NormalizeUri::PercentDecodeUnreserved { strict: true }, "/%4", None),
            (NormalizeUri::PercentToUppercase { strict: false }, "/%2f%zz", Some("/%2F%zz")),
            (NormalizeUri::QuerySortByName, "/p?b=1&a=2&b=0", Some("/p?a=2&b=1&b=0")),
        ] {
            let got = normalize(before.as_bytes(), how).map(|out| String::from_utf8(out).unwrap());
            assert_eq!(got.as_deref(), after, "{how:?} {before}");
        }
    }
}
