//! Futures that one task polls: those of a connection's streams.
//!
//! A task of its own for each stream would cost an allocation, a turn of the runtime and a look at the clock for each request.
//! Here a stream's future is polled at once when its request has come, and is used again for the next one that gets its place.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Who is to be polled, and who polls them.
#[derive(Debug, Default)]
struct Ready {
    places: Vec<usize>,
    task: Option<Waker>,
}

#[derive(Debug)]
struct PlaceWaker {
    place: usize,
    is_listed: AtomicBool,
    ready: Arc<Mutex<Ready>>,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_listed.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            ready.places.push(self.place);
            ready.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

struct Place {
    future: Pin<Box<dyn Future<Output = ()>>>,
    waker: Waker,
    mark: Arc<PlaceWaker>,
}

/// The futures, each in its place.
#[derive(Default)]
pub struct Slots {
    places: Vec<Option<Place>>,
    ready: Arc<Mutex<Ready>>,
    /// Memory for those that are polled next.
    polled: Vec<usize>,
}

impl Slots {
    /// Whether a place has a future.
    pub fn is_taken(&self, place: usize) -> bool {
        self.places.get(place).is_some_and(Option::is_some)
    }

    /// Puts a future in its place.
    pub fn put(&mut self, place: usize, future: Pin<Box<dyn Future<Output = ()>>>) {
        let mark = PlaceWaker { place, is_listed: AtomicBool::new(false), ready: Arc::clone(&self.ready) };
        let mark = Arc::new(mark);
        let waker = Waker::from(Arc::clone(&mark));
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        if let Some(here) = self.places.get_mut(place) {
            *here = Some(Place { future, waker, mark });
        }
    }

    /// Polls the future in a place. One that ends leaves its place.
    pub fn poll(&mut self, place: usize) {
        let Some(here) = self.places.get_mut(place) else { return };
        let Some(Place { future, waker, mark }) = here else { return };
        mark.is_listed.store(false, Ordering::Release);
        if let Poll::Ready(()) = future.as_mut().poll(&mut Context::from_waker(waker)) {
            *here = None;
        }
    }

    /// Has the future in a place polled with those that were woken.
    pub fn wake(&self, place: usize) {
        if let Some(Some(here)) = self.places.get(place) {
            here.waker.wake_by_ref();
        }
    }

    /// Polls all that were woken; whether there were any. Whoever has had its share of the runtime's time goes on when it is
    /// woken next, which is at once.
    pub fn poll_ready(&mut self, context: &Context<'_>) -> bool {
        let mut polled = std::mem::take(&mut self.polled);
        {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut ready.places, &mut polled);
        }
        let mut any = false;
        let mut left = polled.drain(..);
        while let Some(place) = left.next() {
            if !tokio::task::coop::has_budget_remaining() {
                let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
                ready.places.push(place);
                ready.places.extend(left.by_ref());
                context.waker().wake_by_ref();
                break;
            }
            any = true;
            let Some(Some(here)) = self.places.get(place) else { continue };
            // NOTE: it may have been polled since it was woken, and wait again.
            if here.mark.is_listed.load(Ordering::Acquire) {
                self.poll(place);
            }
        }
        drop(left);
        self.polled = polled;
        any
    }

    /// Has the task be woken with the next future that is.
    pub fn listen(&self, context: &Context<'_>) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.places.is_empty() {
            context.waker().wake_by_ref();
        } else if !ready.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            ready.task = Some(context.waker().clone());
        }
    }

    /// Polls all futures there are.
    pub fn poll_all(&mut self) {
        for place in 0..self.places.len() {
            self.poll(place);
        }
    }

    /// Drops all futures, which must be idle.
    pub fn clear(&mut self) {
        self.places = Vec::new();
        self.polled = Vec::new();
    }
}
