//! Queues: one for each server, for requests that want that one, and one for the backend.
//!
//! Tickets are sorted by priority class and then by time of arrival plus offset, in one 32-bit key: 12 bits of class,
//! 20 bits of milliseconds. The time wraps every 17 minutes, so the first ticket of a class is looked for from about
//! nine minutes ago. When a slot of a server frees, the older of the first tickets of the server's queue and of the
//! backend's goes there.

use std::collections::VecDeque;

use crate::config::FarmConfig;
use crate::order::{Forest, Tree};
use crate::pool::Pool;
use crate::{ServerId, Ticket};

use super::{Farm, Request};

/// Bits of the key that hold the time.
const OFFSET_MASK: u32 = 0x000f_ffff;
const CLASS_MASK: u32 = !OFFSET_MASK;
const CLASS_MAX: i32 = 0x7ff;
const PRIORITY_OFFSET_MAX: i32 = 0x7_ffff;
/// Half of the range of the time: how far back a ticket may lie and still count as past.
const LOOK_BACK_MS: u64 = 1 << 19;

/// What became of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It still waits.
    Waiting,
    /// Go to this server; the slot is yours until `Farm::release`. The ticket is gone.
    Granted {
        /// The server.
        server: ServerId,
        /// Requests that left the queue before this one, for the log.
        position: QueuePosition,
    },
    /// The server it waited for went away: choose again, avoiding that one. The ticket is gone.
    Redispatch {
        /// The server.
        from: ServerId,
        /// Requests that left the queue before this one, for the log.
        position: QueuePosition,
    },
    /// There is no such ticket.
    Unknown,
}

/// How many requests left a queue from when a request entered it until it left, itself included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePosition {
    /// Of the server's queue (`%sq`).
    pub server: u32,
    /// Of the backend's queue (`%bq`).
    pub backend: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Waiting,
    Granted(ServerId),
    Redispatch(ServerId),
}

#[derive(Clone, Debug)]
struct Slot<W> {
    generation: u32,
    state: State,
    /// The queue it waits or waited in; `None` is the backend's.
    queue: Option<ServerId>,
    /// Stays with its server even when that goes down.
    stays: bool,
    entered_at: u32,
    position: QueuePosition,
    waiter: Option<W>,
}

/// All tickets and both kinds of queues.
#[derive(Clone, Debug)]
pub(super) struct Queues<W> {
    slots: Vec<Slot<W>>,
    free: Vec<u32>,
    order: Forest,
    backend_len: u32,
    backend_index: u32,
    wakes: VecDeque<W>,
}

impl<W> Queues<W> {
    pub(super) fn new(servers: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            order: Forest::new(0, servers + 1),
            backend_len: 0,
            backend_index: 0,
            wakes: VecDeque::new(),
        }
    }

    pub(super) fn backend_len(&self) -> u32 {
        self.backend_len
    }

    pub(super) fn poll_wake(&mut self) -> Option<W> {
        self.wakes.pop_front()
    }

    /// Makes the queue of one more server.
    pub(super) fn add_server(&mut self) {
        self.order.add_tree();
    }

    /// The backend's queue comes first, so that servers may be added behind.
    fn tree(&self, queue: Option<ServerId>) -> Tree {
        self.order.tree(queue.map_or(0, |server| server.index() + 1))
    }

    fn slot(&self, ticket: Ticket) -> Option<&Slot<W>> {
        self.slots.get(ticket.slot as usize).filter(|slot| slot.generation == ticket.generation)
    }

    #[expect(clippy::indexing_slicing, reason = "slots are never taken away, and numbers come from this struct")]
    fn at(&mut self, slot: u32) -> &mut Slot<W> {
        &mut self.slots[slot as usize]
    }

    /// The first ticket of a queue, and its key.
    fn first(&self, queue: Option<ServerId>, now_ms: u64) -> Option<(u32, u32)> {
        let tree = self.tree(queue);
        let first = self.order.first(tree)?;
        let class = self.order.key(first) & CLASS_MASK;
        // Times before the boundary are those of the next turn of the clock, unless nothing lies behind it.
        let past = self.order.at_or_after(tree, class | boundary(now_ms));
        let best = past.filter(|&past| self.order.key(past) & CLASS_MASK == class).unwrap_or(first);
        Some((best, self.order.key(best)))
    }

    fn add(&mut self, slot: Slot<W>) -> u32 {
        match self.free.pop() {
            Some(number) => {
                let generation = self.at(number).generation;
                *self.at(number) = Slot { generation, ..slot };
                number
            }
            None => {
                self.slots.push(slot);
                self.order.add_item()
            }
        }
    }

    /// Frees a slot so that its ticket is unknown from now on.
    fn forget(&mut self, number: u32) {
        let slot = self.at(number);
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = State::Free;
        slot.waiter = None;
        self.free.push(number);
    }

    /// Takes a waiting ticket out of its queue.
    fn unlink(&mut self, pool: &mut Pool, number: u32) {
        self.order.remove(number);
        let backend_index = self.backend_index;
        let slot = self.at(number);
        match slot.queue {
            Some(id) => {
                let server = &mut pool.servers[id];
                slot.position.server += server.queue_index.wrapping_sub(slot.entered_at);
                server.queued -= 1;
            }
            None => {
                slot.position.backend += backend_index.wrapping_sub(slot.entered_at);
                self.backend_len -= 1;
            }
        }
    }

    /// Ends a wait.
    fn settle(&mut self, number: u32, state: State) {
        let slot = self.at(number);
        slot.state = state;
        if let Some(waiter) = slot.waiter.take() {
            self.wakes.push_back(waiter);
        }
    }
}

