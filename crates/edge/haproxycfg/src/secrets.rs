//! What of a line must not be shown: messages end up in logs.

/// Words after which a password stands.
const PASSWORD_WORDS: &[&str] = &["password", "insecure-password"];

/// Converters with a secret among their arguments.
const CONVERTERS: &[&str] = &["jwt_verify(", "hmac("];

/// Names of algorithms.
const ALGORITHMS: &[&str] = &[
    "md5", "sha1", "sha224", "sha256", "sha384", "sha512", "none", "HS256", "HS384", "HS512", "RS256", "RS384",
    "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512",
];

/// How names of files with keys end.
const FILE_ENDS: &[&str] = &[".pem", ".crt", ".cer", ".pub", ".key"];

/// The line with stars where its secrets are: as many bytes as before, so that places in it stay what they are.
pub(crate) fn concealed(text: &str) -> String {
    let mut shown = text.to_owned();
    let mut hide = |start: usize, length: usize| {
        let end = start.saturating_add(length);
        if shown.is_char_boundary(start) && shown.is_char_boundary(end) {
            shown.replace_range(start..end, &"*".repeat(length));
        }
    };
    let words = words(text);
    for (position, (_, word)) in words.iter().enumerate() {
        let Some((start, next)) = words.get(position + 1) else { break };
        if PASSWORD_WORDS.contains(word) {
            hide(*start, next.len());
        }
        if *word == "auth"
            && words.get(position.wrapping_sub(1)).is_some_and(|(_, before)| *before == "stats")
            && let Some(colon) = next.find(':')
        {
            hide(start + colon + 1, next.len() - colon - 1);
        }
    }
    for converter in CONVERTERS {
        for (found, _) in text.match_indices(converter) {
            let mut start = found + converter.len();
            let list = text.get(start..).unwrap_or_default();
            let list = list.get(..list.find(')').unwrap_or(list.len())).unwrap_or_default();
            for argument in list.split(',') {
                if !is_harmless(argument.trim_matches(['"', '\'', '\\', ' '])) {
                    hide(start, argument.len());
                }
                start += argument.len() + 1;
            }
        }
    }
    shown
}

/// Whether an argument is a name of an algorithm, a variable or a file.
fn is_harmless(argument: &str) -> bool {
    let is_algorithm = ALGORITHMS.iter().any(|name| argument.eq_ignore_ascii_case(name));
    let is_variable =
        ["txn.", "req.", "res.", "sess.", "proc.", "check."].iter().any(|scope| argument.starts_with(scope));
    let is_file = argument.starts_with('/') || FILE_ENDS.iter().any(|end| argument.ends_with(end));
    is_algorithm || is_variable || is_file
}

/// The words of a line with the places where they begin.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut position = 0;
    for word in text.split([' ', '\t']) {
        if !word.is_empty() {
            words.push((position, word));
        }
        position += word.len() + 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_starred() {
        for (text, expected) in [
            ("  user ann insecure-password geheim groups a", "  user ann insecure-password ****** groups a"),
            ("user bob password $5$x", "user bob password ****"),
            ("user bob password", "user bob password"),
            ("stats auth ann:s:t", "stats auth ann:***"),
            ("stats auth ann", "stats auth ann"),
            ("x if { a,jwt_verify(HS256,geheim) 1 }", "x if { a,jwt_verify(HS256,******) 1 }"),
            ("jwt_verify(geheim,HS256)", "jwt_verify(******,HS256)"),
            (
                "jwt_verify(txn.alg,\"/etc/a.pem\") hmac(sha256,a2V5)",
                "jwt_verify(txn.alg,\"/etc/a.pem\") hmac(sha256,****)",
            ),
            ("jwt_verify(FOO,'\u{e9}t\u{e9}'", "jwt_verify(***,*******"),
            ("jwt_verify(", "jwt_verify("),
            ("bind :80 name auth:x", "bind :80 name auth:x"),
        ] {
            assert_eq!(concealed(text), expected);
            assert_eq!(concealed(text).len(), text.len());
        }
    }
}
