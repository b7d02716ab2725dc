//! Answers of an origin that are no files: error pages, redirects, what there is to ask.

use std::sync::Arc;

use http::{BodyLength, HeaderId, Method, Version};

use super::{FILES, Here};
use crate::{
    session::{
        fetch::{Answer, AnswerBody, HeadEnd, Site, StoredBody, Unfetched},
        reply, size,
        transaction::Transaction,
    },
    stick,
};

/// What is done with what is answered at last.
pub(super) fn accept<'a>(
    site: Site<'a>,
    transaction: &mut Transaction,
    length: BodyLength,
    body: AnswerBody<'a>,
) -> Answer<'a> {
    let now = Some(site.worker.now());
    let times = &mut transaction.timeline;
    times.dequeued = times.dequeued.or(now);
    times.connected = times.connected.or(now);
    times.response = now;
    transaction.answered.by = Some(site.name);
    transaction.answered.has_head = true;
    transaction.variables.get_mut().start_response();
    transaction.response.headers.add_known(HeaderId::Date, &site.worker.http_date());
    transaction.bytes_out += size::of_reply(&transaction.response);
    if transaction.has_tables {
        transaction.count_tracked_status(transaction.response.status());
        stick::store(transaction, site.backend);
    }
    site.backend.last_session_ms.store(site.worker.now_ms(), std::sync::atomic::Ordering::Relaxed);
    let method = transaction.request.method_kind();
    Answer { method, length, body }
}

/// An answer with these bytes, whose head stands in the transaction.
pub(super) fn stored<'a>(site: Site<'a>, transaction: &mut Transaction, bytes: Arc<[u8]>) -> Answer<'a> {
    let is_bare = transaction.request.method_kind() == Method::Head || transaction.response.status() == 204;
    let length = if is_bare { BodyLength::None } else { BodyLength::Exact(bytes.len() as u64) };
    accept(site, transaction, length, AnswerBody::Stored(StoredBody::new(bytes)))
}

/// The error page of a status.
///
/// # Errors
/// When it is configured to be none.
pub(super) fn error<'a>(here: Here<'a>, transaction: &mut Transaction, status: u16) -> Result<Answer<'a>, Unfetched> {
    if reply::is_silent(transaction, status) {
        transaction.answered.status = status;
        transaction.answered.by = Some(FILES);
        return Err(Unfetched::Refused { silently: false });
    }
    let page = reply::error_page(transaction, status);
    if status == 405 {
        let mut allow = http::ResponseHead::new();
        web::respond::refuse_method(&mut allow);
        if let Some(allowed) = allow.headers.first_known(HeaderId::Allow) {
            transaction.response.headers.add_known(HeaderId::Allow, allowed);
        }
    }
    Ok(stored(here.site(), transaction, page))
}

/// What there is to ask of a file.
pub(super) fn options<'a>(here: Here<'a>, transaction: &mut Transaction) -> Answer<'a> {
    web::respond::respond_options(&mut transaction.response);
    stored(here.site(), transaction, Arc::default())
}

/// Leads a client to the usual spelling of what it asked for.
///
/// # Errors
/// A refusal where that names nothing, or where the request may not be sent twice.
pub(in crate::session::fetch) fn usual<'a>(
    site: Site<'a>,
    transaction: &mut Transaction,
    location: &[u8],
) -> Result<Answer<'a>, Unfetched> {
    if location.is_empty() || !matches!(transaction.request.method_kind(), Method::Get | Method::Head) {
        transaction.answered.by = Some(site.name);
        return Err(Unfetched::NoResponse { end: HeadEnd::Refused(400), reused: false });
    }
    Ok(redirect(site, transaction, location))
}

/// Leads a client elsewhere for good.
pub(super) fn redirect<'a>(site: Site<'a>, transaction: &mut Transaction, location: &[u8]) -> Answer<'a> {
    let response = &mut transaction.response;
    response.start(Version::Http11, 301);
    response.headers.add_known(HeaderId::ContentLength, b"0");
    response.headers.add_known(HeaderId::Location, location);
    stored(site, transaction, Arc::default())
}
