//! Bytes both ways between two sides until both have ended: TCP mode, CONNECT and upgraded connections.
//!
//! ```text
//!           receive          send
//!  client ─────────▶ bytes ─────────▶ server      upward
//!  client ◀───────── bytes ◀───────── server      downward
//!            send           receive
//! ```
//!
//! A side is a [`Duplex`]: a connection of its own, or one stream of several. Each direction ends on its own: an end is passed on as
//! one (FIN) once every byte before it has been sent, and the other direction goes on. A direction receives only when everything it
//! received before has been sent, so a slow reader slows its writer and memory stays at one buffer a direction. Where both sides are
//! plain sockets, a direction that fills its buffer several times in a row is moved through a pipe instead (`splice`).

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use live::{LiveProxy, LiveServer, ShutCause};
use net::{
    Deadline,
    splice::{CopyError, Splice, Spliced},
};

use crate::{
    registry::{Handle, Order},
    session::{
        Transaction,
        body::{Duplex, Sink, Source},
        filter::{self, Stages},
    },
    worker::Worker,
};

/// Full reads in a row after which a direction is spliced.
const FULL_READS_BEFORE_SPLICE: u32 = 4;

/// How long each side may be silent; `None` is for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct TunnelTimeouts {
    /// The client.
    pub client: Option<Duration>,
    /// The server.
    pub server: Option<Duration>,
    /// The client, once it has been told of the server's end.
    pub client_fin: Option<Duration>,
    /// The server, once it has been told of the client's end.
    pub server_fin: Option<Duration>,
}

impl TunnelTimeouts {
    /// How long client and server may be silent when the directions have come so far.
    ///
    /// As in HAProxy a side that has ended owes nothing but to take what is waiting for it, and one that still may send is not
    /// late while what it has sent waits for the other one.
    fn of(&self, up: Progress, down: Progress) -> (Option<Duration>, Option<Duration>) {
        let limit = |from: Progress, to: Progress, usual: Option<Duration>, fin: Option<Duration>| {
            if from.has_ended {
                usual.filter(|_| to.waits)
            } else if !to.has_ended {
                usual
            } else if from.waits {
                None
            } else {
                fin.filter(|_| to.is_done).or(usual)
            }
        };
        (limit(up, down, self.client, self.client_fin), limit(down, up, self.server, self.server_fin))
    }
}

/// How far a direction has come.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Nothing more comes from where it begins.
    has_ended: bool,
    /// Where it leads to knows of that end.
    is_done: bool,
    /// Bytes wait for where it leads to.
    waits: bool,
}

/// Why a tunnel ended.
#[derive(Debug)]
pub enum TunnelEnd {
    /// Both sides closed.
    Closed {
        /// The client closed before the server did.
        client_first: bool,
    },
    /// The client's connection failed.
    ClientError(io::Error),
    /// The server's connection failed.
    ServerError(io::Error),
    /// The client was silent for too long.
    ClientTimeout,
    /// The server was silent for too long.
    ServerTimeout,
    /// It was told to end, for this cause.
    Killed(ShutCause),
}

/// What went through.
#[derive(Debug)]
pub struct TunnelReport {
    /// Why it ended.
    pub end: TunnelEnd,
    /// Bytes written to the server.
    pub bytes_up: u64,
    /// Bytes written to the client.
    pub bytes_down: u64,
    /// Of both, those that were spliced.
    pub bytes_spliced: u64,
}

/// What a tunnel needs beside its two sides.
pub struct TunnelSetup<'a> {
    /// Who runs it.
    worker: &'a Worker,
    /// Who may end it.
    handle: &'a Handle,
    /// Whose sessions may be told to end.
    server: Arc<LiveServer>,
    timeouts: TunnelTimeouts,
    /// Body bytes from which splicing pays; 0 turns it off.
    splice_min: u64,
    /// `tune.pipesize`.
    pipe_size: usize,
    /// Whether the client's and the server's time runs on while bytes go to them (`option independent-streams`).
    independent: (bool, bool),
    /// What filters put bytes to the server and to the client through.
    stages: (Option<Box<Stages>>, Option<Box<Stages>>),
}

