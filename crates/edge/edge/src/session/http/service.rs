//! What the edge serves itself: the statistics page and the Prometheus endpoint.

use std::{sync::Arc, time::Duration};

use haproxycfg::model::Stats;
use http::{BodyLength, Version};

use super::{Next, Session};
use crate::{
    live::LiveProxy,
    session::{
        context::verify,
        filter::{self, Compression},
        rules::{self, Phase, Verdict},
        transaction::Transaction,
    },
    stats::{
        page::{self, PageRequest},
        serve,
    },
};

/// How long the body of an administrator's form may take.
const FORM_TIME: Duration = Duration::from_secs(10);

impl Session {
    /// Serves the statistics page.
    pub(super) async fn answer_stats(
        &mut self,
        transaction: &mut Transaction,
        proxy: &Arc<LiveProxy>,
        stats: &Stats,
        body: BodyLength,
    ) -> Next {
        self.count_intercepted(transaction);
        transaction.answered_by = Some("<STATS>");
        transaction.terminate(b'L', b'R');
        transaction.is_page_request = page::is_own_request(&stats.uri, transaction.request.target());
        if transaction.is_page_request {
            self.begin_page_request(transaction);
        }
        if !stats.rules.is_empty() {
            match rules::run(transaction, &stats.rules, 0, Phase::Request) {
                Verdict::Continue | Verdict::Allow => {}
                verdict => {
                    let owner = Arc::clone(proxy);
                    return Box::pin(self.execute(transaction, owner.settings(), verdict)).await;
                }
            }
        }
        if !stats.auth.is_empty() && !authorized(transaction, stats) {
            let realm = stats.realm.clone().unwrap_or_else(|| b"HAProxy Statistics".to_vec());
            return self.answer_unauthorized(transaction, &realm).await;
        }
        if transaction.request.method() == b"POST" {
            Box::pin(self.buffer_body(transaction, body, FORM_TIME, 0)).await;
        }
        let may_admin =
            stats.admin.iter().any(|condition| rules::applies(condition.as_ref(), transaction, Phase::Request));
        let request = PageRequest {
            method: transaction.request.method(),
            target: transaction.request.target(),
            authorization: None,
            fetch_site: transaction.request.headers.first(b"sec-fetch-site"),
            body: transaction.body_complete.then_some(transaction.body.as_slice()),
        };
        let reply = serve::page(&self.worker.shared, proxy, stats, &request, may_admin);
        self.note_service(transaction);
        make(transaction, reply.status, &reply.headers, reply.body.len());
        self.begin_answer(transaction);
        self.answer_made(transaction, &reply.body).await
    }

    /// A service stands in a server's place and is reached at once.
    fn note_service(&self, transaction: &mut Transaction) {
        let now = Some(self.worker.now());
        let times = &mut transaction.timeline;
        (times.dequeued, times.connected, times.response) = (now, now, now);
    }

    /// Serves the numbers for Prometheus.
    pub(super) async fn answer_prometheus(&mut self, transaction: &mut Transaction) -> Next {
        transaction.answered_by = Some("<PROMEX>");
        self.note_service(transaction);
        let reply = serve::metrics(&self.worker.shared, transaction.request.target());
        make(transaction, reply.status, &reply.headers, reply.body.len());
        self.begin_answer(transaction);
        // NOTE: as in HAProxy these rules see what this service says, but not the statistics page.
        let proxy = transaction.backend.clone().unwrap_or_else(|| Arc::clone(&self.side.frontend));
        if let Some(next) = Box::pin(self.response_rules(transaction, &proxy, None)).await {
            return next;
        }
        self.answer_made(transaction, &reply.body).await
    }

    async fn answer_made(&mut self, transaction: &mut Transaction, body: &[u8]) -> Next {
        let frontend = Arc::clone(&self.side.frontend);
        let mut compressed = Vec::new();
        let mut body = body;
        if filter::has_filters(&frontend, &frontend) {
            filter::choose(transaction, &frontend);
            filter::judge(&self.worker, transaction, &frontend, BodyLength::Exact(body.len() as u64));
            if let Some(mut compression) = Compression::begin(&self.worker, transaction, &frontend) {
                compression.add(body, &mut compressed);
                compression.finish(b"", &mut compressed);
                body = &compressed;
            }
        }
        self.send_answer(transaction, body).await
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
