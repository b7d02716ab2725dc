//! Whole configurations: what they become, what is said about them, and that nothing breaks the parser.

mod configurations;
mod dynamic;
mod facts;
mod keywords;
mod quic;
mod rendering;
mod settings;
pub(crate) mod tls;

use std::collections::BTreeMap;

use crate::{
    Options, Parsed, Verdict,
    diagnostics::Severity,
    model::{Config, Proxy, Server},
    parse,
    source::Bundle,
};

/// Reads `text` as the file `t.cfg`.
fn read(text: &str) -> Parsed {
    read_with(text, Bundle::default(), &[])
}

/// Reads `text` with further files and an environment.
pub(crate) fn read_with(text: &str, files: Bundle, environment: &[(&str, &str)]) -> Parsed {
    let files = files.with("t.cfg", text.as_bytes());
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    parse(&["t.cfg".to_owned()], &files, environment, &options())
}

fn options() -> Options {
    Options { hostname: "front1".to_owned(), ..Options::default() }
}

/// The configuration, which must be free of errors.
fn config(text: &str) -> Config {
    let parsed = read(text);
    let messages = messages(&parsed, Severity::Alert);
    parsed.config.unwrap_or_else(|| panic!("refused: {messages:#?}\n{text}"))
}

/// The messages of a severity, `config : ` left out, without those that only count the others.
pub(crate) fn messages(parsed: &Parsed, severity: Severity) -> Vec<String> {
    let of_severity = parsed.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity);
    let lines = of_severity.map(|diagnostic| diagnostic.one_line().trim_start_matches("config : ").to_owned());
    lines.filter(|line| !line.starts_with("Error(s) found") && !line.starts_with("Fatal errors found")).collect()
}

/// Reads `text`, whose errors must be these.
fn check_errors(text: &str, expected: &[&str]) {
    assert_eq!(messages(&read(text), Severity::Alert), expected, "{text}");
}

/// Reads `text`, which must have no error and these warnings.
fn check_warnings(text: &str, expected: &[&str]) {
    let parsed = read(text);
    assert_eq!(messages(&parsed, Severity::Alert), Vec::<String>::new(), "{text}");
    assert_eq!(messages(&parsed, Severity::Warning), expected, "{text}");
}

fn proxy<'a>(config: &'a Config, name: &str) -> &'a Proxy {
    config.proxies.iter().find(|proxy| &*proxy.name == name).unwrap()
}

fn server<'a>(config: &'a Config, proxy_name: &str, name: &str) -> &'a Server {
    proxy(config, proxy_name).servers.iter().find(|server| &*server.name == name).unwrap()
}
