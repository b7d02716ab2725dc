//! Which backend a request or a TCP session goes to.

use std::sync::Arc;

use haproxycfg::model::{BackendTarget, UseBackend};
use live::LiveProxy;

use super::{
    rules::{self, Phase},
    transaction::Transaction,
};

/// The backend that the first `use_backend` rule which applies names, or the frontend's default. That is also for names made
/// of the request that no backend has: as in HAProxy no further rule is looked at.
#[must_use]
#[inline]
pub fn choose_backend(transaction: &Transaction, frontend: &Arc<LiveProxy>) -> Option<Arc<LiveProxy>> {
    let settings = frontend.settings();
    let applies = |rule: &&UseBackend| rules::applies(rule.condition.as_ref(), transaction, Phase::Request);
    let named = settings.use_backend.iter().find(applies).and_then(|rule| resolve_backend(transaction, &rule.target));
    named.or_else(|| match settings.default_backend {
        Some(index) => transaction.instance.proxy(index).cloned(),
        None if settings.kind.has_backend() => Some(Arc::clone(frontend)),
        None => None,
    })
}

/// The backend that a target of `use_backend` means now.
fn resolve_backend(transaction: &Transaction, target: &BackendTarget) -> Option<Arc<LiveProxy>> {
    match target {
        BackendTarget::Static(index) => transaction.instance.proxy(*index).cloned(),
        BackendTarget::Dynamic(format) => {
            let name = format.to_vec(transaction);
            transaction.instance.backend(&String::from_utf8_lossy(&name)).cloned()
        }
    }
}
