//! Requests of HTTP that come to a store.
//!
//! A web page may have its reader's browser send a `POST` to any address that the browser reaches, a store on the reader's own
//! machine among them, and what the browser sends as the body would be read as inline commands. So whoever sends `POST`, or
//! the field `Host:` that each request has, is no client: nothing that follows is read.

use keyspace::Millis;

use crate::{
    config::LogLevel,
    session::{Close, Session},
};

use super::Server;

/// How often the log is told, at most.
const TOLD_EACH_MS: Millis = 60_000;

/// Whether words are the beginning of a request, or its field `Host`. No commands have these names.
pub(super) fn is_http(words: &[&[u8]]) -> bool {
    let name = words.first().copied().unwrap_or_default();
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

impl Server {
    /// Closes the connection without a word to whoever sent it.
    pub(super) fn refuse_http(&mut self, session: &mut Session) {
        session.close = Close::Now;
        let told_at = &mut self.shared.log.http_told_at;
        if told_at.is_some_and(|told_at| (0..TOLD_EACH_MS).contains(&(self.now - told_at))) {
            return;
        }
        *told_at = Some(self.now);
        let text = format!(
            "Possible SECURITY ATTACK: {} sent a request of HTTP (POST or Host:), as web pages have browsers do it that can \
             reach the store. The connection was closed.",
            session.connection.address
        );
        self.shared.say(LogLevel::Warning, text);
    }
}
