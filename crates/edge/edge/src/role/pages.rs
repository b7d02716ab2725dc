//! The pages that this process answers itself, as connections ask for them.

use std::sync::Arc;

use admin::stats::{RunningEdge, page, serve};
use haproxycfg::model::Stats;
use live::LiveProxy;
use proxy::{PageReply, PageRequest, Pages};

/// Those of the edge that runs.
pub(super) struct OwnPages(pub(super) Arc<RunningEdge>);

fn reply(made: page::PageReply) -> PageReply {
    let page::PageReply { status, headers, body } = made;
    PageReply { status, headers, body }
}

impl Pages for OwnPages {
    fn is_statistics(&self, uri: &str, target: &[u8]) -> bool {
        page::matches(uri, target)
    }

    fn is_own_request(&self, uri: &str, target: &[u8]) -> bool {
        page::is_own_request(uri, target)
    }

    fn statistics(&self, proxy: &LiveProxy, stats: &Stats, request: &PageRequest<'_>, may_admin: bool) -> PageReply {
        let PageRequest { method, target, fetch_site, body } = *request;
        // Whoever asks has been let in.
        let request = page::PageRequest { method, target, authorization: None, fetch_site, body };
        reply(serve::page(&self.0, proxy, stats, &request, may_admin))
    }

    fn metrics(&self, target: &[u8]) -> PageReply {
        reply(serve::metrics(&self.0, target))
    }
}
