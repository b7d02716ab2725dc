//! The body of a response on its way to the client, or bytes both ways, and what becomes of the connections then.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use http::BodyLength;
use live::{LiveProxy, LiveServer, ShutCause, counters::Traffic};
use telemetry::Counter;

use super::{ClientStream, Exchange, Next};
use crate::{
    registry::Order,
    session::{
        body::{BodyPump, PumpFailure},
        ending::{Ending, Stage},
        fetch::{AnswerBody, Upstream, give_back},
        transaction::Transaction,
    },
    tunnel::{self, TunnelSetup},
};

/// Bodies up to this many bytes are sent behind their head from one buffer.
pub(super) const COPY_MAX: usize = 4_096;

/// How the transfer of a response ended.
pub(super) enum Transfer {
    /// Whole.
    Done,
    /// The server failed.
    Server(PumpFailure),
    /// The client failed.
    Client,
    /// The server was too slow.
    ServerTimeout,
    /// The client was too slow.
    ClientTimeout,
    /// It was told to end.
    Killed(ShutCause),
}

impl<C: ClientStream> Exchange<'_, C> {
    pub(super) fn count_spliced(&self, backend: &LiveProxy, up: &BodyPump, down: &BodyPump) {
        let worker = self.worker.index;
        self.worker.traffic().bytes_spliced.add(up.spliced + down.spliced);
        for traffic in [self.side.frontend.frontend.traffic.of(worker), backend.backend.traffic.of(worker)] {
            traffic.spliced_in.add(up.spliced);
            traffic.spliced_out.add(down.spliced);
        }
    }

    pub(super) async fn transfer(
        &mut self,
        transaction: &Transaction,
        backend: &Arc<LiveProxy>,
        body: &mut AnswerBody<'_>,
        up: &mut BodyPump,
        down: &mut BodyPump,
    ) -> Transfer {
        // NOTE: what comes of the cache is as late as its own fetch may be, no later.
        let server_limit = transaction.by_rules.server_timeout.get().or(backend.settings().timeouts.server);
        let server_limit = server_limit.filter(|_| body.may_be_late());
        let client_limit = self.side.frontend.settings().timeouts.client;
        let shut_mark = body.shut_mark();
        let (handle, worker) = (self.handle, self.worker);
        if let Err(error) = body.begin(down, &mut *self.client, COPY_MAX) {
            return Transfer::Server(PumpFailure::Malformed(error));
        }
        let (client, deadline) = (&mut *self.client, &mut *self.deadline);
        let abort_on_close = backend.settings().options.abortonclose;
        let mut progress = None;
        let mut since = transaction.timeline.response.unwrap_or_else(|| worker.now());
        let mut uploading = body.owes_upload();
        // NOTE: before the client can read its answer, or its next request, on another worker, would be balanced as if
        // this one were still running.
        if down.is_received() && !uploading {
            body.free_place();
        }
        poll_fn(|context| {
            handle.listen(context);
            if handle.order() == Order::Abort {
                return Poll::Ready(Transfer::Killed(ShutCause::Administrator));
            }
            if client.is_gone() {
                return Poll::Ready(Transfer::Client);
            }
            if let Some(cause) = body.shut_cause(shut_mark) {
                return Poll::Ready(Transfer::Killed(cause));
            }
            if let Poll::Ready(result) = body.poll_to(down, client, context) {
                return Poll::Ready(match result {
                    Ok(()) => Transfer::Done,
                    Err(PumpFailure::Send(_)) => Transfer::Client,
                    Err(failure) => Transfer::Server(failure),
                });
            }
            if uploading && let Poll::Ready(sent) = body.poll_upload(up, client, context) {
                if matches!(sent, Err(PumpFailure::CutOff | PumpFailure::Receive(_))) {
                    return Poll::Ready(Transfer::Client);
                }
                // A server that takes no more may still answer: the response decides from here on.
                uploading = false;
            }
            if abort_on_close && !uploading && !client.has_ended() {
                match client.poll_receive(context) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Transfer::Client),
                    // A pipelined request waits in the buffer for its turn.
                    Poll::Ready(Ok(_)) => context.waker().wake_by_ref(),
                    Poll::Pending => {}
                }
            }
            client.rest();
            // A client that takes a part of what is held is not stuck.
            let held = down.held() + client.unsent_len();
            let moved = (down.received(), up.received(), held);
            if progress != Some(moved) && progress.replace(moved).is_some() {
                since = worker.now();
            }
            let on_client = held > 0;
            let limit = if on_client { client_limit } else { server_limit };
            // NOTE: who is kept waiting by a limit of bandwidth is not late.
            let limit = limit.filter(|_| !down.is_paced());
            deadline.set(limit.map(|limit| since + limit));
            deadline
                .poll_at(worker.now(), context)
                .map(|()| if on_client { Transfer::ClientTimeout } else { Transfer::ServerTimeout })
        })
        .await
    }

    pub(super) fn broken_transfer(
        &mut self,
        transaction: &mut Transaction,
        backend: &LiveProxy,
        server: Option<&Arc<LiveServer>>,
        how: &Transfer,
    ) -> Next {
        let worker = self.worker.index;
        let count = |counter: fn(&Traffic) -> &Counter| {
            if let Some(server) = server {
                counter(server.side.traffic.of(worker)).increment();
            }
            counter(backend.backend.traffic.of(worker)).increment();
        };
        match how {
            Transfer::Done => {}
            Transfer::Server(failure) => {
                transaction.end(Ending::ServerFailed(Stage::Data));
                count(|traffic| &traffic.response_errors);
                if matches!(failure, PumpFailure::Malformed(_)) {
                    transaction.count_tracked_failure();
                } else {
                    count(|traffic| &traffic.server_aborts);
                    self.side.frontend.frontend.traffic.of(worker).server_aborts.increment();
                }
            }
            Transfer::ServerTimeout => {
                transaction.end(Ending::ServerTimedOut(Stage::Data));
                count(|traffic| &traffic.server_aborts);
            }
            Transfer::Client => {
                transaction.end(Ending::ClientLeft(Stage::Data));
                transaction.count_client_abort();
            }
            Transfer::ClientTimeout => {
                transaction.end(Ending::ClientTimedOut(Stage::Data));
                transaction.count_client_abort();
            }
            Transfer::Killed(cause) => transaction.end(Ending::Shut(*cause, Some(Stage::Data))),
        }
        Next::Close
    }

    /// Keeps a server's connection for another request.
    pub(super) fn keep(&mut self, upstream: Upstream<'_>, backend: &LiveProxy) {
        if let Some(connection) = give_back(self.worker, upstream, backend) {
            self.kept.put(connection, self.side.frontend.settings().max_session_srv_conns);
        }
    }

    /// Bytes both ways after a 101 or a CONNECT, unless a rule has made another answer of it.
    pub(super) async fn tunnel(
        &mut self,
        transaction: &mut Transaction,
        backend: &LiveProxy,
        upstream: Upstream<'_>,
    ) -> Next {
        let hop = transaction.response.status() == 101;
        if !hop {
            http::remove_hop_by_hop(&mut transaction.response.headers, false);
        }
        if !self.after_response(transaction, backend.settings()) {
            return self.internal_error(transaction, Stage::Headers).await;
        }
        let status = transaction.response.status();
        transaction.answered.status = status;
        if !http::begins_tunnel(status, transaction.request.method_kind()) {
            drop(upstream);
            return self.answer_instead_of_tunnel(transaction).await;
        }
        self.client.write_tunnel_head(&transaction.response);
        self.log_early(transaction, 0);
        if self.flush().await.is_err() {
            transaction.end(Ending::ClientLeft(Stage::Data));
            return Next::Close;
        }
        self.tunnel_bytes(transaction, backend, upstream, None).await
    }

    /// Sends the head that rules have made of one that was to begin a tunnel, without a body. What the client sends from here on
    /// reaches nobody: it believes in a tunnel, or it does not, and neither is a request.
    async fn answer_instead_of_tunnel(&mut self, transaction: &mut Transaction) -> Next {
        let is_bodyless = matches!(transaction.response.status(), 100..=199 | 204 | 304);
        let length = if is_bodyless { BodyLength::None } else { BodyLength::Exact(0) };
        http::remove_hop_by_hop(&mut transaction.response.headers, false);
        http::enforce_framing(&mut transaction.response.headers, length);
        self.write_head(transaction, false);
        self.client.end();
        self.log_early(transaction, 0);
        match self.flush().await {
            Ok(()) => Next::Linger,
            Err(()) => {
                transaction.end(Ending::ClientLeft(Stage::Data));
                Next::Close
            }
        }
    }

    /// Bytes both ways until both sides have ended; `idle` is how long they may be silent where nothing else says so.
    pub(super) async fn tunnel_bytes(
        &mut self,
        transaction: &mut Transaction,
        backend: &LiveProxy,
        upstream: Upstream<'_>,
        idle: Option<Duration>,
    ) -> Next {
        let Upstream { mut connection, slot, .. } = upstream;
        let setup = TunnelSetup::new((self.worker, self.handle), transaction, backend, &connection.server, idle);
        let report = tunnel::run(&mut *self.client, &mut connection.codec, setup).await;
        drop(slot);
        transaction.bytes_in += report.bytes_up;
        transaction.bytes_out += report.bytes_down;
        self.worker.traffic().bytes_spliced.add(report.bytes_spliced);
        transaction.end_tunnel(&report.end);
        Next::Close
    }

    /// Sends what waits for the client, within `timeout client`.
    pub async fn flush(&mut self) -> Result<(), ()> {
        let (client, deadline) = (&mut *self.client, &mut *self.deadline);
        let (side, worker) = (self.side, self.worker);
        let mut waits = false;
        poll_fn(|context| match client.poll_flush(context) {
            Poll::Ready(result) => Poll::Ready(result.map_err(|_| ())),
            Poll::Pending => {
                // NOTE: mostly the client takes it at once, and nothing is timed.
                if !std::mem::replace(&mut waits, true) {
                    let limit = side.frontend.settings().timeouts.client;
                    deadline.set(limit.map(|limit| worker.now() + limit));
                }
                deadline.poll(context).map(|()| Err(()))
            }
        })
        .await
    }
}
