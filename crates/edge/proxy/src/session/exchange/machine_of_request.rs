//! The machine of a request that a cache answers, and what it asks of the connection.

use std::{rc::Rc, sync::Arc, time::Duration};

use accelerator::{
    Connection, client,
    machine::{Client, Step},
    shared,
};
use http::BodyLength;

use crate::{
    session::{
        heads::Heads,
        object_fetch::{Origin, wall_clock},
        transaction::Transaction,
        varnish_log,
    },
    worker::Worker,
};

/// Bytes and fields that a request's head gets on its way through a program: so many fit without taking more memory.
const REQUEST_ROOM: (usize, usize) = (256, 4);

/// The machine of a request.
pub(super) fn client_of(
    worker: &Worker,
    transaction: &Transaction,
    origin: &Origin,
    (body, heads): (BodyLength, &mut Heads),
) -> Client {
    let has_body = !body.is_empty();
    let mut request = std::mem::take(&mut heads.request);
    request.copy_from(&transaction.request, REQUEST_ROOM.0, REQUEST_ROOM.1);
    match origin {
        Origin::Program { accelerator, program } => {
            let numbers = Arc::clone(accelerator);
            let asks_who = program.loaded.program.imports("unix");
            let connection = connection_of(worker, transaction, asks_who);
            let next = Rc::new(move || numbers.next_number());
            let mut client = client::Client::new(&program.loaded, request, connection, wall_clock(), next, has_body);
            client.lend(std::mem::take(&mut heads.response));
            Client::Program(Box::new(client))
        }
        Origin::Shared { cache, .. } => {
            Client::Shared(Box::new(shared::Client::new(&cache.shared, request, wall_clock(), has_body)))
        }
    }
}

/// Does what the program has asked of the client's connection.
pub(super) fn obey(client: &Client, transaction: &Transaction, idle_wish: &mut Option<Duration>) {
    let Client::Program(client) = client else { return };
    if let Some(time) = client.wishes().timeout_idle {
        *idle_wish = Some(Duration::try_from_secs_f64(time).unwrap_or(Duration::MAX));
    }
    if let (Some(tos), Some(stream)) = (client.wishes().tos, transaction.client.stream.as_ref()) {
        stream.set_tos(tos);
    }
}

/// Hands a request to the program with this label.
pub(super) fn switch(label: &str, client: &mut Client, origin: &mut Origin) -> Step {
    let labelled = match origin {
        Origin::Program { accelerator, .. } => accelerator.labelled(label),
        Origin::Shared { .. } => None,
    };
    let step = client.switched(labelled.as_ref().map(|program| &program.loaded));
    if let (Origin::Program { program, .. }, Some(labelled)) = (origin, labelled) {
        *program = labelled;
    }
    step
}

/// The client's connection, as VCL asks about it; with who is at its other end if the program may ask for that.
fn connection_of(worker: &Worker, transaction: &Transaction, asks_who: bool) -> Connection {
    let client = &transaction.client;
    let bind = client.frontend.listeners.get(client.listener);
    Connection {
        client: transaction.source.get(),
        server: transaction.destination(),
        remote: client.original_source,
        local: client.original_destination(),
        socket: bind.map(|listener| Arc::clone(&listener.name)),
        endpoint: client.stream.as_deref().and_then(net::Stream::local_path).map(|path| Arc::from(as_given(&path))),
        xid: varnish_log::session(worker, client).map_or(client.id, |session| session.number()),
        credentials: client.stream.as_ref().filter(|_| asks_who).and_then(|stream| stream.peer_credentials()),
        proxy_tlvs: transaction.proxy_fields().and_then(|fields| fields.tlvs.clone()),
    }
}

/// The path of a listening socket as it was given: a socket is bound to a name of its own, `PATH.PID.tmp`, and put in its place then.
fn as_given(path: &str) -> &str {
    let given = path.strip_suffix(".tmp").and_then(|bound| bound.rsplit_once('.'));
    match given {
        Some((given, pid)) if !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()) => given,
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_as_they_were_given() {
        for (bound, given) in
            [("/run/v.sock.123.tmp", "/run/v.sock"), ("/run/v.sock", "/run/v.sock"), ("/run/v.tmp", "/run/v.tmp")]
        {
            assert_eq!(as_given(bound), given);
        }
    }
}
