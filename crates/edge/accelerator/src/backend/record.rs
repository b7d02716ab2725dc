//! What a fetch writes into the log beside what VCL does.

use http::RequestHead;
use telemetry::vsl::VslTag;
use vsm::counters::Main;

use super::{Backend, BackendHost, Coding, Recoding, judge::Said};
use crate::{common::Common, log::Log};

/// The client's request, as far as a fetch for it may say otherwise.
#[derive(Debug)]
pub(crate) struct AskedBy {
    method: Vec<u8>,
    version: Vec<u8>,
    has_encoding: bool,
}

impl AskedBy {
    pub(crate) fn of(request: &RequestHead) -> Self {
        Self {
            method: request.method().to_vec(),
            version: request.version_bytes().to_vec(),
            has_encoding: request.headers.contains(b"accept-encoding"),
        }
    }
}

impl Backend {
    /// Notes the request as it came from the client's, and what was changed for the backend.
    pub(super) fn record_request(&mut self) {
        let BackendHost { common: Common { log, .. }, request, .. } = &mut self.host;
        if !log.is_on() {
            return;
        }
        let AskedBy { method, version, has_encoding } = &self.asked_by;
        log.record(VslTag::BereqMethod, method);
        log.record(VslTag::BereqURL, request.target());
        log.record(VslTag::BereqProtocol, version);
        let conditions: [&[u8]; 2] = [b"if-none-match", b"if-modified-since"];
        let is_one_of = |names: &[&[u8]], name: &[u8]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        let is_ours = |name: &[u8]| {
            is_one_of(&[b"x-varnish"], name)
                || (!has_encoding && is_one_of(&[b"accept-encoding"], name))
                || (self.has_conditions && is_one_of(&conditions, name))
        };
        let mut fields = |which: &dyn Fn(&[u8]) -> bool| {
            for (name, value) in request.headers.iter().filter(|(name, _)| which(name)) {
                log.field(VslTag::BereqHeader, name, value);
            }
        };
        fields(&|name| !is_ours(name));
        fields(&|name| is_ours(name) && is_one_of(&[b"accept-encoding"], name));
        fields(&|name| is_ours(name) && is_one_of(&conditions, name));
        fields(&|name| is_one_of(&[b"x-varnish"], name));
        if *method != request.method() {
            log.record(VslTag::BereqMethod, request.method());
        }
        if *version != request.version_bytes() {
            log.record(VslTag::BereqProtocol, request.version_bytes());
        }
    }

    /// Notes what the response says of its life.
    pub(super) fn record_ttl(&mut self, said: &Said, now: f64) {
        let BackendHost { common, decisions, is_pass, .. } = &mut self.host;
        if *is_pass || !common.log.is_on() {
            return;
        }
        let cacheable = if decisions.is_uncacheable { "uncacheable" } else { "cacheable" };
        common.log.write(
            VslTag::TTL,
            format_args!(
                "RFC {:.0} {:.0} {:.0} {now:.0} {:.0} {} {} {:.0} {cacheable}",
                decisions.ttl,
                decisions.grace,
                decisions.keep,
                now - decisions.age,
                said.date,
                said.expires,
                said.max_age,
            ),
        );
    }

    /// Notes what is done to the body, and what follows for the head.
    pub(super) fn record_filters(&mut self, recoding: Recoding) {
        let filters = self.host.filters();
        let BackendHost { common: Common { log, .. }, response, .. } = &mut self.host;
        if !log.is_on() {
            return;
        }
        let unset = |log: &mut Log, name: &[u8]| {
            if let Some(value) = response.headers.first(name) {
                log.field(VslTag::BerespUnset, name, value);
            }
        };
        log.record(VslTag::Filters, &filters);
        let (mut compresses, mut decompresses) = (false, false);
        match recoding {
            Recoding::None => {}
            Recoding::Gzip => compresses = true,
            Recoding::Gunzip => decompresses = true,
            Recoding::Test => log.count(Main::n_test_gunzip),
            Recoding::Several(codings) => {
                compresses = codings.all().any(|coding| coding == Coding::Gzip);
                decompresses = codings.all().any(|coding| coding == Coding::Gunzip);
            }
        }
        if decompresses {
            log.count(Main::n_gunzip);
            unset(log, b"Content-Encoding");
            unset(log, b"Content-Length");
        }
        if compresses {
            log.count(Main::n_gzip);
            unset(log, b"Content-Length");
            log.field(VslTag::BerespHeader, b"Content-Encoding", b"gzip");
            log.field(VslTag::BerespHeader, b"Vary", b"Accept-Encoding");
        }
    }
}
