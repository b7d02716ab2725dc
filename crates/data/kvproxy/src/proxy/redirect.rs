//! Requests that a server did not take: where they go instead, and which of them are tried again.
//!
//! ```text
//! MOVED, ASK            -> to the other server
//! TRYAGAIN, READONLY, NOREPLICAS, ... -> again in a moment
//! connection lost       -> again, if the request was not sent, or only reads
//! ```
//!
//! A client's later requests wait meanwhile, so its requests run in its order (`order`).

use std::fmt::Write as _;

use resp::{Progress, RequestParser};

use super::{
    Proxy, Waiting, client::Pending, link::UnansweredRequest, merge::Gathering, own::Purpose, requests::Request,
};
use crate::{nutcracker::Address, route::Route};

/// Milliseconds until a request is tried again.
pub(super) const AGAIN_MS: u64 = 10;
/// Redirections that are followed at once; then one in a moment: servers may take each other for the owner.
const AT_ONCE_MAX: u32 = 5;

/// Who waits for the answer to a part of a request: client by place and number, request by number, part.
pub type Asker = (usize, u64, u64, u32);

/// What a server says instead of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Refusal<'a> {
    /// A command that waited was ended: by whoever looks after the server, as its keys are about to have another one, or by a client; or its
    /// server is no master any more.
    Unblocked,
    Moved(u16, &'a str, u16),
    Ask(&'a str, u16),
    NotNow,
}

/// Reads an error reply; `None` if it is an answer like others.
fn refusal(reply: &[u8]) -> Option<Refusal<'_>> {
    let text = std::str::from_utf8(reply.strip_prefix(b"-")?.strip_suffix(b"\r\n")?).ok()?;
    let mut words = text.split(' ');
    let kind = words.next()?;
    let mut place = || {
        let slot = words.next()?.parse::<u16>().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        Some((slot, host, port.parse::<u16>().ok()?))
    };
    match kind {
        "MOVED" => place().map(|(slot, host, port)| Refusal::Moved(slot, host, port)),
        "ASK" => place().map(|(_, host, port)| Refusal::Ask(host, port)),
        "UNBLOCKED" => Some(Refusal::Unblocked),
        "TRYAGAIN" | "CLUSTERDOWN" | "READONLY" | "LOADING" | "MASTERDOWN" | "NOREPLICAS" => Some(Refusal::NotNow),
        _ => None,
    }
}

impl Proxy {
    /// Sends a request elsewhere, or again, if its reply says so. `false` if the reply is the answer.
    #[cold]
    pub(super) fn is_redirected(
        &mut self,
        link: usize,
        asker: Asker,
        kept: &mut UnansweredRequest,
        reply: &[u8],
    ) -> bool {
        let Some((pool, own)) = self.links.get(link).map(|link| (link.pool, link.owner)) else { return false };
        let Some(refusal) = refusal(reply) else {
            return reply.starts_with(b"-ERR syntax error") && self.is_walked_otherwise((link, pool), asker, kept);
        };
        if own.is_some() && refusal == Refusal::Unblocked {
            return self.is_waiting_again(link, asker, kept, reply);
        }
        let known = self.links.get(link).map(|link| (link.server, link.kind.reads_replica));
        if let Some((server, true)) = known {
            self.leave_out(pool, server);
            self.work.refresh = true;
            self.hold(asker);
            let kept = std::mem::take(kept);
            self.resend(pool, asker, kept, reply);
            return true;
        }
        if own.is_some() {
            return self.is_own_redirected(pool, asker, kept, (&refusal, reply));
        }
        if !self.has_time(pool, kept) {
            return false;
        }
        self.work.refresh = true;
        self.hold(asker);
        let kept = std::mem::take(kept);
        match refusal {
            Refusal::Moved(slot, host, port) => match self.moved_to(link, host, port) {
                // A new master that does not know yet that it is one sends everybody to the one before.
                Some(server) if self.has_failed(pool, server) => self.park(pool, asker, kept, reply),
                Some(server) if self.is_of_server(link, server) => self.park(pool, asker, kept, reply),
                Some(server) => {
                    self.learn(pool, slot, server);
                    if self.has_only(asker) {
                        self.resend(pool, asker, kept, reply);
                    } else {
                        self.park_behind(pool, asker, kept, reply);
                    }
                }
                None => self.park(pool, asker, kept, reply),
            },
            Refusal::Ask(host, port) => match self.moved_to(link, host, port) {
                Some(server) => self.send_kept(pool, server, asker, kept, true),
                None => self.park(pool, asker, kept, reply),
            },
            Refusal::NotNow | Refusal::Unblocked => self.park(pool, asker, kept, reply),
        }
        true
    }

