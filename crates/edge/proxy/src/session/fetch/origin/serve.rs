//! Answering with a file that is open.

use std::sync::Arc;

use http::{BodyLength, Coding};
use live::files::{CachedFile, Content, OpenFile, TaggedFile, Variant};
use web::{
    BodyPlan, ContentType, Offer, PreparedHeads, RangeLimits, Representation, Span,
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

/// The file itself, or the compressed one beside it that the client likes best.
pub(super) struct Chosen<'f> {
    found: &'f CachedFile,
    pub(super) tagged: &'f TaggedFile,
    coding: Option<Coding>,
}

impl<'f> Chosen<'f> {
    #[inline]
    pub(super) fn of(transaction: &Transaction, found: &'f CachedFile) -> Self {
        if !found.variants.is_empty()
            && let Some(variant) = best_variant(transaction, found)
        {
            return Self { found, tagged: &variant.tagged, coding: Some(variant.coding) };
        }
        Self { found, tagged: &found.plain, coding: None }
    }

    /// The same for a file that has been asked for before, and whose heads are worth keeping.
    #[inline]
    pub(super) fn again(self, here: Here<'_>) -> Self {
        self.tagged.heads.get_or_init(|| PreparedHeads::of(&self.representation(here)));
        self
    }

    /// What it is to its clients, but for what `expires` says.
    fn representation(&self, here: Here<'f>) -> Representation<'f> {
        let Self { found, tagged, coding } = *self;
        let settings = &here.backend.settings().files;
        let charset = settings.charset.name().filter(|_| takes_charset(&found.essence));
        Representation {
            length: tagged.file.facts.length,
            modified: tagged.file.facts.modified.0,
            tag: &tagged.tag,
            content_type: ContentType { essence: &found.essence, charset },
            coding,
            varies: !found.variants.is_empty(),
            expiry: None,
            ranges: RangeLimits::default(),
            prepared: tagged.heads.get(),
        }
    }
}

fn best_variant<'f>(transaction: &Transaction, found: &'f CachedFile) -> Option<&'f Variant> {
    let mut codings = [Coding::Identity; web::negotiate::CODINGS_MAX];
    let mut count = 0;
    for (place, variant) in codings.iter_mut().zip(&found.variants) {
        *place = variant.coding;
        count += 1;
    }
    let offer = Offer::of(codings.get(..count).unwrap_or_default());
    let wanted = negotiate(&transaction.request.headers, &offer).codings;
    wanted.iter().find_map(|coding| found.variants.iter().find(|variant| variant.coding == coding))
}

/// Answers with a file; `None` if that is nothing for the method.
pub(super) fn serve<'a>(here: Here<'a>, transaction: &mut Transaction, found: &CachedFile) -> Option<Answer<'a>> {
    answer(here, transaction, &Chosen::of(transaction, found))
}

/// Answers with the version of a file that was chosen; `None` if that is nothing for the method.
pub(super) fn answer<'a>(here: Here<'a>, transaction: &mut Transaction, chosen: &Chosen<'_>) -> Option<Answer<'a>> {
    match asked(transaction.request.method_kind()) {
        Asked::File => {}
        Asked::Options => return Some(made::options(here, transaction)),
        Asked::Nothing => return None,
    }
    let (length, body) = respond_chosen(here, transaction, chosen, None);
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
    let chosen = Chosen::of(transaction, found);
    respond_chosen(here, transaction, &chosen, content_type)
}

fn respond_chosen<'a>(
    here: Here<'a>,
    transaction: &mut Transaction,
    chosen: &Chosen<'_>,
    content_type: Option<&str>,
) -> (BodyLength, AnswerBody<'a>) {
    let now = i64::try_from(basics::clock::since_1970().as_secs()).unwrap_or(i64::MAX);
    let mut representation = chosen.representation(here);
    if let Some(essence) = content_type {
        representation.content_type = ContentType { essence, charset: None };
        representation.prepared = None;
    }
    let expires = &here.backend.settings().files.expires;
    if !expires.is_empty() {
        representation.expiry = first(expires, transaction).and_then(|(_, expires)| {
            let offset = telemetry::local_offset(now);
            expires.expiry(now, representation.modified, i64::from(offset))
        });
    }
    let Transaction { request, response, .. } = transaction;
    let plan = respond(request, &representation, now, || here.worker.random(), response);
    body(here, &chosen.tagged.file, plan)
}

/// The bytes that follow the head.
fn body<'a>(here: Here<'a>, file: &OpenFile, plan: BodyPlan) -> (BodyLength, AnswerBody<'a>) {
    let span = match plan {
        BodyPlan::Nothing => return (BodyLength::None, AnswerBody::Stored(StoredBody::new(Arc::default()))),
        BodyPlan::Whole => Span { start: 0, end: file.facts.length },
        BodyPlan::Part(span) => span,
        BodyPlan::Parts(parts) => {
            let body = FileBody::new(here.worker, &here.files.threads, file.clone(), parts.pieces);
            return (BodyLength::Exact(parts.length), AnswerBody::File(Box::new(body)));
        }
    };
    let body = match &file.content {
        Content::Memory(bytes) => AnswerBody::Stored(StoredBody::part(bytes.clone(), span.into())),
        Content::Descriptor(_) => {
            let body = FileBody::new(here.worker, &here.files.threads, file.clone(), [Piece::File(span)]);
            AnswerBody::File(Box::new(body))
        }
    };
    (BodyLength::Exact(span.len()), body)
}
