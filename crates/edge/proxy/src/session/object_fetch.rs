//! Fetching an object for the cache, in a task of its own: whoever asked for it may leave, and others may wait for it.

mod ask_loop;
mod for_cache;
mod sink;

use std::{io, rc::Rc, sync::Arc, time::Duration};

use accelerator::{
    backend::{Accepted, AcceptedBody, Recoding, Stored},
    client::Fetched,
    log::Account,
    machine::{Backend, FetchStep as Step, Target},
    output::Part,
};
use http::{BodyLength, RequestHead, ResponseHead};
use live::{Accelerator, Instance, LiveProxy, LiveServer, Running, SharedCache};
use tokio::sync::mpsc;

pub(super) use self::ask_loop::{After, Listens, Responded, ask_loop};
use sink::{Destination, Filling, News, Relaying, pull, write};

use super::{
    fetch::{Answer, RelayedBytes, Unfetched, Wanted, give_back},
    transaction::Transaction,
    varnish_log,
};
use crate::worker::Worker;

/// Pieces of a response that is not stored which wait for a slow client.
const RELAYED_PIECES_MAX: usize = 4;

/// Why a request is not sent whose body would have to be sent twice.
pub(super) const BODY_IS_GONE: &str = "the body of the request has been sent to another attempt";

pub(super) use basics::clock::seconds as wall_clock;

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

    /// What a program calls who is asked.
    pub(super) fn name_of(&self, target: Target) -> &str {
        match (self, target) {
            (Self::Program { program, .. }, Target::Named(named)) => program.name_of(named),
            _ => "-",
        }
    }

    /// The name of the program, if one runs.
    pub(super) fn program(&self) -> Option<&str> {
        match self {
            Self::Program { program, .. } => Some(&program.loaded.name),
            Self::Shared { .. } => None,
        }
    }

    /// How long neither side of a pipe may say anything; `None` where only one exchange goes through it.
    pub(super) fn pipe_timeout(&self) -> Option<Duration> {
        match self {
            Self::Program { program, .. } => {
                Some(Duration::try_from_secs_f64(program.loaded.settings.pipe_timeout).unwrap_or(Duration::MAX))
            }
            Self::Shared { .. } => None,
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
#[derive(Clone)]
pub(super) struct Place {
    /// The worker.
    pub worker: Rc<Worker>,
    /// The configuration.
    pub instance: Arc<Instance>,
    /// Where it goes.
    pub origin: Origin,
    /// The proxy whose cache it is.
    pub proxy: Arc<LiveProxy>,
    /// What the client asked for as it is usually spelled, if it spelled it otherwise.
    pub usual_location: Option<Arc<[u8]>>,
}

/// A fetch whose body broke off before anybody saw anything of it.
pub(super) struct Broken {
    /// Who has ordered it.
    pub told: Told,
    /// What its machine wants now.
    pub next: Step,
}

/// What there is of the body of a client's request, for a fetch that may send it along.
pub(super) enum RequestBody {
    /// The request has none.
    None,
    /// All of it, without framing.
    Kept(Vec<u8>),
    /// It has gone to another attempt, and was not kept.
    Gone,
}

impl RequestBody {
    fn kept(&self) -> Option<&[u8]> {
        if let Self::Kept(kept) = self { Some(kept) } else { None }
    }
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
    /// What answers in place of a server.
    pub by: Option<&'static str>,
}

/// Who has ordered a fetch, and hears of it.
pub(super) type Told = mpsc::UnboundedSender<Report>;

impl Place {
    /// Puts what was accepted into the cache, or hands it on; how it goes on where the body broke off before anybody saw it.
    pub(super) async fn keep(
        &self,
        accepted: Accepted,
        answer: Option<(Answer<'_>, &Transaction, &Arc<LiveProxy>)>,
        told: Told,
        (backend, account): (&mut Backend, Account),
    ) -> Option<Broken> {
        let Accepted { stored, head, body } = accepted;
        let Some(stored) = stored else {
            self.hand_on(head, body, answer, told).await;
            return None;
        };
        let Stored { object, filler, fetch, streams, includes } = stored;
        // NOTE: what has been made here is an error's page already.
        let backend_breaks = backend.has_error_page() && !matches!(body, AcceptedBody::Made(_));
        let mut logged =
            varnish_log::Fetched::begin(backend, account, answer.as_ref().map(|(answer, ..)| answer), &body);
        logged.streams(streams);
        let (own, status) = (Some(Box::new(head)).filter(|head| head.status() > 0), object.head().status());
        let mut news = News { object: Some(object), fetch, own, told };
        // Nobody else would want it.
        if !news.is_wanted(&filler) {
            logged.end(None);
            return None;
        }
        if streams && matches!(body, AcceptedBody::Backend(_)) {
            news.tell();
        }
        let recoding = if let AcceptedBody::Backend(recoding) = body { recoding } else { Recoding::None };
        let mut filling = Filling::new(filler, recoding, includes, news);
        let filled = match (body, answer) {
            (AcceptedBody::Made(bytes), _) => write(&mut filling.filler, &bytes),
            (AcceptedBody::Stale(before), answer) => {
                if let Some((answer, _, proxy)) = answer {
                    self.leave(answer, proxy);
                }
                filling.copy(&before).await
            }
            (AcceptedBody::Backend(_), Some((answer, exchange, proxy))) => {
                if let BodyLength::Exact(length) = answer.length
                    && matches!(recoding, Recoding::None | Recoding::Test)
                {
                    filling.filler.expect(length);
                }
                let pulled = self.pull_all((answer, exchange, proxy), &mut filling).await;
                let (is_reusable, filled) = match pulled {
                    Ok(is_reusable) => (is_reusable, filling.end()),
                    Err(error) => (false, Err(error)),
                };
                logged.page_notes(&filling.notes);
                exchange.count_fetched(status, filling.pulled, self.leads_elsewhere(proxy));
                logged.pulled(filling.pulled, is_reusable, filled.is_ok().then(|| filling.filler.written()));
                filled
            }
            (AcceptedBody::Backend(_), None) => Ok(()),
        };
        let Filling { filler, mut news, .. } = filling;
        match filled {
            Ok(()) => {
                let length = filler.written();
                filler.finish();
                logged.end(Some(length));
            }
            Err(why) if news.object.is_some() && news.is_wanted(&filler) && backend_breaks => {
                drop((filler, logged));
                let next = backend.body_failed(news.fetch.take(), &failed_body(&why), wall_clock())?;
                return Some(Broken { told: news.told, next });
            }
            Err(_) => {
                if let Some(fetch) = news.fetch.take() {
                    fetch.failed(502);
                }
                drop(filler);
                logged.end(None);
            }
        }
        news.tell();
        None
    }

    /// Puts what was accepted for one client into an object; `Err` says how it goes on where the body broke off.
    pub(super) async fn keep_passed(
        &self,
        accepted: Accepted,
        answer: (Answer<'_>, &Transaction, &Arc<LiveProxy>),
        backend: (&mut Backend, Account),
    ) -> Result<Fetched, Step> {
        let (told, mut reports) = mpsc::unbounded_channel();
        if let Some(broken) = self.keep(accepted, Some(answer), told, backend).await {
            return Err(broken.next);
        }
        match reports.recv().await {
            Some(Report::Fetched(fetched)) => Ok(fetched),
            _ => Ok(Fetched::Nothing),
        }
    }

    /// Hands on what is not stored, or is already.
    async fn hand_on(
        &self,
        head: ResponseHead,
        body: AcceptedBody,
        answer: Option<(Answer<'_>, &Transaction, &Arc<LiveProxy>)>,
        told: Told,
    ) {
        match (body, answer) {
            (AcceptedBody::Stale(object), answer) => {
                if let Some((answer, _, proxy)) = answer {
                    self.leave(answer, proxy);
                }
                let _ = told.send(Report::Fetched(Fetched::Own(object, Box::new(head))));
            }
            (_, Some(answer)) => self.relay(head, answer, told).await,
            (_, None) => {}
        }
    }

    /// Hands a response on to who has ordered it, no faster than it is taken.
    async fn relay(&self, head: ResponseHead, answer: (Answer<'_>, &Transaction, &Arc<LiveProxy>), told: Told) {
        let (pieces, body) = mpsc::channel(RELAYED_PIECES_MAX);
        let server = answer.1.route.server.clone();
        let by = answer.1.answered.by;
        let relayed = Relayed { head, length: answer.0.length, part: Part::Whole, body, server, by };
        let _ = told.send(Report::Relayed(Box::new(relayed)));
        let mut sink = Relaying { pieces, waiting: None };
        if self.pull_all(answer, &mut sink).await.is_ok() {
            let _ = sink.pieces.send(None).await;
        }
    }

    /// Gives the connection of a response back that nobody reads, if nothing more comes of it.
    fn leave(&self, answer: Answer<'_>, proxy: &LiveProxy) {
        if answer.length.is_empty()
            && let Some(upstream) = answer.body.into_reusable()
        {
            give_back(&self.worker, upstream, proxy);
        }
    }

    /// Pulls a body to its end, and gives the connection back if it goes on: then the result is true.
    async fn pull_all(
        &self,
        (mut answer, exchange, proxy): (Answer<'_>, &Transaction, &Arc<LiveProxy>),
        sink: &mut impl Destination,
    ) -> io::Result<bool> {
        pull(&mut answer, exchange, proxy, sink).await?;
        let reusable = answer.body.into_reusable();
        let is_reusable = reusable.is_some();
        if let Some(upstream) = reusable {
            give_back(&self.worker, upstream, proxy);
        }
        Ok(is_reusable)
    }
}

/// The request of a machine as it goes out. What goes without a body does not announce one: what came next on the connection would be
/// read as that.
///
/// A body that is `kept` is sent with its length, however it came, as Varnish does it.
pub(super) fn request_of(backend: &Backend, kept: Option<&[u8]>) -> RequestHead {
    let mut request = backend.request().clone();
    match kept {
        _ if !backend.sends_body() && !http::request_body_length(&request).is_empty() => request.forget_body(),
        Some(body) if backend.sends_body() => request.know_length(body.len() as u64),
        _ => {}
    }
    request
}

/// Says how long the backend may take until the first byte; gives how long it may be silent from then on.
pub(super) fn set_timeouts(exchange: &Transaction, backend: &Backend) -> Option<Duration> {
    let said = |seconds: f64| Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
    let (timeouts, rules) = (backend.timeouts(), &exchange.by_rules);
    rules.connect_timeout.set(said(timeouts.connect));
    let by_rule = rules.server_timeout.get();
    rules.server_timeout.set(said(timeouts.first_byte).or(by_rule));
    said(timeouts.between_bytes).or(by_rule)
}

/// What the log says of a body that broke off.
fn failed_body(why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::UnexpectedEof => "straight insufficient bytes".to_owned(),
        _ => why.to_string(),
    }
}
