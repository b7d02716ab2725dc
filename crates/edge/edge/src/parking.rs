//! Idle client connections, without a task of their own.
//!
//! A task costs more memory than all that an idle connection has to remember. So a connection that stays silent is parked:
//! its task ends, its session waits here, and a bell that hangs on its socket and on its place in the registry rings when
//! something happens. [`keep`] then gives it a task again, which finds out what it was.
//!
//! ```text
//!  task ──silent──▶ parked ──bell or deadline──▶ task
//! ```
//!
//! A bell may ring for nothing, because the one before hung there: the new task finds the connection idle and parks it
//! again.

use std::{
    cell::RefCell,
    future::poll_fn,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};

use tokio::task::spawn_local;

use crate::{
    registry::Order,
    session::{HttpSession, resume},
    worker::Worker,
};

/// A worker's idle connections.
#[derive(Default)]
pub struct Parking {
    places: RefCell<Vec<Place>>,
    free: RefCell<Vec<usize>>,
    rung: Arc<Rung>,
}

struct Place {
    bell: Waker,
    parked: Option<Parked>,
}

struct Parked {
    session: Box<HttpSession>,
    until: Option<Instant>,
}

/// The places whose bells have rung.
#[derive(Default)]
struct Rung(Mutex<(Vec<usize>, Option<Waker>)>);

impl Rung {
    fn lock(&self) -> MutexGuard<'_, (Vec<usize>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, place: usize) {
        let keeper = {
            let (places, keeper) = &mut *self.lock();
            places.push(place);
            keeper.take()
        };
        if let Some(keeper) = keeper {
            keeper.wake();
        }
    }
}

struct Bell {
    place: usize,
    rung: Arc<Rung>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.ring(self.place);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.ring(self.place);
    }
}

impl Parking {
    /// Parks an idle session; `until` is when its idle time is over.
    pub fn park(&self, session: Box<HttpSession>, until: Option<Instant>) {
        let mut places = self.places.borrow_mut();
        let free = self.free.borrow_mut().pop();
        let index = free.unwrap_or(places.len());
        if index == places.len() {
            let bell = Waker::from(Arc::new(Bell { place: index, rung: Arc::clone(&self.rung) }));
            places.push(Place { bell, parked: None });
        }
        let Some(place) = places.get_mut(index) else { return };
        let mut context = Context::from_waker(&place.bell);
        session.registered.handle.listen(&context);
        let something_happened = session.client.stream.poll_readable(&mut context).is_ready()
            || session.registered.handle.order() != Order::Continue
            || session.worker.draining.get();
        place.parked = Some(Parked { session, until });
        drop(places);
        if something_happened {
            self.rung.ring(index);
        }
    }

    /// Rings for the sessions whose time is over.
    pub fn expire(&self, now: Instant) {
        for (index, place) in self.places.borrow().iter().enumerate() {
            if place.parked.as_ref().is_some_and(|parked| parked.until.is_some_and(|until| until <= now)) {
                self.rung.ring(index);
            }
        }
    }

    /// Number of sessions parked.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.borrow().iter().filter(|place| place.parked.is_some()).count()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take(&self, index: usize) -> Option<Box<HttpSession>> {
        let parked = self.places.borrow_mut().get_mut(index)?.parked.take()?;
        self.free.borrow_mut().push(index);
        Some(parked.session)
    }

    fn poll_rung(&self, context: &Context<'_>) -> Poll<Vec<usize>> {
        let (places, keeper) = &mut *self.rung.lock();
        if places.is_empty() {
            *keeper = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(places))
    }
}

/// Gives sessions a task again when something happens to them. Runs as long as the worker.
pub async fn keep(worker: Rc<Worker>) {
    loop {
        for place in poll_fn(|context| worker.parking.poll_rung(context)).await {
            if let Some(session) = worker.parking.take(place) {
                spawn_local(resume(session));
            }
        }
    }
}
