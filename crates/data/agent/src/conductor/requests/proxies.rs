//! Proxies.

use cluster::{Address, model::Proxy};
use serde_json::{Value, json};

use super::{Conductor, Handler, PLAN, Problem, Route, address, address_of, change_or_plan};
use crate::{
    api::{Input, Kind, Parameter},
    conductor::status,
};

const TAG: &str = "proxies";
const PROXY: Parameter = Parameter::required("proxy", Kind::Text, "The proxy, as host:port.");

pub(super) const ROUTES: &[Route] = &[
    Route::read("/api/proxies", Handler::Answer(all)).named(TAG, "proxies", "All proxies."),
    Route::change("POST", "/api/proxies", Handler::Answer(add))
        .named(TAG, "addProxy", "Adds a proxy, which the agent starts.")
        .takes(&[
            Parameter::optional("address", Kind::Text, "The address for clients; without it, a free port."),
            PLAN,
        ]),
    Route::change("DELETE", "/api/proxies/{proxy}", Handler::Answer(remove))
        .named(TAG, "removeProxy", "Removes a proxy. Its clients lose their connections.")
        .takes(&[PROXY, PLAN]),
    Route::change("POST", "/api/proxies/{proxy}/online", Handler::Answer(online))
        .named(TAG, "proxyOnline", "Starts a proxy: it accepts clients.")
        .takes(&[PROXY, PLAN]),
    Route::change("POST", "/api/proxies/{proxy}/offline", Handler::Answer(offline))
        .named(TAG, "proxyOffline", "Stops a proxy until it is set online again. Its clients lose their connections.")
        .takes(&[PROXY, PLAN]),
];

fn all(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(status::proxies(conductor))
}

fn add(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let wanted = input.text("address").map(address).transpose()?;
    begin_proxy(conductor, wanted, input.flag("plan"))
}

/// Adds a proxy.
pub(super) fn begin_proxy(conductor: &mut Conductor, wanted: Option<Address>, is_plan: bool) -> Result<Value, Problem> {
    let proxy_at = |address: Address, host: String| Proxy { address, host, is_offline: false };
    let (address, host) = match wanted {
        Some(address) => {
            // What it is already says more than that its port is taken.
            conductor.records.cluster.with_proxy(proxy_at(address.clone(), String::new()))?;
            let host = conductor.host_at(&address)?;
            if host == conductor.options.host_name() {
                conductor.may_start_at(&address)?;
            }
            conductor.must_be_up(&host)?;
            (address, host)
        }
        None => {
            let cluster = &conductor.records.cluster;
            let count = |host: &&str| cluster.proxies.iter().filter(|proxy| proxy.host == *host).count();
            let hosts = cluster.voters().into_iter().filter(|host| conductor.is_host_up(host));
            let host = hosts.min_by_key(count).unwrap_or_default().to_owned();
            (conductor.free_address(&host, &[])?, host)
        }
    };
    let next = conductor.records.cluster.with_proxy(proxy_at(address.clone(), host))?;
    let what = format!("proxy {address} is added");
    change_or_plan(conductor, next, is_plan, json!({ "what": what, "proxy": address.to_string() }))
}

fn remove(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    end_proxy(conductor, &address_of(input, "proxy")?, input.flag("plan"))
}

/// Removes a proxy.
pub(super) fn end_proxy(conductor: &mut Conductor, proxy: &Address, is_plan: bool) -> Result<Value, Problem> {
    let next = conductor.records.cluster.without_proxy(proxy)?;
    let what = format!("proxy {proxy} is removed{}", who_is_left(&next));
    change_or_plan(conductor, next, is_plan, json!({ "what": what, "proxy": proxy.to_string() }))
}

fn online(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    set_offline(conductor, &address_of(input, "proxy")?, false, input.flag("plan"))
}

fn offline(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    set_offline(conductor, &address_of(input, "proxy")?, true, input.flag("plan"))
}

/// Has a proxy run, or not.
pub(super) fn set_offline(
    conductor: &mut Conductor,
    proxy: &Address,
    is_offline: bool,
    is_plan: bool,
) -> Result<Value, Problem> {
    let next = conductor.records.cluster.with_proxy_offline(proxy, is_offline)?;
    let is_so = conductor.records.cluster.proxy(proxy).is_some_and(|proxy| proxy.is_offline == is_offline);
    let word = if is_offline { "offline" } else { "online" };
    if is_so {
        return Err(Problem::Refused(format!("proxy {proxy} is {word} already")));
    }
    let what = format!("proxy {proxy} is set {word}{}", if is_offline { who_is_left(&next) } else { "" });
    change_or_plan(conductor, next, is_plan, json!({ "what": what, "proxy": proxy.to_string() }))
}

/// A warning where plain clients have nowhere to connect any more.
fn who_is_left(next: &cluster::Cluster) -> &'static str {
    if next.proxies.iter().any(|proxy| !proxy.is_offline) { "" } else { ": no proxy takes plain clients then" }
}
