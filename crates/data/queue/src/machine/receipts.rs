//! What a consumer does with a message that it has.

use crate::{
    message::{MessageId, Receipt},
    names,
    records::Records,
    state::{Place, State},
};

use super::{Queue, lower};

/// What became of a message that was to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It is gone.
    Deleted,
    /// It was gone before.
    WasGone,
}

/// Why a receipt is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// There is no such message.
    #[error("the message is gone")]
    Gone,
    /// A later reservation, or a later receipt of this one, has taken its place.
    #[error("the message was given again since, or has a newer receipt")]
    GivenAgain,
    /// The reservation has ended.
    #[error("its reservation has ended")]
    Ended,
}

impl<R: Records> Queue<'_, R> {
    /// The message of a receipt that is its last one.
    fn received(&self, receipt: Receipt) -> Result<State, Stale> {
        let state = self.state(receipt.id).ok_or(Stale::Gone)?;
        if state.reservation == receipt.number && receipt.number > 0 { Ok(state) } else { Err(Stale::GivenAgain) }
    }

    /// The same, if it is still reserved.
    fn reserved(&self, receipt: Receipt) -> Result<State, Stale> {
        let state = self.received(receipt)?;
        match state.place {
            Place::Reserved { until } if until > self.now => Ok(state),
            _ => Err(Stale::Ended),
        }
    }

    /// A message is done. Its reservation may have run out, as long as nobody else was given the message.
    ///
    /// # Errors
    ///
    /// Somebody else was given it.
    pub fn delete_done(&mut self, receipt: Receipt) -> Result<Done, Stale> {
        let state = match self.received(receipt) {
            Ok(state) => state,
            Err(Stale::Gone) => return Ok(Done::WasGone),
            Err(stale) => return Err(stale),
        };
        let consumer = state.consumer.clone();
        if matches!(state.place, Place::Dead { .. }) {
            return Err(Stale::Ended);
        }
        self.displace(receipt.id, &state);
        self.erase(receipt.id, &state);
        self.header.statistics.totals.deleted += 1;
        self.header.statistics.rates.went(self.now, 1);
        if let Some(consumer) = self.header.statistics.consumer(&consumer) {
            consumer.deleted += 1;
        }
        Ok(Done::Deleted)
    }

    /// Lengthens a reservation, from now on. Returns the receipt that counts from now on.
    ///
    /// # Errors
    ///
    /// The receipt is not that of a reservation that goes on.
    pub fn touch(&mut self, receipt: Receipt, timeout_ms: Option<u64>, is_new: bool) -> Result<Receipt, Stale> {
        let mut state = self.reserved(receipt)?;
        let Place::Reserved { until } = state.place else { return Err(Stale::Ended) };
        self.delete(&names::at_time(names::RESERVED, until, receipt.id));
        lower(&mut self.header.counts.reserved, 1);
        let until = self.now.saturating_add(timeout_ms.unwrap_or(self.header.settings.timeout_ms));
        state.place = Place::Reserved { until };
        state.reservation = state.reservation.saturating_add(u32::from(is_new));
        self.put_state(receipt.id, &mut state);
        self.enter_reserved(receipt.id, until);
        Ok(state.receipt(receipt.id))
    }

    /// Gives a message back, after a delay. An attempt that is not counted is none towards the message's death.
    ///
    /// # Errors
    ///
    /// As of [`touch`](Self::touch).
    pub fn release(&mut self, receipt: Receipt, delay_ms: u64, reason: &[u8], is_counted: bool) -> Result<(), Stale> {
        let mut state = self.reserved(receipt)?;
        if !is_counted {
            state.attempts = state.attempts.saturating_sub(1);
        }
        self.header.statistics.totals.released += 1;
        self.take_back(receipt.id, state, self.now.saturating_add(delay_ms), reason);
        Ok(())
    }

    /// Has a message die.
    ///
    /// # Errors
    ///
    /// As of [`touch`](Self::touch).
    pub fn bury(&mut self, receipt: Receipt, reason: &[u8]) -> Result<(), Stale> {
        let state = self.reserved(receipt)?;
        self.displace(receipt.id, &state);
        self.die(receipt.id, state, reason);
        Ok(())
    }

    /// A message that was reserved comes back.
    pub(super) fn take_back(&mut self, id: MessageId, state: State, due: u64, reason: &[u8]) {
        self.displace(id, &state);
        self.come_back(id, state, due, reason);
    }
}
