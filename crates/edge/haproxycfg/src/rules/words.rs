//! Words as HAProxy's rule parsers read them: numbers in C's manner, conditions, and messages around messages.

use crate::{
    diagnostics::{Prefix, Problem},
    line::Line,
    scope::Scope,
};

/// Whether a word begins a condition.
pub(super) fn is_condition(word: &str) -> bool {
    word == "if" || word == "unless"
}

/// The same problem with more said around its message.
pub(super) fn around(mut problem: Problem, context: impl FnOnce(&str) -> String) -> Problem {
    problem.message = context(problem.message.trim_end_matches('.'));
    if problem.nearest.is_some() {
        // The nearest word continues the sentence.
        problem.message.truncate(problem.message.trim_end_matches('.').len());
    }
    problem
}

/// The word at `index` as a regular expression.
pub(super) fn regex(
    scope: &mut Scope<'_>,
    line: &Line,
    index: usize,
    ignore_case: bool,
) -> Result<sample::Regex, Problem> {
    let word = line.word(index);
    scope
        .regex(line, index, ignore_case)
        .map_err(|problem| around(problem, |error| format!("regex '{word}' is invalid (error={error})")))
}

/// A number at the start of a word as C's `strtol` reads it, and what follows it.
///
/// With `prefixed`, `0x` begins a hexadecimal number and `0` an octal one. A word without digits is zero and is what
/// follows.
pub(super) fn leading_integer(text: &str, prefixed: bool) -> (i64, &str) {
    let trimmed = text.trim_start_matches([' ', '\t', '\r', '\n', '\x0b', '\x0c']);
    let (negative, unsigned) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, trimmed.get(1..).unwrap_or_default()),
        Some(b'+') => (false, trimmed.get(1..).unwrap_or_default()),
        _ => (false, trimmed),
    };
    let hexadecimal = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"));
    let (radix, digits) = match hexadecimal {
        Some(rest) if prefixed && rest.starts_with(|first: char| first.is_ascii_hexdigit()) => (16, rest),
        _ if prefixed && unsigned.starts_with('0') => (8, unsigned),
        _ => (10, unsigned),
    };
    let count = digits.bytes().take_while(|byte| char::from(*byte).is_digit(radix)).count();
    if count == 0 {
        return (0, text);
    }
    let mut value: i64 = 0;
    for digit in digits.chars().take(count).filter_map(|character| character.to_digit(radix)) {
        value = value.saturating_mul(i64::from(radix)).saturating_add(i64::from(digit));
    }
    (if negative { -value } else { value }, digits.get(count..).unwrap_or_default())
}

/// A number where HAProxy stops at the first character that is not a digit: what it ignores is worth a warning.
pub(super) fn lenient_integer(scope: &mut Scope<'_>, line: &Line, index: usize) -> i64 {
    let word = line.word(index);
    let (value, rest) = leading_integer(word, false);
    if !rest.is_empty() {
        scope.warn(line, Problem::new(format!("'{word}' is read as {value}.")).at(index).expected("an integer"));
    }
    value
}

/// The error for a missing argument or one too many, in HAProxy's words, pointing at the word where it shows.
pub(super) fn wrong(message: impl Into<String>, index: usize) -> Problem {
    Problem::new(message).at(index)
}

/// `if` or `unless` or the end of the line must stand at `index`.
pub(super) fn condition_or_end(line: &Line, index: usize, message: impl FnOnce(&str) -> String) -> Result<(), Problem> {
    let word = line.word(index);
    if !word.is_empty() && !is_condition(word) {
        return Err(wrong(message(word), index).expected("'if' or 'unless' followed by a condition"));
    }
    Ok(())
}

/// The first character of a name that HAProxy does not allow in names of sections, ACLs and groups.
pub(super) fn invalid_name_character(name: &str) -> Option<char> {
    name.chars().find(|character| !(character.is_ascii_alphanumeric() || ".:_-".contains(*character)))
}

/// Whether a header may have this name (RFC 9110, 5.6.2).
pub(super) fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// The name of a header that the edge will send, in lower case, as HAProxy writes names.
///
/// HAProxy sends any name as it stands, so one that is no header name is worth a warning, and an error only where it would
/// break the message.
pub(super) fn header_name(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<String, Problem> {
    let name = line.word(index);
    if !is_token(name) {
        let problem = |message: String| {
            wrong(message, index).expected("letters, digits and any of !#$%&'*+-.^_`|~, as in X-Forwarded-Proto")
        };
        if breaks_messages(name) || name.as_bytes() != line.bytes(index) {
            return Err(problem(format!("'{name}' is not a header name")));
        }
        let message = format!("'{name}' is not a header name, and is sent as it stands; many peers refuse that");
        let meant = name.trim_end_matches(':');
        let problem = problem(message);
        scope.warn(line, if is_token(meant) { problem.nearest(name, [meant]) } else { problem });
    }
    Ok(name.to_ascii_lowercase())
}

/// Whether a message with a header of this name could be read in two ways: the name ends its line, continues the one before,
/// or says in an odd spelling how long the body is.
fn breaks_messages(name: &str) -> bool {
    let token = name.split(|character: char| !is_token(character.encode_utf8(&mut [0; 4]))).next().unwrap_or_default();
    name.is_empty()
        || name.starts_with([' ', '\t'])
        || name.bytes().any(|byte| byte.is_ascii_control())
        || ["content-length", "transfer-encoding"].iter().any(|framing| token.eq_ignore_ascii_case(framing))
}

/// Text that stands for itself, as a log-format string.
pub(super) fn escape_format(text: &[u8]) -> Vec<u8> {
    text.iter().flat_map(|byte| if *byte == b'%' { &b"%%"[..] } else { std::slice::from_ref(byte) }).copied().collect()
}

/// A problem about the section as a whole that HAProxy reports without "parsing".
pub(super) fn section_problem(message: impl Into<String>) -> Problem {
    Problem::new(message).prefix(Prefix::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_c_ends_them() {
        for (text, prefixed, value, rest) in [
            ("12", false, 12, ""),
            ("-7x", false, -7, "x"),
            ("+3", false, 3, ""),
            ("", false, 0, ""),
            ("abc", false, 0, "abc"),
            ("0x1f", false, 0, "x1f"),
            ("0x1f", true, 31, ""),
            ("0x", true, 0, "x"),
            ("010", true, 8, ""),
            ("010", false, 10, ""),
            ("09", true, 0, "9"),
            ("99999999999999999999", false, i64::MAX, ""),
            (" 5 ", false, 5, " "),
        ] {
            assert_eq!(leading_integer(text, prefixed), (value, rest), "{text:?}");
        }
    }

    #[test]
    fn names() {
        assert_eq!(invalid_name_character("a.b:c_d-1"), None);
        assert_eq!(invalid_name_character("a/b"), Some('/'));
        assert!(is_token("X-Real-IP"));
        assert!(!is_token("X Real"));
        assert!(!is_token(""));
    }

    #[test]
    fn names_of_headers_that_break_messages() {
        for name in ["", " X", "X\nY", "X\r", "a\0", "Content-Length:", "transfer-encoding ", "Content-Length: 5"] {
            assert!(breaks_messages(name), "{name:?}");
        }
        for name in ["X:", "X Y", "Authorization Basic", "X(", ":x", "Content-Lengths:"] {
            assert!(!breaks_messages(name), "{name:?}");
        }
    }
}
