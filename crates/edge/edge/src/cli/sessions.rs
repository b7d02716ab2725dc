//! `show sess` and `shutdown session`.

use std::{fmt::Write as _, net::SocketAddr, time::Duration};

use tokio::sync::mpsc::UnboundedSender;

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
};

/// A session as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its number.
    pub id: u64,
    /// The client; `None` for one on a unix socket.
    pub source: Option<SocketAddr>,
    /// The frontend.
    pub frontend: String,
    /// The backend of the current request.
    pub backend: Option<String>,
    /// The server of the current request.
    pub server: Option<String>,
    /// Time since it was accepted.
    pub age: Duration,
    /// Requests so far.
    pub requests: u64,
}

/// What every worker is asked about its sessions.
#[derive(Clone, Debug)]
pub enum AskSessions {
    /// To list them.
    List(UnboundedSender<Vec<SessionView>>),
    /// To end the one of this number, and to say so if there was one.
    Shut(u64, UnboundedSender<()>),
}

/// Which sessions are shown, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// All, a line each.
    List,
    /// All, with all that is known.
    All,
    /// One, with all that is known.
    One(u64),
}

pub(super) fn show(_: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    Reply::ShowSessions(match line.word(2) {
        "" => Sessions::List,
        "all" => Sessions::All,
        id => Sessions::One(number(id)),
    })
}

pub(super) fn shut(_: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    match number(line.word(2)) {
        0 => Reply::error("Session pointer expected (use 'show sess')."),
        id => Reply::ShutSession(id),
    }
}

/// The number of a session, decimal or behind `0x`; 0 is none.
fn number(text: &str) -> u64 {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    u64::from_str_radix(digits, radix).unwrap_or(0)
}

/// The text of sessions that were asked for.
pub(super) fn render(sessions: &[SessionView], which: Sessions) -> String {
    let mut out = String::new();
    let wanted = |session: &&SessionView| !matches!(which, Sessions::One(id) if id != session.id);
    for session in sessions.iter().filter(wanted) {
        write_line(&mut out, session);
        if which != Sessions::List {
            write_more(&mut out, session);
        }
    }
    if out.is_empty() && matches!(which, Sessions::One(_)) {
        out.push_str("Session not found.\n");
    }
    out
}

fn write_line(out: &mut String, session: &SessionView) {
    let (protocol, source) = match session.source {
        Some(address @ SocketAddr::V4(_)) => ("tcpv4", format!("{}:{}", address.ip(), address.port())),
        Some(address @ SocketAddr::V6(_)) => ("tcpv6", format!("{}:{}", address.ip(), address.port())),
        None => ("unix_stream", "unix:1".to_owned()),
    };
    let backend = session.backend.as_deref().unwrap_or("<NONE>");
    let server = session.server.as_deref().unwrap_or("<none>");
    let _ = writeln!(
        out,
        "{:#x}: proto={protocol} src={source} fe={} be={backend} srv={server} age={} calls={}",
        session.id,
        session.frontend,
        human(session.age),
        session.requests,
    );
}

fn write_more(out: &mut String, session: &SessionView) {
    let _ = writeln!(out, "  age={} s, requests={}", session.age.as_secs(), session.requests);
}

/// `1h2m`, `3m4s`, `5s`: the two greatest units, as HAProxy shows ages.
pub(super) fn human(age: Duration) -> String {
    let seconds = age.as_secs();
    let units = [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let first = units.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    units.iter().skip(first).take(2).map(|(count, unit)| format!("{count}{unit}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: u64) -> SessionView {
        SessionView {
            id,
            source: Some(SocketAddr::from(([10, 0, 0, 1], 4_000))),
            frontend: "web".to_owned(),
            backend: Some("app".to_owned()),
            server: None,
            age: Duration::from_secs(65),
            requests: 3,
        }
    }

    #[test]
    fn sessions_are_listed() {
        let sessions = [session(10), session(11)];
        let list = render(&sessions, Sessions::List);
        assert_eq!(list.lines().count(), 2);
        assert_eq!(
            list.lines().next().unwrap(),
            "0xa: proto=tcpv4 src=10.0.0.1:4000 fe=web be=app srv=<none> age=1m5s calls=3"
        );
        assert!(render(&sessions, Sessions::One(11)).starts_with("0xb: "));
        assert_eq!(render(&sessions, Sessions::One(12)), "Session not found.\n");
        assert_eq!(render(&[], Sessions::All), "");
    }

    #[test]
    fn ages_and_numbers() {
        for (seconds, expected) in [(0, "0s"), (59, "59s"), (3_600, "1h0m"), (90_061, "1d1h")] {
            assert_eq!(human(Duration::from_secs(seconds)), expected);
        }
        for (text, expected) in [("0x1F", 31), ("12", 12), ("", 0), ("x", 0), ("-1", 0)] {
            assert_eq!(number(text), expected);
        }
    }
}
