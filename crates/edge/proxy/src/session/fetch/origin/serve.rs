//! Answering with a file that is open.

use http::{BodyLength, Coding};
use live::files::{CachedFile, Content, OpenFile};
use web::{
    BodyPlan, ContentType, Offer, RangeLimits, Representation, Span,
    mime::takes_charset,
    negotiate::negotiate,
    range::Piece,
    respond::{Asked, asked, respond},
};

use super::{Here, made, place::first};
use crate::session::{
    fetch::{Answer, AnswerBody, FileBody, StoredBody},
    transaction::Transaction,
};

/// Answers with a file; `None` if that is nothing for the method.
pub(super) fn serve<'a>(here: Here<'a>, transaction: &mut Transaction, found: &CachedFile) -> Option<Answer<'a>> {
    match asked(transaction.request.method_kind()) {
        Asked::File => {}
        Asked::Options => return Some(made::options(here, transaction)),
        Asked::Nothing => return None,
    }
    let (length, body) = respond_with(here, transaction, found, None);
    Some(made::accept(here.site(), transaction, length, body))
}

/// Makes the head of an answer with a file, to a GET or HEAD; what follows it. The content is of another type than the file's name says
/// if `content_type` does.
pub(super) fn respond_with<'a>(
    here: Here<'a>,
    transaction: &mut Transaction,
    found: &CachedFile,
    content_type: Option<&str>,
) -> (BodyLength, AnswerBody<'a>) {
    let settings = &here.backend.settings().files;
    let now = i64::try_from(basics::clock::since_1970().as_secs()).unwrap_or(i64::MAX);
    let (file, tag, coding) = choose(transaction, found);
    let modified = file.facts.modified.0;
    let expiry = if settings.expires.is_empty() {
        None
    } else {
        first(&settings.expires, transaction).and_then(|(_, expires)| {
            let offset = telemetry::local_offset(now);
            expires.expiry(now, modified, i64::from(offset))
        })
    };
    let charset = settings.charset.name().filter(|_| takes_charset(&found.essence));
    let content_type = match content_type {
        Some(essence) => ContentType { essence, charset: None },
        None => ContentType { essence: &found.essence, charset },
    };
    let representation = Representation {
        length: file.facts.length,
        modified,
        tag,
        content_type,
        coding,
        varies: !found.variants.is_empty(),
        expiry,
        ranges: RangeLimits::default(),
    };
    let Transaction { request, response, .. } = transaction;
    let plan = respond(request, &representation, now, || here.worker.random(), response);
    body(here, file, plan)
}

/// The file itself, or the compressed one beside it that the client likes best.
fn choose<'f>(transaction: &Transaction, found: &'f CachedFile) -> (&'f OpenFile, &'f [u8], Option<Coding>) {
    if !found.variants.is_empty() {
        let mut codings = [Coding::Identity; web::negotiate::CODINGS_MAX];
        let mut count = 0;
        for (place, variant) in codings.iter_mut().zip(&found.variants) {
            *place = variant.coding;
            count += 1;
        }
        let offer = Offer::of(codings.get(..count).unwrap_or_default());
        let wanted = negotiate(&transaction.request.headers, &offer).codings;
        let best = wanted.iter().find_map(|coding| found.variants.iter().find(|variant| variant.coding == coding));
        if let Some(best) = best {
            return (&best.file, &best.tag, Some(best.coding));
        }
    }
    (&found.file, &found.tag, None)
}

/// The bytes that follow the head.
fn body<'a>(here: Here<'a>, file: &OpenFile, plan: BodyPlan) -> (BodyLength, AnswerBody<'a>) {
    let span = match plan {
        BodyPlan::Nothing => return (BodyLength::None, AnswerBody::Stored(StoredBody::new([].into()))),
        BodyPlan::Whole => Span { start: 0, end: file.facts.length },
        BodyPlan::Part(span) => span,
        BodyPlan::Parts(parts) => {
            let body = FileBody::new(&here.files.threads, file.clone(), parts.pieces);
            return (BodyLength::Exact(parts.length), AnswerBody::File(Box::new(body)));
        }
    };
    let body = match &file.content {
        Content::Memory(bytes) => AnswerBody::Stored(StoredBody::part(bytes.clone(), span.into())),
        Content::Descriptor(_) => {
            let body = FileBody::new(&here.files.threads, file.clone(), [Piece::File(span)]);
            AnswerBody::File(Box::new(body))
        }
    };
    (BodyLength::Exact(span.len()), body)
}
