//! The request of an HTTP check, as HAProxy writes it.

use balance::{OperationalState, ServerId};
use live::{LiveProxy, LiveServer};
use net::Target;
use sample::LogFormat;

use super::context::CheckContext;

/// What `http-check send` and `option httpchk` say.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestStep<'a> {
    pub(super) method: &'a str,
    pub(super) uri: &'a LogFormat,
    pub(super) version: &'a str,
    pub(super) headers: &'a [(String, LogFormat)],
    pub(super) body: Option<&'a LogFormat>,
}

/// Writes the request. Names are in lower case, and a field without a value is left out, as in HAProxy's.
pub(super) fn write(step: &RequestStep<'_>, send_state: bool, context: &CheckContext<'_>, now_ms: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let mut uri = context.render(step.uri);
    if uri.is_empty() {
        uri.push(b'/');
    }
    for (part, end) in [(step.method.as_bytes(), b" "), (&uri, b" ")] {
        out.extend_from_slice(part);
        out.extend_from_slice(end);
    }
    out.extend_from_slice(step.version.as_bytes());
    out.extend_from_slice(b"\r\n");
    let mut says_connection = false;
    for (name, value) in step.headers {
        let value = context.render(value);
        if value.is_empty() {
            continue;
        }
        says_connection |= name.eq_ignore_ascii_case("connection");
        field(&mut out, name, &value);
    }
    if let (true, Some(server)) = (send_state, context.server) {
        field(&mut out, "x-haproxy-server-state", state(context.proxy, server, now_ms).as_bytes());
    }
    let body = step.body.map(|body| context.render(body)).unwrap_or_default();
    if !body.is_empty() {
        field(&mut out, "content-length", body.len().to_string().as_bytes());
    }
    if !says_connection && step.version.ends_with("1.1") {
        field(&mut out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&body);
    out
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.to_ascii_lowercase().as_bytes());
    out.extend_from_slice(b": ");
    // What a format made must not end the field.
    out.extend(value.iter().map(|byte| if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

/// `http-check send-state`: how the server is seen from here.
fn state(proxy: &LiveProxy, server: &LiveServer, now_ms: u64) -> String {
    let id = ServerId::new(server.index.0 as usize);
    let (stats, backend) = {
        let farm = proxy.farm();
        (farm.server_stats(id, now_ms), farm.backend_stats(now_ms))
    };
    let Some(stats) = stats else { return String::new() };
    let mut text = match &stats.check {
        None => "no check".to_owned(),
        Some(check) => {
            let (rise, fall) = (check.config.rise, check.config.fall);
            let up = if stats.state == OperationalState::Stopping { "NOLB" } else { "UP" };
            match stats.state {
                OperationalState::Stopped if check.health == 0 => "DOWN".to_owned(),
                OperationalState::Stopped => format!("DOWN {}/{rise}", check.health),
                _ if check.health + 1 == rise + fall => up.to_owned(),
                _ => format!("{up} {}/{fall}", (check.health + 1).saturating_sub(rise)),
            }
        }
    };
    let (address, port) = match server.target() {
        Target::Inet(address) => (address.ip().to_string(), address.port().to_string()),
        Target::Unix(_) | Target::Abstract(_) => ("unix".to_owned(), String::new()),
        Target::Unresolved => (String::new(), String::new()),
    };
    let settings = proxy.settings();
    let node = proxy.config.global.node.as_deref().unwrap_or(&proxy.process.hostname);
    text += &format!(
        "; address={address}; port={port}; name={}/{}; node={node}; weight={}/{}; scur={}/{}; qcur={}",
        settings.name,
        server.config.name,
        stats.weight,
        backend.weight,
        stats.served,
        backend.streams.saturating_sub(backend.queued),
        stats.queued
    );
    if let Some(throttle) = stats.throttle {
        text += &format!("; throttle={throttle}%");
    }
    text
}
