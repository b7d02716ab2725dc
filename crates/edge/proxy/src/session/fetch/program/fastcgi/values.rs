//! Asking an application how many requests a connection carries (`option get-values`).
//!
//! The question has a connection of its own: some applications close the one that they have been asked on (PHP-FPM does), and a request
//! on it would be lost. Until there is an answer, connections carry one request at a time.

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::Ordering::{AcqRel, Relaxed, Release},
    },
    time::Duration,
};

use fastcgi::{Client, Event, Settings, Values};
use haproxycfg::model::FcgiApp;
use live::{LiveProxy, LiveServer};
use net::Deadline;

use super::Unanswered;
use crate::{
    session::{
        fetch::{Nobody, open},
        transaction::{ClientSide, Transaction},
        wire::Wire,
    },
    worker::Worker,
};

/// How long an answer is waited for. An application that gives none is asked again when another connection is opened.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks a server's application, unless that is known or being asked.
pub fn ask(worker: &Rc<Worker>, proxy: &Arc<LiveProxy>, app: &FcgiApp, server: &Arc<LiveServer>) {
    let is_known = server.fcgi_requests_max.load(Relaxed) != 0;
    if !app.asks_values || is_known || server.is_asked_values.swap(true, AcqRel) {
        return;
    }
    let configured = (app.is_multiplexed, app.requests_max);
    let (here, proxy, server) = (Rc::clone(worker), Arc::clone(proxy), Arc::clone(server));
    let asking = async move {
        if let Some(values) = question(&here, &proxy, &server).await {
            let most = u32::try_from(values.requests_at_a_time(configured)).unwrap_or(1);
            server.fcgi_requests_max.store(most, Relaxed);
        }
        server.is_asked_values.store(false, Release);
    };
    tokio::task::spawn_local(worker.clocked(asking));
}

async fn question(worker: &Rc<Worker>, proxy: &Arc<LiveProxy>, server: &Arc<LiveServer>) -> Option<Values> {
    let instance = worker.instance();
    let client = Rc::new(ClientSide::nobody(&instance, Arc::clone(proxy), worker.now()));
    let mut transaction = Transaction::new(Arc::clone(&instance), client, worker);
    let _unanswered = Unanswered::new(server);
    let stream = open::open(worker, &mut transaction, proxy, server, false, &mut Nobody::default()).await.ok()?;
    let wire = Wire::new(Rc::new(stream), worker.buffers.clone());
    let mut deadline = Deadline::default();
    deadline.set(Some(worker.now() + PATIENCE));
    let mut answer = std::pin::pin!(answer(wire));
    poll_fn(|context| match answer.as_mut().poll(context) {
        std::task::Poll::Ready(values) => std::task::Poll::Ready(values.ok()),
        std::task::Poll::Pending => deadline.poll(context).map(|()| None),
    })
    .await
}

/// What an application answers; nothing is known of one that closes instead.
async fn answer(mut wire: Wire) -> io::Result<Values> {
    let mut client = Client::new(Settings { keeps_connection: true, requests_max: 1 });
    client.ask_values(&mut wire.output);
    poll_fn(|context| wire.poll_flush(context)).await?;
    loop {
        if poll_fn(|context| wire.poll_receive(context)).await? == 0 {
            return Ok(Values::default());
        }
        let mut used = 0;
        match client.next(wire.received.bytes(), &mut used) {
            Ok(Some(Event::Values(values))) => return Ok(values),
            Ok(_) => wire.received.consume(used),
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }
}