    fn is_of_server(&self, link: usize, server: usize) -> bool {
        self.links.get(link).is_some_and(|link| link.server == server)
    }

    /// Whether a server sends to the address by which it was reached.
    pub(super) fn is_sent_to_itself(&mut self, link: usize, reply: &[u8]) -> bool {
        let Some(Refusal::Moved(_, host, port)) = refusal(reply) else { return false };
        let is_own = self.links.get(link).is_some_and(|link| link.kind.reads_replica);
        // A replica that is asked to be read from says where its master is.
        !is_own && self.moved_to(link, host, port).is_some_and(|server| self.is_of_server(link, server))
    }

    /// Begins a walk over all keys again, server by server, as the server was asked for slots and is no store.
    fn is_walked_otherwise(
        &mut self,
        (link, pool): (usize, usize),
        asker: Asker,
        kept: &mut UnansweredRequest,
    ) -> bool {
        if self.links.get(link).is_none_or(|link| link.owner.is_some()) {
            return false;
        }
        let mut parser = RequestParser::new();
        if !matches!(parser.parse(&kept.bytes, &self.limits), Ok(Progress::Complete { .. })) {
            return false;
        }
        let Some((server, bytes)) = self.scan_by_servers(pool, asker, parser.arguments(&kept.bytes)) else {
            return false;
        };
        let kept = std::mem::take(kept);
        self.hold(asker);
        self.send_kept(pool, server, asker, UnansweredRequest { bytes, ..kept }, false);
        true
    }

