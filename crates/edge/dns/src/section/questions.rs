//! Questions of a section: which resolutions there are, who asks for them, and what goes out under which id.

use std::net::IpAddr;

use super::{ID_ATTEMPTS_MAX, Requester, Resolution, Running, Section, Status};
use crate::{
    Kind, Name, Options, Transmit,
    choice::{Choice, choose},
    encode_query,
    records::Records,
};

impl Section {
    /// The question has its answer, or will have none: who waits is told, and it waits for its next turn.
    pub(crate) fn end(&mut self, id: u64, now_ms: u64) {
        self.running.retain(|other| *other != id);
        let Some(resolution) = self.resolutions.get_mut(&id) else { return };
        if let Some(running) = resolution.running.take() {
            self.by_id.remove(&running.id);
            self.transmits.retain(|transmit| transmit.id != running.id);
        }
        resolution.ended_ms = Some(now_ms);
        let is_valid = resolution.status == Status::Valid;
        let mut told = Vec::new();
        for requester in &resolution.requesters {
            if let Requester::Waiter(waiter) = requester
                && let Some((_, prefer_ipv4)) = self.waiters.remove(waiter)
            {
                told.push((*waiter, prefer_ipv4));
            }
        }
        for (waiter, prefer_ipv4) in told {
            let found = is_valid.then(|| address(resolution, prefer_ipv4)).flatten();
            self.answers.push_back((waiter, found));
        }
        resolution.requesters.retain(|requester| !matches!(requester, Requester::Waiter(_)));
        if resolution.requesters.is_empty() {
            self.drop_resolution(id);
        } else {
            self.waiting.push_back(id);
        }
    }

    /// Begins a resolution; false when every id is taken.
    pub(crate) fn begin(&mut self, id: u64, now_ms: u64) -> bool {
        let Some(query) = self.free_id() else { return false };
        let Some(resolution) = self.resolutions.get_mut(&id) else { return false };
        resolution.running = Some(Running {
            id: query,
            kind: resolution.kind,
            tries_left: self.settings.retries.saturating_sub(1),
            sent_ms: now_ms,
            queries: 0,
            responses: 0,
        });
        self.by_id.insert(query, id);
        self.send(id, now_ms);
        true
    }

    /// Sends the question of a running resolution to every name server.
    pub(crate) fn send(&mut self, id: u64, now_ms: u64) {
        self.running.retain(|other| *other != id);
        let Some(resolution) = self.resolutions.get_mut(&id) else { return };
        let Some(running) = &mut resolution.running else { return };
        running.sent_ms = now_ms;
        running.responses = 0;
        running.queries = self.settings.nameservers;
        let message = encode_query(running.id, running.kind, &resolution.name, self.settings.payload_size);
        for nameserver in 0..self.settings.nameservers {
            self.transmits.push_back(Transmit { nameserver, id: running.id, message: message.clone() });
        }
        self.running.push_back(id);
    }

    /// Everything that it holds and that could grow.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        let records: usize = self.resolutions.values().map(|it| it.records.iter().count() + it.requesters.len()).sum();
        let queues = self.running.len() + self.waiting.len() + self.transmits.len() + self.answers.len();
        records + queues + self.by_id.len() + self.by_name.len() + self.waiters.len()
    }

    pub(crate) fn free_id(&mut self) -> Option<u16> {
        for _ in 0..ID_ATTEMPTS_MAX {
            let id = self.draw();
            if !self.by_id.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    pub(crate) fn draw(&mut self) -> u16 {
        // xorshift64: https://www.jstatsoft.org/article/view/v008i14
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let [low, high, ..] = self.random.to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    /// The resolution of a name; a new one if there is none yet.
    pub(crate) fn resolution(&mut self, name: &Name, kind: Kind, now_ms: u64) -> u64 {
        if let Some(id) = self.by_name.get(&(kind, name.clone())) {
            return *id;
        }
        self.next_number += 1;
        let id = self.next_number;
        self.by_name.insert((kind, name.clone()), id);
        self.resolutions.insert(
            id,
            Resolution {
                name: name.clone(),
                kind,
                status: Status::None,
                running: None,
                ended_ms: None,
                valid_ms: now_ms,
                records: Records::default(),
                requesters: Vec::new(),
            },
        );
        self.waiting.push_back(id);
        id
    }

    pub(crate) fn request(&mut self, resolution: u64, requester: Requester) {
        if let Some(resolution) = self.resolutions.get_mut(&resolution) {
            resolution.requesters.push(requester);
        }
    }

    /// Somebody wants to know no more; a resolution that nobody wants is dropped.
    pub(crate) fn release(&mut self, id: u64, requester: Requester) {
        let Some(resolution) = self.resolutions.get_mut(&id) else { return };
        resolution.requesters.retain(|other| *other != requester);
        if resolution.requesters.is_empty() {
            if let Some(running) = &resolution.running {
                self.by_id.remove(&running.id);
                self.transmits.retain(|transmit| transmit.id != running.id);
            }
            self.forget_records(id);
            self.drop_resolution(id);
            self.running.retain(|other| *other != id);
            self.waiting.retain(|other| *other != id);
        }
    }

    pub(crate) fn drop_resolution(&mut self, id: u64) {
        if let Some(resolution) = self.resolutions.remove(&id) {
            self.by_name.remove(&(resolution.kind, resolution.name));
        }
    }
}

/// The address that a waiter is told.
pub(super) fn address(resolution: &mut Resolution, prefer_ipv4: bool) -> Option<IpAddr> {
    let options = Options { prefer_ipv4, ..Options::default() };
    match choose(&mut resolution.records, &options, None, &|_| false) {
        Choice::Change { address, .. } => Some(address),
        Choice::Keep { .. } | Choice::None => None,
    }
}