impl<'a> TunnelSetup<'a> {
    /// That of a transaction, to a server of a backend. Either side may be silent for `idle` where nothing else says so.
    #[must_use]
    pub fn new(
        (worker, handle): (&'a Rc<Worker>, &'a Handle),
        transaction: &Transaction,
        backend: &LiveProxy,
        server: &Arc<LiveServer>,
        idle: Option<Duration>,
    ) -> Self {
        let (front, back) = (transaction.client.frontend.settings(), backend.settings());
        let both = transaction.by_rules.tunnel_timeout.get().or(back.timeouts.tunnel).or(idle);
        let tune = &transaction.instance.config.global.tune;
        Self {
            worker,
            handle,
            server: Arc::clone(server),
            timeouts: TunnelTimeouts {
                client: both.or(front.timeouts.client),
                server: both.or(back.timeouts.server),
                client_fin: front.timeouts.client_fin,
                server_fin: back.timeouts.server_fin,
            },
            splice_min: tune.splice_min,
            pipe_size: tune.pipesize,
            independent: (front.options.independent_streams, back.options.independent_streams),
            stages: filter::tunnel_stages(transaction, worker, backend),
        }
    }
}

/// Whether the system can move bytes from one to the other.
fn are_plain(from: &mut impl Duplex, to: &impl Duplex) -> bool {
    from.received().is_empty() && Source::plain_socket(from).is_some() && Sink::plain_socket(to).is_some()
}

#[derive(Debug)]
struct Direction {
    ended: bool,
    done: bool,
    /// Bytes wait for where it leads to.
    waits: bool,
    moved: u64,
    spliced: u64,
    full_reads: u32,
    pipe: Option<Splice>,
    stages: Option<Box<Stages>>,
}

impl Direction {
    fn new(stages: Option<Box<Stages>>) -> Self {
        Self { ended: false, done: false, waits: false, moved: 0, spliced: 0, full_reads: 0, pipe: None, stages }
    }

    /// How many of so many bytes may be sent now; pending while limits of bandwidth allow none.
    fn poll_allowed(&mut self, waiting: usize, context: &mut Context<'_>) -> Poll<usize> {
        let Some(stages) = &mut self.stages else { return Poll::Ready(waiting) };
        loop {
            match stages.allowance(waiting) {
                0 => ready!(stages.poll_pace(waiting, context)),
                allowed => return Poll::Ready(allowed),
            }
        }
    }

    fn progress(&self) -> Progress {
        Progress { has_ended: self.ended, is_done: self.done, waits: self.waits }
    }

    /// Whether it waits for a limit of bandwidth rather than for either side.
    fn is_paced(&self) -> bool {
        self.stages.as_ref().is_some_and(|stages| stages.is_waiting())
    }

    /// Moves bytes until one of the sides has to be waited for; ready once the end has been passed on.
    fn poll(
        &mut self,
        from: &mut impl Duplex,
        to: &mut impl Duplex,
        setup: &TunnelSetup<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), CopyError>> {
        let moved = self.poll_move(from, to, setup, context);
        let is_piped = self.pipe.as_ref().is_some_and(|pipe| !pipe.is_empty());
        self.waits = is_piped || !from.received().is_empty() || to.unsent_len() > 0;
        moved
    }

