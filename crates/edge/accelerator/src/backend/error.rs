//! Responses that are made here, because a backend gave none.

use cache::index::Fetch;
use http::{ResponseHead, Version};
use telemetry::vsl::VslTag;
use vcl::{action::Action, subroutine::Subroutine};

use super::{Accepted, AcceptedBody, Backend, Decisions, Step, whole};
use crate::{common::Common, log::BERESP, output};

/// Seconds that an error lives for which others wait: its ttl, grace and keep.
const AWAITED_ERROR: (f64, f64, f64) = (1.0, 5.0, 5.0);

impl Backend {
    pub(super) fn error(&mut self, status: u16, why: &[u8]) -> Step {
        self.host.body.clear();
        self.host.was_304 = false;
        self.host.response = ResponseHead::default();
        self.host.response.start(Version::Http11, status);
        let reason = if why.is_empty() { output::reason(status) } else { why };
        self.host.response.set_reason(reason);
        let headers = &mut self.host.response.headers;
        headers.add(b"Date", &http::http_date(whole(self.host.common.now).unsigned_abs()));
        headers.add(b"Server", b"Varnish");
        self.host.decisions = Decisions { streams: true, ..Decisions::default() };
        if self.fetch.as_ref().is_some_and(Fetch::is_awaited) {
            // NOTE: as in Varnish who waits gets the error, too: otherwise all of them would ask a backend that cannot answer.
            (self.host.decisions.ttl, self.host.decisions.grace, self.host.decisions.keep) = AWAITED_ERROR;
        }
        if why == b"VCL failed" {
            return Step::Abandon;
        }
        let Common { log, now, .. } = &mut self.host.common;
        log.timestamp("Error", *now);
        log.response_head(BERESP, &self.host.response);
        let Some(answer) = self.run(Subroutine::BackendError) else { return Step::Abandon };
        match answer.action {
            Action::Deliver => {
                let body = std::mem::take(&mut self.host.body);
                let head = std::mem::take(&mut self.host.response);
                if self.host.is_pass && !self.is_included {
                    self.host.common.log.record(VslTag::Storage, b"malloc Transient");
                    return Step::Accept(Box::new(Accepted { stored: None, head, body: AcceptedBody::Made(body) }));
                }
                self.store(head, AcceptedBody::Made(body), None)
            }
            Action::Retry => self.retry(),
            _ => Step::Abandon,
        }
    }
}
