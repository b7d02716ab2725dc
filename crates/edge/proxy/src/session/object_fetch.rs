//! Fetching an object for the cache, in a task of its own: whoever asked for it may leave, and others may wait for it.

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use accelerator::{
    backend::{Accepted, AcceptedBody, Backend, Order, Step, Stored},
    client::Fetched,
    recode::Recoder,
};
use http::{BodyLength, ChunkedDecoder};
use live::{Instance, LiveProxy, Running};
use net::Deadline;
use tokio::sync::oneshot;

use super::{
    body::{Intake, PumpFailure},
    fetch::{Answer, AnswerBody, Fetch, Nobody, Unfetched, Wanted},
    http::give_back,
    kept::Kept,
    transaction::{ClientSide, RequestStage, Transaction},
};
use crate::worker::Worker;

/// Seconds since 1970, as VCL counts time.
pub(super) fn wall_clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Where a fetch runs.
pub(super) struct Place {
    /// The worker.
    pub worker: Rc<Worker>,
    /// The configuration.
    pub instance: Arc<Instance>,
    /// The program.
    pub program: Arc<Running>,
    /// The proxy whose program it is.
    pub proxy: Arc<LiveProxy>,
}

impl Place {
    /// Begins a fetch; what it comes to, once there is an object to read.
    pub(super) fn fetch(self, order: Order) -> oneshot::Receiver<Fetched> {
        let (told, waiting) = oneshot::channel();
        let worker = Rc::clone(&self.worker);
        let running = worker.count_running();
        tokio::task::spawn_local(async move {
            let worker = Rc::clone(&self.worker);
            worker.clocked(Box::pin(self.run(order, told))).await;
            drop(running);
        });
        waiting
    }

    async fn run(self, order: Order, told: oneshot::Sender<Fetched>) {
        let mut backend = Backend::new(order, wall_clock(), false);
        let mut step = backend.begin();
        loop {
            step = match step {
                Step::Ask(target) => {
                    let Some(proxy) = self.program.targets.proxy(target) else {
                        step = backend.failed("its section is gone", wall_clock());
                        continue;
                    };
                    let mut exchange = self.exchange(&backend, &proxy);
                    let (mut kept, mut deadline) = (Kept::default(), Deadline::default());
                    let mut fetch = Fetch::new(&self.worker, &proxy, Wanted::default(), &mut kept, &mut deadline);
                    match fetch.run(&mut exchange, &mut Nobody::default()).await {
                        Ok(answer) => {
                            let head = std::mem::take(&mut exchange.response);
                            match backend.responded(head, wall_clock()) {
                                Step::Accept(accepted) => {
                                    return self.keep(*accepted, Some((answer, &exchange, &proxy)), told).await;
                                }
                                other => other,
                            }
                        }
                        Err(why) => backend.failed(&words(&why), wall_clock()),
                    }
                }
                Step::Accept(accepted) => return self.keep(*accepted, None, told).await,
                Step::Abandon => {
                    let _ = told.send(Fetched::Nothing);
                    return;
                }
            };
        }
    }

    fn exchange(&self, backend: &Backend, proxy: &Arc<LiveProxy>) -> Transaction {
        let now = self.worker.now();
        let client = Rc::new(ClientSide::nobody(&self.instance, Arc::clone(&self.proxy), now));
        let mut exchange = Transaction::new(Arc::clone(&self.instance), Rc::clone(&client), &self.worker);
        exchange.restart(&self.instance, &client, self.worker.random());
        exchange.request = backend.request().clone();
        exchange.asked.stage = RequestStage::Complete;
        exchange.asked.wants_keep_alive = true;
        exchange.timeline.first_byte = Some(now);
        exchange.timeline.request = Some(now);
        exchange.route.backend = Some(Arc::clone(proxy));
        exchange
    }

