//! Responses that are made here.

use http::{HeaderId, ResponseHead, Version};
use telemetry::vsl::VslTag;
use vcl::{action::Action, subroutine::Subroutine};
use vsm::counters::Main;

use super::{Client, DeliveredBody, Step, Wrong, object::seconds_of, record::record_length};
use crate::{
    common::Common,
    log::RESP,
    note::Note,
    output::{self, Part},
};

impl Client {
    pub(super) fn synth(&mut self, status: u16, why: &[u8]) -> Step {
        self.fetch = None;
        if self.note.what.is_empty() {
            self.note = Note::SYNTH;
        }
        self.host.object = None;
        self.host.body.clear();
        self.host.response = ResponseHead::default();
        self.host.response.start(Version::Http11, status);
        let reason = if why.is_empty() { output::reason(status) } else { why };
        self.host.response.set_reason(reason);
        let headers = &mut self.host.response.headers;
        headers.add(b"Date", &http::http_date(seconds_of(self.host.common.now)));
        headers.add(b"Server", b"Varnish");
        headers.add(b"X-Varnish", self.host.xid.to_string().as_bytes());
        if why == b"VCL failed" {
            self.has_failed = true;
        }
        self.host.common.log.count(Main::s_synth);
        self.host.common.log.response_head(RESP, &self.host.response);
        if why == b"VCL failed" {
            self.host.response.headers.add(b"Connection", b"close");
        }
        let outcome = self.run(Subroutine::Synth);
        let Common { log, now, .. } = &mut self.host.common;
        log.timestamp("Process", *now);
        match outcome {
            Ok(answer) if answer.action == Action::Restart => {
                if self.host.restarts <= self.loaded.settings.max_restarts {
                    return self.restart();
                }
            }
            Ok(_) => {}
            Err(Wrong::Failed) => {
                self.host.body.clear();
                self.host.response = ResponseHead::default();
                self.host.response.start(Version::Http11, 500);
                self.host.response.headers.set(b"Connection", b"close");
                self.host.common.log.response_line(RESP, &self.host.response);
            }
        }
        let body = std::mem::take(&mut self.host.body);
        let (request, response) = (&self.host.request, &mut self.host.response);
        let said = response.headers.first_known(HeaderId::ContentLength).map(<[u8]>::to_vec);
        let part = output::finish(request, response, Some(body.len() as u64), false, self.host.common.now);
        let log = &mut self.host.common.log;
        record_length(log, said.as_deref(), response);
        log.record(VslTag::Storage, b"malloc Transient");
        log.record(VslTag::Filters, b"");
        let body = if part == Part::Nothing { Vec::new() } else { body };
        self.end(DeliveredBody::Made(body))
    }
}
