//! Requests that wait for the fetch of another one.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use http::Headers;
use slab::Slab;

use crate::object::{Object, Variant};

/// How a fetch ended, for those who waited.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// There is an object; it may be another variant than this one wants: look again.
    Published(Arc<Object>),
    /// The response was for one request alone: fetch, without waiting again.
    Private,
    /// There is none: fail as well, with this status.
    Failed(u16),
}

/// A fetch, as those see it who wait.
#[derive(Debug)]
pub(super) struct Waiters {
    /// Which requests it will probably answer.
    expected: Option<Variant>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<Outcome>,
    /// One for each that has been polled.
    wakers: Slab<Waker>,
    waiting: usize,
}

impl Waiters {
    pub(super) fn new(expected: Option<Variant>) -> Self {
        Self { expected, state: Mutex::default() }
    }

    /// Whether what is fetched will answer this request, as far as that can be told.
    pub(super) fn is_for(&self, request: &Headers) -> bool {
        self.expected.as_ref().is_none_or(|variant| variant.answers(request))
    }

    pub(super) fn wait(self: &Arc<Self>) -> Waiting {
        self.lock().waiting += 1;
        Waiting { fetch: Arc::clone(self), place: None }
    }

    /// Whether anybody waits.
    pub(super) fn has_any(&self) -> bool {
        self.lock().waiting > 0
    }

    /// Tells all; their number.
    pub(super) fn end(&self, outcome: Outcome) -> usize {
        let mut state = self.lock();
        state.outcome = Some(outcome);
        let (wakers, waiting) = (std::mem::take(&mut state.wakers), state.waiting);
        drop(state);
        // NOTE: they are woken when nobody holds the lock: they ask at once.
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
        waiting
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the fetch of another request.
#[derive(Debug)]
pub struct Waiting {
    fetch: Arc<Waiters>,
    place: Option<usize>,
}

impl Waiting {
    /// How the fetch ended, if it has.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.fetch.lock().outcome.clone()
    }
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        let mut state = this.fetch.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        match this.place.and_then(|place| state.wakers.get_mut(place)) {
            Some(waker) => waker.clone_from(context.waker()),
            None => this.place = Some(state.wakers.insert(context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.fetch.lock();
        state.waiting -= 1;
        if let Some(place) = self.place {
            state.wakers.try_remove(place);
        }
    }
}
