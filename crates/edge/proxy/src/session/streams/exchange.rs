//! The exchanges that get a place on a connection, one after the other.

use std::{future::poll_fn, rc::Rc, task::Poll};

use http::BodyLength;
use net::Deadline;

use super::{Begun, Machine, Shared, Stream};
use crate::session::{exchange::Exchange, pinned::PinnedConnections, size, transaction::Transaction, websocket};

/// Serves the requests that get this place.
pub async fn serve<M: Machine>(connection: Rc<Shared<M>>, place: usize) {
    let worker = Rc::clone(&connection.worker);
    let first = next(&connection, place).await;
    let mut transaction = Transaction::new(first.instance.clone(), Rc::clone(&first.side), &worker);
    let (mut deadline, mut kept) = (Deadline::default(), PinnedConnections::default());
    let mut begun = first;
    loop {
        transact(&connection, begun, &mut transaction, &mut deadline, &mut kept).await;
        connection.is_done();
        begun = next(&connection, place).await;
    }
}

async fn next<M: Machine>(connection: &Shared<M>, place: usize) -> Begun<M::Key> {
    // It is polled when there is one.
    poll_fn(|_| connection.take_begun(place).map_or(Poll::Pending, Poll::Ready)).await
}

/// One request from its head to its log line.
async fn transact<M: Machine>(
    connection: &Rc<Shared<M>>,
    begun: Begun<M::Key>,
    transaction: &mut Transaction,
    deadline: &mut Deadline,
    kept: &mut PinnedConnections,
) {
    let Begun { key, mut head, body, prefix, begins_protocol, instance, side } = begun;
    let worker = &connection.worker;
    let makes_key = begins_protocol && websocket::add_key(&mut head, [worker.random(), worker.random()]);
    transaction.restart(&instance, &side, worker.random());
    transaction.asked.makes_key = makes_key;
    std::mem::swap(&mut transaction.request, &mut head);
    connection.give_head(head);
    let now = worker.now();
    transaction.timeline.idle_since = Some(now);
    transaction.timeline.first_byte = Some(now);
    // As in HAProxy, no stream is the first request of its connection.
    transaction.asked.is_follower = true;
    transaction.asked.wants_keep_alive = true;
    // What says that the body comes in chunks was put there for servers.
    let chunked = if body == BodyLength::Chunked { "transfer-encodingchunked".len() } else { 0 };
    transaction.bytes_in += size::of_request(&transaction.request) + prefix.len() as u64 - chunked as u64;
    transaction.asked.url_prefix = prefix;
    transaction.note_line(M::VERSION);
    let id = instance.process.next_session_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let registered = worker.registry.register_stream(id, now, side.source.get(), side.frontend.clone());
    registered.handle.speaks(side.protocol.major(), side.is_encrypted());
    let mut client = Stream::new(Rc::clone(connection), key, begins_protocol);
    let mut idle_wish = None;
    let mut exchange = Exchange {
        worker,
        instance: &instance,
        side: &side,
        handle: &registered.handle,
        client: &mut client,
        deadline,
        kept,
        idle_wish: &mut idle_wish,
    };
    exchange.begin(transaction);
    exchange.answer(transaction, body).await;
    drop(client);
    transaction.finish(worker);
    registered.handle.rests();
}