    fn poll_move(
        &mut self,
        from: &mut impl Duplex,
        to: &mut impl Duplex,
        setup: &TunnelSetup<'_>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), CopyError>> {
        loop {
            while !from.received().is_empty() {
                let allowed = ready!(self.poll_allowed(from.received().len(), context));
                let bytes = from.received().get(..allowed).unwrap_or_default();
                let count = ready!(to.poll_send(bytes, context)).map_err(CopyError::Write)?;
                if let Some(stages) = &mut self.stages {
                    stages.note(bytes.get(..count).unwrap_or_default());
                }
                from.consume(count);
                self.moved += count as u64;
            }
            if to.unsent_len() > 0 {
                ready!(to.poll_flush(context)).map_err(CopyError::Write)?;
            }
            if self.ended {
                // NOTE: who takes no more has been sent all there was.
                let _ = ready!(to.poll_shut(context));
                self.done = true;
                from.rest();
                return Poll::Ready(Ok(()));
            }
            if let Some(pipe) = &mut self.pipe
                && let Some((from, to)) = Source::plain_socket(from).zip(Sink::plain_socket(to))
            {
                match ready!(pipe.poll(from, to, u64::MAX, context))? {
                    Spliced::Moved(count) => {
                        self.moved += count as u64;
                        self.spliced += count as u64;
                    }
                    Spliced::Ended => self.ended = true,
                }
                continue;
            }
            let Poll::Ready(received) = from.poll_receive(context) else {
                from.rest();
                return Poll::Pending;
            };
            match received.map_err(CopyError::Read)? {
                0 => self.ended = true,
                _ if from.is_full() => {
                    self.full_reads += 1;
                    let may_splice = setup.splice_min > 0 && self.stages.is_none();
                    if self.full_reads >= FULL_READS_BEFORE_SPLICE && may_splice && are_plain(from, to) {
                        // Without a pipe (no descriptors left) the buffer serves as well.
                        self.pipe = Splice::new(setup.pipe_size).ok();
                    }
                }
                _ => self.full_reads = 0,
            }
        }
    }
}

/// Runs a tunnel to its end, with what has come of either side before.
pub async fn run(client: &mut impl Duplex, server: &mut impl Duplex, mut setup: TunnelSetup<'_>) -> TunnelReport {
    let mut up = Direction::new(setup.stages.0.take());
    let mut down = Direction::new(setup.stages.1.take());
    let mut client_first = None;
    let mut late = None;
    let worker = setup.worker;
    let mut activity = Activity::new(worker.now());
    let mut deadline = Deadline::default();
    let shut_mark = setup.server.shut_mark();
    let (mut client_failed, mut server_failed) = (client.failed(), server.failed());
    let end = poll_fn(|context| {
        setup.handle.listen(context);
        if setup.handle.order() == Order::Abort {
            return Poll::Ready(TunnelEnd::Killed(ShutCause::Administrator));
        }
        if let Some(cause) = setup.server.shut_cause(shut_mark) {
            return Poll::Ready(TunnelEnd::Killed(cause));
        }
        if !up.done
            && let Poll::Ready(Err(side)) = up.poll(client, server, &setup, context)
        {
            return Poll::Ready(match side {
                CopyError::Read(error) => TunnelEnd::ClientError(error),
                CopyError::Write(error) => TunnelEnd::ServerError(error),
            });
        }
        if !down.done
            && let Poll::Ready(Err(side)) = down.poll(server, client, &setup, context)
        {
            return Poll::Ready(match side {
                CopyError::Read(error) => TunnelEnd::ServerError(error),
                CopyError::Write(error) => TunnelEnd::ClientError(error),
            });
        }
        if client_first.is_none() && (up.ended || down.ended) {
            client_first = Some(up.ended);
        }
        // Nobody reads from a side that has ended: what breaks it would only show when something is sent there.
        if up.done
            && !down.done
            && let Poll::Ready(error) = client_failed.as_mut().poll(context)
        {
            return Poll::Ready(TunnelEnd::ClientError(error));
        }
        if down.done
            && !up.done
            && let Poll::Ready(error) = server_failed.as_mut().poll(context)
        {
            return Poll::Ready(TunnelEnd::ServerError(error));
        }
        if up.done && down.done {
            return Poll::Ready(TunnelEnd::Closed { client_first: client_first.unwrap_or(true) });
        }
        activity.note(up.moved, down.moved, worker.now());
        if up.is_paced() || down.is_paced() {
            // Neither side is to blame for that; the limit's timer comes back here.
            return Poll::Pending;
        }
        let now = worker.now();
        let expired = |limit: Option<Duration>, since: Instant| limit.is_some_and(|limit| now >= since + limit);
        // A direction that has been silent for too long ends on its own: the other one goes on.
        if setup.independent.0 && !up.ended && expired(setup.timeouts.client, activity.up) {
            up.ended = true;
            late = Some(TunnelEnd::ClientTimeout);
            context.waker().wake_by_ref();
        }
        if setup.independent.1 && !down.ended && expired(setup.timeouts.server, activity.down) {
            down.ended = true;
            late = Some(TunnelEnd::ServerTimeout);
            context.waker().wake_by_ref();
        }
        let (client_limit, server_limit) = setup.timeouts.of(up.progress(), down.progress());
        let client_at = client_limit.map(|limit| activity.of_client(setup.independent.0 && !up.ended) + limit);
        let server_at = server_limit.map(|limit| activity.of_server(setup.independent.1 && !down.ended) + limit);
        deadline.set(match (client_at, server_at) {
            (Some(client), Some(server)) => Some(client.min(server)),
            (client, server) => client.or(server),
        });
        if deadline.poll_at(now, context).is_pending() {
            return Poll::Pending;
        }
        // A side that still has bytes to take is to blame before one that has none to give.
        let client_late = client_at.is_some_and(|at| server_at.is_none_or(|server| at <= server));
        Poll::Ready(if (client_late || down.progress().waits) && !up.progress().waits {
            TunnelEnd::ClientTimeout
        } else {
            TunnelEnd::ServerTimeout
        })
    })
    .await;
    // Who was silent first is to blame, however the other direction ended.
    let end = match (late, end) {
        (_, killed @ TunnelEnd::Killed(_)) => killed,
        (Some(late), _) => late,
        (None, end) => end,
    };
    if matches!(end, TunnelEnd::ClientError(_)) {
        // NOTE: an end of stream would tell the server that it has got everything there was.
        server.break_off();
    }
    TunnelReport { end, bytes_up: up.moved, bytes_down: down.moved, bytes_spliced: up.spliced + down.spliced }
}

