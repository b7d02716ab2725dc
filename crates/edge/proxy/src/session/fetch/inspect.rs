//! `tcp-response content` rules in HTTP mode.

use std::{future::poll_fn, task::Poll};

use net::Deadline;

use super::{Fetch, HeadEnd, HttpRequester, ServerCodec as _, Unfetched, Upstream};
use crate::session::{
    body::Source as _,
    ending::{Ending, Stage},
    tcp::{self, TcpVerdict},
    transaction::Transaction,
};

impl Fetch<'_, '_> {
    /// Waits for the response like [`Fetch::await_response`], with the `tcp-response content` rules on the way: they
    /// run when the server is connected and, what they ask about not being there yet, once more when it is or when
    /// `tcp-response inspect-delay` is over.
    pub(super) async fn inspect_response(
        &mut self,
        transaction: &mut Transaction,
        upstream: &mut Upstream<'_>,
        requester: &mut impl HttpRequester,
    ) -> Result<HeadEnd, Unfetched> {
        let backend = self.attempts.proxy;
        let settings = backend.settings();
        let rules = &settings.tcp_response_content;
        let verdict = match settings.tcp_response_inspect_delay {
            None => Some(tcp::response_rules(transaction, rules)),
            Some(_) => tcp::partial_response_rules(transaction, rules),
        };
        let mut head = None;
        let verdict = if let Some(verdict) = verdict {
            verdict
        } else {
            let mut delay = Deadline::default();
            delay.set(settings.tcp_response_inspect_delay.map(|delay| self.attempts.worker.now() + delay));
            head = {
                let mut response = std::pin::pin!(self.await_response(transaction, upstream, requester));
                poll_fn(|context| match response.as_mut().poll(context) {
                    Poll::Ready(end) => Poll::Ready(Some(end)),
                    Poll::Pending => delay.poll(context).map(|()| None),
                })
                .await
            };
            match head {
                Some(HeadEnd::Response) => transaction.answered.has_head = true,
                Some(end) => return Ok(end),
                None => {}
            }
            tcp::response_rules(transaction, rules)
        };
        match verdict {
            TcpVerdict::Accept
            | TcpVerdict::ExpectProxy
            | TcpVerdict::ExpectNetscaler
            | TcpVerdict::Resolve(_)
            | TcpVerdict::SwitchToHttp => {}
            TcpVerdict::Close => upstream.connection.codec.shut(),
            TcpVerdict::Reject | TcpVerdict::Drop => {
                let silently = verdict == TcpVerdict::Drop;
                if silently {
                    transaction.end(Ending::Refused(Stage::Request));
                } else {
                    transaction.count_denied_response(backend);
                    transaction.end(Ending::Refused(Stage::Data));
                }
                if transaction.answered.has_head {
                    transaction.answered.status = transaction.response.status();
                    transaction.bytes_out += upstream.connection.codec.received().len() as u64;
                }
                return Err(Unfetched::Refused { silently });
            }
        }
        match head {
            Some(end) => Ok(end),
            None => Ok(self.await_response(transaction, upstream, requester).await),
        }
    }
}
