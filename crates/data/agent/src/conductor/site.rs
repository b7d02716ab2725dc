//! Where REST and the page are.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::Arc,
};

use crate::{
    error::AgentError,
    http::{self, Desk},
    names,
    options::{Api, Options},
    processes,
};

/// How far above the proxy's port the first port is that is tried.
const ABOVE: u16 = 1_000;
/// How many ports are tried.
const TRIED: u16 = 200;

/// Begins to serve them, if they are wanted. Says where.
///
/// # Errors
///
/// Nobody can listen where they were asked for, or the token cannot be read.
pub(super) fn open(options: &Options, desk: Arc<Desk>) -> Result<Option<SocketAddr>, AgentError> {
    let listener = match options.api {
        Api::Off => return Ok(None),
        Api::At(address) => TcpListener::bind(address).map_err(|error| {
            AgentError::Other(format!("REST and the page cannot be served at {address}: {error} (--api)"))
        })?,
        Api::Usual => usual(options)?,
    };
    let failed = |error| AgentError::Other(format!("REST and the page cannot be served: {error}"));
    let address = listener.local_addr().map_err(failed)?;
    http::listen_tcp(listener, desk).map_err(failed)?;
    Ok(Some(address))
}

/// The next start finds the place again, now that there is a cluster; if it is not written, they are somewhere near.
pub(super) fn remember(options: &Options, site: Option<SocketAddr>) {
    if let Some(address) = site {
        let _ = processes::replace(&options.folder.api_address(), format!("{address}\n").as_bytes());
    }
}

/// Where others are told that they are: by the host's name, if it was given one.
pub(super) fn told(options: &Options, address: SocketAddr) -> String {
    let is_own = address.ip().is_unspecified() || names::resolved(&options.host).ok() == Some(address.ip());
    if is_own && !options.etcd.is_empty() {
        return match options.host.parse() {
            Ok(host) => SocketAddr::new(host, address.port()).to_string(),
            Err(_) => format!("{}:{}", options.host, address.port()),
        };
    }
    address.to_string()
}

/// Where they were, or at a free port near the proxy's.
fn usual(options: &Options) -> Result<TcpListener, AgentError> {
    let remembered = fs::read_to_string(options.folder.api_address()).ok();
    let remembered = remembered.and_then(|text| text.trim().parse::<SocketAddr>().ok());
    let own = names::resolved(&options.host).ok();
    // Where this host was before, others do not look for it.
    let remembered = remembered.filter(|address| options.etcd.is_empty() || Some(address.ip()) == own);
    // Agents of other hosts ask there too.
    let is_wanted = |host: &IpAddr| host.is_loopback() || !options.etcd.is_empty();
    let host = own.filter(is_wanted).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let first = options.port.checked_add(ABOVE).unwrap_or(options.port / 2);
    let near = (0..TRIED).filter_map(|above| Some(SocketAddr::new(host, first.checked_add(above)?)));
    let mut listeners = remembered.into_iter().chain(near).filter_map(|address| TcpListener::bind(address).ok());
    listeners.next().ok_or_else(|| {
        AgentError::Other(format!(
            "REST and the page find no free port from {first} on at {host}: --api ADDRESS:PORT names one, --api off does without them"
        ))
    })
}
