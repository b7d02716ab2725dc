//! What the proxy answers itself.

use resp::Protocol;

use super::{Proxy, Waiting, client::Pending, requests::Request};

/// Longest name of a client.
const CLIENT_NAME_MAX: usize = 4_096;
/// The user of who gives a password alone.
const DEFAULT_USER: &str = "default";

impl Proxy {
    /// Answers a command that is no server's.
    pub(super) fn local(&mut self, index: usize, request: Request<'_>) {
        let words = request.words;
        let word = |place: usize| words.get(place).unwrap_or_default();
        let found = request.found;
        match (found.container.map(|container| container.name), found.command.name) {
            (None, "PING") => match words.len() {
                1 => self.answer(index, |reply| reply.simple("PONG")),
                _ => self.answer(index, |reply| reply.bulk(word(1))),
            },
            (None, "ECHO") => self.answer(index, |reply| reply.bulk(word(1))),
            (None, "AUTH") => self.authenticate(index, &words.from(1).iter().collect::<Vec<_>>()),
            (None, "HELLO") => self.hello(index, request),
            (None, "SELECT") => self.select(index, word(1)),
            (None, "QUIT") => {
                self.ok(index);
                if let Some(client) = self.clients.get_mut(index) {
                    client.is_closing = true;
                }
            }
            (None, "RESET") => self.reset(index),
            (None, "INFO") => self.inform(index, request),
            (None, "READONLY" | "READWRITE") => {
                self.refuse(index, "ERR This instance has cluster support disabled");
            }
            (Some("CLIENT"), name) => self.client_command(index, name, request),
            _ => self.refuse(index, &format!("ERR '{}' cannot go through a proxy", found.full_name())),
        }
    }

