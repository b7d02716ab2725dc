//! What clients ask.

use std::borrow::Cow;

use commands::server::FoundCommand;
use resp::{Arguments, Progress, RequestParser};

use super::redirect::Asker;
use super::{
    Link, Proxy, Waiting,
    client::Pending,
    link::{LinkKind, OUTPUT_MAX},
    merge::Gathering,
    own::Purpose,
    reads::Destination,
};
use crate::route::{Merge, Route};

/// Whether a request is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is on its way, or answered.
    Now,
    /// It has to wait for those before it.
    Later,
}

/// A request with its words.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// As it is sent on.
    pub bytes: &'a [u8],
    /// Its words.
    pub words: Arguments<'a>,
    /// The command.
    pub found: FoundCommand,
}

/// A request in parts.
pub struct Parts {
    /// The parts with their servers.
    pub requests: Vec<(usize, Vec<u8>)>,
    /// Which part each element of the answer comes from.
    pub order: Vec<u32>,
}

impl Proxy {
    /// Runs what a client has sent, behind what came before.
    pub fn received(&mut self, index: usize, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let mut parser = std::mem::take(&mut client.parser);
        let mut input = std::mem::take(&mut client.input);
        let was_empty = input.is_empty();
        if !was_empty {
            input.extend_from_slice(bytes);
        }
        let consumed = self.run(index, &mut parser, if was_empty { bytes } else { &input });
        if was_empty {
            input.extend_from_slice(bytes.get(consumed..).unwrap_or_default());
        } else if consumed >= input.len() {
            input = Vec::new();
        } else {
            input.drain(..consumed);
        }
        if let Some(client) = self.clients.get_mut(index) {
            (client.parser, client.input) = (parser, input);
        }
    }

