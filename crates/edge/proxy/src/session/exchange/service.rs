//! What this process answers about itself: the statistics page and the Prometheus endpoint.

use std::{sync::Arc, time::Duration};

use haproxycfg::model::Stats;
use http::{BodyLength, Version};
use live::LiveProxy;

use super::{ClientStream, Exchange, Next};
use crate::{
    session::{
        context::verify,
        ending::{Ending, Stage},
        filter::{self, Compression},
        pages::{PageReply, PageRequest},
        rules::{self, Phase, Verdict},
        transaction::Transaction,
    },
    worker::Worker,
};

/// The realm of the statistics unless they have one of their own.
const REALM: &[u8] = b"HAProxy Statistics";
/// How long the body of an administrator's form may take.
const FORM_TIME: Duration = Duration::from_secs(10);

/// What this process answers about itself, in a server's place.
pub(super) enum Service {
    /// The statistics page as this proxy has it.
    Statistics(Arc<LiveProxy>),
    /// The numbers for Prometheus.
    Metrics,
}

impl Service {
    /// As the log names it.
    fn name(&self) -> &'static str {
        match self {
            Self::Statistics(_) => "<STATS>",
            Self::Metrics => "<PROMEX>",
        }
    }

    /// Whether `http-response` rules see what it says. As in HAProxy they do not see the statistics page.
    fn passes_response_rules(&self) -> bool {
        match self {
            Self::Statistics(_) => false,
            Self::Metrics => true,
        }
    }

    /// Its answer.
    fn make(&self, worker: &Worker, transaction: &Transaction) -> PageReply {
        let request = &transaction.request;
        let statistics = match self {
            Self::Statistics(proxy) => proxy.settings().stats.as_ref().map(|stats| (proxy, stats)),
            Self::Metrics => None,
        };
        let Some((proxy, stats)) = statistics else { return worker.neighbours.pages.metrics(request.target()) };
        let may_admin =
            stats.admin.iter().any(|condition| rules::applies(condition.as_ref(), transaction, Phase::Request));
        let request = PageRequest {
            method: request.method(),
            target: request.target(),
            fetch_site: request.headers.first(b"sec-fetch-site"),
            body: transaction.asked.body.complete.then_some(transaction.asked.body.bytes.as_slice()),
        };
        worker.neighbours.pages.statistics(proxy, stats, &request, may_admin)
    }
}

impl<C: ClientStream> Exchange<'_, C> {
    /// Has a service answer.
    pub(super) async fn answer_service(
        &mut self,
        transaction: &mut Transaction,
        service: &Service,
        body: BodyLength,
    ) -> Next {
        transaction.count_intercepted();
        transaction.answered.by = Some(service.name());
        transaction.end(Ending::AnsweredHere(Stage::Request));
        if let Service::Statistics(proxy) = service
            && let Some(refused) = self.admit(transaction, proxy, body).await
        {
            return refused;
        }
        let reply = service.make(self.worker, transaction);
        // A service stands in a server's place and is reached at once.
        let now = Some(self.worker.now());
        let times = &mut transaction.timeline;
        (times.dequeued, times.connected, times.response) = (now, now, now);
        make(transaction, reply.status, &reply.headers, reply.body.len());
        self.begin_answer(transaction);
        if service.passes_response_rules() {
            let proxy = transaction.route.backend.clone().unwrap_or_else(|| Arc::clone(&self.side.frontend));
            if let Some(next) = Box::pin(self.response_rules(transaction, &proxy, None)).await {
                return next;
            }
        }
        self.deliver_page(transaction, reply.body).await
    }

    /// Runs the rules of the statistics page, demands its credentials and waits for a form; `Some` when the request is over.
    async fn admit(&mut self, transaction: &mut Transaction, proxy: &Arc<LiveProxy>, body: BodyLength) -> Option<Next> {
        let stats = proxy.settings().stats.as_ref()?;
        transaction.answered.is_for_page =
            self.worker.neighbours.pages.is_own_request(&stats.uri, transaction.request.target());
        if transaction.answered.is_for_page {
            transaction.begin_page_request(self.worker);
        }
        if !stats.rules.is_empty() {
            match rules::run(transaction, &stats.rules, 0, Phase::Request) {
                Verdict::Continue | Verdict::Allow => {}
                verdict => {
                    let verdict = if let Verdict::Auth(None) = verdict { Verdict::Auth(Some(REALM)) } else { verdict };
                    return Some(Box::pin(self.execute(transaction, proxy.settings(), verdict)).await);
                }
            }
        }
        if !stats.auth.is_empty() && !authorized(transaction, stats) {
            let realm = stats.realm.clone().unwrap_or_else(|| REALM.to_vec());
            return Some(self.answer_unauthorized(transaction, &realm).await);
        }
        if transaction.request.method() == b"POST" {
            Box::pin(self.buffer_body(transaction, body, FORM_TIME, 0)).await;
        }
        None
    }

    /// Delivers the page of a service, compressed if the frontend says so.
    async fn deliver_page(&mut self, transaction: &mut Transaction, mut page: Vec<u8>) -> Next {
        let frontend = &self.side.frontend;
        if filter::has_filters(frontend, frontend) {
            filter::choose(transaction, frontend);
            filter::judge(self.worker, transaction, frontend, BodyLength::Exact(page.len() as u64));
            if let Some(mut compression) = Compression::begin(self.worker, transaction, frontend) {
                let mut compressed = Vec::new();
                compression.add(&page, &mut compressed);
                compression.finish(b"", &mut compressed);
                page = compressed;
            }
        }
        self.deliver_begun(transaction, &page.into()).await
    }
}

/// Puts the head of what a service made into the transaction's response.
fn make(transaction: &mut Transaction, status: u16, headers: &[(&'static str, String)], length: usize) {
    let response = &mut transaction.response;
    response.start(Version::Http11, status);
    for (name, value) in headers {
        response.headers.add(name.as_bytes(), value.as_bytes());
    }
    if !response.headers.contains(b"content-length") {
        response.headers.add(b"content-length", length.to_string().as_bytes());
    }
}

fn authorized(transaction: &Transaction, stats: &Stats) -> bool {
    let Some(value) = transaction.request.headers.first(b"authorization") else { return false };
    let Some((user, password)) = http::basic_credentials(value) else { return false };
    stats.auth.iter().any(|(name, stored)| name.as_bytes() == user && verify(stored, &password))
}
