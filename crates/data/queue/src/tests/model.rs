//! A queue as one would think of it: a list of messages, and each question is answered by looking at all of them.

use std::collections::BTreeMap;

use crate::{Done, Look, MessageId, Overflow, Place, Receipt, Redriven, Settings, Stale};

#[derive(Debug, Clone)]
pub struct One {
    pub id: u64,
    pub priority: u32,
    pub group: Option<u8>,
    pub expires: u64,
    pub size: u64,
    pub place: Place,
    pub attempts: u32,
    pub number: u32,
    pub is_fresh: bool,
    pub reason: Vec<u8>,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub messages: Vec<One>,
    pub settings: Settings,
    pub next: u64,
    pub ids: BTreeMap<u8, (u64, u64)>,
    pub paused_until: u64,
    pub now: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Push {
    pub id: Option<u8>,
    pub group: Option<u8>,
    pub priority: u32,
    pub delay_ms: u64,
    pub expire_ms: u64,
    pub size: u64,
}

impl Model {
    fn is_live(one: &One) -> bool {
        !matches!(one.place, Place::Dead { .. })
    }

    fn back(&self, one: &mut One, due: u64, reason: &[u8]) {
        if self.settings.attempts_max > 0 && one.attempts >= self.settings.attempts_max {
            one.place = Place::Dead { since: self.now };
        } else {
            one.place = if due > self.now { Place::Delayed { due } } else { Place::Ready };
        }
        one.is_fresh = false;
        one.reason = reason.to_vec();
    }

    /// All that is due.
    pub fn come_due(&mut self) {
        let model = self.clone();
        for one in &mut self.messages {
            match one.place {
                Place::Reserved { until } if until <= model.now => model.back(one, 0, b"its time ran out"),
                Place::Delayed { due } if due <= model.now => one.place = Place::Ready,
                _ => {}
            }
        }
        self.messages.retain(|one| {
            one.expires == 0
                || one.expires > model.now
                || matches!(one.place, Place::Reserved { .. } | Place::Dead { .. })
        });
        self.cut_dead();
    }

    fn cut_dead(&mut self) {
        while self.settings.dead_max > 0
            && self.messages.iter().filter(|one| !Self::is_live(one)).count() as u64 > self.settings.dead_max
        {
            let place = self.messages.iter().position(|one| !Self::is_live(one)).unwrap();
            self.messages.remove(place);
        }
    }

    fn has_room(&self, push: Push) -> bool {
        let live = self.messages.iter().filter(|one| Self::is_live(one));
        let (count, bytes) = live.fold((0, 0), |(count, bytes), one| (count + 1, bytes + one.size));
        (self.settings.messages_max == 0 || count < self.settings.messages_max)
            && (self.settings.bytes_max == 0 || bytes + push.size <= self.settings.bytes_max)
    }

    pub fn push(&mut self, push: Push) -> Option<u64> {
        if let Some((until, id)) = push.id.and_then(|id| self.ids.get(&id))
            && *until > self.now
        {
            return Some(*id);
        }
        if !self.has_room(push) {
            self.come_due();
            let mut has_dropped = false;
            while !self.has_room(push) {
                let fits = self.settings.bytes_max == 0 || push.size <= self.settings.bytes_max;
                let victim = self
                    .heads()
                    .into_iter()
                    .filter(|one| one.place == Place::Ready)
                    .max_by_key(|one| (one.priority, one.is_fresh, u64::MAX - one.id));
                let delayed = |one: &One| matches!(one.place, Place::Delayed { .. });
                let delayed = self.heads().into_iter().filter(delayed).min_by_key(|one| match one.place {
                    Place::Delayed { due } => (due, one.id),
                    _ => (0, 0),
                });
                let victim = victim.or(delayed).filter(|_| fits && self.settings.overflow == Overflow::DropOldest);
                let Some(id) = victim.map(|victim| victim.id) else {
                    if has_dropped {
                        break;
                    }
                    return None;
                };
                self.messages.retain(|one| one.id != id);
                has_dropped = true;
            }
        }
        let id = self.next;
        self.next += 1;
        let due = self.now + push.delay_ms;
        let is_delayed = due > self.now;
        self.messages.push(One {
            id,
            priority: push.priority,
            group: push.group,
            expires: if push.expire_ms == 0 { 0 } else { self.now + push.expire_ms },
            size: push.size,
            place: if is_delayed { Place::Delayed { due } } else { Place::Ready },
            attempts: 0,
            number: 0,
            is_fresh: !is_delayed,
            reason: Vec::new(),
        });
        if let Some(name) = push.id {
            self.ids.insert(name, (self.now + self.settings.window_ms, id));
        }
        Some(id)
    }

    /// What can be given, or will be when its time comes: of each group only the first, and none if some are reserved.
    fn heads(&self) -> Vec<One> {
        let waits = |one: &One| matches!(one.place, Place::Ready | Place::Delayed { .. });
        let is_head = |one: &One| {
            one.group.is_none()
                || self.messages.iter().filter(|other| other.group == one.group).all(|other| match other.place {
                    Place::Reserved { .. } => false,
                    Place::Dead { .. } => true,
                    _ => other.id >= one.id,
                })
        };
        self.messages.iter().filter(|one| waits(one) && is_head(one)).cloned().collect()
    }

