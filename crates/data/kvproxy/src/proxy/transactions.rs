//! What needs a connection of the client's own: transactions, commands that wait, subscriptions.
//!
//! ```text
//!            WATCH                MULTI
//! shared ------------> watching ---------> transaction --EXEC, DISCARD--> one reply ---> shared
//!    |------MULTI--------------------------^                                  ^
//!    |------BLPOP, XREAD BLOCK, ... ------------------------------------------|
//!    |------SUBSCRIBE ---> listening --nothing is subscribed to any more--> shared
//! ```
//!
//! Before a client changes from the shared connections to its own, and back, all its requests are answered: they run in its order.

use keyspace::slot::cluster_slot;
use resp::Protocol;

use super::{
    Link, Proxy, Waiting,
    client::Pending,
    own::{MARK, Own, Purpose, confirmed, is_mark},
    requests::{Request, Taken},
};
use crate::route::Route;

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const DISCARD: &[u8] = b"*1\r\n$7\r\nDISCARD\r\n";

impl Proxy {
    /// Whether all requests of a client are answered; if not, the next one waits for that.
    pub(super) fn is_alone(&mut self, index: usize) -> bool {
        let Some(client) = self.clients.get_mut(index) else { return false };
        client.holds = !client.is_settled();
        !client.holds
    }

