//! Whether a response may be stored (RFC 9111 section 3).

use http::{HeaderId, Headers, Method};

use super::{
    directives::{RequestDirectives, ResponseDirectives},
    freshness::is_heuristically_cacheable,
};

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// Only responses to GET are kept, and what HEAD tells of them.
    Method,
    /// It is not a final response, or one that only means something to its request (206 without a range, 304).
    Status,
    /// The request says `no-store`.
    RequestNoStore,
    /// The response says `no-store`.
    NoStore,
    /// It is for one user alone.
    Private,
    /// The request had `Authorization`, and nothing allows to keep the answer for others (section 3.5).
    Authorization,
    /// It says `must-understand`, and its status is not understood here (section 5.2.2.3).
    NotUnderstood,
    /// `Vary: *`: no request is like another one.
    VaryAny,
    /// Nothing says that it may be kept: no lifetime, no status that may be kept without one.
    Nothing,
}

impl NotStored {
    /// In words, for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Method => "only responses to GET are kept",
            Self::Status => "a response of this status is not kept",
            Self::RequestNoStore => "the request says no-store",
            Self::NoStore => "the response says no-store",
            Self::Private => "the response is private",
            Self::Authorization => {
                "the request had Authorization, and the response does not say that others may have it"
            }
            Self::NotUnderstood => "the response says must-understand, and its status is not known here",
            Self::VaryAny => "the response says Vary: *",
            Self::Nothing => "nothing says how long the response is fresh",
        }
    }
}

/// Whether a status is understood in the sense of `must-understand`: it is known what a cache has to mind about it.
#[must_use]
pub const fn is_understood(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 302 | 303 | 307 | 308 | 404 | 405 | 410 | 414 | 451 | 500..=504)
}

/// Whether a response to this request may be stored by a shared cache.
///
/// # Errors
/// Why not.
pub fn may_store(
    method: Method,
    request: &Headers,
    status: u16,
    response: &Headers,
    directives: &ResponseDirectives,
) -> Result<(), NotStored> {
    if method != Method::Get {
        return Err(NotStored::Method);
    }
    // Parts of a response are put together by who knows the whole. What failed for a range, a condition or an expectation of this request
    // says nothing about a request without (RFC 9110 sections 15.5.13, 15.5.17 and 15.5.18).
    if !(200..=599).contains(&status) || matches!(status, 206 | 304 | 412 | 416 | 417) {
        return Err(NotStored::Status);
    }
    if RequestDirectives::of(request).no_store {
        return Err(NotStored::RequestNoStore);
    }
    if directives.must_understand {
        if !is_understood(status) {
            return Err(NotStored::NotUnderstood);
        }
    } else if directives.no_store {
        return Err(NotStored::NoStore);
    }
    if directives.private.is_whole() {
        return Err(NotStored::Private);
    }
    let shared = directives.public || directives.must_revalidate || directives.s_maxage.is_some();
    if request.contains_known(HeaderId::Authorization) && !shared {
        return Err(NotStored::Authorization);
    }
    if super::vary::names(response).is_none() {
        return Err(NotStored::VaryAny);
    }
    let says = directives.public
        || directives.max_age.is_some()
        || directives.s_maxage.is_some()
        || response.contains_known(HeaderId::Expires)
        || is_heuristically_cacheable(status);
    if says { Ok(()) } else { Err(NotStored::Nothing) }
}
