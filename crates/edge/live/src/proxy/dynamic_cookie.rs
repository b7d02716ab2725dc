//! Cookies of servers that have none of their own: made of the server's address and the backend's secret (`cookie ...
//! dynamic`), so that several proxies agree on them.

use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{PoisonError, RwLock},
};

use haproxycfg::model::Cookie;
use net::Target;
use twox_hash::XxHash64;

use crate::{LiveProxy, LiveServer};

/// What commands may change of it.
#[derive(Debug, Default)]
pub struct DynamicCookie(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    enabled: bool,
    key: Option<String>,
}

impl DynamicCookie {
    /// As the configuration says.
    #[must_use]
    pub fn new(cookie: Option<&Cookie>) -> Self {
        let key = cookie.and_then(|cookie| cookie.dynamic_key.clone());
        Self(RwLock::new(State { enabled: key.is_some(), key }))
    }

    /// `enable|disable dynamic-cookie backend`.
    pub fn enable(&self, enabled: bool) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).enabled = enabled;
    }

    /// `set dynamic-cookie-key backend`.
    pub fn set_key(&self, key: String) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).key = Some(key);
    }

    fn value(&self, server: &LiveServer) -> Option<Vec<u8>> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut text = state.key.as_ref().filter(|_| state.enabled)?.as_bytes().to_vec();
        let Target::Inet(address) = server.target() else { return None };
        match address.ip() {
            IpAddr::V4(ip) => text.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => text.extend_from_slice(&ip.octets()),
        }
        text.extend_from_slice(&u32::from(address.port()).to_be_bytes());
        Some(format!("{:016x}", XxHash64::oneshot(0, &text)).into_bytes())
    }
}

impl LiveProxy {
    /// The value of a server in cookies: its own, or one made of its address.
    #[must_use]
    pub fn cookie_of<'a>(&self, server: &'a LiveServer) -> Option<Cow<'a, [u8]>> {
        match &server.config.cookie {
            Some(cookie) => Some(Cow::Borrowed(cookie)),
            None => self.dynamic_cookie.value(server).map(Cow::Owned),
        }
    }
}
