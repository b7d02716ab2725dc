//! A fetch that no client waits for itself: what comes of it goes into the cache, or is handed on by a channel.

use std::{rc::Rc, sync::Arc};

use accelerator::{
    backend::Accepted,
    client::Fetched,
    log::Account,
    machine::{Backend, Order},
};
use http::ResponseHead;
use live::LiveProxy;
use net::Deadline;
use tokio::sync::mpsc;

use super::{
    Place, Report, RequestBody, Told,
    ask_loop::{After, Listens, Responded, ask_loop},
    request_of, set_timeouts, wall_clock,
};
use crate::session::{
    exchange::InBackend,
    fetch::{Answer, Fetch, HearInterim, Nobody, Unfetched},
    pinned::PinnedConnections,
    transaction::{ClientSide, RequestStage, Transaction},
    varnish_log::{self, words},
};

/// Who listens to a fetch for the cache.
struct ForCache {
    body: RequestBody,
    /// Who has ordered it, until they have heard of it.
    told: Option<Told>,
    nobody: Nobody,
    /// What was asked last.
    asked: Transaction,
    account: Account,
    failure: Option<Unfetched>,
}

impl Place {
    /// Begins a fetch, with the body of a request; what is told of it, the last thing once there is something to deliver.
    pub(in crate::session) fn fetch(self, order: Order, body: RequestBody) -> mpsc::UnboundedReceiver<Report> {
        let (told, reports) = mpsc::unbounded_channel();
        let worker = Rc::clone(&self.worker);
        let running = worker.count_running();
        tokio::task::spawn_local(async move {
            let worker = Rc::clone(&self.worker);
            worker.clocked(Box::pin(self.run(order, body, told))).await;
            drop(running);
        });
        reports
    }

    async fn run(self, order: Order, body: RequestBody, told: Told) {
        let interim = order.tells_interim().then(|| tell_interim(told.clone()));
        let mut backend = order.begin(wall_clock(), !matches!(body, RequestBody::None));
        let mut listener = ForCache {
            body,
            told: Some(told),
            nobody: Nobody { body: Vec::new(), interim },
            asked: self.nobodys_transaction(),
            account: Account::default(),
            failure: None,
        };
        ask_loop(&self, &mut backend, &mut listener).await;
    }

    /// Whether what is fetched comes from another section than the one whose requests the cache answers, which counts those.
    pub(super) fn leads_elsewhere(&self, proxy: &Arc<LiveProxy>) -> bool {
        !Arc::ptr_eq(proxy, &self.proxy)
    }

    fn nobodys_transaction(&self) -> Transaction {
        let client = Rc::new(ClientSide::nobody(&self.instance, Arc::clone(&self.proxy), self.worker.now()));
        Transaction::new(Arc::clone(&self.instance), client, &self.worker)
    }
}

impl ForCache {
    /// Begins anew for what is asked now.
    fn begin(&mut self, place: &Place, backend: &Backend, proxy: &Arc<LiveProxy>) {
        let now = place.worker.now();
        let client = Rc::new(ClientSide::nobody(&place.instance, Arc::clone(&place.proxy), now));
        let asked = &mut self.asked;
        asked.restart(&place.instance, &client, place.worker.random());
        asked.request = request_of(backend, self.body.kept());
        let (source, destination) = backend.client_ends();
        asked.source.set(source);
        asked.changed_destination.set(destination);
        asked.by_rules.closes.server = accelerator::fields::closes(&asked.request.headers);
        asked.asked.stage = RequestStage::Complete;
        asked.asked.wants_keep_alive = true;
        asked.asked.usual_location = place.usual_location.clone();
        asked.timeline.first_byte = Some(now);
        asked.timeline.request = Some(now);
        asked.route.backend = Some(Arc::clone(proxy));
    }
}

impl Listens for ForCache {
    type Outcome = ();

    async fn bring_body(&mut self, backend: &Backend) -> bool {
        self.nobody.body = match &self.body {
            _ if !backend.sends_body() => Vec::new(),
            RequestBody::None => Vec::new(),
            RequestBody::Kept(kept) => kept.clone(),
            RequestBody::Gone => return false,
        };
        true
    }

    /// Where no client's request is counted already.
    fn enter<'p>(&self, place: &Place, proxy: &'p Arc<LiveProxy>) -> Option<InBackend<'p>> {
        place.leads_elsewhere(proxy).then(|| {
            proxy.backend.traffic.of(place.worker.index).sessions.increment();
            InBackend::enter(proxy)
        })
    }

    async fn ask<'p>(
        &mut self,
        place: &'p Place,
        backend: &Backend,
        proxy: &'p Arc<LiveProxy>,
    ) -> Result<Answer<'p>, Unfetched> {
        self.begin(place, backend, proxy);
        let between = set_timeouts(&self.asked, backend);
        let (mut kept, mut deadline) = (PinnedConnections::default(), Deadline::default());
        let mut fetch = Fetch::new(&place.worker, proxy, place.origin.wanted(), &mut kept, &mut deadline);
        let answer = fetch.run(&mut self.asked, &mut self.nobody).await?;
        self.asked.by_rules.server_timeout.set(between);
        Ok(answer)
    }

    fn transaction(&mut self) -> &mut Transaction {
        &mut self.asked
    }

    fn count_heads(&mut self, account: Account) {
        self.account = self.account.and(account);
    }

    async fn accept(
        &mut self,
        place: &Place,
        backend: &mut Backend,
        accepted: Accepted,
        responded: Option<Responded<'_>>,
    ) -> After<()> {
        let Some(told) = self.told.take() else { return After::Over(()) };
        let answer = responded.map(|Responded { answer, proxy, .. }| (answer, &self.asked, proxy));
        match place.keep(accepted, answer, told, (backend, self.account)).await {
            Some(broken) => {
                self.told = Some(broken.told);
                After::Next(broken.next)
            }
            None => After::Over(()),
        }
    }

    async fn unfetched(&mut self, place: &Place, backend: &mut Backend, name: &str, why: Unfetched) -> After<()> {
        let sent = varnish_log::left_alone(&place.worker, backend, name, &self.asked, &why);
        self.account = self.account.and(sent);
        let next = backend.failed(&words(name, &why), wall_clock());
        self.failure = backend.hands_on_failures().then_some(why);
        After::Next(next)
    }

    fn abandoned(&mut self, backend: &mut Backend) {
        backend.abandon(self.failure.as_ref().map_or(503, Unfetched::status));
        varnish_log::abandoned(backend, self.account);
        let Some(told) = self.told.take() else { return };
        let _ = told.send(match self.failure.take() {
            Some(why) => Report::Unfetched(Box::new(why)),
            None => Report::Fetched(Fetched::Nothing),
        });
    }
}

/// Interim responses of one fetch that are told of. They wait for a client that may read slowly, and no fetch waits for a client.
const INTERIM_MAX: usize = 100;

/// Tells of interim responses.
fn tell_interim(told: Told) -> HearInterim {
    let mut left = INTERIM_MAX;
    Box::new(move |head: &ResponseHead| {
        if left > 0 {
            left -= 1;
            let _ = told.send(Report::Interim(head.clone()));
        }
    })
}
