//! What has come where a request may: it is given to an exchange, or told of.

use std::{rc::Rc, sync::Arc};

use http::RequestHead;

use super::{Begun, Machine, Shared, Slots, serve};
use crate::session::{ending::Ending, http::Session, transaction::Transaction};

/// Gives the request of this key and head to the exchange that has its place.
pub fn begin<M: Machine>(
    session: &mut Session,
    shared: &Rc<Shared<M>>,
    slots: &mut Slots,
    (key, head): (M::Key, RequestHead),
) {
    session.adopt_instance();
    session.first = false;
    let (prefix, begins_protocol) = {
        let machine = shared.machine.borrow();
        let pseudo = machine.pseudo_fields();
        let has_scheme = !pseudo.scheme().is_empty();
        let prefix = if has_scheme { [pseudo.scheme(), b"://", pseudo.authority()].concat() } else { Vec::new() };
        (prefix, !pseudo.protocol().is_empty())
    };
    let body = http::request_body_length(&head);
    shared.begins(Begun {
        key,
        body,
        head,
        prefix,
        begins_protocol,
        instance: Arc::clone(&session.instance),
        side: Rc::clone(&session.side),
    });
    let place = M::slot(key);
    if !slots.is_taken(place) {
        slots.put(place, Box::pin(serve(Rc::clone(shared), place)));
    }
    if body.is_empty() {
        slots.poll(place);
    } else {
        // NOTE: its body has mostly come along. A request that is there whole can be sent again.
        slots.wake(place);
    }
}

/// Tells of something that came in a request's place, and how that ended.
pub fn log_unreadable(session: &mut Session, ending: Ending) {
    session.adopt_instance();
    let (instance, side, worker) = (&session.instance, &session.side, &session.worker);
    let mut transaction = Transaction::new(Arc::clone(instance), Rc::clone(side), worker);
    transaction.restart(instance, side, worker.random());
    transaction.timeline.idle_since = Some(worker.now());
    transaction.asked.is_follower = true;
    transaction.end(ending);
    session.count_bad_request(&mut transaction);
    if matches!(ending, Ending::ClientTimedOut(_)) {
        transaction.answered.status = 408;
    } else {
        transaction.count_tracked_error();
    }
    transaction.finish(worker);
    worker.heads.give(transaction.take_heads());
}