    /// `SELECT`: where all keys are on one server, it is asked, since it knows how many databases it has.
    fn select(&mut self, index: usize, word: &[u8]) {
        let Some(db) = std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok()) else {
            return self.refuse(index, "ERR invalid DB index");
        };
        let Some((pool, client)) = self.pool_of(index).zip(self.clients.get(index)) else { return };
        let current = client.db;
        let (is_cluster, is_free) =
            (pool.slots.as_ref().is_some_and(|slots| !slots.of_one_server), client.own.is_none());
        match u32::try_from(db) {
            Ok(db) if db == current => self.ok(index),
            Err(_) => self.refuse(index, "ERR DB index is out of range"),
            Ok(_) if is_cluster => self.refuse(index, "ERR SELECT is not allowed in cluster mode"),
            Ok(_) if !pool.has_databases() => self.refuse(
                index,
                "ERR DB index is out of range: a pool of several servers, or with redis_db, shows one database, number 0",
            ),
            Ok(_) if !is_free => {
                self.refuse(index, "ERR SELECT while keys are watched cannot go through a proxy: UNWATCH first");
            }
            Ok(db) => match self.first_server(index) {
                Ok(server) => self.try_database(index, server, current, db),
                Err(reason) => self.refuse(index, &reason),
            },
        }
    }

    /// Asks a server whether it has a database, by a connection that others share: that goes back at once to the one it had.
    fn try_database(&mut self, index: usize, server: usize, current: u32, db: u32) {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, &[b"SELECT", db.to_string().as_bytes()]);
        let Some(client) = self.clients.get_mut(index) else { return };
        let (id, pool) = (client.id, client.pool);
        let number = client.wait(Pending::Select(db));
        // What comes behind it is in that database.
        client.holds = true;
        let Some(link) = self.forward_part(pool, server.into(), &bytes, (index, id, number, 0)) else { return };
        bytes.clear();
        resp::encode_command(&mut bytes, &[b"SELECT", current.to_string().as_bytes()]);
        self.send(link, &bytes, Some(Waiting::Swallow));
    }

    fn authenticate(&mut self, index: usize, given: &[&[u8]]) {
        let Some(pool) = self.pool_of(index) else { return };
        let user = pool.config.user.as_deref().unwrap_or(DEFAULT_USER);
        let is_right = match (&pool.config.redis_auth, given) {
            (None, _) => {
                return self.refuse(
                    index,
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                     configuration is correct?",
                );
            }
            (Some(password), [word]) => equal(password.as_bytes(), word),
            (Some(password), [name, word]) => user.as_bytes() == *name && equal(password.as_bytes(), word),
            _ => false,
        };
        if !is_right {
            return self.refuse(index, "WRONGPASS invalid username-password pair or user is disabled.");
        }
        if let Some(client) = self.clients.get_mut(index) {
            client.is_authenticated = true;
        }
        self.ok(index);
    }

    fn hello(&mut self, index: usize, request: Request<'_>) {
        let words: Vec<&[u8]> = request.words.from(1).iter().collect();
        let (version, mut rest) =
            words.split_first().map_or((None, [].as_slice()), |(version, rest)| (Some(*version), rest));
        let lacks_resp3 = self.pool_of(index).is_some_and(|pool| pool.lacks_resp3);
        let protocol = match version {
            None => self.clients.get(index).map_or(Protocol::Resp2, |client| client.protocol),
            Some(b"2") => Protocol::Resp2,
            Some(b"3") if !lacks_resp3 => Protocol::Resp3,
            Some(_) => return self.refuse(index, "NOPROTO unsupported protocol version"),
        };
        while let Some((option, following)) = rest.split_first() {
            match (option.to_ascii_uppercase().as_slice(), following) {
                (b"AUTH", [user, password, after @ ..]) => {
                    let Some(pool) = self.pool_of(index) else { return };
                    let wanted = pool.config.redis_auth.as_ref();
                    let name = pool.config.user.as_deref().unwrap_or(DEFAULT_USER);
                    let is_right =
                        wanted.is_none_or(|wanted| equal(wanted.as_bytes(), password)) && **user == *name.as_bytes();
                    if !is_right {
                        return self.refuse(index, "WRONGPASS invalid username-password pair or user is disabled.");
                    }
                    if let Some(client) = self.clients.get_mut(index) {
                        client.is_authenticated = true;
                    }
                    rest = after;
                }
                (b"SETNAME", [name, after @ ..]) => {
                    if !self.set_name(index, name) {
                        return;
                    }
                    rest = after;
                }
                _ => {
                    let option = String::from_utf8_lossy(option).into_owned();
                    return self.refuse(index, &format!("ERR Syntax error in HELLO option '{option}'"));
                }
            }
        }
        let Some(client) = self.clients.get_mut(index) else { return };
        if !client.is_authenticated {
            return self.refuse(
                index,
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> \
                 option can be used to authenticate the client and select the RESP protocol version at the same time",
            );
        }
        if client.protocol != protocol && client.own.is_some() {
            return self.refuse(index, "ERR the protocol cannot be changed while keys are watched: UNWATCH first");
        }
        client.protocol = protocol;
        let id = client.id.cast_signed();
        self.answer(index, |reply| {
            reply.map(7);
            reply.bulk(b"server");
            reply.bulk(b"redis");
            reply.bulk(b"version");
            reply.bulk(commands::REDIS_VERSION.as_bytes());
            reply.bulk(b"proto");
            reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
            reply.bulk(b"id");
            reply.integer(id);
            reply.bulk(b"mode");
            reply.bulk(b"standalone");
            reply.bulk(b"role");
            reply.bulk(b"master");
            reply.bulk(b"modules");
            reply.array(0);
        });
    }

    /// Gives a client a name; `false` if it cannot have that, which it has been told.
    fn set_name(&mut self, index: usize, name: &[u8]) -> bool {
        if name.len() > CLIENT_NAME_MAX || name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
            self.refuse(index, "ERR Client names cannot contain spaces, newlines or special characters.");
            return false;
        }
        if let Some(client) = self.clients.get_mut(index) {
            client.name = name.to_vec();
        }
        true
    }

    fn client_command(&mut self, index: usize, name: &str, request: Request<'_>) {
        let Some(client) = self.clients.get(index) else { return };
        let word = request.words.get(2).unwrap_or_default();
        match name {
            "SETNAME" => {
                if self.set_name(index, word) {
                    self.ok(index);
                }
            }
            "GETNAME" => {
                let name = client.name.clone();
                self.answer(index, |reply| reply.bulk_or_null(Some(name.as_slice()).filter(|name| !name.is_empty())));
            }
            "ID" => {
                let id = client.id.cast_signed();
                self.answer(index, |reply| reply.integer(id));
            }
            "SETINFO" | "NO-EVICT" | "NO-TOUCH" => self.ok(index),
            "INFO" => {
                let text = client.described();
                self.answer(index, |reply| reply.bulk(text.as_bytes()));
            }
            "LIST" => {
                let pool = client.pool;
                let all = self.clients.iter().filter(|(_, client)| client.pool == pool);
                let text: String = all.map(|(_, client)| client.described()).collect();
                self.answer(index, |reply| reply.bulk(text.as_bytes()));
            }
            "GETREDIR" => self.answer(index, |reply| reply.integer(-1)),
            "TRACKING" if word.eq_ignore_ascii_case(b"off") => self.ok(index),
            "TRACKING" | "CACHING" => self.refuse(
                index,
                "ERR client-side caching cannot go through a proxy: keys are read by connections that clients share, and it is to these \
                 that servers say what has changed. Switch the client's cache off, or connect to the servers",
            ),
            "REPLY" => self.refuse(index, "ERR 'client|reply' cannot go through a proxy: replies are what it orders requests by"),
            _ => {
                let name = request.found.full_name();
                self.refuse(
                    index,
                    &format!(
                        "ERR '{name}' cannot go through a proxy: clients of its servers are the proxy's connections"
                    ),
                );
            }
        }
    }

    fn reset(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let own = client.own.take();
        client.name.clear();
        client.protocol = Protocol::Resp2;
        client.holds = false;
        client.db = 0;
        let pool = client.pool;
        let is_authenticated = self.pools.get(pool).is_some_and(|pool| pool.config.redis_auth.is_none());
        if let Some(client) = self.clients.get_mut(index) {
            client.is_authenticated = is_authenticated;
        }
        if let Some(link) = own.and_then(|own| own.link) {
            self.close_link(link);
        }
        self.answer(index, |reply| reply.simple("RESET"));
    }
}

/// Compares without telling by the time how much is right.
fn equal(known: &[u8], given: &[u8]) -> bool {
    known.len() == given.len() && known.iter().zip(given).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}
