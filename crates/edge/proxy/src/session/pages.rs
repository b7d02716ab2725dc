//! What this process answers about itself, as far as a connection has to know: the statistics page and the Prometheus
//! endpoint.

use haproxycfg::model::Stats;
use live::LiveProxy;

/// What a page has to know of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageRequest<'a> {
    /// Method.
    pub method: &'a [u8],
    /// Target as it stands in the request line.
    pub target: &'a [u8],
    /// Value of `Sec-Fetch-Site`.
    pub fetch_site: Option<&'a [u8]>,
    /// The body of a POST; `None` if it did not fit.
    pub body: Option<&'a [u8]>,
}

/// An answer. `Content-Length` and what belongs to the connection are up to the caller, who also leaves the body out after
/// a HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageReply {
    /// Status.
    pub status: u16,
    /// Header fields.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Vec<u8>,
}

/// Makes the pages that this process answers itself.
pub trait Pages {
    /// Whether a request is for the statistics page at this URI.
    fn is_statistics(&self, uri: &str, target: &[u8]) -> bool;

    /// Whether a request for the statistics page comes from the page itself, which asks once a second.
    fn is_own_request(&self, uri: &str, target: &[u8]) -> bool;

    /// Answers a request for the statistics page of `proxy`, from someone who has been let in ([`Stats::auth`] and
    /// [`Stats::rules`] are the caller's) and who may or may not change things ([`Stats::admin`]).
    fn statistics(&self, proxy: &LiveProxy, stats: &Stats, request: &PageRequest<'_>, may_admin: bool) -> PageReply;

    /// Answers a request for the Prometheus endpoint.
    fn metrics(&self, target: &[u8]) -> PageReply;
}

/// There are no pages.
#[cfg(test)]
impl Pages for () {
    fn is_statistics(&self, _uri: &str, _target: &[u8]) -> bool {
        false
    }

    fn is_own_request(&self, _uri: &str, _target: &[u8]) -> bool {
        false
    }

    fn statistics(&self, _: &LiveProxy, _: &Stats, _: &PageRequest<'_>, _may_admin: bool) -> PageReply {
        PageReply { status: 404, headers: Vec::new(), body: Vec::new() }
    }

    fn metrics(&self, _target: &[u8]) -> PageReply {
        PageReply { status: 404, headers: Vec::new(), body: Vec::new() }
    }
}