    /// The ones that are given, with their receipts' numbers.
    pub fn reserve(&mut self, count: usize, bytes: u64, timeout_ms: u64) -> Vec<(u64, u32)> {
        self.come_due();
        let (mut given, mut left, mut group) = (Vec::new(), bytes, None);
        if self.paused_until > self.now {
            return given;
        }
        while given.len() < count {
            let behind = group.and_then(|group| {
                let of =
                    |one: &&One| one.group == Some(group) && matches!(one.place, Place::Ready | Place::Delayed { .. });
                let first = self.messages.iter().find(of)?.clone();
                Some(first).filter(|one| one.place == Place::Ready && one.size <= left)
            });
            let heads = self.heads().into_iter().filter(|one| one.place == Place::Ready);
            let next = behind.or_else(|| heads.min_by_key(|one| (one.priority, one.is_fresh, one.id)));
            let Some(next) = next.filter(|one| one.size <= left || given.is_empty()) else { break };
            let now = self.now;
            let one = self.messages.iter_mut().find(|one| one.id == next.id).unwrap();
            one.place = Place::Reserved { until: now + timeout_ms };
            one.attempts += 1;
            one.number += 1;
            one.is_fresh = false;
            left = left.saturating_sub(one.size);
            group = one.group;
            given.push((one.id, one.number));
        }
        given
    }

    fn received(&mut self, receipt: Receipt) -> Result<usize, Stale> {
        let place = self.messages.iter().position(|one| one.id == receipt.id.0).ok_or(Stale::Gone)?;
        if self.messages[place].number == receipt.number { Ok(place) } else { Err(Stale::GivenAgain) }
    }

    fn reserved(&mut self, receipt: Receipt) -> Result<usize, Stale> {
        let place = self.received(receipt)?;
        match self.messages[place].place {
            Place::Reserved { until } if until > self.now => Ok(place),
            _ => Err(Stale::Ended),
        }
    }

    pub fn delete(&mut self, receipt: Receipt) -> Result<Done, Stale> {
        match self.received(receipt) {
            Ok(place) if !Self::is_live(&self.messages[place]) => Err(Stale::Ended),
            Ok(place) => {
                self.messages.remove(place);
                Ok(Done::Deleted)
            }
            Err(Stale::Gone) => Ok(Done::WasGone),
            Err(stale) => Err(stale),
        }
    }

    pub fn touch(&mut self, receipt: Receipt, timeout_ms: u64, is_new: bool) -> Result<Receipt, Stale> {
        let place = self.reserved(receipt)?;
        let until = self.now + timeout_ms;
        let one = &mut self.messages[place];
        one.place = Place::Reserved { until };
        one.number += u32::from(is_new);
        Ok(Receipt { id: receipt.id, number: one.number })
    }

    pub fn release(&mut self, receipt: Receipt, delay_ms: u64, is_counted: bool) -> Result<(), Stale> {
        let place = self.reserved(receipt)?;
        let mut one = self.messages[place].clone();
        one.attempts -= u32::from(!is_counted);
        self.back(&mut one, self.now + delay_ms, b"released");
        let is_gone = Self::is_live(&one) && one.expires > 0 && one.expires <= self.now;
        self.messages[place] = one;
        if is_gone {
            self.messages.remove(place);
        }
        self.cut_dead();
        Ok(())
    }

    pub fn bury(&mut self, receipt: Receipt) -> Result<(), Stale> {
        let place = self.reserved(receipt)?;
        self.messages[place].place = Place::Dead { since: self.now };
        self.messages[place].reason = b"buried".to_vec();
        self.cut_dead();
        Ok(())
    }

    pub fn redrive(&mut self, reason: Option<&[u8]>, count: usize) -> Redriven {
        let mut redriven = Redriven { count: 0, next: None };
        let now = self.now;
        let mut messages = std::mem::take(&mut self.messages);
        messages.retain_mut(|one| {
            if Self::is_live(one) || redriven.next.is_some() {
                return true;
            }
            if redriven.count == count as u64 {
                redriven.next = Some(MessageId(one.id));
                return true;
            }
            if reason.is_some_and(|reason| reason != one.reason) {
                return true;
            }
            redriven.count += 1;
            (one.place, one.attempts, one.is_fresh) = (Place::Ready, 0, false);
            one.expires == 0 || one.expires > now
        });
        self.messages = messages;
        redriven
    }

    pub fn remove(&mut self, id: u64) -> bool {
        let before = self.messages.len();
        self.messages.retain(|one| one.id != id);
        self.messages.len() < before
    }

    pub fn ids_of(&self, look: Look) -> Vec<u64> {
        let ids = |keep: &dyn Fn(&One) -> Option<(u64, u64)>| {
            let mut found: Vec<_> = self.messages.iter().filter_map(|one| Some((keep(one)?, one.id))).collect();
            found.sort_unstable();
            found.into_iter().map(|(_, id)| id).collect()
        };
        match look {
            Look::All => ids(&|one| Some((one.id, 0))),
            Look::Dead => ids(&|one| matches!(one.place, Place::Dead { .. }).then_some((one.id, 0))),
            Look::Reserved => {
                ids(&|one| if let Place::Reserved { until } = one.place { Some((until, 0)) } else { None })
            }
            _ => {
                let mut heads = self.heads();
                heads.retain(|one| (one.place == Place::Ready) == (look == Look::Ready));
                heads.sort_by_key(|one| match one.place {
                    Place::Delayed { due } => (due, false, one.id),
                    _ => (u64::from(one.priority), one.is_fresh, one.id),
                });
                heads.iter().map(|one| one.id).collect()
            }
        }
    }
}
