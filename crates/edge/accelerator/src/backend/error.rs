//! Responses that are made here, because a backend gave none.

use http::{ResponseHead, Version};
use telemetry::vsl::VslTag;
use vcl::{action::Action, subroutine::Subroutine};

use super::{Accepted, AcceptedBody, Backend, Decisions, Step, whole};
use crate::{common::Common, log::BERESP, output};

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