/// The time from which on a ticket counts as past.
fn boundary(now_ms: u64) -> u32 {
    (now_ms.wrapping_sub(LOOK_BACK_MS) as u32) & OFFSET_MASK
}

fn key(request: &Request, now_ms: u64) -> u32 {
    let class = request.priority_class.clamp(-CLASS_MAX, CLASS_MAX) + CLASS_MAX;
    let offset = request.priority_offset.clamp(-PRIORITY_OFFSET_MAX, PRIORITY_OFFSET_MAX);
    let time = (now_ms as u32).wrapping_add_signed(offset) & OFFSET_MASK;
    (class.unsigned_abs() << 20) | time
}

/// Whether a ticket of the server's queue goes before one of the backend's.
fn goes_first(server_key: u32, backend_key: u32, now_ms: u64) -> bool {
    let unwrap = |key: u32| {
        let time = key & OFFSET_MASK;
        if time < boundary(now_ms) { time + OFFSET_MASK + 1 } else { time }
    };
    match (server_key & CLASS_MASK).cmp(&(backend_key & CLASS_MASK)) {
        std::cmp::Ordering::Less => true,
        std::cmp::Ordering::Greater => false,
        std::cmp::Ordering::Equal => unwrap(server_key) <= unwrap(backend_key),
    }
}

/// Whether tickets of a server that goes away are to be dispatched again.
fn may_redispatch(config: &FarmConfig) -> bool {
    config.redispatch.is_some() && !config.persist
}

impl<W> Farm<W> {
    pub(super) fn enqueue(
        &mut self,
        queue: Option<ServerId>,
        request: &Request,
        stays: bool,
        now_ms: u64,
        waiter: impl FnOnce() -> W,
    ) -> Ticket {
        let entered_at = match queue {
            Some(id) => {
                let server = &mut self.pool.servers[id];
                server.queued += 1;
                server.counters.queue_max = server.counters.queue_max.max(server.queued);
                server.queue_index
            }
            None => {
                self.queues.backend_len += 1;
                self.counters.queue_max = self.counters.queue_max.max(self.queues.backend_len);
                self.queues.backend_index
            }
        };
        let number = self.queues.add(Slot {
            generation: 0,
            state: State::Waiting,
            queue,
            stays,
            // One less, so that the first in the queue leaves at position 1.
            entered_at: entered_at.wrapping_sub(1),
            position: QueuePosition::default(),
            waiter: Some(waiter()),
        });
        let tree = self.queues.tree(queue);
        self.queues.order.insert(tree, key(request, now_ms), number);
        Ticket { slot: number, generation: self.queues.at(number).generation }
    }

    /// Asks what became of a ticket. Unless it still waits, the ticket is gone afterwards.
    pub fn claim(&mut self, ticket: Ticket) -> Claim {
        let Some(slot) = self.queues.slot(ticket) else { return Claim::Unknown };
        let position = slot.position;
        let claim = match slot.state {
            State::Waiting => return Claim::Waiting,
            State::Free => return Claim::Unknown,
            State::Granted(server) => Claim::Granted { server, position },
            State::Redispatch(from) => Claim::Redispatch { from, position },
        };
        self.queues.forget(ticket.slot);
        claim
    }

