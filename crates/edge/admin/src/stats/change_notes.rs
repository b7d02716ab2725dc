//! What administrators change, in the words of the statistics page's list of changes.

use std::sync::Arc;

use live::changes::{Changes, Tone};

use super::control::{FrontendChange, PortChange, ProcessChange, ServerChange};

/// Remembers a change of a server that its farm says nothing about.
pub fn note_server(changes: &Changes, proxy: &Arc<str>, server: &str, change: &ServerChange) {
    if let Some((what, value)) = words(change) {
        let topic = format!("{what} {server}");
        let text = format!("{proxy}/{server}: {what}{value}");
        changes.note_setting(Some(proxy), topic, text);
    }
}

/// Remembers a change of a frontend.
pub fn note_frontend(changes: &Changes, proxy: &Arc<str>, change: FrontendChange) {
    let (tone, what) = match change {
        FrontendChange::MaxConn(limit) => (Tone::Neutral, format!("maxconn set to {limit}")),
        FrontendChange::Pause => (Tone::Neutral, "disabled: it refuses connections".to_owned()),
        FrontendChange::Resume => (Tone::Good, "enabled again".to_owned()),
        FrontendChange::Stop => (Tone::Neutral, "shut down for good".to_owned()),
    };
    changes.note(tone, Some(proxy), format!("{proxy}: {what}"));
}

/// Remembers a change of the process.
pub fn note_process(changes: &Changes, change: ProcessChange) {
    let (what, value) = match change {
        ProcessChange::MaxConn(limit) => ("maxconn", limit),
        ProcessChange::ConnectionRate(limit) => ("greatest rate of connections", limit),
        ProcessChange::CompressionRate(limit) => ("greatest rate of compression (kB/s)", limit),
        ProcessChange::SessionRate(limit) => ("greatest rate of sessions", limit),
        ProcessChange::TlsRate(limit) => ("greatest rate of TLS sessions", limit),
    };
    let value = if value == 0 { "its default".to_owned() } else { value.to_string() };
    changes.note_setting(None, what.to_owned(), format!("Process: {what} set to {value}"));
}

/// What a change of a server sets, and to what, where its farm has no message about it.
fn words(change: &ServerChange) -> Option<(&'static str, String)> {
    let place = |ip: &Option<std::net::IpAddr>, port: Option<String>| {
        let parts = [ip.map(|ip| ip.to_string()), port.map(|port| format!("port {port}"))];
        format!(" set to {}", parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    };
    Some(match change {
        ServerChange::Ready | ServerChange::Drain | ServerChange::Maintain | ServerChange::Health(_) => return None,
        ServerChange::Agent(_) => return None,
        ServerChange::Checks(true) => ("health checks started", String::new()),
        ServerChange::Checks(false) => ("health checks stopped", String::new()),
        ServerChange::AgentChecks(true) => ("agent is asked again", String::new()),
        ServerChange::AgentChecks(false) => ("agent is asked no more", String::new()),
        ServerChange::Weight(weight) => ("weight", format!(" set to {weight}")),
        ServerChange::MaxConn(limit) => ("maxconn", format!(" set to {limit}")),
        ServerChange::Address { ip, port } => {
            let port = port.as_ref().map(|port| match port {
                PortChange::Fixed(port) => port.to_string(),
                PortChange::Offset(offset) => format!("{offset:+}"),
                PortChange::Unreadable(text) => text.clone(),
            });
            ("address", place(ip, port))
        }
        ServerChange::CheckAddress { ip, port } => ("address of checks", place(ip, port.map(|port| port.to_string()))),
        ServerChange::AgentAddress { ip, port } => {
            ("address of the agent", place(ip, port.map(|port| port.to_string())))
        }
        ServerChange::AgentSend(_) => ("question to the agent changed", String::new()),
        ServerChange::HostName(name) => ("host name", format!(" set to {name}")),
        ServerChange::ShutSessions => ("all sessions ended", String::new()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(changes: &Changes) -> Vec<String> {
        changes.after(0).into_iter().map(|change| change.text).collect()
    }

    #[test]
    fn what_is_set_again_and_again_takes_one_place() {
        let changes = Changes::default();
        let app: Arc<str> = "app".into();
        for weight in ["10%", "20%", "30%"] {
            note_server(&changes, &app, "s1", &ServerChange::Weight(weight.into()));
        }
        note_server(&changes, &app, "s2", &ServerChange::Weight("1".into()));
        note_server(&changes, &app, "s2", &ServerChange::ShutSessions);
        note_server(&changes, &app, "s2", &ServerChange::Drain);
        assert_eq!(
            texts(&changes),
            ["app/s1: weight set to 30%", "app/s2: weight set to 1", "app/s2: all sessions ended"]
        );
        assert_eq!(changes.after(0)[0].number, 3);
    }
}
