//! Runs the sections: opens and closes connections, and carries bytes.

use std::{
    cell::Cell,
    collections::HashMap,
    future::poll_fn,
    io,
    rc::Rc,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use net::{
    Stream,
    connect::{ConnectOptions, connect},
};
use peers::{Action, ConnectionId, Transmit};
use tokio::{sync::Notify, task::spawn_local};

use super::hub::{Arrival, Hub, LivePeer, LiveSection};
use crate::{Process, sockets};

/// A connection to a peer has to stand within this time.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The sections are looked at no more often for the sake of time.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// And no more rarely.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How much is read at once.
const INPUT_LEN: usize = 16_384;

/// The way to the task of a connection.
#[derive(Debug, Default)]
struct Line {
    wake: Notify,
    is_closed: Cell<bool>,
}

/// Everything that tasks of connections need.
#[derive(Clone)]
struct PeerTask {
    hub: Arc<Hub>,
    process: Arc<Process>,
    section: Arc<LiveSection>,
    id: ConnectionId,
    line: Rc<Line>,
}

impl PeerTask {
    fn now(&self) -> u64 {
        self.process.milliseconds(Instant::now())
    }

    fn is_over(&self) -> bool {
        self.line.is_closed.get() || self.section.is_retired.load(Relaxed)
    }

    fn end(&self) {
        self.section.ends.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        let now = self.now();
        self.section.state().handle_closed(self.id, now);
        self.line.is_closed.set(true);
        self.hub.wake.notify_one();
    }
}

/// The lines of all connections, by section and number. A section lives at least as long as its connections.
#[derive(Default)]
struct Lines(HashMap<(usize, ConnectionId), Rc<Line>>);

impl Lines {
    fn key(section: &Arc<LiveSection>, id: ConnectionId) -> (usize, ConnectionId) {
        (Arc::as_ptr(section).addr(), id)
    }

    fn open(&mut self, section: &Arc<LiveSection>, id: ConnectionId) -> Rc<Line> {
        let line = Rc::<Line>::default();
        self.0.insert(Self::key(section, id), Rc::clone(&line));
        line
    }

    fn close(&mut self, section: &Arc<LiveSection>, id: ConnectionId) {
        if let Some(line) = self.0.remove(&Self::key(section, id)) {
            line.is_closed.set(true);
            line.wake.notify_one();
        }
    }

    /// Wakes all, and forgets those that have ended.
    fn wake(&mut self) {
        self.0.retain(|_, line| !line.is_closed.get());
        self.0.values().for_each(|line| line.wake.notify_one());
    }
}

/// Runs the sections of a process for as long as it lives. One of these, on the control thread.
pub async fn run(hub: Arc<Hub>, process: Arc<Process>) {
    let Some(mut arrived) = hub.arrived.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let mut lines = Lines::default();
    loop {
        hub.has_changes.store(false, Relaxed);
        let sections = hub.sections();
        let mut next: Option<u64> = None;
        for section in &sections {
            let now = process.milliseconds(Instant::now());
            let due = look_at(&hub, &process, section, &mut lines, now);
            next = [next, due].into_iter().flatten().min();
        }
        if hub.is_stopping() && sections.iter().all(|section| section.state().is_over()) {
            hub.ended.notify_one();
        }
        lines.wake();
        let now = process.milliseconds(Instant::now());
        let pause = next.map_or(PAUSE_MAX, |due| Duration::from_millis(due.saturating_sub(now)));
        tokio::select! {
            () = hub.wake.notified() => {}
            () = tokio::time::sleep(pause.clamp(PAUSE_MIN, PAUSE_MAX)) => {}
            arrival = arrived.recv() => {
                let Some(arrival) = arrival else { return };
                arrive(&hub, &process, &mut lines, arrival);
            }
        }
    }
}

/// Does what a section wants; when it is to be looked at again.
fn look_at(
    hub: &Arc<Hub>,
    process: &Arc<Process>,
    section: &Arc<LiveSection>,
    lines: &mut Lines,
    now: u64,
) -> Option<u64> {
    let mut state = section.state();
    if hub.is_stopping() {
        state.handle_stop(now);
    }
    if state.poll_timeout().is_none_or(|due| due <= now) {
        state.handle_timeout(now);
    }
    while let Some(action) = state.poll_action() {
        match action {
            Action::Connect { connection, peer } => {
                let place = PeerTask {
                    hub: Arc::clone(hub),
                    process: Arc::clone(process),
                    section: Arc::clone(section),
                    id: connection,
                    line: lines.open(section, connection),
                };
                spawn_local(open(place, peer));
            }
            Action::Close(connection) => lines.close(section, connection),
        }
    }
    state.poll_timeout()
}

fn arrive(hub: &Arc<Hub>, process: &Arc<Process>, lines: &mut Lines, arrival: Arrival) {
    let Some(section) = hub.sections().into_iter().find(|section| section.name == arrival.section) else { return };
    let Ok(stream) = Stream::from_socket(arrival.socket) else { return };
    let Some(id) = section.state().handle_accepted(process.milliseconds(Instant::now())) else { return };
    if let (Some(local), Some(peer)) = (stream.local_address(), stream.peer_address()) {
        section.ends.lock().unwrap_or_else(PoisonError::into_inner).insert(id, (peer, local));
    }
    let line = lines.open(&section, id);
    let place = PeerTask { hub: Arc::clone(hub), process: Arc::clone(process), section, id, line };
    spawn_local(async move {
        converse(&place, &stream).await;
        place.end();
    });
}

async fn open(place: PeerTask, peer: usize) {
    if let Some(peer) = place.section.peers.get(peer)
        && let Some(stream) = reach(&place, peer).await
    {
        place.section.state().handle_connected(place.id);
        converse(&place, &stream).await;
    }
    place.end();
}

async fn reach(place: &PeerTask, peer: &LivePeer) -> Option<Stream> {
    let options = ConnectOptions {
        source: peer.source.as_ref().map(|source| sockets::source(source, None)),
        user_timeout: peer.user_timeout,
        no_linger: true,
        ..ConnectOptions::default()
    };
    let connecting = tokio::time::timeout(CONNECT_TIME, connect(&peer.target, options));
    tokio::pin!(connecting);
    loop {
        tokio::select! {
            result = &mut connecting => return result.ok()?.ok(),
            () = place.line.wake.notified() => {
                if place.is_over() {
                    return None;
                }
            }
        }
    }
}

/// Carries bytes until either side ends the connection.
async fn converse(place: &PeerTask, stream: &Stream) {
    let mut input = vec![0; INPUT_LEN];
    let (mut output, mut sent, mut is_last) = (Vec::new(), 0, false);
    while !place.is_over() {
        if sent == output.len() {
            output.clear();
            sent = 0;
            if is_last {
                return;
            }
            let now = place.now();
            let outcome = place.section.state().poll_transmit(place.id, &mut output, now);
            is_last = outcome == Transmit::Last;
            if is_last && output.is_empty() {
                return;
            }
        }
        tokio::select! {
            ready = stream.readable(), if !is_last => {
                match ready.and_then(|()| stream.try_read(&mut input)) {
                    Ok(0) => return,
                    Ok(count) => {
                        let now = place.now();
                        place.section.state().handle_bytes(place.id, input.get(..count).unwrap_or_default(), now);
                        place.hub.wake.notify_one();
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
            ready = poll_fn(|context| stream.poll_writable(context)), if sent < output.len() => {
                match ready.and_then(|()| stream.try_write(output.get(sent..).unwrap_or_default())) {
                    Ok(count) => sent += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
            () = place.line.wake.notified() => {}
        }
    }
}