    /// Runs requests as long as there are whole ones, and says how many bytes they were.
    fn run(&mut self, index: usize, parser: &mut RequestParser, buffer: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let Some(client) = self.clients.get(index) else { return buffer.len() };
            if client.is_closing {
                return buffer.len();
            }
            let rest = buffer.get(at..).unwrap_or_default();
            if client.is_held() || rest.is_empty() {
                return at;
            }
            match parser.parse(rest, &self.limits) {
                Ok(Progress::Incomplete { .. }) => return at,
                Ok(Progress::Empty { consumed }) => at += consumed,
                Ok(Progress::Complete { consumed }) => {
                    let words = parser.arguments(rest);
                    if self.request(index, rest.get(..consumed).unwrap_or_default(), words) == Taken::Later {
                        return at;
                    }
                    at += consumed;
                }
                Err(error) => {
                    if let Some(client) = self.clients.get_mut(index) {
                        client.answer(|out| error.write_reply(out));
                        client.is_closing = true;
                    }
                    self.touch(index);
                    return buffer.len();
                }
            }
        }
    }

    fn request(&mut self, index: usize, bytes: &[u8], words: Arguments<'_>) -> Taken {
        let first = [words.get(0).unwrap_or_default(), words.get(1).unwrap_or_default()];
        let Some(found) = self.table.find(first.get(..words.len()).unwrap_or(&first)) else {
            self.refuse(index, &unknown(words));
            return Taken::Now;
        };
        let Some(client) = self.clients.get(index) else { return Taken::Now };
        let is_open_to_all = || matches!(found.command.name, "AUTH" | "HELLO" | "QUIT" | "RESET");
        if !client.is_authenticated && !is_open_to_all() {
            self.refuse(index, "NOAUTH Authentication required.");
            return Taken::Now;
        }
        if !found.command.takes(words.len()) {
            self.refuse(index, &format!("ERR wrong number of arguments for '{}' command", found.full_name()));
            return Taken::Now;
        }
        // Inline commands go on as arrays.
        let bytes = if bytes.first() == Some(&b'*') {
            Cow::Borrowed(bytes)
        } else {
            let mut array = Vec::new();
            resp::encode_command(&mut array, &words.iter().collect::<Vec<_>>());
            Cow::Owned(array)
        };
        let request = Request { bytes: &bytes, words, found };
        if self.plain.is_active() && self.must_wait(index, request) {
            return Taken::Later;
        }
        match self.clients.get(index).and_then(|client| Some(client.own.as_ref()?.purpose)) {
            Some(Purpose::Transaction { .. }) => return self.within_transaction(index, request),
            Some(Purpose::Listening { .. }) => return self.while_listening(index, request),
            _ => {}
        }
        self.by_route(index, request, self.route_of(request))
    }

    #[inline]
    pub(super) fn route_of(&self, request: Request<'_>) -> Route {
        self.routes.of(request.found.index)
    }

    pub(super) fn by_route(&mut self, index: usize, request: Request<'_>, route: Route) -> Taken {
        match route {
            Route::Key(place) => match self.server_of(index, request.words.get(place).unwrap_or_default()) {
                Ok(server) => {
                    let destination = self.destination(index, server, request);
                    self.forward(index, destination, request.bytes, Pending::One);
                }
                Err(reason) => self.refuse(index, &reason),
            },
            Route::Keys => match self.server_of_all(index, request, false) {
                Ok(server) => {
                    let destination = self.destination(index, server, request);
                    self.forward(index, destination, request.bytes, Pending::One);
                }
                Err(reason) => self.refuse(index, &reason),
            },
            Route::Split(each, merge) => self.split(index, request, each, merge),
            Route::Everywhere(merge) => self.everywhere(index, request.bytes, merge),
            Route::First => match self.first_server(index) {
                Ok(server) => self.forward(index, server.into(), request.bytes, Pending::One),
                Err(reason) => self.refuse(index, &reason),
            },
            Route::Scan => self.scan(index, request),
            // What may change the protocol waits for replies in the one before.
            Route::Local if matches!(request.found.command.name, "RESET" | "HELLO") && !self.is_alone(index) => {
                return Taken::Later;
            }
            Route::Local => self.local(index, request),
            Route::Blocking => return self.wait_for_server(index, request),
            Route::Transaction => return self.transaction(index, request),
            Route::Subscription => return self.listen(index, request),
            Route::Refused(reason) => {
                self.refuse(index, &format!("ERR '{}' cannot go through a proxy: {reason}", request.found.full_name()));
            }
        }
        Taken::Now
    }

    /// Sends a request to a server, by a connection that clients share.
    #[inline]
    pub(super) fn forward(&mut self, index: usize, destination: Destination, request: &[u8], pending: Pending) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let (id, pool) = (client.id, client.pool);
        let number = client.wait(pending);
        self.forward_part(pool, destination, request, (index, id, number, 0));
    }

    /// Sends a part of a request; `answer` is the client, its number, the request's and the part's.
    /// Returns by which connection it goes, unless it is refused.
    pub(super) fn forward_part(
        &mut self,
        pool: usize,
        destination: Destination,
        request: &[u8],
        answer: Asker,
    ) -> Option<usize> {
        let (client, id, number, part) = answer;
        let link = self.shared_link(pool, destination, client, request.len())?;
        if self.is_refused(pool, destination.server, link, answer) {
            return None;
        }
        let waiting = Waiting::Answer { client, id, request: number, part, since: self.now };
        self.send(link, request, Some(waiting));
        self.throttle(client, id, link);
        Some(link)
    }

    /// The connection to a server that a client shares with others, for a request of so many bytes.
    #[inline]
    pub(super) fn shared_link(&mut self, pool: usize, to: Destination, client: usize, len: usize) -> Option<usize> {
        let client = self.clients.get(client)?;
        let (id, kind) = (client.id, LinkKind { reads_replica: to.reads_replica, ..client.link_kind() });
        let server = self.pools.get_mut(pool)?.servers.get_mut(to.server)?;
        server.counts.requests += 1;
        server.counts.request_bytes += len as u64;
        let links = server.links(kind);
        if links.is_empty() {
            self.add_shared_links(pool, to.server, kind);
            let links = self.pools.get(pool)?.servers.get(to.server)?.links(kind);
            return links.get(turn(id, links.len())).copied();
        }
        links.get(turn(id, links.len())).copied()
    }

    /// Makes the connections that requests of a kind share: as many as those of the first kind.
    #[cold]
    fn add_shared_links(&mut self, pool: usize, place: usize, kind: LinkKind) {
        let Some(known) = self.pools.get_mut(pool) else { return };
        let new = || Link::new(pool, place, None).keeping(known.slots.is_some()).of_kind(kind);
        let links = (0..known.config.server_connections).map(|_| self.links.insert(new())).collect();
        if let Some(server) = known.servers.get_mut(place) {
            server.shared.push((kind, links));
        }
    }

    /// The first of the connections that requests of a kind share.
    pub(super) fn first_link(&mut self, pool: usize, place: usize, kind: LinkKind) -> Option<usize> {
        let server = self.pools.get(pool)?.servers.get(place)?;
        if server.links(kind).is_empty() {
            self.add_shared_links(pool, place, kind);
        }
        self.pools.get(pool)?.servers.get(place)?.links(kind).first().copied()
    }

    /// Holds a client up that sends more than a server takes.
    #[inline]
    pub(super) fn throttle(&mut self, place: usize, id: u64, link: usize) {
        let kept_max = self.kept_max;
        let is_full = |link: &&mut Link| link.unsent() > OUTPUT_MAX || link.kept_bytes > kept_max;
        let Some(link) = self.links.get_mut(link).filter(is_full) else { return };
        if let Some(client) = self.clients.get_mut(place)
            && !client.is_throttled
        {
            client.is_throttled = true;
            link.throttled.push((place, id));
        }
    }

    /// A server has taken something: clients that were held up go on once it has taken most of it.
    #[inline]
    pub fn link_sent(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        if !link.throttled.is_empty() && link.unsent() <= OUTPUT_MAX / 2 && link.kept_bytes <= self.kept_max / 2 {
            let throttled = std::mem::take(&mut link.throttled);
            self.unthrottle(throttled);
        }
    }

    pub(super) fn unthrottle(&mut self, clients: Vec<(usize, u64)>) {
        for (place, id) in clients {
            if let Some(client) = self.clients.get_mut(place).filter(|client| client.id == id) {
                client.is_throttled = false;
                self.work.resume.push(place);
            }
        }
    }

    /// Each server gets the keys that are its own.
    fn split(&mut self, index: usize, request: Request<'_>, each: usize, merge: Merge) {
        let words = request.words;
        if !(words.len() - 1).is_multiple_of(each) {
            let name = request.found.full_name();
            self.refuse(index, &format!("ERR wrong number of arguments for '{name}' command"));
            return;
        }
        let parts = match self.parts_of(index, request, each) {
            Ok(parts) => parts,
            Err(reason) => return self.refuse(index, &reason),
        };
        if let [(server, _)] = parts.requests.as_slice() {
            let destination = self.destination(index, *server, request);
            return self.forward(index, destination, request.bytes, Pending::One);
        }
        let destined = parts.requests.into_iter();
        let requests =
            destined.map(|(server, bytes)| (self.destination(index, server, request), bytes)).collect::<Vec<_>>();
        self.gather(index, &requests, merge, parts.order);
    }

    /// A request in parts, each for the server of its keys, which come with so many words each.
    pub(super) fn parts_of(&mut self, index: usize, request: Request<'_>, each: usize) -> Result<Parts, String> {
        let words = request.words;
        // What the keys of each part have in common, its server, and the places of the words that go with it.
        let mut parts: Vec<(usize, usize, Vec<usize>)> = Vec::new();
        let mut order = Vec::new();
        for place in (1..words.len()).step_by(each.max(1)) {
            let key = words.get(place).unwrap_or_default();
            let server = self.server_of(index, key)?;
            let common = self.pool_of(index).map_or(server, |pool| pool.part_of(key, server));
            let is_it = |(known, its, _): &(usize, usize, Vec<usize>)| *known == common && *its == server;
            let part = parts.iter().position(is_it).unwrap_or_else(|| {
                parts.push((common, server, Vec::new()));
                parts.len() - 1
            });
            if let Some((.., places)) = parts.get_mut(part) {
                places.extend(place..place + each);
            }
            order.push(u32::try_from(part).unwrap_or(0));
        }
        let requests = parts.into_iter().map(|(_, server, places)| {
            let mut bytes = Vec::new();
            resp::encode_command_header(&mut bytes, places.len() + 1);
            resp::encode_argument(&mut bytes, words.get(0).unwrap_or_default());
            places.iter().for_each(|place| resp::encode_argument(&mut bytes, words.get(*place).unwrap_or_default()));
            (server, bytes)
        });
        Ok(Parts { requests: requests.collect(), order })
    }

    fn everywhere(&mut self, index: usize, request: &[u8], merge: Merge) {
        let Some(pool) = self.clients.get(index).and_then(|client| self.pools.get(client.pool)) else { return };
        let servers = pool.with_keys();
        let requests: Vec<(Destination, Vec<u8>)> =
            servers.into_iter().map(|place| (place.into(), request.to_vec())).collect();
        match requests.as_slice() {
            [] => self.refuse_for_want_of_servers(index),
            [(destination, _)] => self.forward(index, *destination, request, Pending::One),
            requests => self.gather(index, requests, merge, Vec::new()),
        }
    }

    /// Sends parts to servers, and makes one answer of what they reply.
    fn gather(&mut self, index: usize, requests: &[(Destination, Vec<u8>)], merge: Merge, order: Vec<u32>) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let (id, pool) = (client.id, client.pool);
        let gathering = Gathering::new(merge, requests.len(), order);
        let number = client.wait(Pending::Many(Box::new(gathering)));
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.counts.fragments += requests.len() as u64;
        }
        for (part, (server, bytes)) in (0..).zip(requests) {
            self.forward_part(pool, *server, bytes, (index, id, number, part));
        }
    }
}

/// Which of so many connections a client has.
#[inline]
fn turn(id: u64, count: usize) -> usize {
    usize::try_from(id).unwrap_or(0).checked_rem(count).unwrap_or(0)
}

/// What Redis says of a command that it does not know.
fn unknown(words: Arguments<'_>) -> String {
    const LEN_MAX: usize = 128;
    let text = |word: &[u8]| String::from_utf8_lossy(word.get(..LEN_MAX).unwrap_or(word)).into_owned();
    let mut said =
        format!("ERR unknown command '{}', with args beginning with: ", text(words.get(0).unwrap_or_default()));
    let start = said.len();
    for word in words.from(1).iter() {
        if said.len() - start >= LEN_MAX {
            break;
        }
        said.push_str(&format!("'{}' ", text(word)));
    }
    said.replace(['\r', '\n'], " ")
}
