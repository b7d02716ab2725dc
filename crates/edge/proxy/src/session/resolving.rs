//! `do-resolve`: a rule that waits for the address of a name.

use std::{future::poll_fn, net::IpAddr, task::Poll, time::Instant};

use haproxycfg::model::Resolve;
use net::Deadline;
use sample::{Context as _, Options, Value};

use super::transaction::Transaction;

/// How long a rule may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Until there is an answer, or the name servers have been given up.
    Answer,
    /// No longer than this.
    Until(Instant),
    /// Not at all: only what is known already counts.
    None,
}

/// Looks the name up and puts its address into the rule's variable. Without a name or an address it stays what it was.
pub async fn resolve(transaction: &Transaction, rule: &Resolve, patience: Patience) {
    let name = rule.expr.string(transaction, Options::REQUEST).map(|name| name.to_vec());
    let section = transaction.instance.resolvers_named(&rule.resolvers);
    let Some(asking) = name.zip(section).and_then(|(name, section)| section.ask(&name, rule.prefer_ipv4)) else {
        return;
    };
    let mut asking = std::pin::pin!(asking);
    let mut deadline = Deadline::default();
    if let Patience::Until(until) = patience {
        deadline.set(Some(until));
    }
    let address = poll_fn(|context| match (asking.as_mut().poll(context), patience) {
        (Poll::Ready(address), _) => Poll::Ready(address),
        (Poll::Pending, Patience::Answer) => Poll::Pending,
        (Poll::Pending, Patience::Until(_)) => deadline.poll(context).map(|()| None),
        (Poll::Pending, Patience::None) => Poll::Ready(None),
    })
    .await;
    if let Some(address) = address {
        let value = match address {
            IpAddr::V4(address) => Value::Ipv4(address),
            IpAddr::V6(address) => Value::Ipv6(address),
        };
        transaction.set_variable(&rule.variable, value);
    }
}