    /// Puts what was accepted into the cache.
    async fn keep(
        &self,
        accepted: Accepted,
        answer: Option<(Answer<'_>, &Transaction, &Arc<LiveProxy>)>,
        told: oneshot::Sender<Fetched>,
    ) {
        let Some(stored) = accepted.stored else { return };
        let Stored { object, mut filler, mut fetch, streams } = stored;
        let mut told = Some(told);
        let mut tell = |fetch: Option<cache::index::Fetch>| {
            if let Some(fetch) = fetch {
                fetch.publish(Arc::clone(&object));
            }
            if let Some(told) = told.take() {
                let _ = told.send(Fetched::Object(Arc::clone(&object)));
            }
        };
        if streams && matches!(accepted.body, AcceptedBody::Backend(_)) {
            tell(fetch.take());
        }
        let filled = match (accepted.body, answer) {
            (AcceptedBody::Made(bytes), _) => filler.write(&bytes).map_err(io::Error::other),
            (AcceptedBody::Stale(before), _) => {
                let chunks = before.body().whole().unwrap_or_default();
                chunks.iter().try_for_each(|chunk| filler.push(chunk.clone())).map_err(io::Error::other)
            }
            (AcceptedBody::Backend(recoding), Some((mut answer, exchange, proxy))) => {
                let mut recoder = Recoder::new(recoding);
                if let BodyLength::Exact(length) = answer.length {
                    filler.expect(length);
                }
                let pulled = pull(&mut answer, exchange, proxy, |bytes| {
                    match recoder.push(bytes)? {
                        Some(recoded) => filler.write(&recoded).map_err(io::Error::other)?,
                        None => filler.write(bytes).map_err(io::Error::other)?,
                    }
                    filler.flush();
                    Ok(())
                })
                .await;
                let ended = pulled.and_then(|()| {
                    let rest = recoder.finish()?;
                    filler.write(&rest).map_err(io::Error::other)
                });
                if ended.is_ok()
                    && let Some(upstream) = answer.body.into_reusable()
                {
                    give_back(&self.worker, upstream, proxy);
                }
                ended
            }
            (AcceptedBody::Backend(_), None) => Ok(()),
        };
        if filled.is_ok() {
            filler.finish();
            tell(fetch.take());
        } else {
            drop(filler);
            tell(None);
        }
    }
}

/// Pulls a body from its server, without its framing.
async fn pull(
    answer: &mut Answer<'_>,
    exchange: &Transaction,
    proxy: &Arc<LiveProxy>,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let limits = exchange.response_limits(proxy.settings());
    let mut intake = Intake::new(answer.length, &limits);
    let mut decoder = (answer.length == BodyLength::Chunked).then(|| ChunkedDecoder::new(&limits));
    let patience = proxy.settings().timeouts.server.unwrap_or(Duration::MAX);
    let AnswerBody::Server { upstream, .. } = &mut answer.body else { return Ok(()) };
    let wire = &mut upstream.connection.wire;
    let mut decoded = Vec::new();
    loop {
        intake.approve(wire).map_err(|error| io::Error::other(error.to_string()))?;
        let bytes = intake.bytes(wire);
        match &mut decoder {
            _ if bytes.is_empty() => {}
            Some(decoder) => {
                decoded.clear();
                decoder.decode_into(bytes, &mut decoded).map_err(|error| io::Error::other(error.to_string()))?;
                take(&decoded)?;
            }
            None => take(bytes)?,
        }
        intake.consume(wire, intake.approved());
        if intake.has_ended() {
            return Ok(());
        }
        let more = poll_fn(|context| match intake.poll_more(wire, context) {
            Poll::Ready(result) => Poll::Ready(result.map_err(failure)),
            Poll::Pending => Poll::Pending,
        });
        tokio::time::timeout(patience, more).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    }
}

fn failure(why: PumpFailure) -> io::Error {
    match why {
        PumpFailure::Receive(error) | PumpFailure::Send(error) => error,
        _ => io::Error::from(io::ErrorKind::UnexpectedEof),
    }
}

/// Why a fetch failed, for the log.
pub(super) fn words(why: &Unfetched) -> String {
    match why {
        Unfetched::Unreachable(why) => format!("no connection: {why:?}"),
        Unfetched::NoResponse { end, .. } => format!("no response: {end:?}"),
        Unfetched::Refused { .. } => "refused by rules".to_owned(),
    }
}