    /// The same of a command that has a connection for itself.
    fn is_own_redirected(
        &mut self,
        pool: usize,
        asker: Asker,
        kept: &mut UnansweredRequest,
        (refusal, reply): (&Refusal<'_>, &[u8]),
    ) -> bool {
        let (place, id, ..) = asker;
        let Some(own) = self.clients.get(place).filter(|client| client.id == id).and_then(|client| client.own.as_ref())
        else {
            return false;
        };
        // A transaction's commands are told: it is the client's to begin again.
        let (Purpose::OneReply { may_wait: true }, Some(link)) = (own.purpose, own.link) else { return false };
        if *refusal == Refusal::NotNow {
            return self.is_let_wait_later(link, asker, kept, reply);
        }
        let Refusal::Moved(slot, host, port) = *refusal else { return false };
        // A store sends to a Redis by way of a proxy: which one it is, the file says in a moment.
        let Some(server) = self.moved_to(link, host, port) else { return self.waits_again(link, asker, kept, b"") };
        // A new master that does not know yet that it is one sends everybody to the one before.
        if self.has_failed(pool, server) {
            return self.is_let_wait_later(link, asker, kept, reply);
        }
        // It may have waited there for as long as it wants: what is bounded is how often it is sent on within a short time.
        if !self.has_time(pool, kept) {
            kept.tries = 0;
        }
        kept.since = self.now;
        kept.tries += 1;
        if kept.tries > AT_ONCE_MAX {
            return self.is_let_wait_later(link, asker, kept, reply);
        }
        self.learn(pool, slot, server);
        self.work.refresh = true;
        if let Some(client) = self.clients.get_mut(place) {
            client.own = None;
        }
        self.release(Some(link));
        self.own_link(place, server, Purpose::OneReply { may_wait: true });
        if let Some(link) = self.clients.get(place).and_then(|client| client.own.as_ref()?.link) {
            self.send_again(link, asker, std::mem::take(kept));
        }
        true
    }

    /// A command that waited goes on waiting where its keys are then: its server is no master any more, or knows no slots and is about to
    /// lose some. What a client has ended by `CLIENT UNBLOCK` is over.
    fn is_waiting_again(&mut self, link: usize, asker: Asker, kept: &mut UnansweredRequest, reply: &[u8]) -> bool {
        let is_demoted = reply.starts_with(b"-UNBLOCKED force unblock");
        (is_demoted || self.is_plain_link(link)) && self.waits_again(link, asker, kept, reply)
    }

    /// A server does not let a command wait: it does not know yet that it is the master, or it is that no more. The command is tried again
    /// for as long as others are. How long it has waited at a server before is not counted.
    fn is_let_wait_later(&mut self, link: usize, asker: Asker, kept: &mut UnansweredRequest, reply: &[u8]) -> bool {
        let Some(pool) = self.links.get(link).map(|link| link.pool) else { return false };
        let last = UnansweredRequest { since: kept.refused_at.unwrap_or(0), ..UnansweredRequest::default() };
        if kept.refused_at.is_none() || !self.has_time(pool, &last) {
            kept.since = self.now;
        }
        kept.refused_at = Some(self.now);
        self.work.refresh = true;
        self.has_time(pool, kept) && self.parks_own(link, asker, kept, reply)
    }

    fn waits_again(&mut self, link: usize, asker: Asker, kept: &mut UnansweredRequest, reply: &[u8]) -> bool {
        (kept.since, kept.refused_at) = (self.now, None);
        self.parks_own(link, asker, kept, reply)
    }

    /// A client's own connection is free, and the command that was to wait there is tried again in a moment.
    fn parks_own(&mut self, link: usize, asker: Asker, kept: &mut UnansweredRequest, reply: &[u8]) -> bool {
        let (place, id, ..) = asker;
        let is_its = |client: &&mut super::Client| {
            client.id == id
                && client.own.as_ref().is_some_and(|own| own.purpose == Purpose::OneReply { may_wait: true })
        };
        let Some(client) = self.clients.get_mut(place).filter(is_its) else { return false };
        client.own = None;
        client.holds = true;
        let pool = client.pool;
        self.release(Some(link));
        self.park(pool, asker, UnansweredRequest { tries: 0, ..std::mem::take(kept) }, reply);
        true
    }

    fn moved_to(&mut self, link: usize, host: &str, port: u16) -> Option<usize> {
        let link = self.links.get(link)?;
        let pool = link.pool;
        // Without a host it is the one that was asked (manual: CLUSTER SLOTS, endpoints).
        let known = self.pools.get(pool)?;
        let asked = known.config.servers.get(link.server)?.address.host().to_owned();
        let host = if host.is_empty() { &asked } else { host };
        let address = Address::Tcp { host: host.to_owned(), port };
        // A file says all: an address that is not in it is a proxy's, this one's perhaps, which stores name for a Redis.
        let says_all = known.slots.as_ref().is_some_and(|slots| slots.says_all);
        if says_all && !known.config.servers.iter().any(|server| server.address == address) {
            return None;
        }
        self.server_at(pool, host, port)
    }

    pub(super) fn has_time(&self, pool: usize, kept: &UnansweredRequest) -> bool {
        let slots = self.pools.get(pool).and_then(|pool| pool.slots.as_ref());
        slots.is_some_and(|slots| self.now.saturating_sub(kept.since) < slots.retry_for)
    }

    pub(super) fn hold(&mut self, (place, id, ..): Asker) {
        if let Some(client) = self.clients.get_mut(place).filter(|client| client.id == id) {
            client.holds = true;
        }
    }

    /// What becomes of a request whose connection was lost, for a reason: it is tried again, or its client hears of it.
    pub(super) fn give_back(
        &mut self,
        pool: usize,
        asker: Asker,
        (kept, was_sent): (UnansweredRequest, bool),
        (place, why): (&str, &str),
    ) {
        let mut error = format!("-ERR {why} (server {place})");
        let may_be_done = was_sent && !self.only_reads(&kept.bytes);
        if may_be_done {
            error.push_str(": whether the command was done is not known");
        }
        let _ = error.write_str("\r\n");
        if may_be_done && !self.parked.is_empty() {
            self.was_run(asker, &kept.bytes);
        }
        if may_be_done || !self.has_time(pool, &kept) {
            return self.complete(asker, error.as_bytes());
        }
        self.work.refresh = true;
        self.hold(asker);
        self.park(pool, asker, kept, error.as_bytes());
    }

    /// Sends a request where its keys are now.
    pub(super) fn resend(&mut self, pool: usize, asker: Asker, mut kept: UnansweredRequest, error: &[u8]) {
        kept.tries += 1;
        if kept.tries > AT_ONCE_MAX {
            return self.park(pool, asker, kept, error);
        }
        if self.clients.get(asker.0).is_none_or(|client| client.id != asker.1) {
            return;
        }
        let mut parser = RequestParser::new();
        let bytes = std::mem::take(&mut kept.bytes);
        if !matches!(parser.parse(&bytes, &self.limits), Ok(Progress::Complete { .. })) {
            return self.complete(asker, error);
        }
        let words = parser.arguments(&bytes);
        let first = [words.get(0).unwrap_or_default(), words.get(1).unwrap_or_default()];
        let Some(found) = self.table.find(first.get(..words.len()).unwrap_or(&first)) else {
            return self.complete(asker, error);
        };
        let request = Request { bytes: &bytes, words, found };
        let server = match self.routes.of(found.index) {
            Route::Split(each, merge) => {
                let parts = match self.parts_of(asker.0, request, each) {
                    Ok(parts) => parts,
                    Err(_) => return self.park(pool, asker, UnansweredRequest { bytes, ..kept }, error),
                };
                match parts.requests.as_slice() {
                    [(server, _)] => Ok(*server),
                    _ => {
                        return self.split_again(
                            pool,
                            asker,
                            Gathering::new(merge, parts.requests.len(), parts.order),
                            parts.requests,
                        );
                    }
                }
            }
            Route::Key(place) => self.server_of(asker.0, words.get(place).unwrap_or_default()),
            Route::Keys => self.server_of_all(asker.0, request, false),
            Route::First => self.first_server(asker.0),
            Route::Blocking => {
                return self.wait_again(
                    pool,
                    asker,
                    UnansweredRequest { bytes: bytes.clone(), ..kept },
                    (request, error),
                );
            }
            Route::Scan => {
                let Some((server, bytes)) = self.scan_again(pool, asker, words) else {
                    return self.complete(asker, error);
                };
                return self.send_kept(pool, server, asker, UnansweredRequest { bytes, ..kept }, false);
            }
            // The reply of this very server is wanted.
            _ => return self.complete(asker, error),
        };
        let kept = UnansweredRequest { bytes, ..kept };
        match server {
            Ok(server) => self.send_kept(pool, server, asker, kept, false),
            Err(_) => self.park(pool, asker, kept, error),
        }
    }

    fn wait_again(
        &mut self,
        pool: usize,
        asker: Asker,
        kept: UnansweredRequest,
        (request, error): (Request<'_>, &[u8]),
    ) {
        let Ok(server) = self.server_of_all(asker.0, request, true) else {
            return self.park(pool, asker, kept, error);
        };
        self.own_link(asker.0, server, Purpose::OneReply { may_wait: true });
        if let Some(link) = self.clients.get(asker.0).and_then(|client| client.own.as_ref()?.link) {
            self.send_again(link, asker, kept);
        }
    }

    /// A part of a request goes on as several.
    fn split_again(&mut self, pool: usize, asker: Asker, gathering: Gathering, requests: Vec<(usize, Vec<u8>)>) {
        let (place, id, request, part) = asker;
        let Some(client) = self.clients.get_mut(place).filter(|client| client.id == id) else { return };
        let Some(offset) = request.checked_sub(client.first).and_then(|offset| usize::try_from(offset).ok()) else {
            return;
        };
        let first = match client.pending.get_mut(offset) {
            Some(Pending::Many(whole)) => whole.nest(part, gathering),
            Some(pending) => {
                *pending = Pending::Many(Box::new(gathering));
                0
            }
            None => return,
        };
        let since = self.now;
        for (number, (server, bytes)) in (first..).zip(requests) {
            let kept = UnansweredRequest { bytes, since, ..UnansweredRequest::default() };
            self.send_kept(pool, server, (place, id, request, number), kept, false);
        }
    }

    fn send_kept(&mut self, pool: usize, server: usize, asker: Asker, kept: UnansweredRequest, asks: bool) {
        let Some(link) = self.shared_link(pool, server.into(), asker.0, kept.bytes.len()) else { return };
        if self.is_refused(pool, server, link, asker) {
            return;
        }
        if asks {
            self.send(link, b"*1\r\n$6\r\nASKING\r\n", Some(Waiting::Ignore));
        }
        self.send_again(link, asker, kept);
    }

    fn send_again(&mut self, link: usize, (client, id, request, part): Asker, kept: UnansweredRequest) {
        let waiting = Waiting::Answer { client, id, request, part, since: self.now };
        self.send(link, &kept.bytes, Some(waiting));
        if let Some(last) = self.links.get_mut(link).and_then(|link| link.kept.back_mut()) {
            (last.since, last.tries, last.refused_at) = (kept.since, kept.tries, kept.refused_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_send_elsewhere_are_known() {
        assert_eq!(refusal(b"-MOVED 3999 127.0.0.1:6381\r\n"), Some(Refusal::Moved(3999, "127.0.0.1", 6381)));
        assert_eq!(refusal(b"-MOVED 3999 ::1:6381\r\n"), Some(Refusal::Moved(3999, "::1", 6381)));
        assert_eq!(refusal(b"-MOVED 3999 :6381\r\n"), Some(Refusal::Moved(3999, "", 6381)));
        assert_eq!(refusal(b"-ASK 3999 127.0.0.1:6381\r\n"), Some(Refusal::Ask("127.0.0.1", 6381)));
        assert_eq!(refusal(b"-TRYAGAIN Multiple keys\r\n"), Some(Refusal::NotNow));
        for other in [&b"-ERR no\r\n"[..], b"-MOVED\r\n", b"-MOVED x y\r\n", b"+MOVED 1 a:1\r\n", b"-\xff\r\n"] {
            assert_eq!(refusal(other), None);
        }
    }
}
