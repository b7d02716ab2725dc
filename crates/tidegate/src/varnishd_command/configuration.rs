//! The configuration of the edge that varnishd's options stand for: a frontend with `vcl`, and a backend for each of the program's.

use std::{
    fmt::Write as _,
    net::{IpAddr, ToSocketAddrs as _},
};

use vcl::{
    Options,
    compile::Resolver,
    program::{Backend, Endpoint, Health, Probe, ProbeRequest, Program},
    source::Files,
};

use super::options::VarnishOptions;

/// What varnishd waits for where nothing else is said (`timeout_idle`, `connect_timeout`, `first_byte_timeout`), in milliseconds.
const IDLE_MS: u64 = 5_000;
const CONNECT_MS: u64 = 3_500;
const FIRST_BYTE_MS: u64 = 60_000;

/// Parameters that become settings of the edge rather than of the program.
const TIMEOUTS: [&str; 4] = ["timeout_idle", "connect_timeout", "first_byte_timeout", "send_timeout"];

struct FromDisk;

impl Files for FromDisk {
    fn read(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        Err(format!("{pattern}: include names one file at a time here"))
    }
}

impl Resolver for FromDisk {
    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        let found = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Writes it.
///
/// # Errors
/// What is wrong with the program, in Varnish's manner.
pub fn write(options: &VarnishOptions) -> Result<String, String> {
    let mut text = String::from("# What varnishd's options stand for.\ndefaults\n    mode http\n");
    let timeout = |name: &str, standard: u64| {
        let said = options.parameters.iter().rev().find(|(known, _)| known == name);
        said.map_or_else(|| format!("{standard}ms"), |(_, value)| value_of_time(value))
    };
    let _ = writeln!(text, "    timeout client {}", timeout("send_timeout", 600_000));
    let _ = writeln!(text, "    timeout http-keep-alive {}", timeout("timeout_idle", IDLE_MS));
    let _ = writeln!(text, "    timeout http-request {}", timeout("timeout_idle", IDLE_MS));
    let _ = writeln!(text, "    timeout connect {}", timeout("connect_timeout", CONNECT_MS));
    let _ = writeln!(text, "    timeout server {}\n", timeout("first_byte_timeout", FIRST_BYTE_MS));
    text.push_str("frontend varnish\n");
    for (place, listen) in options.listen.iter().enumerate() {
        let name = listen.name.clone().unwrap_or_else(|| format!("a{place}"));
        let proxy = if listen.is_proxy { " accept-proxy" } else { "" };
        let _ = writeln!(text, "    bind {} name {name}{proxy}", listen.address);
    }
    let _ = write!(text, "    vcl {}", options.program.as_deref().map_or_else(|| "builtin".to_owned(), quoted));
    for storage in &options.storages {
        let _ = write!(text, " storage {}", quoted(storage));
    }
    for (name, value) in options.parameters.iter().filter(|(name, _)| !TIMEOUTS.contains(&name.as_str())) {
        let _ = write!(text, " param {}", quoted(&format!("{name}={value}")));
    }
    if let Some(identity) = &options.identity {
        let _ = write!(text, " identity {}", quoted(identity));
    }
    text.push_str("\n\n");
    match (&options.program, &options.backend) {
        (Some(path), _) => {
            let program = compile(path, options)?;
            for backend in program.backends.iter().filter(|backend| backend.endpoint != Endpoint::None) {
                write_backend(&mut text, backend, &program);
            }
        }
        (None, Some((host, port))) => {
            let _ = writeln!(text, "backend default\n    server default {host}:{port}");
        }
        (None, None) => {}
    }
    Ok(text)
}

fn compile(path: &str, options: &VarnishOptions) -> Result<Program, String> {
    let source =
        std::fs::read_to_string(path).map_err(|error| format!("Error: Cannot read -f file '{path}' ({error})"))?;
    let name_of = |(place, storage): (usize, &String)| {
        storage.split_once('=').map_or_else(|| format!("s{place}"), |(name, _)| name.to_owned())
    };
    let storages: Vec<String> =
        options.storages.iter().enumerate().map(name_of).chain(["s0".to_owned(), "Transient".to_owned()]).collect();
    let compiler = Options { files: &FromDisk, resolver: &FromDisk, storages: &storages, ..Options::default() };
    match vcl::compile(path, &source, &compiler) {
        Ok(compiled) => Ok(compiled.program),
        Err(rejected) => Err(format!(
            "Error:\nMessage from VCC-compiler:\n{}\nRunning VCC-compiler failed, exited with 2\nVCL compilation failed",
            rejected.message().trim_end()
        )),
    }
}

fn write_backend(text: &mut String, backend: &Backend, program: &Program) {
    let _ = writeln!(text, "backend {}", backend.name);
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
    let address = match &backend.endpoint {
        Endpoint::Host { host, port } => format!("{host}:{port}"),
        Endpoint::Path(path) => format!("unix@{path}"),
        Endpoint::None | Endpoint::Given => return,
    };
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
        let (window, threshold, initial) = (probe.window, probe.threshold.max(1), probe.initial);
        let _ = write!(
            text,
            " check inter {} window {} threshold {threshold} initial {initial}",
            milliseconds(probe.interval),
            window.max(1)
        );
    }
    text.push_str("\n\n");
}

fn write_check(text: &mut String, probe: &Probe, backend: &Backend) {
    let host = match (&backend.host_header, &backend.endpoint) {
        (Some(host), _) | (None, Endpoint::Host { host, .. }) => host.clone(),
        _ => "localhost".to_owned(),
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
fn milliseconds(seconds: f64) -> String {
    format!("{}ms", (seconds * 1000.0).max(1.0) as u64)
}

/// A parameter's time in the edge's spelling: a number alone is in seconds there.
fn value_of_time(value: &str) -> String {
    match value.parse::<f64>() {
        Ok(seconds) => milliseconds(seconds),
        Err(_) => value.to_owned(),
    }
}

/// A word as haproxy.cfg quotes it.
fn quoted(word: &str) -> String {
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-:=,@+%".contains(&byte)) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
