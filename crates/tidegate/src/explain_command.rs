//! `tidegate explain`: what a word means, whoever's it is.

use std::{io::Write as _, process::ExitCode};

/// Most words that are suggested for an unknown one.
const SUGGESTIONS_MAX: usize = 5;

/// Prints what the words mean.
pub fn run(words: &[String]) -> ExitCode {
    let (text, code) = match explain(&words.join(" ")) {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(text) => (text, ExitCode::FAILURE),
    };
    // Whoever reads it may have seen enough.
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
    code
}

/// What a word means, in haproxy.cfg, on the stats socket and to the store; an error says that nobody knows it, and what is near.
fn explain(word: &str) -> Result<String, String> {
    let of_edge = Some(haproxycfg::explain(word)).filter(|text| haproxycfg::is_explained(text));
    let of_socket = admin::cli::reference::explain(word);
    let of_store = store::reference::explain(word);
    // Of several words a command of the socket is all that is meant: `show map` is not the converter.
    let is_command = of_socket.is_some() && word.split_whitespace().nth(1).is_some();
    let parts = if is_command { [of_socket, of_store, None] } else { [of_edge, of_socket, of_store] };
    let found: Vec<String> = parts.into_iter().flatten().map(|text| text.trim_end().to_owned()).collect();
    if found.is_empty() { Err(unknown(word)) } else { Ok(found.join("\n\n")) }
}

/// What is said of a word that nobody knows.
fn unknown(word: &str) -> String {
    if word.trim().is_empty() {
        return "explain what? A keyword, a value, a command or a setting: `tidegate explain balance`".to_owned();
    }
    let mut text = format!("'{word}' is no word of haproxy.cfg, of the stats socket or of the store.");
    let near = near(word);
    if !near.is_empty() {
        text.push_str(&format!("\nNearest: {}", near.join(", ")));
    }
    text
}

/// The nearest name of each kind, and names that contain the word.
fn near(word: &str) -> Vec<String> {
    let asked = word.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let last = asked.rsplit(' ').next().unwrap_or_default().to_owned();
    let of_edge: Vec<String> = haproxycfg::names().into_iter().map(str::to_owned).collect();
    let kinds = [of_edge, admin::cli::reference::names(), store::reference::names()];
    let mut near: Vec<String> = Vec::new();
    let mut containing: Vec<String> = Vec::new();
    for names in kinds {
        let lower: Vec<(String, String)> = names.into_iter().map(|name| (name.to_lowercase(), name)).collect();
        let wanted = if lower.iter().any(|(name, _)| name.contains(' ')) { &asked } else { &last };
        let nearest = basics::nearest(wanted, lower.iter().map(|(name, _)| name.as_str())).map(str::to_owned);
        near.extend(lower.iter().filter(|(name, _)| Some(name) == nearest.as_ref()).map(|(_, name)| name.clone()));
        let contains = |name: &str| last.len() > 2 && name.contains(last.as_str());
        containing.extend(lower.into_iter().filter(|(name, _)| contains(name)).map(|(_, name)| name));
    }
    // The fewer letters differ, the nearer.
    near.sort_by_key(|name| name.len().abs_diff(asked.len()));
    for name in containing {
        if !near.contains(&name) {
            near.push(name);
        }
    }
    near.dedup();
    near.truncate(SUGGESTIONS_MAX);
    near
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_all_kinds_are_known() {
        for (word, expected) in [
            ("leastconn", "balance leastconn"),
            ("roundrobin", "balance roundrobin"),
            ("show stat", "show stat ["),
            ("show map", "show map ["),
            ("http-request", "http-request <action>"),
            ("hgetall", "HGETALL (a command of the store)"),
            ("maxmemory", "maxmemory (a setting of the store)"),
        ] {
            let text = explain(word).unwrap_or_else(|text| text);
            assert!(text.starts_with(expected), "{word}: {text}");
        }
    }

    #[test]
    fn a_typing_error_gets_the_nearest() {
        for (word, expected) in [
            ("HGETALLL", "HGETALL"),
            ("zrangebyscor", "ZRANGEBYSCORE"),
            ("maxmemry", "maxmemory"),
            ("balanc", "balance"),
            ("lestconn", "leastconn"),
            ("show stt", "show stat"),
            ("roundrobbin", "roundrobin"),
        ] {
            let text = explain(word).unwrap_err();
            let near = text.lines().last().and_then(|line| line.strip_prefix("Nearest: ")).unwrap_or_default();
            assert_eq!(near.split(", ").next(), Some(expected), "{text}");
        }
        assert!(explain("xyzzyplugh").unwrap_err().ends_with("of the store."));
    }
}
