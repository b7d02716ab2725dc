//! A command of the log as a line of JSON, for programs that follow it.
//!
//! ```text
//! {"offset":482113,"next":482171,"time_ms":1772366400123,"db":0,"command":["SET","a","1"]}
//! ```
//!
//! `offset` is where the command stands; `next` is what to ask for to go on behind it: within a transaction that is its MULTI, as a
//! transaction is given whole. An argument that is no UTF-8 is an object: `{"base64":"/w=="}`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// Where a command stands.
#[derive(Debug, Clone, Copy)]
pub struct CommandPosition {
    /// The offset of its first byte.
    pub offset: u64,
    /// Where to go on behind it.
    pub next: u64,
    /// When it was appended.
    pub time_ms: u64,
    /// The database that it is for.
    pub db: usize,
}

/// The line, with its end.
#[must_use]
pub fn line(place: CommandPosition, words: &[&[u8]]) -> Vec<u8> {
    let CommandPosition { offset, next, time_ms, db } = place;
    let command: Vec<Value> = words.iter().map(|word| argument(word)).collect();
    let object = json!({ "offset": offset, "next": next, "time_ms": time_ms, "db": db, "command": command });
    let mut line = object.to_string().into_bytes();
    line.push(b'\n');
    line
}

fn argument(word: &[u8]) -> Value {
    match std::str::from_utf8(word) {
        Ok(text) => Value::from(text),
        Err(_) => json!({ "base64": STANDARD.encode(word) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_back_as_they_were() {
        let place = CommandPosition { offset: 7, next: 20, time_ms: 5, db: 3 };
        let text = String::from_utf8(line(place, &[b"SET", b"\"\n", b"\xff", b""])).unwrap();
        assert!(text.ends_with("}\n"));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["command"], json!(["SET", "\"\n", { "base64": "/w==" }, ""]));
        assert_eq!(
            (value["offset"].as_u64(), value["next"].as_u64(), value["db"].as_u64()),
            (Some(7), Some(20), Some(3))
        );
    }
}
