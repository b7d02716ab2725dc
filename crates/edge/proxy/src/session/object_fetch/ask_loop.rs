//! What the machine of a fetch wants, step after step, until something comes of it: the same whether a client waits for it or the
//! cache alone.

use std::sync::Arc;

use accelerator::{
    backend::Accepted,
    log::Account,
    machine::{Backend, FetchStep as Step},
};
use live::LiveProxy;

use super::{BODY_IS_GONE, Place, wall_clock};
use crate::session::{
    exchange::InBackend,
    fetch::{Answer, Unfetched},
    transaction::Transaction,
    varnish_log,
};

/// For whom a backend is asked.
pub(in crate::session) trait Listens {
    /// What it comes to.
    type Outcome;

    /// Brings the body of the request, if it goes to the backend; whether it is there.
    async fn bring_body(&mut self, backend: &Backend) -> bool;

    /// Counts it where it goes, as long as the result lives.
    fn enter<'p>(&self, place: &Place, proxy: &'p Arc<LiveProxy>) -> Option<InBackend<'p>>;

    /// Sends the request of the machine to a proxy of the configuration, and awaits the head of the response.
    async fn ask<'p>(
        &mut self,
        place: &'p Place,
        backend: &Backend,
        proxy: &'p Arc<LiveProxy>,
    ) -> Result<Answer<'p>, Unfetched>;

    /// The facts of what was asked last.
    fn transaction(&mut self) -> &mut Transaction;

    /// Hears of the bytes of the heads of a request and its response, whatever the machine makes of that.
    fn count_heads(&mut self, _account: Account) {}

    /// Takes what the machine accepts; where it is a response, with what brings its body.
    async fn accept(
        &mut self,
        place: &Place,
        backend: &mut Backend,
        accepted: Accepted,
        responded: Option<Responded<'_>>,
    ) -> After<Self::Outcome>;

    /// Hears that there is no response of a backend of this name.
    async fn unfetched(
        &mut self,
        place: &Place,
        backend: &mut Backend,
        name: &str,
        why: Unfetched,
    ) -> After<Self::Outcome>;

    /// Hears that the machine gives up.
    fn abandoned(&mut self, backend: &mut Backend) -> Self::Outcome;
}

/// What a backend has responded beside the head, which the machine has taken.
pub(in crate::session) struct Responded<'a> {
    /// What brings the body.
    pub answer: Answer<'a>,
    /// The proxy that has fetched it.
    pub proxy: &'a Arc<LiveProxy>,
    /// Bytes of both heads.
    pub account: Account,
}

/// How it goes on.
pub(in crate::session) enum After<O> {
    /// It is over.
    Over(O),
    /// The machine wants this.
    Next(Step),
}

/// Asks backends as the machine says, until something comes of it.
pub(in crate::session) async fn ask_loop<L: Listens>(
    place: &Place,
    backend: &mut Backend,
    listener: &mut L,
) -> L::Outcome {
    let mut step = backend.begin();
    loop {
        // NOTE: all in one function: each one that waits for another copies what that keeps.
        let after = match step {
            Step::Ask(target) => 'asked: {
                let Some(proxy) = place.origin.proxy(target) else {
                    break 'asked After::Next(backend.failed("its section is gone", wall_clock()));
                };
                if !listener.bring_body(backend).await {
                    break 'asked After::Next(backend.failed(BODY_IS_GONE, wall_clock()));
                }
                let _counted = listener.enter(place, &proxy);
                let name = place.origin.name_of(target);
                let mut answer = match listener.ask(place, backend, &proxy).await {
                    Ok(answer) => answer,
                    Err(why) => break 'asked listener.unfetched(place, backend, name, why).await,
                };
                let transaction = listener.transaction();
                varnish_log::reached(&place.worker, backend, name, transaction, &answer);
                let account = varnish_log::account_of(transaction);
                let next = backend.responded(std::mem::take(&mut transaction.response), wall_clock());
                listener.count_heads(account);
                if backend.closes_backend() {
                    answer.body.close_behind();
                }
                match next {
                    Step::Accept(accepted) => {
                        let responded = Responded { answer, proxy: &proxy, account };
                        listener.accept(place, backend, *accepted, Some(responded)).await
                    }
                    other => {
                        place.leave(answer, &proxy);
                        After::Next(other)
                    }
                }
            }
            Step::Accept(accepted) => listener.accept(place, backend, *accepted, None).await,
            Step::Abandon => return listener.abandoned(backend),
        };
        step = match after {
            After::Over(outcome) => return outcome,
            After::Next(step) => step,
        };
    }
}
