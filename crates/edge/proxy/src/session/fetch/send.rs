//! The request as a server gets it.

use std::collections::BTreeMap;

use haproxycfg::model::ConnectionMode;
use http::Headers;
use live::LiveProxy;

use super::{Codec, HttpRequester, OutgoingHead, ServerCodec as _, Upstream, program};
use crate::{
    session::{body::Sink as _, rules::add_address, transaction::Transaction},
    worker::Worker,
};

/// Everything that is added to or taken from a request whatever server it goes to.
#[inline]
pub(super) fn prepare(transaction: &mut Transaction, backend: &LiveProxy) {
    let client = &transaction.client;
    let (front, back) = (client.frontend.settings(), backend.settings());
    if let Some(name) = &front.unique_id_header
        && let Some(id) = sample::Context::unique_id(transaction).map(|id| id.to_vec())
    {
        transaction.request.headers.add(name.as_bytes(), &id);
    }
    let headers = &mut transaction.request.headers;
    let (source, changed) = (&transaction.source, &transaction.changed_destination);
    let (front, back) = (&front.options, &back.options);
    let destination = || changed.get().or_else(|| client.original_destination());
    add_address(headers, front.forwardfor.as_ref(), back.forwardfor.as_ref(), || source.get());
    add_address(headers, front.originalto.as_ref(), back.originalto.as_ref(), destination);
    let upgrade = http::wants_upgrade(&transaction.request);
    transaction.asked.wants_upgrade = upgrade;
    http::remove_hop_by_hop(&mut transaction.request.headers, upgrade);
    http::enforce_request_framing(&mut transaction.request);
    // NOTE: a request of HTTP/1.0 stays one. It may lack a Host, without which one of HTTP/1.1 is refused.
}

/// Puts the request behind what its server's connection has to send.
pub(super) fn write_request(
    worker: &Worker,
    transaction: &mut Transaction,
    backend: &LiveProxy,
    upstream: &mut Upstream<'_>,
    requester: &mut impl HttpRequester,
) {
    let settings = backend.settings();
    if let Some(name) = &settings.http_send_name_header
        && transaction.route.server.is_some()
    {
        let server = &upstream.connection.server.config.name;
        transaction.request.headers.set(name.as_bytes(), server.as_bytes());
    }
    let mode = connection_mode(transaction.frontend_settings().connection_mode, settings.connection_mode);
    let closes = transaction.by_rules.closes.server
        || mode != ConnectionMode::KeepAlive && !settings.options.http_pretend_keepalive;
    let closes = closes && !transaction.asked.wants_upgrade;
    let connection: &[(&[u8], &[u8])] = match (closes, transaction.asked.version) {
        (true, http::Version::Http11) => &[(b"connection", b"close")],
        (false, http::Version::Http10) => &[(b"connection", b"keep-alive")],
        _ => &[],
    };
    let codec = &mut upstream.connection.codec;
    let mut is_secure = false;
    match codec {
        Codec::Http2(_) => {
            is_secure = is_asked_securely(transaction) || codec.stream().is_some_and(|stream| stream.secure().is_some())
        }
        Codec::FastCgi(_) | Codec::FastCgiShared(_) | Codec::Gateway(_) | Codec::Cgi(_) => {}
        _ => worker.heads.lend_output(codec.waiting()),
    }
    let adjust = &transaction.instance.config.global.h1_case_adjust;
    if !adjust.is_empty() && settings.options.h1_case_adjust_bogus_server {
        adjust_case(&mut transaction.request.headers, adjust);
    }
    let app = settings.fcgi_app.as_deref();
    let program = match (&*codec, app) {
        (Codec::FastCgi(_) | Codec::FastCgiShared(_), Some(_)) | (Codec::Gateway(_), _) => {
            Some(program::describe(transaction, backend, app))
        }
        _ => None,
    };
    codec.write_request(&OutgoingHead { head: &transaction.request, fields: connection, is_secure, program });
    requester.begin_body(codec, transaction.route.resent);
    upstream.connection.requests += 1;
    upstream.connection.is_request_sent = false;
}

/// Whether the client has asked by `https`, as far as that is known.
fn is_asked_securely(transaction: &Transaction) -> bool {
    transaction.asked.url_prefix.starts_with(b"https:") || sample::Context::client_tls(transaction).is_some()
}

/// Gives names the case that `h1-case-adjust` wants, for peers that do not know that it means nothing.
pub fn adjust_case(headers: &mut Headers, names: &BTreeMap<String, String>) {
    for (name, wanted) in names {
        headers.rename(name.as_bytes(), wanted.as_bytes());
    }
}

/// The stricter of what frontend and backend say about keeping the server's connection. The client's is the frontend's alone.
#[must_use]
#[inline]
pub fn connection_mode(front: ConnectionMode, back: ConnectionMode) -> ConnectionMode {
    match (front, back) {
        (ConnectionMode::Close, _) | (_, ConnectionMode::Close) => ConnectionMode::Close,
        (ConnectionMode::ServerClose, _) | (_, ConnectionMode::ServerClose) => ConnectionMode::ServerClose,
        _ => ConnectionMode::KeepAlive,
    }
}
