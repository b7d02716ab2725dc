//! What a page includes: requests of their own, made of the page's.

use std::{rc::Rc, sync::Arc};

use cache::esi::{Include, Target};
use http::RequestHead;

use super::{Client, Numbers, host::Top};
use crate::{common::Connection, loaded::Loaded, log::LogSink};

/// Fields of a page's request that are not for what it includes: they are about the page's body, or its own.
const NOT_INCLUDED: [&[u8]; 5] =
    [b"if-modified-since", b"if-none-match", b"range", b"accept-encoding", b"content-length"];

/// How what a page includes is asked for.
#[derive(Clone)]
pub struct Includes {
    loaded: Arc<Loaded>,
    /// The request for the page, as it came.
    original: RequestHead,
    connection: Connection,
    /// The request that the client has made.
    top: Arc<Top>,
    /// How many pages the page itself is included in.
    level: u32,
    /// Whether the page is delivered in gzip.
    is_gzip: bool,
    numbers: Numbers,
    /// The number of the page's request.
    xid: u64,
    sink: Option<Rc<LogSink>>,
}

impl std::fmt::Debug for Includes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Includes").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Includes {
    pub(super) fn of(client: &Client, is_gzip: bool) -> Self {
        let host = &client.host;
        let top =
            host.top.clone().unwrap_or_else(|| Arc::new(Top { request: host.request.clone(), started: host.started }));
        Self {
            loaded: Arc::clone(&client.loaded),
            original: host.received.clone().unwrap_or_else(|| host.request.clone()),
            connection: host.common.connection.clone(),
            top,
            level: host.esi_level,
            is_gzip,
            numbers: Rc::clone(&client.next_xid),
            xid: host.xid,
            sink: host.common.log.sink().cloned(),
        }
    }

    /// How many pages the page itself is included in.
    #[must_use]
    pub fn level(&self) -> u32 {
        self.level
    }

    /// How many pages one may be included in (`max_esi_depth`).
    #[must_use]
    pub fn level_max(&self) -> u32 {
        self.loaded.settings.max_esi_depth
    }

    /// Whether a page ends where this fails.
    #[must_use]
    pub fn needs(&self, include: &Include) -> bool {
        self.loaded.settings.esi.heeds_onerror && !include.continues_on_error
    }

    /// A request for what the page includes.
    #[must_use]
    pub fn ask_for(&self, target: &Target, now: f64) -> Client {
        let mut request = self.original.clone();
        request.set_method(b"GET");
        request.forget_body();
        request.set_target(&target.url);
        request.set_version(http::Version::Http11);
        let headers = &mut request.headers;
        headers.retain(|name, _| !NOT_INCLUDED.iter().any(|known| known.eq_ignore_ascii_case(name)));
        if let Some(host) = &target.host {
            headers.remove(b"host");
            headers.add(b"Host", host);
        }
        if self.is_gzip {
            headers.add(b"Accept-Encoding", b"gzip");
        }
        let numbers = Rc::clone(&self.numbers);
        let mut client = Client::new(&self.loaded, request, self.connection.clone(), now, numbers, false);
        client.log_include(self.sink.as_ref(), self.xid);
        client.host.esi_level = self.level + 1;
        client.host.top = Some(Arc::clone(&self.top));
        client
    }
}
