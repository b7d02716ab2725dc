//! The same scene through this program and through Debian's HAProxy.

use std::net::SocketAddr;

use super::{Edge, LogServer, free_address};

/// A scene that is played once for each program.
#[derive(Debug)]
pub struct Scene {
    pub edge: Edge,
    pub log: LogServer,
    pub front: SocketAddr,
}

/// Plays a scene through both and compares what it tells. The configuration gets the address to bind and stands after
/// `global` and `defaults` sections with long timeouts; what follows `site` in it may use any keyword.
#[track_caller]
pub fn beside_haproxy(section: impl Fn(SocketAddr) -> String, play: impl Fn(&Scene) -> Vec<String>) -> Vec<String> {
    let text = |front, log: &LogServer| {
        format!(
            "global\n log {} local0\ndefaults\n log global\n timeout client 60s\n timeout server 60s\n timeout connect 2s\n{}\n",
            log.address,
            section(front)
        )
    };
    let (log, front) = (LogServer::start(), free_address());
    let edge = Edge::start_single(&text(front, &log));
    let ours = play(&Scene { edge, log, front });
    let (log, front) = (LogServer::start(), free_address());
    if let Some(edge) = Edge::start_haproxy(&text(front, &log)) {
        let theirs = play(&Scene { edge, log, front });
        assert_eq!(ours, theirs, "ours and HAProxy's");
    }
    ours
}

/// The two words of a log line that tell who was served and how it ended: `site/s1 sD`, for example.
pub fn server_and_end(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let server = words.iter().find(|word| word.contains('/') && !word.contains(':')).unwrap_or(&"");
    let is_state = |word: &&&str| {
        matches!(word.len(), 2 | 4)
            && word.bytes().take(2).all(|byte| byte == b'-' || byte.is_ascii_alphabetic())
            && word.bytes().skip(2).all(|byte| byte == b'-' || byte.is_ascii_uppercase())
    };
    let state = words.iter().skip(5).find(is_state).unwrap_or(&"?");
    format!("{server} {}", state.get(..2).unwrap_or(state))
}
