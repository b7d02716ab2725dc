//! Small encodings of text: URLs, HTML, labels, Base64.

use basics::hex;
use std::borrow::Cow;

/// Decodes `%XX`, and `+` as a space where it stands for one; `None` for a broken escape.
#[must_use]
pub fn decode_url(text: &[u8], plus_is_space: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let (high, low) = (hex::value(*rest.next()?)?, hex::value(*rest.next()?)?);
                out.push(high << 4 | low);
            }
            b'+' if plus_is_space => out.push(b' '),
            other => out.push(*other),
        }
    }
    Some(out)
}

/// Makes text safe in HTML, in attributes too.
#[must_use]
pub fn escape_html(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// The same, with what is an address of the web as a link.
#[must_use]
pub fn link_html(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let safe = escape_html(word);
        let is_address =
            ["http://", "https://"].iter().any(|scheme| word.len() > scheme.len() && word.starts_with(scheme));
        if is_address { format!("<a href=\"{safe}\">{safe}</a>") } else { safe.into_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Makes text safe as the value of a Prometheus label.
#[must_use]
pub fn escape_label(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '"', '\n']) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Decodes Base64 (RFC 4648 section 4), with or without padding; `None` if it is none.
#[must_use]
pub fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in text {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    (held < 6).then_some(out)
}

/// Whether two texts are equal, in a time that does not tell where they differ.
#[must_use]
pub fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    let differ = left.len() != right.len();
    let bits = left.iter().zip(right.iter().chain(std::iter::repeat(&0))).fold(0, |bits, (a, b)| bits | (a ^ b));
    !differ && bits == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_links_and_nothing_else_does() {
        for (text, expected) in [
            ("Main site", "Main site"),
            (
                "store: http://10.0.0.5:8379/ up",
                "store: <a href=\"http://10.0.0.5:8379/\">http://10.0.0.5:8379/</a> up",
            ),
            ("https://a/?x=1&y=\"", "<a href=\"https://a/?x=1&amp;y=&quot;\">https://a/?x=1&amp;y=&quot;</a>"),
            ("javascript:alert(1) http:// <b>", "javascript:alert(1) http:// &lt;b&gt;"),
        ] {
            assert_eq!(link_html(text), expected);
        }
    }

    #[test]
    fn url() {
        assert_eq!(decode_url(b"a%20b+c", true).unwrap(), b"a b c");
        assert_eq!(decode_url(b"a+b", false).unwrap(), b"a+b");
        for broken in ["%", "%4", "%zz"] {
            assert_eq!(decode_url(broken.as_bytes(), true), None);
        }
    }

    #[test]
    fn base64() {
        assert_eq!(decode_base64(b"YWRtaW46cHc=").unwrap(), b"admin:pw");
        assert_eq!(decode_base64(b"YWRtaW46cHcx").unwrap(), b"admin:pw1");
        assert_eq!(decode_base64(b"").unwrap(), b"");
        for broken in ["A", "a b=", "====", "é"] {
            assert_eq!(decode_base64(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn comparison() {
        assert!(equal_in_constant_time(b"secret", b"secret"));
        for other in ["secreT", "secre", "secret1", ""] {
            assert!(!equal_in_constant_time(b"secret", other.as_bytes()));
        }
    }

    #[test]
    fn html() {
        assert_eq!(escape_html("plain"), "plain");
        assert_eq!(escape_html("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
    }
}