    /// Replaces what wakes a waiting ticket. The new one comes back when there is nothing left to wait for.
    pub fn set_waiter(&mut self, ticket: Ticket, waiter: W) -> Result<(), W> {
        match self.queues.slot(ticket) {
            Some(slot) if slot.state == State::Waiting => {
                self.queues.at(ticket.slot).waiter = Some(waiter);
                Ok(())
            }
            _ => Err(waiter),
        }
    }

    /// Gives a ticket up: its time is over, or the client is gone. A slot that it was granted in the meantime goes to
    /// the next in line. Returns how far it had come.
    pub fn cancel(&mut self, ticket: Ticket, now_ms: u64) -> QueuePosition {
        let Some(slot) = self.queues.slot(ticket) else { return QueuePosition::default() };
        match slot.state {
            State::Free => return QueuePosition::default(),
            // NOTE: `leastconn` learns that the queue is shorter with the next slot taken or given back, as in HAProxy.
            State::Waiting => self.queues.unlink(&mut self.pool, ticket.slot),
            State::Granted(server) => self.release(server, now_ms),
            State::Redispatch(_) => {}
        }
        let position = self.queues.at(ticket.slot).position;
        self.queues.forget(ticket.slot);
        position
    }

    /// Tickets that wait, in all queues.
    pub fn queued_total(&self) -> u32 {
        self.queues.backend_len + self.pool.servers.iter().map(|server| server.queued).sum::<u32>()
    }

    /// Gives free slots of a server to those who wait for them.
    pub(super) fn serve_queues(&mut self, id: ServerId, now_ms: u64) {
        let server = &self.pool.servers[id];
        if server.queued == 0 && self.queues.backend_len == 0 {
            return;
        }
        let takes_backend = self.takes_from_backend(id);
        while self.pool.has_slot(id, now_ms) {
            let own = self.queues.first(Some(id), now_ms);
            let shared = if takes_backend { self.queues.first(None, now_ms) } else { None };
            let (number, is_own) = match (own, shared) {
                (Some((own, own_key)), Some((_, shared_key))) if goes_first(own_key, shared_key, now_ms) => (own, true),
                (_, Some((shared, _))) => (shared, false),
                (Some((own, _)), None) => (own, true),
                (None, None) => return,
            };
            self.grant(number, id);
            if is_own {
                let server = &mut self.pool.servers[id];
                server.queue_index = server.queue_index.wrapping_add(1);
            } else {
                self.queues.backend_index = self.queues.backend_index.wrapping_add(1);
            }
        }
    }

    /// Gives a server that has come up as many tickets of the backend's queue as it may hold. Returns how many.
    pub(super) fn grab_from_backend(&mut self, id: ServerId, now_ms: u64) -> u32 {
        if !self.takes_from_backend(id) {
            return 0;
        }
        let mut taken = 0;
        while self.pool.has_slot(id, now_ms) {
            let Some((number, _)) = self.queues.first(None, now_ms) else { break };
            self.grant(number, id);
            taken += 1;
        }
        taken
    }

    /// Sends the tickets of a server that goes away back to be dispatched again. Returns how many.
    pub(super) fn redistribute(&mut self, id: ServerId) -> u32 {
        if !may_redispatch(&self.config) {
            return 0;
        }
        let mut sent = 0;
        let mut at = self.queues.order.first(self.queues.tree(Some(id)));
        while let Some(number) = at {
            at = self.queues.order.next(number);
            if self.queues.at(number).stays {
                continue;
            }
            self.queues.unlink(&mut self.pool, number);
            self.queues.settle(number, State::Redispatch(id));
            sent += 1;
        }
        sent
    }

    fn grant(&mut self, number: u32, id: ServerId) {
        self.queues.unlink(&mut self.pool, number);
        self.take_slot(id);
        self.queues.settle(number, State::Granted(id));
    }

    /// Whether the server may serve the backend's queue: it is usable and, if it is a backup, its time has come.
    fn takes_from_backend(&self, id: ServerId) -> bool {
        let server = &self.pool.servers[id];
        server.current.is_usable()
            && (!server.config.backup
                || (self.pool.active == 0 && (self.pool.allbackups || self.pool.first_backup == Some(id))))
    }
}
