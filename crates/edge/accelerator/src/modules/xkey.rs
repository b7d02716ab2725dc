//! `xkey` of varnish-modules: objects by the keys that their responses name in the fields `xkey` and `X-HashTwo`.

use http::Headers;
use vcl::modules::FunctionId;

use super::{Arguments, Outcome, count, text_at};
use crate::common::Common;

/// Fields in which a response names its keys.
const FIELDS: [&[u8]; 2] = [b"xkey", b"x-hashtwo"];

/// Does what a function does.
pub(super) fn call<'w>(common: &mut Common, id: FunctionId, arguments: Arguments<'_, 'w>) -> Option<Outcome<'w>> {
    let (cache, now) = (&common.loaded.cache, common.now);
    common.has_banned = true;
    let keys = cache::index::xkeys(text_at(arguments, 0));
    Some(Ok(count(match id {
        FunctionId::XkeyPurge => keys.map(|key| cache.purge_tag(key)).sum(),
        FunctionId::XkeySoftpurge => keys.map(|key| cache.soft_purge_tag(key, now)).sum(),
        _ => return None,
    })))
}

/// The keys that a response names.
pub(crate) fn keys_of(headers: &Headers) -> impl Iterator<Item = &[u8]> {
    FIELDS.into_iter().flat_map(|field| headers.all(field)).flat_map(cache::index::xkeys)
}
