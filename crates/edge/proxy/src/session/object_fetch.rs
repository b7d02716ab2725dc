//! Fetching an object for the cache, in a task of its own: whoever asked for it may leave, and others may wait for it.

use std::{
    future::poll_fn,
    io,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use accelerator::{
    backend::{Accepted, AcceptedBody, Backend, IncludeFinder, Order, Reading, Recoding, Step, Stored},
    client::Fetched,
    recode::Recoder,
};
use cache::{
    body::Cursor,
    object::{Filler, Object},
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

/// How often a fetch that waits looks whether anybody still wants what it brings.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Seconds since 1970, as VCL counts time.
pub(super) fn wall_clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Where a fetch runs.
#[derive(Clone)]
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
    pub(super) async fn keep(
        &self,
        accepted: Accepted,
        answer: Option<(Answer<'_>, &Transaction, &Arc<LiveProxy>)>,
        told: oneshot::Sender<Fetched>,
    ) {
        let Some(stored) = accepted.stored else { return };
        let Stored { object, filler, fetch, streams, includes } = stored;
        let mut news = News { object: Some(object), fetch, told: Some(told) };
        // Nobody else would want it.
        if !news.is_wanted(&filler) {
            return;
        }
        if streams && matches!(accepted.body, AcceptedBody::Backend(_)) {
            news.tell();
        }
        let recoding = if let AcceptedBody::Backend(recoding) = accepted.body { recoding } else { Recoding::None };
        let mut intake = ObjectIntake { filler, recoder: Recoder::new(recoding), includes, news };
        let filled = match (accepted.body, answer) {
            (AcceptedBody::Made(bytes), _) => intake.filler.write(&bytes).map_err(io::Error::other),
            (AcceptedBody::Stale(before), _) => intake.copy(&before).await,
            (AcceptedBody::Backend(_), Some((mut answer, exchange, proxy))) => {
                let pulled = intake.pull(&mut answer, exchange, proxy).await;
                if pulled.is_ok()
                    && let Some(upstream) = answer.body.into_reusable()
                {
                    give_back(&self.worker, upstream, proxy);
                }
                pulled
            }
            (AcceptedBody::Backend(_), None) => Ok(()),
        };
        let ObjectIntake { filler, news, .. } = intake;
        if filled.is_ok() {
            filler.finish();
            news.tell_now();
        }
    }
}

/// Who is to hear of an object, until they have.
struct News {
    object: Option<Arc<Object>>,
    fetch: Option<cache::index::Fetch>,
    told: Option<oneshot::Sender<Fetched>>,
}

impl News {
    /// Puts the object into the index, and tells who had it fetched.
    fn tell(&mut self) {
        let Some(object) = self.object.take() else { return };
        if let Some(fetch) = self.fetch.take() {
            fetch.publish(Arc::clone(&object));
        }
        if let Some(told) = self.told.take() {
            let _ = told.send(Fetched::Object(object));
        }
    }

    fn tell_now(mut self) {
        self.tell();
    }

    /// Whether anybody is going to read the object: one that is for one client alone is for nobody when that has left.
    fn is_wanted(&self, filler: &Filler) -> bool {
        match (&self.fetch, &self.told) {
            (Some(_), _) => true,
            (None, Some(told)) => !told.is_closed(),
            (None, None) => filler.is_shared() || filler.has_readers(),
        }
    }
}

/// What takes a body into the cache.
struct ObjectIntake {
    filler: Filler,
    recoder: Recoder,
    includes: Option<IncludeFinder>,
    news: News,
}

impl ObjectIntake {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.recoder.push(bytes)? {
            Some(recoded) => self.store(&recoded)?,
            None => self.store(bytes)?,
        }
        self.filler.flush();
        Ok(())
    }

    fn store(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(includes) = &mut self.includes {
            includes.look_at(bytes);
        }
        self.filler.write(bytes).map_err(io::Error::other)
    }

    fn end(&mut self) -> io::Result<()> {
        let rest = self.recoder.finish()?;
        self.store(&rest)?;
        self.filler.flush();
        match self.includes.take().map(IncludeFinder::finish) {
            Some(Reading::Page(page)) => self.filler.set_page(page).map_err(io::Error::other),
            Some(Reading::Packed) => self.pack(),
            Some(Reading::Plain) | None => Ok(()),
        }
    }

    /// Stores in gzip what includes nothing after all. NOTE: nobody has seen the object yet.
    fn pack(&mut self) -> io::Result<()> {
        let (object, mut filler) = self.filler.begin_again().map_err(io::Error::other)?;
        let mut recoder = Recoder::new(Recoding::Gzip);
        let mut cursor = Cursor::default();
        let mut context = Context::from_waker(Waker::noop());
        let arrived = self.filler.object().body().arrived();
        while cursor.read() < arrived {
            let Poll::Ready(Ok(Some(chunk))) = self.filler.object().poll_next(&mut cursor, &mut context) else {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            };
            let packed = recoder.push(&chunk)?.unwrap_or_default();
            filler.write(&packed).map_err(io::Error::other)?;
        }
        filler.write(&recoder.finish()?).map_err(io::Error::other)?;
        self.filler = filler;
        self.news.object = Some(object);
        Ok(())
    }

    /// Takes the body over of an object that has not changed.
    async fn copy(&mut self, before: &Object) -> io::Result<()> {
        let mut cursor = Cursor::default();
        while let Some(chunk) =
            poll_fn(|context| before.poll_next(&mut cursor, context)).await.map_err(io::Error::other)?
        {
            self.filler.push(chunk).map_err(io::Error::other)?;
        }
        if let Some(page) = before.page() {
            self.filler.set_page(page.clone()).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Pulls a body from its server, without its framing. Who reads slowly what is for nobody else holds the server back.
    async fn pull(
        &mut self,
        answer: &mut Answer<'_>,
        exchange: &Transaction,
        proxy: &Arc<LiveProxy>,
    ) -> io::Result<()> {
        let limits = exchange.response_limits(proxy.settings());
        let mut intake = Intake::new(answer.length, &limits);
        let mut decoder = (answer.length == BodyLength::Chunked).then(|| ChunkedDecoder::new(&limits));
        if let BodyLength::Exact(length) = answer.length {
            self.filler.expect(length);
        }
        let patience = exchange.by_rules.server_timeout.get().or(proxy.settings().timeouts.server);
        let AnswerBody::Server { upstream, .. } = &mut answer.body else { return self.end() };
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
                    self.take(&decoded)?;
                }
                None => self.take(bytes)?,
            }
            intake.consume(wire, intake.approved());
            if intake.has_ended() {
                return self.end();
            }
            self.wait_for_room().await?;
            let more = poll_fn(|context| intake.poll_more(wire, context).map_err(failure));
            self.while_wanted(patience, more).await?;
        }
    }

    async fn wait_for_room(&self) -> io::Result<()> {
        let is_ready = self.filler.poll_room(&mut Context::from_waker(Waker::noop())).is_ready();
        if is_ready {
            return Ok(());
        }
        self.while_wanted(None, poll_fn(|context| self.filler.poll_room(context).map(Ok))).await
    }

    /// Waits, no longer than `patience`, and only as long as somebody wants what comes.
    async fn while_wanted(
        &self,
        patience: Option<Duration>,
        what: impl Future<Output = io::Result<()>>,
    ) -> io::Result<()> {
        let mut what = pin!(what);
        let mut waited = Duration::ZERO;
        loop {
            if !self.news.is_wanted(&self.filler) {
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted));
            }
            let left = patience.map_or(Duration::MAX, |patience| patience.saturating_sub(waited));
            if left.is_zero() {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            // NOTE: a reader that leaves while nothing comes is noticed by looking, not by being told.
            let pause = left.min(LOOK_AFTER);
            match tokio::time::timeout(pause, what.as_mut()).await {
                Ok(result) => return result,
                Err(_) => waited += pause,
            }
        }
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
