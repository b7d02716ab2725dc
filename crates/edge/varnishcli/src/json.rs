//! JSON forms of replies: `[ version, [words of the command], time, data... ]`.

use std::time::SystemTime;

/// A JSON string.
pub(crate) fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    basics::clock::of(time).as_secs_f64()
}

/// The whole of a reply. Each line of an element is indented once.
pub(crate) fn envelope(version: u32, words: &[String], now: SystemTime, elements: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| string(word)).collect();
    let mut text = format!("[ {version}, [{}], {:.3}", words.join(", "), seconds(now));
    for element in elements {
        text.push_str(",\n  ");
        text.push_str(&element.replace('\n', "\n  "));
    }
    text.push_str("\n]\n");
    text
}

/// An object with a member a line.
pub(crate) fn object(members: &[(&str, String)]) -> String {
    let lines: Vec<String> =
        members.iter().map(|(name, value)| format!("  {}: {}", string(name), value.replace('\n', "\n  "))).collect();
    format!("{{\n{}\n}}", lines.join(",\n"))
}
