//! The loop: which connection has its turn.

use std::{
    io,
    net::TcpListener,
    time::{Duration, Instant},
};

use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, Event, EventData, EventFlags},
    },
    io::Errno,
};

use crate::{
    connection::{Connection, Wants, Workspace},
    site::Site,
};

/// How long a connection may be without a byte moving.
const IDLE: Duration = Duration::from_secs(30);
/// How often those that are are looked for, and how long nothing is accepted when descriptors are lacking.
const SWEEP_SECONDS: i64 = 1;
/// Events that are looked at in a turn.
const EVENTS: usize = 64;
/// What stands for the listening socket.
const LISTENER: u64 = u64::MAX;

/// Serves a site at a socket for ever.
///
/// # Errors
/// The system's, of the loop itself.
pub fn run(listener: &TcpListener, site: &Site, connections_max: usize) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut this = Server {
        poll: epoll::create(CreateFlags::CLOEXEC)?,
        listener,
        connections: Vec::new(),
        free: Vec::new(),
        connections_max,
        accepts: false,
        swept: Instant::now(),
    };
    let mut space = Workspace::new();
    let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
    loop {
        this.listen(true)?;
        let limit = Timespec { tv_sec: SWEEP_SECONDS, tv_nsec: 0 };
        let count = match epoll::wait(&this.poll, &mut events, Some(&limit)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let now = Instant::now();
        for event in events.iter().take(count) {
            let place = event.data.u64();
            match usize::try_from(place) {
                Ok(place) if event.data.u64() != LISTENER => this.turn(place, site, &mut space, now)?,
                _ => this.accept(now)?,
            }
        }
        this.sweep(now);
    }
}

struct Server<'a> {
    poll: std::os::fd::OwnedFd,
    listener: &'a TcpListener,
    connections: Vec<Option<(Connection, Wants)>>,
    free: Vec<usize>,
    connections_max: usize,
    accepts: bool,
    swept: Instant,
}

impl Server<'_> {
    /// Takes connections while there is room for more. Others wait in the system's queue.
    fn listen(&mut self, wanted: bool) -> io::Result<()> {
        let has_room = self.connections.len() - self.free.len() < self.connections_max;
        if self.accepts != (wanted && has_room) {
            if self.accepts {
                epoll::delete(&self.poll, self.listener)?;
            } else {
                epoll::add(&self.poll, self.listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
            }
            self.accepts = !self.accepts;
        }
        Ok(())
    }

    fn accept(&mut self, now: Instant) -> io::Result<()> {
        while self.connections.len() - self.free.len() < self.connections_max {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                // Descriptors are lacking: some connection ends before long, and until then the queue waits.
                Err(_) => return self.listen(false),
            };
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            let place = self.free.pop().unwrap_or(self.connections.len());
            let data = EventData::new_u64(u64::try_from(place).unwrap_or(LISTENER));
            epoll::add(&self.poll, &socket, data, EventFlags::IN)?;
            let connection = Some((Connection::new(socket, now), Wants::Read));
            match self.connections.get_mut(place) {
                Some(free) => *free = connection,
                None => self.connections.push(connection),
            }
        }
        Ok(())
    }

    fn turn(&mut self, place: usize, site: &Site, space: &mut Workspace, now: Instant) -> io::Result<()> {
        // One that ended in this very turn may still have an event.
        let Some(slot @ Some(_)) = self.connections.get_mut(place) else { return Ok(()) };
        let Some((connection, waits_for)) = slot else { return Ok(()) };
        let wants = connection.turn(site, space, now);
        let flags = match wants {
            Wants::End => {
                // Closing the socket takes it out of the set.
                *slot = None;
                self.free.push(place);
                return Ok(());
            }
            Wants::Read => EventFlags::IN,
            Wants::Write => EventFlags::OUT,
        };
        if *waits_for != wants {
            *waits_for = wants;
            let data = EventData::new_u64(u64::try_from(place).unwrap_or(LISTENER));
            epoll::modify(&self.poll, &connection.socket, data, flags)?;
        }
        Ok(())
    }

    /// Ends connections on which nothing moves.
    fn sweep(&mut self, now: Instant) {
        if now.duration_since(self.swept) < Duration::from_secs(1) {
            return;
        }
        self.swept = now;
        for (place, slot) in self.connections.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(|(connection, _)| now.duration_since(connection.moved) > IDLE) {
                *slot = None;
                self.free.push(place);
            }
        }
    }
}
