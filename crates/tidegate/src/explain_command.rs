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

/// What a word means to whoever knows it: haproxy.cfg, the stats socket, VCL, varnishd and varnishadm, the store, nutcracker.yml, nginx. An
/// error says that nobody does, and what is near.
pub fn explain(word: &str) -> Result<String, String> {
    let of_socket = admin::cli::reference::explain(word);
    // Of several words a command of the socket is all that is meant: `show map` is not the converter.
    let is_command = of_socket.is_some() && word.split_whitespace().nth(1).is_some();
    let of_edge = || Some(haproxycfg::explain(word)).filter(|text| haproxycfg::is_explained(text));
    let parts = [
        if is_command { None } else { of_edge() },
        of_socket,
        vcl::reference::explain(word),
        varnishcli::reference::explain(word),
        store::reference::explain(word),
        kvproxy::nutcracker::table::explain(word),
        haproxycfg::nginx::explain(word),
    ];
    let found: Vec<String> = parts.into_iter().flatten().map(|text| text.trim_end().to_owned()).collect();
    if found.is_empty() { Err(unknown(word)) } else { Ok(found.join("\n\n")) }
}

/// What is said of a word that nobody knows.
fn unknown(word: &str) -> String {
    if word.trim().is_empty() {
        return "explain what? A keyword, a value, a variable, a command or a setting: `tidegate explain balance`"
            .to_owned();
    }
    let mut text = format!(
        "'{word}' is no word of haproxy.cfg, the stats socket, VCL, varnishd, the store, nutcracker.yml or nginx.conf."
    );
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
    let kinds = [
        of_edge,
        admin::cli::reference::names(),
        vcl::reference::names(),
        varnishcli::reference::names(),
        store::reference::names(),
        kvproxy::nutcracker::table::names(),
        haproxycfg::nginx::names(),
    ];
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
            ("beresp.ttl", "beresp.ttl (a variable of VCL)"),
            ("vcl_recv", "vcl_recv (a subroutine of VCL)"),
            ("default_ttl", "default_ttl (a parameter of varnishd)"),
            ("vcl.use", "vcl.use <configname|label> (a command of varnishadm)"),
            ("auto_eject_hosts", "auto_eject_hosts: (a directive of nutcracker.yml)"),
            ("try_files", "try_files (a directive of nginx)"),
        ] {
            let text = explain(word).unwrap_or_else(|text| text);
            assert!(text.starts_with(expected), "{word}: {text}");
        }
    }

    #[test]
    fn a_word_of_several_is_explained_by_each() {
        for (word, parts) in [
            (
                "hash",
                &["balance hash", "vcl_hash (a sub", "return (hash) (an action", "directors.hash", "of nutcracker.yml"]
                    [..],
            ),
            ("listen", &["listen <name>", "listen: (a directive of nutcracker.yml)"]),
            ("ban", &["(a statement of VCL)", "(a command of varnishadm)"]),
            ("connect_timeout", &["(a field of a backend of VCL)", "(a parameter of varnishd)"]),
            ("ping", &["(a command of varnishadm)", "(a command of the store)"]),
        ] {
            let text = explain(word).unwrap_or_else(|text| text);
            for part in parts {
                assert!(text.contains(part), "{word}, {part}: {text}");
            }
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
            ("beresp.tl", "beresp.ttl"),
            ("vcl_recive", "vcl_recv"),
            ("default_tll", "default_ttl"),
            ("vcl.lod", "vcl.load"),
            ("auto_eject_host", "auto_eject_hosts"),
        ] {
            let text = explain(word).unwrap_err();
            let near = text.lines().last().and_then(|line| line.strip_prefix("Nearest: ")).unwrap_or_default();
            assert_eq!(near.split(", ").next(), Some(expected), "{text}");
        }
        assert!(explain("xyzzyplugh").unwrap_err().ends_with("or nginx.conf."));
    }
}
