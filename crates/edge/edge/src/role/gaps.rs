//! What the language can say and the edge cannot do yet: refused at start, because a configuration that is accepted must
//! do what it says.

use haproxycfg::{
    diagnostics::{Diagnostic, Severity},
    model::{Config, HttpAction, Location, Mode, Proxy},
};

/// An alert for each thing in the configuration that would have no effect.
pub fn find(config: &Config) -> Vec<Diagnostic> {
    config.proxies.iter().filter(|proxy| !proxy.disabled).flat_map(of_proxy).collect()
}

fn of_proxy(proxy: &Proxy) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut refuse = |place: &Location, what: &str, instead: &str| {
        let message = format!(
            "[{}:{}] : proxy '{}': {what} is not supported yet; {instead}.",
            place.file, place.line, proxy.name
        );
        found.push(Diagnostic::whole(Severity::Alert, message));
    };
    for rule in &proxy.http_response {
        if matches!(rule.action, HttpAction::WaitForBody { .. }) {
            refuse(&rule.location, "'http-response wait-for-body'", "remove the rule");
        }
    }
    if proxy.mode == Mode::Tcp && proxy.kind.has_backend() && !proxy.tcp_response_content.is_empty() {
        refuse(&proxy.location, "'tcp-response content' in TCP mode", "remove the rules, or use 'mode http'");
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use haproxycfg::source::Bundle;

    use super::*;

    fn gaps(lines: &str) -> Vec<String> {
        let text = format!(
            "listen web\n  bind :80\n  timeout client 1s\n  timeout connect 1s\n  timeout server 1s\n{lines}\n"
        );
        let files = Bundle::default().with("a.cfg", text.as_bytes());
        let parsed = haproxycfg::parse(&["a.cfg".to_owned()], &files, BTreeMap::new(), &haproxycfg::Options::default());
        find(&parsed.config.expect("a valid configuration")).iter().map(Diagnostic::one_line).collect()
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        assert_eq!(gaps("  mode http\n  server s 127.0.0.1:1"), Vec::<String>::new());
        for (lines, what) in [
            (
                "  mode http\n  http-response wait-for-body time 1s",
                "[a.cfg:7] : proxy 'web': 'http-response wait-for-body'",
            ),
            ("  tcp-response content reject", "'tcp-response content' in TCP mode is not supported yet"),
        ] {
            let found = gaps(lines);
            assert!(found.len() == 1 && found[0].contains(what), "{lines}: {found:?}");
        }
    }
}
