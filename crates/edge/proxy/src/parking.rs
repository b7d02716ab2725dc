//! Idle client connections, without a task and without the runtime's memory for a socket.
//!
//! Both cost more than all that an idle connection has to remember. So a connection that stays silent is parked: its task
//! ends, what it remembers waits here ([`Parked`]), and its socket is watched by an epoll of the parking's own, which costs
//! the kernel's memory alone. When the socket has something to say, [`keep`] gives the connection a task again, which
//! finds out what it is.
//!
//! ```text
//!  task ──silent──▶ parked ──socket, order or deadline──▶ task
//! ```

use std::{
    cell::{Cell, RefCell},
    io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    rc::Rc,
    time::Instant,
};

use rustix::event::{
    Timespec,
    epoll::{self, CreateFlags, Event, EventData, EventFlags},
};
use slab::Slab;
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::spawn_local,
};

use crate::{
    session::{HttpSession, Parked, resume},
    worker::Worker,
};

/// How many sockets are looked at in one go.
const EVENTS_MAX: usize = 256;

/// A worker's idle connections.
pub struct Parking {
    /// Watches their sockets; `None` where the system had none to give, so that nothing is parked.
    epoll: Option<AsyncFd<OwnedFd>>,
    places: RefCell<Slab<Parked>>,
    rush: Rush,
}

impl Parking {
    /// No connection yet. To be made on the worker's runtime.
    #[must_use]
    pub fn new() -> Self {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(io::Error::from);
        Self {
            epoll: epoll.and_then(|epoll| runtime::register(epoll, Interest::READABLE)).ok(),
            places: RefCell::default(),
            rush: Rush::default(),
        }
    }

    /// Parks an idle session; `until` is when its idle time is over.
    ///
    /// # Errors
    /// Gives it back when its socket cannot be watched.
    pub fn park(&self, session: Box<HttpSession>, until: Option<Instant>) -> Result<(), Box<HttpSession>> {
        let Some(epoll) = &self.epoll else { return Err(session) };
        if !session.can_be_parked() {
            return Err(session);
        }
        let Some(socket) = session.client.stream.plain() else { return Err(session) };
        let mut places = self.places.borrow_mut();
        let place = places.vacant_entry();
        // NOTE: what the socket has received by now is told at once, so that nothing is missed.
        let (data, flags) = (EventData::new_u64(place.key() as u64), EventFlags::IN | EventFlags::RDHUP);
        if epoll::add(epoll.get_ref(), socket, data, flags).is_err() {
            return Err(session);
        }
        if let Some(parked) = Parked::new(session, until) {
            place.insert(parked);
        }
        Ok(())
    }

    /// Gives a task to the sessions whose time is over.
    pub fn expire(&self, now: Instant) {
        self.wake_all(|parked| parked.until.is_some_and(|until| until <= now));
    }

    /// Gives a task to the sessions that were told something.
    pub fn wake_told(&self) {
        self.wake_all(Parked::was_told);
    }

    /// Gives back to the system what a rush of connections left behind, once it is over. To be called at intervals.
    pub fn tidy(&self) {
        if self.rush.is_over(self.len()) {
            give_memory_back();
        }
    }

    /// Number of sessions parked.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.borrow().len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn wake_all(&self, whom: impl Fn(&Parked) -> bool) {
        let chosen: Vec<usize> = {
            let places = self.places.borrow();
            places.iter().filter(|(_, parked)| whom(parked)).map(|(index, _)| index).collect()
        };
        chosen.into_iter().for_each(|index| self.wake(index, false));
    }

    fn wake(&self, index: usize, speaks: bool) {
        let Some(parked) = self.places.borrow_mut().try_remove(index) else { return };
        if let Some(epoll) = &self.epoll {
            // It fails for none that is watched; one that is not tells nothing.
            let _ = epoll::delete(epoll.get_ref(), parked.socket());
        }
        // The runtime refuses a socket only when the system has no memory for it: then the connection ends here.
        if let Ok(session) = parked.wake() {
            spawn_local(resume(session, speaks));
        }
    }

    /// Gives a task to the sessions whose sockets have something to say; whether there may be more of them.
    fn wake_ready(&self) -> io::Result<bool> {
        let Some(epoll) = &self.epoll else { return Ok(false) };
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        let (events, _) = epoll::wait(epoll.get_ref(), &mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        for event in events.iter() {
            let data = event.data;
            self.wake(usize::try_from(data.u64()).unwrap_or(usize::MAX), true);
        }
        Ok(events.len() == EVENTS_MAX)
    }
}

/// Finds out when many connections have been parked and no more are coming: what they needed while they had tasks is free
/// then, and the allocator would keep it.
#[derive(Default)]
struct Rush {
    /// How many were parked when memory was last given back, or since then at the least.
    low: Cell<usize>,
    /// How many were parked at the last look.
    last: Cell<usize>,
}

impl Rush {
    /// How many more make a rush: with fewer it is not worth the time.
    const CONNECTIONS: usize = 256;

    fn is_over(&self, parked: usize) -> bool {
        let calm = parked <= self.last.replace(parked) + Self::CONNECTIONS / 16;
        let low = self.low.get().min(parked);
        let over = calm && parked - low >= Self::CONNECTIONS;
        self.low.set(if over { parked } else { low });
        over
    }
}

fn give_memory_back() {
    #[expect(unsafe_code, reason = "the C library's, which has no safe form")]
    // SAFETY: it takes no pointer, and gives back only what nobody has allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

impl Default for Parking {
    fn default() -> Self {
        Self::new()
    }
}

/// Gives sessions a task again when something happens to their sockets. Runs as long as the worker.
pub async fn keep(worker: Rc<Worker>) {
    let Some(epoll) = &worker.parking.epoll else { return };
    while let Ok(mut readiness) = epoll.readable().await {
        if !matches!(worker.parking.wake_ready(), Ok(true)) {
            // NOTE: cleared although not every place was asked again: a socket that speaks from now on makes the epoll ready
            // anew, and one that spoke in between is told by the next look, which `readable` is for.
            readiness.clear_ready();
        }
    }
}
