//! `show sess` and `shutdown session`.

use std::{fmt::Write as _, net::SocketAddr, time::Duration};

use logs::accept_date;
use net::Target;
use tokio::sync::mpsc::UnboundedSender;

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
};

/// A session as it is listed.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    /// Its number.
    pub id: u64,
    /// The client; `None` for one on a unix socket.
    pub source: Option<SocketAddr>,
    /// How the client's connection came.
    pub transport: Transport,
    /// The version of HTTP that the client speaks, if it speaks any.
    pub http_version: u8,
    /// The frontend.
    pub frontend: ProxyView,
    /// Name and number of the listener, where that is known.
    pub listener: Option<(Option<String>, u32)>,
    /// The backend of the current request.
    pub backend: Option<ProxyView>,
    /// The server of the current request.
    pub server: Option<ServerView>,
    /// Time since it was accepted.
    pub age: Duration,
    /// Requests so far.
    pub requests: u64,
    /// Whether there is no request at the moment.
    pub is_idle: bool,
}

/// What a connection is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP, or a unix socket.
    #[default]
    Plain,
    /// TLS over either.
    Tls,
    /// QUIC.
    Quic,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "RAW",
            Self::Tls => "SSL",
            Self::Quic => "QUIC",
        }
    }
}

/// A proxy of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyView {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// Whether it is in HTTP mode.
    pub is_http: bool,
}

/// A server of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerView {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// Where it is.
    pub target: Target,
    /// Whether TLS is spoken with it.
    pub is_secure: bool,
}

/// What every worker is asked about its sessions.
#[derive(Clone, Debug)]
pub enum AskSessions {
    /// To list them.
    List(UnboundedSender<Vec<SessionView>>),
    /// To end the one of this number, and to say so if there was one.
    Shut(u64, UnboundedSender<()>),
    /// Nothing: what a worker was told before is done when it has dropped this.
    Wait(UnboundedSender<()>),
}

/// Which sessions are shown, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// Those with a request, a line each.
    List,
    /// Those without a request, a line each.
    Idle,
    /// Those with a request, with all that is known.
    All,
    /// One, with all that is known.
    One(u64),
}

