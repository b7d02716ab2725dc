//! The backends of a program as sections of the edge's language: what runs them, checks them and counts them is the same as everywhere.

use std::fmt::Write as _;

use vcl::{
    compile::Resolver,
    program::{Backend, Endpoint, Health, Probe, ProbeRequest, Program},
};

use crate::orders::Patience;

/// The section of a backend in [`sections`].
#[must_use]
pub fn section_name(program: &str, backend: &str) -> String {
    format!("{program}.{backend}")
}

/// The sections for all backends of a program that are somewhere.
#[must_use]
pub fn sections(name: &str, program: &Program, patience: Patience, resolver: &dyn Resolver) -> String {
    let mut text = String::from("defaults\n    mode http\n");
    let (connect, server) = (milliseconds(patience.connect), milliseconds(patience.first_byte));
    let _ = writeln!(
        text,
        "    timeout connect {connect}\n    timeout server {server}\n    timeout queue {connect}\n    http-reuse always\n    retries 0\n"
    );
    for backend in &program.backends {
        write_backend(&mut text, &section_name(name, &backend.name), backend, program, resolver);
    }
    text
}

fn write_backend(text: &mut String, name: &str, backend: &Backend, program: &Program, resolver: &dyn Resolver) {
    let address = match &backend.endpoint {
        Endpoint::Host { host, port } => match resolver.resolve(host).ok().and_then(|found| found.first().copied()) {
            Some(std::net::IpAddr::V6(address)) => format!("[{address}]:{port}"),
            Some(address) => format!("{address}:{port}"),
            None => format!("{host}:{port}"),
        },
        Endpoint::Path(path) => format!("unix@{path}"),
        Endpoint::None | Endpoint::Given => return,
    };
    let _ = writeln!(text, "backend {name}");
    for (keyword, seconds) in [("connect", backend.connect_timeout), ("server", backend.first_byte_timeout)] {
        if let Some(seconds) = seconds.filter(|seconds| *seconds > 0.0) {
            let _ = writeln!(text, "    timeout {keyword} {}", milliseconds(seconds));
        }
    }
    let probe = match backend.health {
        Health::Probe(index) => program.probes.get(index.0 as usize),
        Health::Unprobed => None,
    };
    if let Some(probe) = probe {
        write_check(text, probe, backend);
    }
    let _ = write!(text, "    server {} {address}", backend.name);
    if let Some(most) = backend.max_connections {
        let _ = write!(text, " maxconn {most}");
    }
    match backend.proxy_header {
        Some(1) => text.push_str(" send-proxy"),
        Some(_) => text.push_str(" send-proxy-v2"),
        None => {}
    }
    if let Some(probe) = probe {
        let (window, threshold, initial) = (probe.window.max(1), probe.threshold.max(1), probe.initial);
        let _ = write!(
            text,
            " check inter {} window {window} threshold {threshold} initial {initial}",
            milliseconds(probe.interval)
        );
    }
    text.push_str("\n\n");
}

fn write_check(text: &mut String, probe: &Probe, backend: &Backend) {
    let host = match (&backend.host_header, &backend.endpoint) {
        (Some(host), _) | (None, Endpoint::Host { host, .. }) => host.clone(),
        _ => "0.0.0.0".to_owned(),
    };
    text.push_str("    option httpchk\n");
    match &probe.request {
        ProbeRequest::Url(url) => {
            let _ = writeln!(
                text,
                "    http-check send meth GET uri {} ver HTTP/1.1 hdr Host {}",
                quoted(url),
                quoted(&host)
            );
        }
        ProbeRequest::Lines(lines) => {
            let mut words = lines.first().map(String::as_str).unwrap_or_default().split_whitespace();
            let (method, uri) = (words.next().unwrap_or("GET"), words.next().unwrap_or("/"));
            let _ = write!(text, "    http-check send meth {} uri {} ver HTTP/1.1", quoted(method), quoted(uri));
            for (name, value) in lines.iter().skip(1).filter_map(|line| line.split_once(':')) {
                let _ = write!(text, " hdr {} {}", quoted(name.trim()), quoted(value.trim()));
            }
            text.push('\n');
        }
    }
    let _ = writeln!(text, "    http-check expect status {}", probe.expected_response);
    let _ = writeln!(text, "    timeout check {}", milliseconds(probe.timeout));
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float is cut to what fits")]
pub(crate) fn milliseconds(seconds: f64) -> String {
    /// What the edge can wait at most: 24 days.
    const MILLISECONDS_MAX: f64 = 2_147_483_647.0;
    format!("{}ms", (seconds * 1000.0).clamp(1.0, MILLISECONDS_MAX) as u64)
}

/// A word as haproxy.cfg quotes it.
pub(crate) fn quoted(word: &str) -> String {
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-:=,@+%".contains(&byte)) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
