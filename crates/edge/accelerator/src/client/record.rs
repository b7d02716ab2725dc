//! What a client's request writes into the log beside what VCL does.

use std::rc::Rc;

use cache::object::{Kind, Object};
use http::{HeaderId, ResponseHead};
use telemetry::vsl::VslTag;
use vsm::counters::Main;

use super::{Client, said_length};
use crate::{
    common::{Common, record_unset},
    log::{Log, LogSink, REQ, RESP},
    output::{self, Part},
};

impl Client {
    /// Has it logged: the request came from a session, for this reason (`rxreq`). Its first byte came at `first_byte`.
    pub fn log_to(&mut self, sink: Option<&Rc<LogSink>>, reason: &str, first_byte: f64) {
        let mut log = Log::request(sink, self.host.xid, self.host.common.connection.xid, reason);
        log.count(Main::client_req);
        log.timestamp("Start", first_byte);
        log.timestamp("Req", self.host.common.now);
        log.record(VslTag::VCL_use, self.loaded.name.as_bytes());
        self.host.common.log = log;
    }

    /// Has it logged as a request for what the page of another one includes.
    pub(super) fn log_include(&mut self, sink: Option<&Rc<LogSink>>, page: u64) {
        let Some(sink) = sink else { return };
        let (number, now) = (self.host.xid, self.host.common.now);
        let mut log = Log::request(Some(sink), number, page, "esi");
        sink.link(page, number);
        log.count(Main::esi_req);
        log.timestamp("Start", now);
        log.record(VslTag::ReqURL, self.host.request.target());
        self.host.common.log = log;
    }

    /// Notes that a backend has answered, and before it that the request's body has gone there.
    pub(super) fn record_fetched(&mut self, now: f64) {
        let log = &mut self.host.common.log;
        if self.has_body && self.is_passing {
            log.record(VslTag::Storage, b"malloc Transient");
            log.timestamp("ReqBody", now);
        }
        log.timestamp("Fetch", now);
    }

    /// Notes the request as it comes, or comes again.
    pub(super) fn record_request(&mut self) {
        let Common { log, connection, .. } = &mut self.host.common;
        if !log.is_on() {
            return;
        }
        let socket = connection.socket.as_deref().unwrap_or("-");
        log.request_start(connection.client, socket);
        log.request_head(REQ, &self.host.request);
    }

    /// Leaves `Accept-Encoding: gzip` and nothing else, or nothing.
    pub(super) fn force_encoding(&mut self, accepts_gzip: bool) {
        const NAME: &[u8] = b"Accept-Encoding";
        let headers = &mut self.host.request.headers;
        let is_so = headers.len() == headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(NAME)).count() + 1
            && headers.first(NAME) == Some(b"gzip");
        if accepts_gzip && is_so {
            return;
        }
        let log = &mut self.host.common.log;
        record_unset(headers, NAME, (log, REQ));
        headers.remove(NAME);
        if accepts_gzip {
            log.field(VslTag::ReqHeader, NAME, b"gzip");
            headers.add(NAME, b"gzip");
        }
    }

    /// Notes the object that says that such requests miss or pass.
    pub(super) fn record_marker(&mut self, object: &Object) {
        let Common { log, now, .. } = &mut self.host.common;
        let (tag, counter) = match object.kind() {
            Kind::HitForPass => (VslTag::HitPass, Main::cache_hitpass),
            _ => (VslTag::HitMiss, Main::cache_hitmiss),
        };
        log.count(counter);
        log.write(tag, format_args!("{} {:.6}", object.xid(), object.lifetime().fresh_until() - *now));
    }

    /// Notes the object that answers.
    pub(super) fn record_hit(&mut self, object: &Object) {
        let Common { log, now, .. } = &mut self.host.common;
        log.count(Main::cache_hit);
        if !log.is_on() {
            return;
        }
        let lifetime = object.lifetime();
        let left = lifetime.fresh_until() - *now;
        let progress = object.body().length().is_none().then(|| (object.body().arrived(), said_length(object)));
        log.hit(object.xid(), [left, lifetime.grace, lifetime.keep], progress);
        if progress.is_some() {
            // NOTE: it may take as long as its backend likes.
            log.flush();
        }
    }

    /// Applies the request's conditions and ranges to the response, and notes what changes. `gunzipped` is the encoding that has been
    /// taken away.
    pub(super) fn finish(
        &mut self,
        (length, is_page): (Option<u64>, bool),
        ranges: bool,
        gunzipped: Option<&[u8]>,
    ) -> Part {
        let (request, response, now) = (&self.host.request, &mut self.host.response, self.host.common.now);
        let status = response.status();
        let said = response.headers.first_known(HeaderId::ContentLength).map(<[u8]>::to_vec);
        if length.is_none() {
            response.headers.remove_known(HeaderId::ContentLength);
        }
        let part = output::finish(request, response, length, ranges, now);
        let log = &mut self.host.common.log;
        if !log.is_on() {
            return part;
        }
        let is_new = status != response.status();
        if is_new && response.status() == 304 {
            log.response_line(RESP, response);
        }
        let is_range = is_new && response.status() != 304;
        let name = |is_used: bool, name: &'static [u8]| if is_used { name } else { &[] };
        let filters = [name(is_page, b" esi"), name(gunzipped.is_some(), b" gunzip"), name(is_range, b" range")];
        match is_page || gunzipped.is_some() || is_range {
            true => log.pieces(VslTag::Filters, &filters),
            false => log.record(VslTag::Filters, b""),
        }
        if let Some(encoding) = gunzipped {
            log.field(VslTag::RespUnset, b"Content-Encoding", encoding);
        }
        if is_range {
            let range = response.headers.first(b"content-range").unwrap_or_default();
            log.field(VslTag::RespHeader, b"Content-Range", range);
            log.response_line(RESP, response);
        }
        record_length(log, said.as_deref(), response);
        part
    }
}

/// Notes how long a body is said to be, if that was said otherwise before.
pub(super) fn record_length(log: &mut Log, before: Option<&[u8]>, response: &ResponseHead) {
    let after = response.headers.first_known(HeaderId::ContentLength);
    if before == after {
        return;
    }
    if let Some(before) = before {
        log.field(VslTag::RespUnset, b"Content-Length", before);
    }
    if let Some(after) = after {
        log.field(VslTag::RespHeader, b"Content-Length", after);
    }
}
