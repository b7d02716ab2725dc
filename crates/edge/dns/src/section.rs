//! The machine of a `resolvers` section.
//!
//! ```text
//!             timeout resolve                      answer, or nothing after all retries
//!   waiting ------------------> running (a question is out) ------------------> waiting
//!                                  |  timeout retry, or an error: again, with the other family
//!                                  '--->'
//! ```
//!
//! Each name and kind of record is one *resolution*, whoever asks for it: servers, services (an SRV record that servers are
//! made of), and waiters (`do-resolve`). A resolution that nobody asks for any more is dropped.

mod questions;
mod service;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::IpAddr,
};

use self::questions::address;
use service::Service;

use crate::{
    Answer, Asked, Counters, Fault, Kind, Name, Options, Record, ServerKey, Servers, Settings, Transmit, Updater,
    WaiterKey,
    choice::{Choice, choose},
    decode_response,
    records::Records,
    response,
};

/// Bytes of a message's header, and of the shortest record: together they bound the records of an answer.
const HEADER_BYTES: u16 = 12;
const RECORD_BYTES_LEAST: u16 = 6;
/// Attempts at finding an id that no question has.
const ID_ATTEMPTS_MAX: usize = 100;

/// How a resolution ended last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Not yet.
    None,
    Valid,
    Invalid,
    NoSuchName,
    Refused,
    Timeout,
    Other,
}

/// Who wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    Server(ServerKey),
    Service(usize),
    Waiter(WaiterKey),
}

/// A question that is out.
#[derive(Clone, Copy, Debug)]
struct Running {
    id: u16,
    kind: Kind,
    tries_left: u32,
    sent_ms: u64,
    /// Name servers that it was sent to.
    queries: usize,
    responses: usize,
}

/// A name and a kind of record.
#[derive(Debug)]
pub(crate) struct Resolution {
    name: Name,
    kind: Kind,
    status: Status,
    running: Option<Running>,
    ended_ms: Option<u64>,
    valid_ms: u64,
    pub records: Records,
    requesters: Vec<Requester>,
}

/// A server of the section.
#[derive(Debug, Default)]
pub(crate) struct ServerState {
    /// Its backend: addresses are not shared within one.
    group: usize,
    pub options: Options,
    pub host: Option<Name>,
    pub resolution: Option<u64>,
    /// The record that it has its address of: resolution and item.
    address_item: Option<(u64, u64)>,
    /// The service that it is a part of.
    pub service: Option<usize>,
    /// The record of the service that it stands for.
    pub service_item: Option<u64>,
    /// Nothing is asked for it: its address came with the service, or it stands for none.
    pub rests: bool,
}

/// A `resolvers` section.
#[derive(Debug)]
pub struct Section {
    settings: Settings,
    counters: Vec<Counters>,
    pub(crate) resolutions: BTreeMap<u64, Resolution>,
    /// Resolutions with a question that is out, the oldest question first.
    running: VecDeque<u64>,
    /// The others.
    waiting: VecDeque<u64>,
    by_id: HashMap<u16, u64>,
    by_name: HashMap<(Kind, Name), u64>,
    pub(crate) servers: BTreeMap<ServerKey, ServerState>,
    pub(crate) services: Vec<Service>,
    waiters: HashMap<WaiterKey, (u64, bool)>,
    transmits: VecDeque<Transmit>,
    answers: VecDeque<(WaiterKey, Option<IpAddr>)>,
    next_number: u64,
    random: u64,
}

