//! What seldom changes: names, addresses, limits. The page gets it once, and again when it has changed.

use serde::Serialize;

use crate::stats::{
    row::{Selection, server_shown},
    view::{ProxyView, ServerView, Snapshot},
};

#[derive(Debug, Serialize)]
struct Proxy<'a> {
    id: u32,
    name: &'a str,
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<Front>,
    #[serde(skip_serializing_if = "Option::is_none")]
    back: Option<Back>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<Server<'a>>,
}

#[derive(Debug, Serialize)]
struct Front {
    limit: u32,
    listeners: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Back {
    limit: u32,
    algorithm: &'static str,
}

#[derive(Debug, Serialize)]
struct Server<'a> {
    id: u32,
    name: &'a str,
    /// Where it is, behind its host's name if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    backup: bool,
}

/// The shape as JSON, and a name that changes with it.
pub(super) fn shape(snapshot: &Snapshot, selection: Selection) -> (String, String) {
    let proxies: Vec<_> = snapshot.proxies.iter().map(|proxy| proxy_of(proxy, selection)).collect();
    let text = serde_json::to_string(&proxies).unwrap_or_default();
    let name = super::super::assets::fingerprint(text.bytes());
    (text, name)
}

fn proxy_of(proxy: &ProxyView, selection: Selection) -> Proxy<'_> {
    let listeners = || proxy.listeners.iter().filter_map(|listener| listener.place.shown()).collect();
    Proxy {
        id: proxy.id,
        name: &proxy.name,
        mode: proxy.mode(),
        description: proxy.description.as_deref(),
        front: proxy.frontend.as_ref().map(|front| Front { limit: front.sessions_limit, listeners: listeners() }),
        back: proxy.backend.as_ref().map(|back| Back { limit: back.sessions_limit, algorithm: back.algorithm }),
        servers: proxy.servers.iter().filter(|view| server_shown(view, selection)).map(server_of).collect(),
    }
}

fn server_of(server: &ServerView) -> Server<'_> {
    let address = server.place.shown();
    let address = match (&server.host_name, address) {
        (Some(host), Some(address)) => Some(format!("{host} {address}")),
        (Some(host), None) => Some(host.clone()),
        (None, address) => address,
    };
    Server { id: server.farm.number, name: &server.farm.name, address, backup: server.farm.backup }
}