#[derive(Debug)]
struct Activity {
    up: Instant,
    down: Instant,
    moved: (u64, u64),
}

impl Activity {
    fn new(now: Instant) -> Self {
        Self { up: now, down: now, moved: (0, 0) }
    }

    fn note(&mut self, up: u64, down: u64, now: Instant) {
        if self.moved.0 != up {
            self.up = now;
        }
        if self.moved.1 != down {
            self.down = now;
        }
        self.moved = (up, down);
    }

    /// When the client did something last: what it takes counts as well, unless directions are independent.
    fn of_client(&self, independent: bool) -> Instant {
        if independent { self.up } else { self.up.max(self.down) }
    }

    /// The same of the server.
    fn of_server(&self, independent: bool) -> Instant {
        if independent { self.down } else { self.up.max(self.down) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_that_has_ended_is_waited_for_only_by_what_it_has_to_take() {
        let [client, server, client_fin, server_fin] = [1, 2, 3, 4].map(|seconds| Some(Duration::from_secs(seconds)));
        let all = TunnelTimeouts { client, server, client_fin, server_fin };
        let without_fin = TunnelTimeouts { client_fin: None, server_fin: None, ..all };
        let open = Progress::default();
        let busy = Progress { waits: true, ..open };
        let ended = Progress { has_ended: true, is_done: true, waits: false };
        let ending = Progress { has_ended: true, is_done: false, waits: true };
        // The way up, the way down, what is expected of the client and of the server, with and without half-closed timeouts.
        for (what, up, down, expected, expected_without_fin) in [
            ("both open", open, open, (client, server), (client, server)),
            ("both open, the client takes nothing", open, busy, (client, server), (client, server)),
            ("client ended", ended, open, (None, server_fin), (None, server)),
            ("client ended and takes nothing", ended, busy, (client, None), (client, None)),
            ("client ended, the server takes nothing", ending, open, (None, server), (None, server)),
            ("server ended", open, ended, (client_fin, None), (client, None)),
            ("server ended and takes nothing", busy, ended, (None, server), (None, server)),
            ("server ended, the client takes nothing", open, ending, (client, None), (client, None)),
            ("both ended, the client takes nothing", ended, ending, (client, None), (client, None)),
        ] {
            assert_eq!(all.of(up, down), expected, "{what}");
            assert_eq!(without_fin.of(up, down), expected_without_fin, "{what}");
        }
    }
}
