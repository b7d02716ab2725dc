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
    backend::{Accepted, AcceptedBody, Stored},
    client::Fetched,
    machine::{Backend, FetchStep as Step, Order, Target},
    output::Part,
    recode::Recoder,
};
use bytes::Bytes;
use cache::{body::Cursor, index, object::Filler};
use http::{BodyLength, ChunkedDecoder, ResponseHead};
use live::{Accelerator, Instance, LiveProxy, LiveServer, Running, SharedCache};
use net::Deadline;
use tokio::sync::mpsc;

use super::{
    body::{Intake, PumpFailure},
    fetch::{Answer, AnswerBody, Fetch, HearInterim, Nobody, RelayedBytes, Unfetched, Wanted},
    http::give_back,
    kept::Kept,
    transaction::{ClientSide, RequestStage, Transaction},
};
use crate::worker::Worker;

/// Pieces of a response that is not stored which wait for a slow client.
const RELAYED_PIECES_MAX: usize = 4;

/// How often others are made to leave a storage for one piece of a body.
const EVICTIONS_MAX: usize = 64;

/// Seconds since 1970, as VCL counts time.
pub(super) fn wall_clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Where what a cache has not comes from.
#[derive(Clone)]
pub(super) enum Origin {
    /// From the backends of a program.
    Program {
        /// The programs of the section.
        accelerator: Arc<Accelerator>,
        /// The one that the request runs in: the active one of when it began, or one that this handed it to.
        program: Arc<Running>,
    },
    /// From where the request would have gone.
    Shared {
        /// The cache.
        cache: Arc<SharedCache>,
        /// The backend.
        backend: Arc<LiveProxy>,
        /// What is asked of its balancer.
        wanted: Wanted,
    },
}

impl Origin {
    /// The section that is asked.
    pub(super) fn proxy(&self, target: Target) -> Option<Arc<LiveProxy>> {
        match (self, target) {
            (Self::Program { program, .. }, Target::Named(named)) => program.targets.proxy(named),
            (Self::Shared { backend, .. }, _) => Some(Arc::clone(backend)),
            (Self::Program { .. }, Target::Origin) => None,
        }
    }

    /// What is asked of its balancer.
    pub(super) fn wanted(&self) -> Wanted {
        match self {
            Self::Program { .. } => Wanted::default(),
            Self::Shared { wanted, .. } => *wanted,
        }
    }
}

/// Where a fetch runs.
pub(super) struct Place {
    /// The worker.
    pub worker: Rc<Worker>,
    /// The configuration.
    pub instance: Arc<Instance>,
    /// Where it goes.
    pub origin: Origin,
    /// The proxy whose cache it is.
    pub proxy: Arc<LiveProxy>,
}

/// What a fetch tells who has ordered it.
pub(super) enum Report {
    /// An interim response has come.
    Interim(ResponseHead),
    /// There is an object to read, or nothing.
    Fetched(Fetched),
    /// The response is not stored: here it comes.
    Relayed(Box<Relayed>),
    /// There is no response.
    Unfetched(Box<Unfetched>),
}

/// A response that is not stored.
pub(super) struct Relayed {
    /// Its head.
    pub head: ResponseHead,
    /// How long it is.
    pub length: BodyLength,
    /// What the client gets of it.
    pub part: Part,
    /// What comes of it.
    pub body: RelayedBytes,
    /// The server that it comes from.
    pub server: Option<Arc<LiveServer>>,
}

type Told = mpsc::UnboundedSender<Report>;

impl Place {
    /// Begins a fetch; what is told of it, the last thing once there is something to deliver.
    pub(super) fn fetch(self, order: Order) -> mpsc::UnboundedReceiver<Report> {
        let (told, reports) = mpsc::unbounded_channel();
        let worker = Rc::clone(&self.worker);
        let running = worker.count_running();
        tokio::task::spawn_local(async move {
            let worker = Rc::clone(&self.worker);
            worker.clocked(Box::pin(self.run(order, told))).await;
            drop(running);
        });
        reports
    }

