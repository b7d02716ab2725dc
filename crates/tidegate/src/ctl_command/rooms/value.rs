//! A reply of a store as redis-cli shows it to people.

use std::fmt::Write as _;

use resp::Value;

/// With its types: `"text"`, `(integer) 1`, `1) "first"`.
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out
}

fn write(out: &mut String, value: &Value, indent: usize) {
    let line = |out: &mut String, text: &str| {
        let _ = writeln!(out, "{text}");
    };
    match value {
        Value::Simple(text) => line(out, &String::from_utf8_lossy(text)),
        Value::Error(text) => line(out, &format!("(error) {}", String::from_utf8_lossy(text))),
        Value::Integer(number) => line(out, &format!("(integer) {number}")),
        Value::Bulk(bytes) => line(out, &quoted(bytes)),
        Value::Verbatim { text, .. } => line(out, &String::from_utf8_lossy(text)),
        Value::Null | Value::NullArray => line(out, "(nil)"),
        Value::Boolean(is_true) => line(out, if *is_true { "(true)" } else { "(false)" }),
        Value::Double(number) => line(out, &format!("(double) {number}")),
        Value::BigNumber(digits) => line(out, &format!("(big number) {}", String::from_utf8_lossy(digits))),
        Value::Array(all) | Value::Set(all) | Value::Push(all) => {
            if all.is_empty() {
                line(out, "(empty array)");
            }
            let width = all.len().to_string().len();
            for (place, one) in all.iter().enumerate() {
                // What stands in the first line is indented by whoever holds this list.
                let before = if place == 0 { 0 } else { indent };
                let _ = write!(out, "{:before$}{:>width$}) ", "", place + 1);
                write(out, one, indent + width + 2);
            }
        }
        Value::Map(pairs) => {
            if pairs.is_empty() {
                line(out, "(empty hash)");
            }
            let width = pairs.len().to_string().len();
            for (place, (key, one)) in pairs.iter().enumerate() {
                let before = if place == 0 { 0 } else { indent };
                let _ = write!(out, "{:before$}{:>width$}# {} => ", "", place + 1, text(key).trim_end());
                write(out, one, indent + width + 2);
            }
        }
        Value::Attributed { value, .. } => write(out, value, indent),
    }
}

/// In quotes, as people type it.
pub fn quoted(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    resp::quote_argument(&mut out, bytes);
    let text = String::from_utf8_lossy(&out).into_owned();
    if text.starts_with('"') { text } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_shown_as_by_redis_cli() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        for (value, expected) in [
            (Value::Simple(b"OK".to_vec()), "OK\n"),
            (Value::Integer(7), "(integer) 7\n"),
            (bulk("a \"b\"\n"), "\"a \\\"b\\\"\\n\"\n"),
            (Value::Null, "(nil)\n"),
            (Value::Array(Vec::new()), "(empty array)\n"),
            (
                Value::Array(vec![bulk("a"), Value::Array(vec![bulk("b"), Value::Integer(1)])]),
                "1) \"a\"\n2) 1) \"b\"\n   2) (integer) 1\n",
            ),
        ] {
            assert_eq!(text(&value), expected);
        }
    }
}