    /// Gives a client a connection of its own to a server.
    pub(super) fn own_link(&mut self, index: usize, server: usize, purpose: Purpose) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let owner = (index, client.id);
        let pool = client.pool;
        let kind = client.link_kind();
        let links = &self.links;
        let spare = self.pools.get_mut(pool).and_then(|pool| {
            let spare = &mut pool.servers.get_mut(server)?.spare;
            let fits = |index: &usize| links.get(*index).is_some_and(|link| link.kind == kind);
            Some(spare.swap_remove(spare.iter().rposition(fits)?))
        });
        let link = spare.unwrap_or_else(|| {
            let keeps = self.pools.get(pool).is_some_and(|pool| pool.slots.is_some());
            self.links.insert(Link::new(pool, server, Some(owner)).keeping(keeps).of_kind(kind))
        });
        if let Some(link) = self.links.get_mut(link) {
            link.owner = Some(owner);
        }
        client.own = Some(Box::new(Own { link: Some(link), server: Some(server), purpose, slots: Vec::new() }));
    }

    /// Sends by the client's own connection what it waits for.
    fn send_own(&mut self, index: usize, request: &[u8]) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let Some(link) = client.own.as_ref().and_then(|own| own.link) else {
            return self.refuse(index, "ERR the connection to the server is lost");
        };
        let id = client.id;
        let number = client.wait(Pending::One);
        self.send(
            link,
            request,
            Some(Waiting::Answer { client: index, id, request: number, part: 0, since: self.now }),
        );
    }

    /// Sends by the client's own connection what the proxy itself has to say.
    fn say_own(&mut self, index: usize, request: &[u8]) {
        if let Some(link) = self.clients.get(index).and_then(|client| client.own.as_ref()?.link) {
            self.send(link, request, Some(Waiting::Swallow));
        }
    }

    /// The connection is free after the reply that is under way.
    fn until_reply(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else { return };
        if let Some(own) = &mut client.own {
            own.purpose = Purpose::OneReply { may_wait: false };
        }
        client.holds = true;
        if client.is_settled() {
            // Nothing is under way.
            client.holds = false;
            let own = client.own.take();
            self.release(own.and_then(|own| own.link));
        }
    }

    /// A command that may wait.
    pub(super) fn wait_for_server(&mut self, index: usize, request: Request<'_>) -> Taken {
        if !self.is_alone(index) {
            return Taken::Later;
        }
        let server = match self.server_of_all(index, request, true) {
            Ok(server) => server,
            Err(reason) => {
                self.refuse(index, &reason);
                return Taken::Now;
            }
        };
        let is_free = self.clients.get(index).is_some_and(|client| client.own.is_none());
        if !is_free {
            // NOTE: keys are watched; what waits goes over the same connection, whose server may be another one.
            self.refuse(
                index,
                "ERR a command that may wait, while keys are watched, cannot go through a proxy: UNWATCH first",
            );
            return Taken::Now;
        }
        if let Some(reason) = self.refusal_for(index, server) {
            self.refuse(index, &reason);
            return Taken::Now;
        }
        self.own_link(index, server, Purpose::OneReply { may_wait: true });
        self.send_own(index, request.bytes);
        if let Some(client) = self.clients.get_mut(index) {
            client.holds = true;
        }
        Taken::Now
    }

    /// `WATCH`, `UNWATCH`, `MULTI`, `EXEC`, `DISCARD` outside a transaction.
    pub(super) fn transaction(&mut self, index: usize, request: Request<'_>) -> Taken {
        let name = request.found.command.name;
        if matches!(name, "EXEC" | "DISCARD") {
            self.refuse(index, &format!("ERR {name} without MULTI"));
            return Taken::Now;
        }
        if !self.is_alone(index) {
            return Taken::Later;
        }
        let watching = self.clients.get(index).and_then(|client| {
            let own = client.own.as_ref()?;
            match own.purpose {
                Purpose::Watching { is_lost } => Some((own.server, is_lost)),
                _ => None,
            }
        });
        match (name, watching) {
            ("WATCH", watching) => match self.server_of_all(index, request, true) {
                Ok(server) => match watching {
                    Some((Some(known), _)) if known != server => self.refuse(
                        index,
                        "CROSSSLOT Keys in request don't hash to the same slot: keys of another server are watched already",
                    ),
                    Some((_, true)) => self.ok(index),
                    watching => {
                        if watching.is_none() {
                            self.own_link(index, server, Purpose::Watching { is_lost: false });
                        }
                        self.note_slots(index, request);
                        self.send_own(index, request.bytes);
                        // What the client reads next goes over the shared connections: not before the keys are watched.
                        if let Some(client) = self.clients.get_mut(index) {
                            client.holds = true;
                        }
                    }
                },
                Err(reason) => self.refuse(index, &reason),
            },
            ("UNWATCH", Some((_, false))) => {
                self.send_own(index, request.bytes);
                self.until_reply(index);
            }
            ("UNWATCH", _) => {
                if let Some(client) = self.clients.get_mut(index) {
                    client.own = None;
                }
                self.ok(index);
            }
            _ => {
                if let Some(client) = self.clients.get_mut(index) {
                    let is_lost = watching.is_some_and(|(_, is_lost)| is_lost);
                    let purpose = Purpose::Transaction { is_begun: false, is_refused: false, is_lost };
                    let own = client.own.get_or_insert_with(|| Box::new(Own { link: None, server: None, purpose, slots: Vec::new() }));
                    own.purpose = purpose;
                }
                self.ok(index);
            }
        }
        Taken::Now
    }

    /// A request between `MULTI` and `EXEC`.
    pub(super) fn within_transaction(&mut self, index: usize, request: Request<'_>) -> Taken {
        let Some(own) = self.clients.get(index).and_then(|client| client.own.as_ref()) else { return Taken::Now };
        let Purpose::Transaction { is_begun, is_refused, is_lost } = own.purpose else { return Taken::Now };
        let known = own.server;
        match request.found.command.name {
            "MULTI" => self.refuse(index, "ERR MULTI calls can not be nested"),
            "WATCH" => self.answer(index, |reply| reply.error("ERR WATCH inside MULTI is not allowed")),
            "EXEC" | "DISCARD" if !self.is_alone(index) => return Taken::Later,
            "DISCARD" => {
                if is_begun {
                    self.send_own(index, request.bytes);
                } else {
                    self.ok(index);
                }
                self.end_transaction(index);
            }
            "EXEC" => {
                if is_refused || is_lost {
                    if is_begun {
                        self.say_own(index, DISCARD);
                    }
                    self.answer(index, |reply| match is_refused {
                        true => reply.error("EXECABORT Transaction discarded because of previous errors."),
                        false => reply.null_array(),
                    });
                } else if is_begun {
                    self.send_own(index, request.bytes);
                } else if known.is_some() {
                    // Keys are watched: whether they have changed, the server knows.
                    self.say_own(index, MULTI);
                    self.send_own(index, request.bytes);
                } else {
                    self.answer(index, |reply| reply.array(0));
                }
                self.end_transaction(index);
            }
            "QUIT" | "RESET" | "CLIENT" | "SELECT" | "AUTH" | "HELLO" | "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" => {
                let name = request.found.full_name();
                self.refuse(index, &format!("ERR '{name}' within a transaction cannot go through a proxy"));
            }
            // `EXEC` will say that nothing is executed.
            _ if is_lost => self.answer(index, |reply| reply.simple("QUEUED")),
            _ => self.queue(index, request, known, is_begun),
        }
        Taken::Now
    }

    /// Has the server of the transaction queue a command.
    fn queue(&mut self, index: usize, request: Request<'_>, known: Option<usize>, is_begun: bool) {
        let server = match self.server_of_all(index, request, false) {
            // What has no key goes with the others.
            Ok(server) if !has_keys(request) => known.unwrap_or(server),
            Ok(server) if known.is_some_and(|known| known != server) => {
                return self.refuse(
                    index,
                    "CROSSSLOT Keys in request don't hash to the same slot: this one is on another server than the transaction's \
                     others",
                );
            }
            Ok(server) => server,
            Err(reason) => return self.refuse(index, &reason),
        };
        if known.is_none() {
            if let Some(reason) = self.refusal_for(index, server) {
                return self.refuse(index, &reason);
            }
            self.own_link(index, server, Purpose::Transaction { is_begun: false, is_refused: false, is_lost: false });
        }
        if !is_begun {
            self.say_own(index, MULTI);
            if let Some(own) = self.clients.get_mut(index).and_then(|client| client.own.as_mut())
                && let Purpose::Transaction { is_begun, .. } = &mut own.purpose
            {
                *is_begun = true;
            }
        }
        self.note_slots(index, request);
        self.send_own(index, request.bytes);
    }

    /// Remembers what the keys of a transaction are about.
    fn note_slots(&mut self, index: usize, request: Request<'_>) {
        if !self.plain.is_there {
            return;
        }
        let words: Vec<&[u8]> = request.words.iter().collect();
        let places = request.found.command.key_places_of(&words);
        let slots = places.iter().map(|place| cluster_slot(words.get(*place).copied().unwrap_or_default()));
        if let Some(own) = self.clients.get_mut(index).and_then(|client| client.own.as_mut()) {
            own.slots.extend(slots);
            own.slots.sort_unstable();
            own.slots.dedup();
        }
    }

    fn end_transaction(&mut self, index: usize) {
        self.until_reply(index);
    }

    /// `SUBSCRIBE` and the like of a client that does not listen yet.
    pub(super) fn listen(&mut self, index: usize, request: Request<'_>) -> Taken {
        if !self.is_alone(index) {
            return Taken::Later;
        }
        if self.clients.get(index).is_some_and(|client| client.own.is_some()) {
            self.refuse(index, "ERR subscribing while keys are watched cannot go through a proxy: UNWATCH first");
            return Taken::Now;
        }
        match self.first_server(index) {
            Ok(server) => {
                self.own_link(index, server, Purpose::Listening { marks: 0, channels: 0 });
                self.send_listening(index, request.bytes);
            }
            Err(reason) => self.refuse(index, &reason),
        }
        Taken::Now
    }

    /// A request of a client that listens.
    pub(super) fn while_listening(&mut self, index: usize, request: Request<'_>) -> Taken {
        let is_newer = self.clients.get(index).is_some_and(|client| client.protocol == Protocol::Resp3);
        match request.found.command.name {
            "QUIT" | "RESET" => self.local(index, request),
            name if is_newer && !name.ends_with("SUBSCRIBE") => return self.beside_listening(index, request),
            name if is_newer && name.ends_with("SUBSCRIBE") && !self.is_alone(index) => return Taken::Later,
            "PING" => {
                if let Some(link) = self.clients.get(index).and_then(|client| client.own.as_ref()?.link) {
                    self.send(link, request.bytes, None);
                }
            }
            name if name.ends_with("SUBSCRIBE") => self.send_listening(index, request.bytes),
            _ => {
                let name = request.found.full_name();
                self.refuse(
                    index,
                    &format!(
                        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                         this context"
                    ),
                );
            }
        }
        Taken::Now
    }

    /// A request of a client that listens and speaks the newer protocol: messages come beside replies, so it may ask whatever needs
    /// no second connection of its own.
    fn beside_listening(&mut self, index: usize, request: Request<'_>) -> Taken {
        let route = self.route_of(request);
        if matches!(route, Route::Blocking | Route::Transaction) || request.found.command.name == "HELLO" {
            let name = request.found.full_name();
            self.refuse(index, &format!("ERR '{name}' while something is subscribed to cannot go through a proxy"));
            return Taken::Now;
        }
        self.by_route(index, request, route)
    }

    /// Sends what changes subscriptions, with a mark behind it. Nothing more is run until that is back: whether the client listens
    /// is known then.
    fn send_listening(&mut self, index: usize, request: &[u8]) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let Some(own) = &mut client.own else { return };
        if let Purpose::Listening { marks, .. } = &mut own.purpose {
            *marks += 1;
        }
        client.holds = true;
        if let Some(link) = own.link {
            self.send(link, request, None);
            self.send(link, MARK, None);
        }
    }

    /// Something has come by a connection of a client's own that is not the reply to one request.
    pub(super) fn message(&mut self, link: usize, (place, id): (usize, u64), frame: &[u8]) {
        let Some(client) = self.clients.get_mut(place).filter(|client| client.id == id) else { return };
        let Some(own) = client.own.as_mut().filter(|own| own.link == Some(link)) else { return };
        let Purpose::Listening { marks, channels } = &mut own.purpose else { return };
        if *marks > 0 && is_mark(frame) {
            *marks -= 1;
            if *marks == 0 {
                client.holds = false;
                self.work.resume.push(place);
                if *channels == 0 {
                    client.own = None;
                    self.release(Some(link));
                }
            }
            return;
        }
        if let Some(count) = confirmed(frame) {
            *channels = count;
        }
        client.output.extend_from_slice(frame);
        self.touch(place);
    }

    /// A client's own connection is lost; what waited for it has been answered.
    pub(super) fn own_link_lost(&mut self, place: usize, id: u64, link: usize) {
        let Some(client) = self.clients.get_mut(place).filter(|client| client.id == id) else { return };
        let Some(own) = client.own.as_mut().filter(|own| own.link == Some(link)) else { return };
        own.link = None;
        match &mut own.purpose {
            Purpose::Watching { is_lost } => *is_lost = true,
            Purpose::Transaction { is_begun, is_lost, is_refused } => {
                // What was queued is lost with it.
                *is_refused |= *is_begun;
                (*is_begun, *is_lost) = (false, true);
            }
            Purpose::OneReply { .. } => client.own = None,
            // Messages were missed: the client has to know, and does when its connection ends.
            Purpose::Listening { .. } => {
                client.is_closing = true;
                client.own = None;
                self.touch(place);
            }
        }
    }
}

fn has_keys(request: Request<'_>) -> bool {
    let words: Vec<&[u8]> = request.words.iter().collect();
    !request.found.command.key_places_of(&words).is_empty()
}