    async fn run(self, order: Order, told: Told) {
        let hears = order.tells_interim().then(|| told.clone());
        let mut nobody = Nobody { body: Vec::new(), interim: hears.map(tell_interim) };
        let mut backend = order.begin(wall_clock());
        let mut failure = None;
        let mut step = backend.begin();
        loop {
            step = match step {
                Step::Ask(target) => {
                    let Some(proxy) = self.origin.proxy(target) else {
                        step = backend.failed("its section is gone", wall_clock());
                        continue;
                    };
                    let mut exchange = self.exchange(&backend, &proxy);
                    let (mut kept, mut deadline) = (Kept::default(), Deadline::default());
                    let mut fetch = Fetch::new(&self.worker, &proxy, self.origin.wanted(), &mut kept, &mut deadline);
                    match fetch.run(&mut exchange, &mut nobody).await {
                        Ok(answer) => {
                            let head = std::mem::take(&mut exchange.response);
                            match backend.responded(head, wall_clock()) {
                                Step::Accept(accepted) => {
                                    return self.keep(*accepted, Some((answer, &exchange, &proxy)), told).await;
                                }
                                other => other,
                            }
                        }
                        Err(why) => {
                            let next = backend.failed(&words(&why), wall_clock());
                            failure = backend.hands_on_failures().then_some(why);
                            next
                        }
                    }
                }
                Step::Accept(accepted) => return self.keep(*accepted, None, told).await,
                Step::Abandon => {
                    let _ = told.send(match failure {
                        Some(why) => Report::Unfetched(Box::new(why)),
                        None => Report::Fetched(Fetched::Nothing),
                    });
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

    /// Puts what was accepted into the cache, or hands it on.
    async fn keep(&self, accepted: Accepted, answer: Option<(Answer<'_>, &Transaction, &Arc<LiveProxy>)>, told: Told) {
        let Accepted { stored, head, body } = accepted;
        let Some(stored) = stored else {
            return match (body, answer) {
                (AcceptedBody::Stale(object), _) => {
                    let _ = told.send(Report::Fetched(Fetched::Own(object, Box::new(head))));
                }
                (_, Some(answer)) => self.relay(head, answer, told).await,
                (_, None) => {}
            };
        };
        let Stored { object, mut filler, mut fetch, streams } = stored;
        let mut own = Some(Box::new(head)).filter(|head| head.status() > 0);
        let mut tell = |fetch: Option<index::Fetch>| {
            if let Some(fetch) = fetch {
                fetch.publish(Arc::clone(&object));
            }
            let object = Arc::clone(&object);
            let fetched = own
                .take()
                .map_or_else(|| Fetched::Object(Arc::clone(&object)), |own| Fetched::Own(Arc::clone(&object), own));
            let _ = told.send(Report::Fetched(fetched));
        };
        let is_told = streams && matches!(body, AcceptedBody::Backend(_));
        if is_told {
            tell(fetch.take());
        }
        let filled = match (body, answer) {
            (AcceptedBody::Made(bytes), _) => filler.write(&bytes).map_err(io::Error::other),
            (AcceptedBody::Stale(before), _) => copy(&before, &mut filler).await,
            (AcceptedBody::Backend(recoding), Some((answer, exchange, proxy))) => {
                if let BodyLength::Exact(length) = answer.length {
                    filler.expect(length);
                }
                let mut sink = Filling { filler: &mut filler, recoder: Recoder::new(recoding) };
                self.pull_all((answer, exchange, proxy), &mut sink).await.and_then(|()| sink.finish())
            }
            (AcceptedBody::Backend(_), None) => Ok(()),
        };
        match filled {
            Ok(()) => filler.finish(),
            Err(_) => {
                fetch = None;
                drop(filler);
            }
        }
        if !is_told {
            tell(fetch.take());
        }
    }

    /// Hands a response on to who has ordered it, no faster than it is taken.
    async fn relay(&self, head: ResponseHead, answer: (Answer<'_>, &Transaction, &Arc<LiveProxy>), told: Told) {
        let (pieces, body) = mpsc::channel(RELAYED_PIECES_MAX);
        let server = answer.1.route.server.clone();
        let relayed = Relayed { head, length: answer.0.length, part: Part::Whole, body, server };
        let _ = told.send(Report::Relayed(Box::new(relayed)));
        let mut sink = Relaying { pieces, waiting: None };
        if self.pull_all(answer, &mut sink).await.is_ok() {
            let _ = sink.pieces.send(None).await;
        }
    }

    /// Pulls a body to its end, and gives the connection back.
    async fn pull_all(
        &self,
        (mut answer, exchange, proxy): (Answer<'_>, &Transaction, &Arc<LiveProxy>),
        sink: &mut impl Sink,
    ) -> io::Result<()> {
        pull(&mut answer, exchange, proxy, sink).await?;
        if let Some(upstream) = answer.body.into_reusable() {
            give_back(&self.worker, upstream, proxy);
        }
        Ok(())
    }
}

/// Tells of interim responses.
fn tell_interim(told: Told) -> HearInterim {
    Box::new(move |head| {
        let _ = told.send(Report::Interim(head.clone()));
    })
}

/// Where a body goes that is pulled.
trait Sink {
    /// Takes what has come.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits until more may come.
    async fn make_room(&mut self) -> io::Result<()>;
}

/// Into an object.
struct Filling<'f> {
    filler: &'f mut Filler,
    recoder: Recoder,
}

impl Filling<'_> {
    fn finish(mut self) -> io::Result<()> {
        let rest = self.recoder.finish()?;
        write(self.filler, &rest)
    }
}

impl Sink for Filling<'_> {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.recoder.push(bytes)? {
            Some(recoded) => write(self.filler, &recoded)?,
            None => write(self.filler, bytes)?,
        }
        self.filler.flush();
        Ok(())
    }

    async fn make_room(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a piece of a body; others leave for it, many small ones for a large one.
fn write(filler: &mut Filler, bytes: &[u8]) -> io::Result<()> {
    let start = filler.written();
    for _ in 1..EVICTIONS_MAX {
        let done = usize::try_from(filler.written() - start).unwrap_or(usize::MAX);
        if filler.write(bytes.get(done..).unwrap_or_default()).is_ok() {
            return Ok(());
        }
    }
    let done = usize::try_from(filler.written() - start).unwrap_or(usize::MAX);
    filler.write(bytes.get(done..).unwrap_or_default()).map_err(io::Error::other)
}

/// To one client.
struct Relaying {
    pieces: mpsc::Sender<Option<Bytes>>,
    waiting: Option<Bytes>,
}

impl Sink for Relaying {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.waiting = (!bytes.is_empty()).then(|| Bytes::copy_from_slice(bytes));
        Ok(())
    }

    async fn make_room(&mut self) -> io::Result<()> {
        if self.waiting.is_none() {
            return Ok(());
        }
        // NOTE: who has left has dropped the other end.
        self.pieces.send(self.waiting.take()).await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

/// Copies the body of another object.
async fn copy(from: &cache::object::Object, to: &mut Filler) -> io::Result<()> {
    let mut cursor = Cursor::default();
    while let Some(chunk) =
        poll_fn(|context| from.body().poll_next(&mut cursor, context)).await.map_err(io::Error::other)?
    {
        to.push(chunk).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Pulls a body from its server, without its framing.
async fn pull(
    answer: &mut Answer<'_>,
    exchange: &Transaction,
    proxy: &Arc<LiveProxy>,
    sink: &mut impl Sink,
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
                sink.take(&decoded)?;
            }
            None => sink.take(bytes)?,
        }
        intake.consume(wire, intake.approved());
        sink.make_room().await?;
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
