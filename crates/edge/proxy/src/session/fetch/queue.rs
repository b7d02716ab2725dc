//! Asking the balancer for a server, and waiting for one that has room.

use std::{future::poll_fn, rc::Rc, task::Poll};

use balance::{Claim, Pick, ServerId};
use live::LiveProxy;
use net::Deadline;

use super::{Requester, Unreachable, Wanted};
use crate::{session::transaction::Transaction, worker::Worker};

/// A slot of a server, given back when dropped.
pub struct Slot<'a> {
    worker: Rc<Worker>,
    proxy: &'a LiveProxy,
    pub(super) server: ServerId,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let now = self.worker.now_ms();
        // NOTE: first, or who gets the slot next would be counted on top of this one.
        self.proxy.servers.with(self.server.index(), |server| server.side.sessions.decrement());
        self.proxy.with_farm(|farm| farm.release(self.server, now));
    }
}

/// Asks the balancer for a server.
pub(super) async fn ask(worker: &Worker, transaction: &Transaction, proxy: &LiveProxy, wanted: &Wanted) -> Pick {
    let (class, offset) = transaction.by_rules.priority.get();
    let request = balance::Request {
        key: wanted.key,
        avoid: wanted.avoid,
        forced: wanted.forced,
        priority_class: i32::try_from(class).unwrap_or(0),
        priority_offset: i32::try_from(offset).unwrap_or(0),
    };
    poll_fn(|context| {
        let waker = || context.waker().clone();
        Poll::Ready(proxy.with_farm(|farm| farm.pick(&request, worker.now_ms(), waker)))
    })
    .await
}

/// Waits for a slot, the request's place in a queue being `ticket`.
pub(super) async fn queue<'a>(
    worker: &Rc<Worker>,
    transaction: &mut Transaction,
    proxy: &'a LiveProxy,
    wanted: &mut Wanted,
    requester: &mut impl Requester,
    mut ticket: balance::Ticket,
) -> Result<Slot<'a>, Unreachable> {
    let mut deadline = Deadline::default();
    let timeouts = &proxy.settings().timeouts;
    deadline.set(timeouts.queue.or(timeouts.connect).map(|limit| worker.now() + limit));
    loop {
        let mut waiting = Waiting { worker, proxy, ticket: Some(ticket) };
        let claim = poll_fn(|context| {
            match proxy.with_farm(|farm| farm.claim(ticket)) {
                Claim::Waiting => {}
                claim => return Poll::Ready(Ok(claim)),
            }
            if let Poll::Ready(ended) = requester.poll_leaving(context) {
                return Poll::Ready(Err(ended));
            }
            deadline.poll(context).map(|()| Err(Unreachable::QueueTimeout))
        })
        .await;
        match claim {
            Ok(claim) => {
                waiting.ticket = None;
                match claim {
                    Claim::Granted { server, position } => {
                        transaction.route.server_queue += position.server;
                        transaction.route.backend_queue += position.backend;
                        return Ok(take(worker, transaction, proxy, server));
                    }
                    Claim::Redispatch { from, position } => {
                        transaction.route.server_queue += position.server;
                        transaction.route.backend_queue += position.backend;
                        wanted.avoid = Some(from);
                        wanted.forced = None;
                    }
                    Claim::Waiting | Claim::Unknown => {}
                }
            }
            Err(ended) => {
                waiting.ticket = None;
                let position = proxy.with_farm(|farm| farm.cancel(ticket, worker.now_ms()));
                transaction.route.server_queue += position.server;
                transaction.route.backend_queue += position.backend;
                transaction.timeline.dequeued = Some(worker.now());
                return Err(ended);
            }
        }
        ticket = match ask(worker, transaction, proxy, wanted).await {
            Pick::Assigned(server) => return Ok(take(worker, transaction, proxy, server)),
            Pick::NoServer => return Err(Unreachable::NoServer),
            Pick::QueueFull(_) => return Err(Unreachable::QueueFull),
            Pick::Queued(ticket) => ticket,
        };
    }
}

/// A place in a queue that is given up when the wait ends in any other way.
struct Waiting<'a> {
    worker: &'a Worker,
    proxy: &'a LiveProxy,
    ticket: Option<balance::Ticket>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.proxy.with_farm(|farm| farm.cancel(ticket, self.worker.now_ms()));
        }
    }
}

#[inline]
pub(super) fn take<'a>(
    worker: &Rc<Worker>,
    transaction: &mut Transaction,
    proxy: &'a LiveProxy,
    server: ServerId,
) -> Slot<'a> {
    transaction.timeline.dequeued = Some(worker.now());
    proxy.servers.with(server.index(), |server| server.side.sessions.increment());
    Slot { worker: Rc::clone(worker), proxy, server }
}
