//! The statistics page and the Prometheus endpoint of the edge that runs.

use haproxycfg::model::Stats;
use live::LiveProxy;

use super::{
    RunningEdge,
    control::Control as _,
    live_control::LiveControl,
    page::{self, PageReply, PageRequest, PageSettings},
    render::prometheus::{self, Filter},
    view::Detail,
};

/// Answers a request for the statistics page of `proxy`, from someone who has been let in ([`Stats::auth`] and
/// [`Stats::rules`] are the caller's) and who may or may not change things ([`Stats::admin`]).
#[must_use]
pub fn page(
    edge: &RunningEdge,
    proxy: &LiveProxy,
    stats: &Stats,
    request: &PageRequest<'_>,
    may_admin: bool,
) -> PageReply {
    let settings = PageSettings {
        uri: &stats.uri,
        users: Vec::new(),
        // Whoever calls has asked for an account.
        realm: None,
        refresh: stats.refresh,
        hide_version: stats.hide_version,
        node: stats.show_node.as_deref(),
        description: stats.show_desc.as_deref(),
        legends: stats.show_legends,
        modules: stats.show_modules,
        scope: stats.scope.iter().map(String::as_str).collect(),
        proxy: &proxy.settings().name,
        may_admin,
    };
    page::respond(&LiveControl::new(edge), edge.sampler.history(), &settings, request)
}

/// Answers a request for the Prometheus endpoint.
#[must_use]
pub fn metrics(edge: &RunningEdge, target: &[u8]) -> PageReply {
    let query = target.iter().position(|byte| *byte == b'?').and_then(|at| target.get(at + 1..)).unwrap_or_default();
    let Ok(filter) = Filter::parse(query) else {
        let headers = vec![("content-type", "text/plain".to_owned())];
        return PageReply { status: 400, headers, body: b"Unknown scope or broken query.\n".to_vec() };
    };
    let snapshot = LiveControl::new(edge).snapshot(&|_| true, Detail::default());
    PageReply {
        status: 200,
        headers: vec![("cache-control", "no-cache".to_owned()), ("content-type", prometheus::CONTENT_TYPE.to_owned())],
        body: prometheus::prometheus(&snapshot, filter).into_bytes(),
    }
}