pub(super) fn show(_: &mut Session, _: &Context<'_>, line: &Line) -> Reply {
    Reply::ShowSessions(match line.word(2) {
        "" => Sessions::List,
        "all" => Sessions::All,
        "idle" => Sessions::Idle,
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

/// The text of sessions that were asked for. As in HAProxy, whoever asks is among them.
pub(super) fn render(sessions: &[SessionView], which: Sessions, context: &Context<'_>) -> String {
    let mut out = String::new();
    let wanted = |session: &&SessionView| match which {
        Sessions::One(id) => id == session.id,
        Sessions::Idle => session.is_idle,
        Sessions::List | Sessions::All => !session.is_idle,
    };
    for session in sessions.iter().filter(wanted) {
        match which {
            Sessions::List | Sessions::Idle => write_line(&mut out, session),
            Sessions::All | Sessions::One(_) => write_all(&mut out, session, context),
        }
    }
    match which {
        Sessions::List => out.push_str(ASKER),
        Sessions::One(_) if out.is_empty() => out.push_str("Session not found.\n"),
        _ => {}
    }
    out
}

/// The line of the one who asks. Nobody else can be told of it, so it has no number.
const ASKER: &str = "(nil): proto=unix_stream src=unix:1 fe=GLOBAL be=<NONE> srv=<none> ts=00 epoch=0 age=0s calls=1 rate=0 \
                     cpu=0 lat=0 rq[f=000000h,i=0,an=00h,rx=,wx=,ax=] rp[f=000000h,i=0,an=00h,rx=,wx=,ax=] scf=[8,0h,fd=-1] \
                     scb=[8,1h,fd=-1] exp= rc=0 c_exp=\n";

/// The name of a session's protocol, and its client.
fn source(session: &SessionView) -> (&'static str, String) {
    let is_quic = session.transport == Transport::Quic;
    match session.source {
        Some(address) => {
            let protocol = match (address, is_quic) {
                (SocketAddr::V4(_), false) => "tcpv4",
                (SocketAddr::V6(_), false) => "tcpv6",
                (SocketAddr::V4(_), true) => "quic4",
                (SocketAddr::V6(_), true) => "quic6",
            };
            (protocol, format!("{}:{}", address.ip(), address.port()))
        }
        None => {
            let number = session.listener.as_ref().map_or(1, |(_, number)| *number);
            ("unix_stream", format!("unix:{number}"))
        }
    }
}

/// The session in one line. What only HAProxy's inner parts have stands there as if there were nothing of it.
fn write_line(out: &mut String, session: &SessionView) {
    let (protocol, source) = source(session);
    let backend = session.backend.as_ref().map_or("<NONE>", |backend| &backend.name);
    let server = session.server.as_ref().map_or("<none>", |server| &server.name);
    // Connected, or nothing as yet.
    let state = if session.server.is_some() { 8 } else { 0 };
    let _ = writeln!(
        out,
        "{:#x}: proto={protocol} src={source} fe={} be={backend} srv={server} ts=00 epoch=0 age={} calls={} rate=0 cpu=0 lat=0 \
         rq[f=000000h,i=0,an=00h,rx=,wx=,ax=] rp[f=000000h,i=0,an=00h,rx=,wx=,ax=] scf=[8,0h,fd=-1] \
         scb=[{state},1h,fd=-1] exp= rc=0 c_exp=",
        session.id,
        session.frontend.name,
        human(session.age),
        session.requests,
    );
}

/// The session with all that is known of it, in HAProxy's places. Lines about HAProxy's inner parts (`txn=`, `req=`, `res=`)
/// are left out.
fn write_all(out: &mut String, session: &SessionView, context: &Context<'_>) {
    let (protocol, source) = source(session);
    let mode = |proxy: &ProxyView| if proxy.is_http { "http" } else { "tcp" };
    let accepted = context.now.saturating_sub(session.age);
    let date = accept_date(accepted);
    let (date, _) = date.rsplit_once('.').unwrap_or((&date, ""));
    let _ = writeln!(
        out,
        "{:#x}: [{date}.{:06}] id={} proto={protocol} source={source}",
        session.id,
        accepted.subsec_micros(),
        session.id & 0xffff_ffff,
    );
    out.push_str(
        "  flags=0x0, conn_retries=0, conn_exp=<NEVER> conn_et=0x000 srv_conn=(nil), pend_pos=(nil) waiting=0 epoch=0\n",
    );
    let frontend = &session.frontend;
    let (name, number) = match &session.listener {
        Some((name, number)) => (name.as_deref().unwrap_or("?"), *number),
        None => ("?", 0),
    };
    let _ = writeln!(
        out,
        "  frontend={} (id={} mode={}), listener={name} (id={number})",
        frontend.name,
        frontend.id,
        mode(frontend)
    );
    let _ = match &session.backend {
        Some(backend) => writeln!(out, "  backend={} (id={} mode={})", backend.name, backend.id, mode(backend)),
        None => writeln!(out, "  backend=<NONE> (id=-1 mode=-)"),
    };
    let _ = match (&session.server, &session.backend) {
        (Some(server), _) => {
            let place = match &server.target {
                Target::Inet(address) => format!(" addr={}:{}", address.ip(), address.port()),
                Target::Unix(_) | Target::Abstract(_) => " addr=unix".to_owned(),
                Target::Unresolved => String::new(),
            };
            writeln!(out, "  server={} (id={}){place}", server.name, server.id)
        }
        (None, Some(_)) => writeln!(out, "  server=<none> (id=0)"),
        (None, None) => writeln!(out, "  server=<NONE> (id=-1)"),
    };
    let thread = 1_u64.checked_shl(u32::try_from(session.id >> 48).unwrap_or(0).saturating_sub(1)).unwrap_or(0);
    let _ = writeln!(
        out,
        "  task=(nil) (state=0x00 nice=0 calls={} rate=0 exp=<NEVER> tmask={thread:#x} age={})",
        session.requests,
        human(session.age),
    );
    write_ends(out, session, protocol, thread);
}

/// The client's end of a session, and the server's.
fn write_ends(out: &mut String, session: &SessionView, protocol: &str, thread: u64) {
    let multiplexer = |proxy: &ProxyView| if proxy.is_http { "H1" } else { "PASS" };
    let frontend = &session.frontend;
    let mut end = |[side, connection]: [&str; 2],
                   protocol: &str,
                   transport: Transport,
                   multiplexer: &str,
                   target: &str| {
        let transport = transport.name();
        let _ = writeln!(
            out,
            "  {side}=(nil) flags=0x00000000 state=EST endp=CONN,(nil),0x00000000 sub=0\n      {connection}=(nil) \
             ctrl={protocol} xprt={transport} mux={multiplexer} data=STRM target={target}:(nil)\n      flags=0x00000000 fd=-1 \
             fd.state=00 updt=0 fd.tmask={thread:#x}"
        );
    };
    let spoken = match (session.http_version, session.transport) {
        (_, Transport::Quic) => "QUIC",
        (2, _) => "H2",
        _ => multiplexer(frontend),
    };
    end(["scf", "co0"], protocol, session.transport, spoken, "LISTENER");
    match &session.server {
        Some(server) => {
            let protocol = match server.target {
                Target::Inet(SocketAddr::V4(_)) => "tcpv4",
                Target::Inet(SocketAddr::V6(_)) => "tcpv6",
                _ => "unix_stream",
            };
            let transport = if server.is_secure { Transport::Tls } else { Transport::Plain };
            let spoken = multiplexer(session.backend.as_ref().unwrap_or(frontend));
            end(["scb", "co1"], protocol, transport, spoken, "SERVER");
        }
        None => out.push_str("  scb=(nil) flags=0x00000000 state=INI endp=NONE,(nil),0x00000000 sub=0\n"),
    }
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
