//! What servers reply.

use std::collections::VecDeque;

use super::{
    LinkFailure, Proxy, SPARE_MAX,
    breaker::Failures,
    client::Pending,
    link::{LinkState, Waiting},
    merge::scanned,
    own::Purpose,
};

impl Proxy {
    /// A connection to a server stands.
    pub fn link_opened(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index).filter(|link| link.state == LinkState::Opening) else { return };
        link.state = LinkState::Open;
        if !link.is_dirty {
            link.is_dirty = true;
            self.work.links.push(index);
        }
        if let Some(server) = self.pools.get_mut(link.pool).and_then(|pool| pool.servers.get_mut(link.server)) {
            server.counts.server_connections += 1;
        }
    }

    /// A server has sent something.
    pub fn link_received(&mut self, index: usize, bytes: &[u8]) {
        if self.plain.is_distrusted() && self.is_plain_link(index) {
            // It stays unread: see `plain`.
            let link = self.links.get_mut(index).filter(|link| link.state == LinkState::Open);
            link.into_iter().for_each(|link| link.input.extend_from_slice(bytes));
            return;
        }
        let Some(link) = self.links.get_mut(index) else { return };
        let mut scanner = std::mem::take(&mut link.scanner);
        let mut input = std::mem::take(&mut link.input);
        let was_empty = input.is_empty();
        if !was_empty {
            input.extend_from_slice(bytes);
        }
        let buffer = if was_empty { bytes } else { input.as_slice() };
        let mut at = 0;
        loop {
            let rest = buffer.get(at..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            match scanner.scan(rest) {
                Ok(None) => break,
                Ok(Some(length)) => {
                    let frame = rest.get(..length).unwrap_or_default();
                    if let Err(failure) = self.reply(index, frame) {
                        return self.link_failed(index, &failure);
                    }
                    at += length;
                }
                Err(malformed) => return self.link_failed(index, &LinkFailure::Other(malformed.to_string())),
            }
        }
        if was_empty {
            input.extend_from_slice(bytes.get(at..).unwrap_or_default());
        } else if at >= input.len() {
            input = Vec::new();
        } else {
            input.drain(..at);
        }
        if let Some(link) = self.links.get_mut(index) {
            (link.scanner, link.input) = (scanner, input);
        }
    }

    /// Gives a reply to whoever waits for it.
    #[inline]
    fn reply(&mut self, index: usize, frame: &[u8]) -> Result<(), LinkFailure> {
        let Some(link) = self.links.get_mut(index) else { return Ok(()) };
        if let Some(pool) = self.pools.get_mut(link.pool)
            && let Some(server) = pool.servers.get_mut(link.server)
        {
            let failures = std::mem::take(&mut server.failures);
            if failures > 1 && pool.slots.is_some() {
                let place = pool.config.servers.get(link.server).map_or("", |server| server.name.as_str());
                let name = &pool.config.name;
                self.work
                    .messages
                    .push(format!("pool '{name}': server {place} answers again, after {failures} failures"));
            }
            server.counts.responses += 1;
            server.counts.response_bytes += frame.len() as u64;
        }
        link.taken += 1;
        let at = (link.pool, link.server);
        match link.waiting.pop_front() {
            Some(Waiting::Answer { client, id, request, part, .. }) => {
                let keeps = link.keeps;
                self.count_answer(at);
                if keeps && let Some(link) = self.links.get_mut(index) {
                    let mut kept = link.kept.pop_front();
                    link.kept_bytes -= kept.as_ref().map_or(0, |kept| kept.bytes.len());
                    if !link.throttled.is_empty() {
                        self.link_sent(index);
                    }
                    if frame.first() == Some(&b'-')
                        && let Some(kept) = &mut kept
                        && self.is_redirected(index, (client, id, request, part), kept, frame)
                    {
                        // NOTE: it is another machine, as its name was led there when it was connected to. What waits is asked of a new connection.
                        let elsewhere = || LinkFailure::Other("it says that it is not the one at its address".into());
                        return if self.is_sent_to_itself(index, frame) { Err(elsewhere()) } else { Ok(()) };
                    }
                    if !self.parked.is_empty()
                        && let Some(kept) = kept
                    {
                        self.was_run((client, id, request, part), &kept.bytes);
                    }
                }
                self.complete((client, id, request, part), frame)
            }
            Some(Waiting::Probe) => {
                let server = self.pools.get_mut(link.pool).and_then(|pool| pool.servers.get_mut(link.server));
                if let Some(server) = server {
                    server.is_store = Some(frame.first() == Some(&b'+'));
                }
            }
            Some(Waiting::Ignore) => {}
            Some(Waiting::Role { since }) => {
                self.count_answer(at);
                self.role_told(at, since, frame);
            }
            // One that loads its data does not serve yet.
            Some(Waiting::Revival { .. }) if frame.starts_with(b"-LOADING") => {}
            Some(Waiting::Revival { .. }) => self.count_answer(at),
            Some(Waiting::Hello) if frame.first() == Some(&b'-') => {
                if let Some(pool) = self.pools.get_mut(link.pool) {
                    pool.lacks_resp3 = true;
                }
                return Err(LinkFailure::Other("the server does not speak RESP3".to_owned()));
            }
            Some(Waiting::Swallow) if frame.first() == Some(&b'-') => {
                let said = String::from_utf8_lossy(frame.get(1..).unwrap_or_default()).trim_end().to_owned();
                return Err(LinkFailure::Other(format!("the server refused the proxy: {said}")));
            }
            Some(Waiting::Swallow | Waiting::Hello) => {}
            None => match link.owner {
                Some(owner) => self.message(index, owner, frame),
                None => return Err(LinkFailure::Other("the server sent a reply that nobody waits for".to_owned())),
            },
        }
        Ok(())
    }

    /// A reply to a part of a request: to a client by place and number, its request by number, and the part.
    #[inline]
    pub(super) fn complete(&mut self, (place, id, request, part): (usize, u64, u64, u32), reply: &[u8]) {
        // A client that has left waits for nothing.
        let Some(client) = self.clients.get_mut(place).filter(|client| client.id == id) else { return };
        let Some(offset) = request.checked_sub(client.first).and_then(|offset| usize::try_from(offset).ok()) else {
            return;
        };
        let Some(pending) = client.pending.get_mut(offset) else { return };
        match pending {
            Pending::One if offset == 0 => {
                client.output.extend_from_slice(reply);
                client.pending.pop_front();
                client.first += 1;
            }
            Pending::One => *pending = Pending::Done(reply.to_vec()),
            Pending::Scan(walk) => {
                let mut out = Vec::new();
                scanned(reply, *walk, &mut out);
                *pending = Pending::Done(out);
            }
            Pending::Select(db) => {
                if reply.first() == Some(&b'+') {
                    client.db = *db;
                }
                *pending = Pending::Done(reply.to_vec());
            }
            Pending::Many(gathering) => {
                if gathering.take(part, reply)
                    && let Pending::Many(gathering) = std::mem::replace(pending, Pending::Done(Vec::new()))
                {
                    let mut out = Vec::new();
                    gathering.write(&mut out);
                    *pending = Pending::Done(out);
                }
            }
            Pending::Done(_) => {}
        }
        client.settle();
        if client.output.len() - client.sent > self.client_output_max {
            self.give_up(place);
        } else if client.is_settled() {
            self.settled(place);
        }
        self.touch(place);
    }

    /// A client reads so slowly that what it is owed takes too much memory.
    #[cold]
    fn give_up(&mut self, place: usize) {
        let Some(client) = self.clients.get_mut(place) else { return };
        (client.output, client.sent) = (Vec::new(), 0);
        // What is still under way for it is nobody's.
        client.pending.clear();
        client.id = 0;
        client.is_closing = true;
        let limit = self.client_output_max;
        self.work
            .messages
            .push(format!("a client reads too slowly: more than {limit} bytes waited for it, so it is closed"));
    }

    /// All of a client's requests are answered: those that held for that go on, and a connection that was for one reply is free.
    fn settled(&mut self, place: usize) {
        let Some(client) = self.clients.get_mut(place) else { return };
        let is_over = client.own.as_ref().is_some_and(|own| matches!(own.purpose, Purpose::OneReply { .. }));
        let is_marked =
            client.own.as_ref().is_some_and(|own| matches!(own.purpose, Purpose::Listening { marks, .. } if marks > 0));
        if client.holds && !is_marked {
            client.holds = false;
            self.work.resume.push(place);
        }
        if is_over && let Some(own) = client.own.take() {
            self.release(own.link);
        }
    }

    /// A connection that a client had for itself is kept for the next one, or closed.
    pub(super) fn release(&mut self, link: Option<usize>) {
        let Some(index) = link else { return };
        let Some(link) = self.links.get_mut(index) else { return };
        let server = self.pools.get_mut(link.pool).and_then(|pool| pool.servers.get_mut(link.server));
        match server {
            Some(server)
                if link.state == LinkState::Open && link.waiting.is_empty() && server.spare.len() < SPARE_MAX =>
            {
                server.spare.push(index);
                link.owner = None;
            }
            _ => self.close_link(index),
        }
    }

    /// Counts the failures of a server whose connection is lost: each request that was not answered in time is one, a lost connection is
    /// one.
    fn count_lost(
        &mut self,
        (pool, server): (usize, usize),
        why: &LinkFailure,
        since: u64,
        waiting: &VecDeque<Waiting>,
    ) {
        let late = waiting.iter().filter(|one| matches!(one, Waiting::Answer { .. })).count();
        let count = if *why == LinkFailure::TimedOut { u32::try_from(late).unwrap_or(u32::MAX).max(1) } else { 1 };
        self.count_failures(pool, server, Failures { count, since, reason: why.text() });
    }

    /// A connection to a server is lost, or could not be opened. Whoever waited hears why.
    pub fn link_failed(&mut self, index: usize, why: &LinkFailure) {
        let Some(link) = self.links.get_mut(index) else { return };
        let (pool_index, server_index, owner) = (link.pool, link.server, link.owner);
        if link.state == LinkState::Closed {
            return;
        }
        self.count_closed(index);
        let Some(link) = self.links.get_mut(index) else { return };
        let sent = link.sent_ever;
        let mut kept = std::mem::take(&mut link.kept);
        let keeps = link.keeps;
        let reads_replica = link.kind.reads_replica;
        let since = link.waits_since().unwrap_or(self.now);
        let waiting = link.reset();
        let throttled = std::mem::take(&mut link.throttled);
        // Of what a client has a connection for itself, a command that waits may wait elsewhere: a transaction is the client's to begin again.
        let keeps = keeps && owner.is_none_or(|owner| self.has_waiting_command(owner));
        self.unthrottle(throttled);
        let Some(pool) = self.pools.get_mut(pool_index) else { return };
        let Some(server) = pool.servers.get_mut(server_index) else { return };
        let place = pool.config.servers.get(server_index).map_or_else(String::new, |server| server.address.to_string());
        let counts = &mut server.counts;
        match why {
            LinkFailure::Eof => counts.server_eof += 1,
            LinkFailure::TimedOut => counts.server_timedout += 1,
            LinkFailure::Other(_) => counts.server_err += 1,
        }
        let mut has_failed = false;
        let was_spare = owner.is_none() && !server.all_links().any(|link| link == index);
        server.spare.retain(|spare| *spare != index);
        // An idle connection that a server ends is no failure of it.
        if !waiting.is_empty() || *why != LinkFailure::Eof {
            pool.failed(server_index, self.now, self.wall);
            has_failed = true;
            let name = &pool.config.name;
            // What is tried again every few milliseconds is said once.
            let is_known = pool
                .servers
                .get(server_index)
                .is_some_and(|server| server.breaker.is_open() || (pool.slots.is_some() && server.failures > 1));
            if !is_known {
                self.work.messages.push(format!(
                    "pool '{name}': server {place}: {}, {} waited",
                    why.text(),
                    waiting.len()
                ));
            }
        }
        if reads_replica {
            self.leave_out(pool_index, server_index);
        }
        if has_failed {
            self.count_lost((pool_index, server_index), why, since, &waiting);
        }
        let error = format!("-ERR {} (server {place})\r\n", why.text());
        for one in waiting {
            let Waiting::Answer { client, id, request, part, .. } = one else { continue };
            let asker = (client, id, request, part);
            match kept.pop_front().filter(|_| keeps) {
                Some(kept) => {
                    let was_sent = kept.end <= sent;
                    // What was to be read from a replica is read from its master.
                    if reads_replica {
                        self.hold(asker);
                        self.resend(pool_index, asker, kept, error.as_bytes());
                    } else {
                        self.give_back(pool_index, asker, (kept, was_sent), (&place, why.text()));
                    }
                }
                None => self.complete(asker, error.as_bytes()),
            }
        }
        if let Some((client, id)) = owner {
            self.own_link_lost(client, id, index);
        }
        if was_spare && let Some(link) = self.links.get_mut(index) {
            link.owner = Some((usize::MAX, 0));
        }
        self.work.close.push(index);
    }
}