impl Section {
    /// A section that has nothing to resolve. `seed` is where ids come from.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            settings,
            counters: vec![Counters::default(); settings.nameservers],
            resolutions: BTreeMap::new(),
            running: VecDeque::new(),
            waiting: VecDeque::new(),
            by_id: HashMap::new(),
            by_name: HashMap::new(),
            servers: BTreeMap::new(),
            services: Vec::new(),
            waiters: HashMap::new(),
            transmits: VecDeque::new(),
            answers: VecDeque::new(),
            next_number: 0,
            random: seed | 1,
        }
    }

    /// The numbers of a name server.
    #[must_use]
    pub fn counters(&self, nameserver: usize) -> Counters {
        self.counters.get(nameserver).copied().unwrap_or_default()
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Resolves the name of a server from now on. `group` is its backend.
    pub fn add_server(&mut self, server: ServerKey, group: usize, options: Options, host: Name, now_ms: u64) {
        let state = ServerState { group, options, ..ServerState::default() };
        self.servers.insert(server, state);
        self.link_server(server, host, now_ms);
    }

    /// Makes a server a part of a service from now on. `known` is the host and port that it stood for before a reload.
    pub fn add_service_server(
        &mut self,
        server: ServerKey,
        group: usize,
        options: Options,
        service: &Name,
        known: Option<(Name, u16)>,
        now_ms: u64,
    ) {
        let place = match self.services.iter().position(|known| known.name == *service && known.group == group) {
            Some(place) => place,
            None => {
                let place = self.services.len();
                let resolution = self.resolution(service, Kind::Srv, now_ms);
                self.request(resolution, Requester::Service(place));
                let known_until_ms = now_ms.saturating_add(self.settings.hold.timeout);
                self.services.push(Service::new(service.clone(), group, resolution, known_until_ms));
                place
            }
        };
        let mut state = ServerState { group, options, service: Some(place), rests: true, ..ServerState::default() };
        if let Some(service) = self.services.get_mut(place) {
            match known {
                Some((host, port)) => {
                    state.host = Some(host.clone());
                    service.known.push((host, port, server));
                }
                None => service.free.push_back(server),
            }
        }
        self.servers.insert(server, state);
    }

    /// Gives a server another name (`set server fqdn`). False when it is none of this section's, or a part of a service.
    pub fn set_host(&mut self, server: ServerKey, host: Name, now_ms: u64) -> bool {
        let Some(state) = self.servers.get_mut(&server).filter(|state| state.service.is_none()) else { return false };
        if state.host.as_ref() != Some(&host) {
            self.unlink_server(server);
            self.link_server(server, host, now_ms);
        }
        true
    }

    /// Resolves servers no more; who waits still is served.
    pub fn release_servers(&mut self) {
        for server in std::mem::take(&mut self.servers).into_keys() {
            self.release_requester(Requester::Server(server));
        }
        for service in 0..std::mem::take(&mut self.services).len() {
            self.release_requester(Requester::Service(service));
        }
    }

    fn release_requester(&mut self, requester: Requester) {
        let wanted = |resolution: &Resolution| resolution.requesters.contains(&requester);
        let found = self.resolutions.iter().find(|(_, resolution)| wanted(resolution)).map(|(id, _)| *id);
        if let Some(resolution) = found {
            self.release(resolution, requester);
        }
    }

    /// Asks for one address of a name: what is fresh enough at once, or `waiter` is told by [`Section::poll_answer`]. Who
    /// stops waiting calls [`Section::forget`].
    pub fn ask(&mut self, waiter: WaiterKey, name: &Name, prefer_ipv4: bool, now_ms: u64) -> Asked {
        let kind = if prefer_ipv4 { Kind::A } else { Kind::Aaaa };
        let resolution = self.resolution(name, kind, now_ms);
        if let Some(found) = self.resolutions.get_mut(&resolution)
            && found.running.is_none()
            && found.status == Status::Valid
            && found.ended_ms.is_some_and(|ended| now_ms < ended.saturating_add(self.settings.hold.valid))
        {
            return Asked::Known(address(found, prefer_ipv4));
        }
        self.request(resolution, Requester::Waiter(waiter));
        self.waiters.insert(waiter, (resolution, prefer_ipv4));
        Asked::Waits
    }

    /// Nobody waits for this answer any more.
    pub fn forget(&mut self, waiter: WaiterKey) {
        self.answers.retain(|(known, _)| *known != waiter);
        if let Some((resolution, _)) = self.waiters.remove(&waiter) {
            self.release(resolution, Requester::Waiter(waiter));
        }
    }

    /// The answer to one who asked, if there is another one.
    pub fn poll_answer(&mut self) -> Option<(WaiterKey, Option<IpAddr>)> {
        self.answers.pop_front()
    }

    /// The next question to send, if there is another one; to be followed by [`Section::handle_sent`].
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// Whether a question could be sent.
    pub fn handle_sent(&mut self, nameserver: usize, id: u16, was_sent: bool) {
        if let Some(counters) = self.counters.get_mut(nameserver) {
            if was_sent {
                counters.sent += 1;
                return;
            }
            counters.send_error += 1;
        }
        let resolution = self.by_id.get(&id).and_then(|resolution| self.resolutions.get_mut(resolution));
        if let Some(running) = resolution.and_then(|resolution| resolution.running.as_mut()) {
            running.queries = running.queries.saturating_sub(1);
        }
    }

    /// When [`Section::handle_timeout`] is to be called; never while there is nothing to resolve.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let due = |resolution: &Resolution| match resolution.running {
            Some(running) => running.sent_ms.saturating_add(self.settings.retry_ms),
            None => resolution.ended_ms.map_or(0, |ended| ended.saturating_add(self.settings.resolve_ms)),
        };
        let oldest = self.running.front().and_then(|id| self.resolutions.get(id)).map(due);
        let waiting = self.waiting.iter().filter_map(|id| self.resolutions.get(id)).map(due).min();
        oldest.into_iter().chain(waiting).min()
    }

    /// Asks again, gives up, and begins what is due.
    pub fn handle_timeout(&mut self, now_ms: u64, servers: &mut dyn Servers) {
        while let Some(id) = self.running.front().copied() {
            let Some(resolution) = self.resolutions.get_mut(&id) else {
                self.running.pop_front();
                continue;
            };
            let Some(running) = &mut resolution.running else { break };
            if now_ms < running.sent_ms.saturating_add(self.settings.retry_ms) {
                break;
            }
            if running.tries_left == 0 {
                if running.responses == 0 {
                    resolution.status = Status::Timeout;
                }
                self.fail(id, now_ms, servers);
                continue;
            }
            match resolution.kind.fallback() {
                Some(other) if running.responses > 0 && running.kind == resolution.kind => running.kind = other,
                _ => {
                    running.kind = resolution.kind;
                    running.tries_left -= 1;
                }
            }
            self.send(id, now_ms);
        }
        for id in std::mem::take(&mut self.waiting) {
            let Some(resolution) = self.resolutions.get_mut(&id) else { continue };
            let is_due =
                resolution.ended_ms.is_none_or(|ended| now_ms >= ended.saturating_add(self.settings.resolve_ms));
            if !is_due || !self.begin(id, now_ms) {
                self.waiting.push_back(id);
            }
        }
    }

    /// Takes a message of a name server.
    pub fn handle_response(&mut self, nameserver: usize, message: &[u8], now_ms: u64, servers: &mut dyn Servers) {
        let payload_size = self.settings.payload_size;
        let mut unknown = Counters::default();
        let counters = self.counters.get_mut(nameserver).unwrap_or(&mut unknown);
        if message.len() > usize::from(payload_size) {
            counters.too_big += 1;
            return;
        }
        let Some(query) = response::id(message) else {
            counters.invalid += 1;
            return;
        };
        let Some(id) = self.by_id.get(&query).copied() else {
            counters.outdated += 1;
            return;
        };
        let Some(resolution) = self.resolutions.get_mut(&id) else { return };
        let Some(running) = &mut resolution.running else { return };
        running.responses += 1;
        let (responses, queries) = (running.responses, running.queries);
        let records_max = usize::from(payload_size.saturating_sub(HEADER_BYTES) / RECORD_BYTES_LEAST);
        match decode_response(message, &resolution.name, records_max) {
            Ok(answer) => {
                counters.valid += 1;
                self.succeed(id, nameserver, answer, now_ms, servers);
            }
            Err(fault) => {
                resolution.status = count_fault(fault, counters);
                // The others may know better.
                if responses >= queries {
                    self.try_otherwise(id, now_ms, servers);
                }
            }
        }
    }

    /// After an error of every name server: the other family at once; if that has been tried, the next attempt is waited
    /// for, or it was the last one.
    fn try_otherwise(&mut self, id: u64, now_ms: u64, servers: &mut dyn Servers) {
        let Some(resolution) = self.resolutions.get_mut(&id) else { return };
        let Some(running) = &mut resolution.running else { return };
        if running.kind != resolution.kind {
            if running.tries_left == 0 {
                self.fail(id, now_ms, servers);
            }
        } else if let Some(other) = resolution.kind.fallback() {
            running.kind = other;
            self.send(id, now_ms);
        }
    }

    fn succeed(&mut self, id: u64, nameserver: usize, answer: Answer, now_ms: u64, servers: &mut dyn Servers) {
        let Some(resolution) = self.resolutions.get_mut(&id) else { return };
        for record in answer.records {
            resolution.records.see(record, now_ms, &mut self.next_number);
        }
        for (owner, address) in answer.additional {
            resolution.records.see_address(&owner, address, now_ms);
        }
        self.drop_obsolete(id, now_ms, servers);
        let Some(resolution) = self.resolutions.get_mut(&id) else { return };
        resolution.status = Status::Valid;
        resolution.valid_ms = now_ms;
        self.retire_unknown(id, now_ms, servers);
        let Some(resolution) = self.resolutions.get_mut(&id) else { return };
        // Only the first one is served by the name server, the others by what it said.
        let mut by = Updater::NameServer(nameserver);
        for requester in resolution.requesters.clone() {
            if let Requester::Server(server) = requester {
                self.update_server(id, server, by, now_ms, servers);
            }
            by = Updater::Cache;
        }
        self.end(id, now_ms);
    }

    /// Records that answers have had no more for `hold obsolete`.
    fn drop_obsolete(&mut self, id: u64, now_ms: u64, servers: &mut dyn Servers) {
        let obsolete_ms = self.settings.hold.obsolete;
        let is_obsolete = |seen_ms: u64| seen_ms.saturating_add(obsolete_ms) < now_ms;
        let Some(resolution) = self.resolutions.get(&id) else { return };
        let items: Vec<u64> = resolution.records.iter().map(|item| item.id).collect();
        for item_id in items {
            let Some(records) = self.resolutions.get_mut(&id).map(|resolution| &mut resolution.records) else { return };
            let Some(item) = records.find_mut(item_id) else { continue };
            if item.address.is_some_and(|(_, seen_ms)| is_obsolete(seen_ms)) {
                item.address = None;
            }
            if is_obsolete(item.seen_ms) {
                let Some(item) = records.remove(item_id) else { continue };
                for server in item.servers {
                    match item.record {
                        Record::Address(_) => {
                            if let Some(state) = self.servers.get_mut(&server) {
                                state.address_item = None;
                            }
                        }
                        Record::Service { .. } => self.retire(server, servers),
                    }
                }
            } else if matches!(item.record, Record::Service { .. }) {
                self.serve_item(id, item_id, now_ms, servers);
            }
        }
    }

    /// Gives a server the address that its name has now.
    fn update_server(&mut self, id: u64, server: ServerKey, by: Updater, now_ms: u64, servers: &mut dyn Servers) {
        let Some(state) = self.servers.get(&server) else { return };
        if state.service.is_some() && state.rests {
            return;
        }
        let choice = match (state.address_item, self.resolutions.get_mut(&id)) {
            // It has the address of a record that is still there.
            (Some(_), _) => None,
            (None, None) => return,
            (None, Some(resolution)) => {
                let group = state.group;
                let others = &self.servers;
                let is_taken = |taken: &[ServerKey]| {
                    let is_other = |other: &&ServerKey| **other != server;
                    taken.iter().filter(is_other).any(|other| others.get(other).is_some_and(|it| it.group == group))
                };
                Some(choose(&mut resolution.records, &state.options, servers.address(server), &is_taken))
            }
        };
        let has_address = choice != Some(Choice::None);
        if let Some(Choice::Keep { item } | Choice::Change { item, .. }) = choice {
            self.attach(id, item, server);
        }
        if let Some(Choice::Change { address, .. }) = choice {
            if let Updater::NameServer(nameserver) = by
                && let Some(counters) = self.counters.get_mut(nameserver)
            {
                counters.update += 1;
            }
            servers.set_address(server, address, by);
        }
        if self.update_status(server, has_address, now_ms, servers) && !has_address {
            servers.clear_address(server);
        }
    }

    fn attach(&mut self, resolution: u64, item: u64, server: ServerKey) {
        if let Some(state) = self.servers.get_mut(&server) {
            state.address_item = Some((resolution, item));
        }
        let records = self.resolutions.get_mut(&resolution).map(|resolution| &mut resolution.records);
        if let Some(item) = records.and_then(|records| records.find_mut(item)) {
            item.servers.push(server);
        }
    }

    fn detach(&mut self, server: ServerKey) {
        let Some(state) = self.servers.get_mut(&server) else { return };
        if let Some((resolution, item)) = state.address_item.take()
            && let Some(resolution) = self.resolutions.get_mut(&resolution)
            && let Some(item) = resolution.records.find_mut(item)
        {
            item.servers.retain(|other| *other != server);
        }
    }

    /// Takes a server out of service or back into it, by how the resolution of its name ended; whether that changed
    /// anything.
    fn update_status(&self, server: ServerKey, has_address: bool, now_ms: u64, servers: &mut dyn Servers) -> bool {
        let Some(state) = self.servers.get(&server) else { return false };
        let Some(resolution) = state.resolution.and_then(|id| self.resolutions.get(&id)) else {
            return state.service.is_some() && update_service_status(server, has_address, servers);
        };
        let hold = &self.settings.hold;
        let (held_ms, cause) = match resolution.status {
            Status::None => return false,
            Status::Valid => match (has_address, servers.is_unresolved(server)) {
                (false, false) => {
                    servers.set_unresolved(server, "No IP for server ");
                    return true;
                }
                (true, true) => {
                    servers.set_resolved(server, true);
                    return true;
                }
                _ => return false,
            },
            Status::NoSuchName => (hold.nx, "DNS NX status"),
            Status::Timeout => (hold.timeout, "DNS timeout status"),
            Status::Refused => (hold.refused, "DNS refused status"),
            Status::Invalid | Status::Other => (hold.other, "unspecified DNS error"),
        };
        if now_ms < resolution.valid_ms.saturating_add(held_ms) || servers.is_unresolved(server) {
            return false;
        }
        servers.set_unresolved(server, cause);
        true
    }

    /// The attempts are used up.
    fn fail(&mut self, id: u64, now_ms: u64, servers: &mut dyn Servers) {
        let requesters = self.resolutions.get(&id).map(|resolution| resolution.requesters.clone());
        let mut keeps_records = false;
        for requester in requesters.unwrap_or_default() {
            match requester {
                Requester::Server(server) => {
                    if self.update_status(server, false, now_ms, servers) {
                        servers.clear_address(server);
                        self.detach(server);
                    } else {
                        keeps_records = true;
                    }
                }
                Requester::Service(service) => {
                    if self.is_held(id, now_ms) {
                        keeps_records = true;
                    } else {
                        self.retire_all(service, servers);
                    }
                }
                Requester::Waiter(_) => {}
            }
        }
        if !keeps_records {
            self.forget_records(id);
        }
        self.end(id, now_ms);
    }

    /// Whether what was known before an error still counts.
    fn is_held(&self, id: u64, now_ms: u64) -> bool {
        let hold = &self.settings.hold;
        self.resolutions.get(&id).is_some_and(|resolution| {
            let held_ms = match resolution.status {
                Status::NoSuchName => hold.nx,
                Status::Timeout => hold.timeout,
                Status::Refused => hold.refused,
                _ => hold.other,
            };
            now_ms < resolution.valid_ms.saturating_add(held_ms)
        })
    }

    fn forget_records(&mut self, id: u64) {
        let Some(resolution) = self.resolutions.get_mut(&id) else { return };
        let takers: Vec<ServerKey> = resolution.records.iter().flat_map(|item| item.servers.clone()).collect();
        resolution.records.clear();
        for server in takers {
            if let Some(state) = self.servers.get_mut(&server)
                && state.address_item.is_some_and(|(resolution, _)| resolution == id)
            {
                state.address_item = None;
            }
        }
    }

    pub(crate) fn link_server(&mut self, server: ServerKey, host: Name, now_ms: u64) {
        let Some(state) = self.servers.get(&server) else { return };
        let kind = if state.options.prefer_ipv4 { Kind::A } else { Kind::Aaaa };
        let resolution = self.resolution(&host, kind, now_ms);
        self.request(resolution, Requester::Server(server));
        if let Some(state) = self.servers.get_mut(&server) {
            state.host = Some(host);
            state.resolution = Some(resolution);
        }
    }

    pub(crate) fn unlink_server(&mut self, server: ServerKey) {
        self.detach(server);
        if let Some(resolution) = self.servers.get_mut(&server).and_then(|state| state.resolution.take()) {
            self.release(resolution, Requester::Server(server));
        }
    }
}

/// Takes a server of a service out of service or back into it; whether it was taken out.
pub(crate) fn update_service_status(server: ServerKey, has_address: bool, servers: &mut dyn Servers) -> bool {
    match (has_address, servers.is_unresolved(server)) {
        (true, true) => servers.set_resolved(server, false),
        (false, false) => {
            servers.set_unresolved(server, "entry removed from SRV record");
            return true;
        }
        _ => {}
    }
    false
}

fn count_fault(fault: Fault, counters: &mut Counters) -> Status {
    let (counter, status) = match fault {
        Fault::Invalid | Fault::QuestionCount | Fault::WrongName => (&mut counters.invalid, Status::Invalid),
        Fault::NoSuchName => (&mut counters.nx, Status::NoSuchName),
        Fault::Refused => (&mut counters.refused, Status::Refused),
        Fault::Empty => (&mut counters.any_err, Status::Other),
        Fault::Alias => (&mut counters.cname_error, Status::Other),
        Fault::Truncated => (&mut counters.truncated, Status::Other),
        Fault::Failure => (&mut counters.other, Status::Other),
    };
    *counter += 1;
    status
}
