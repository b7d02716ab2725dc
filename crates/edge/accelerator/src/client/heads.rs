//! What is written into heads on their way, whatever the program says.

use std::sync::Arc;

use cache::object::Object;
use http::HeaderId;
use telemetry::vsl::VslTag;

use super::{Client, seconds_of};
use crate::{
    common::record_unset,
    log::REQ,
    numbers::{self, ADDRESS_LEN_MAX},
};

impl Client {
    /// `X-Forwarded-For`: the client's address behind what is there.
    pub(super) fn forward_address(&mut self) {
        let Some(client) = self.host.common.connection.client else { return };
        let headers = &mut self.host.request.headers;
        let mut room = [0; ADDRESS_LEN_MAX];
        let address = numbers::address(client.ip(), &mut room);
        let mut addresses = headers.all_known(HeaderId::XForwardedFor).collect::<Vec<_>>().join(&b", "[..]);
        if !addresses.is_empty() {
            addresses.extend_from_slice(b", ");
        }
        let log = &mut self.host.common.log;
        record_unset(headers, b"x-forwarded-for", (log, REQ));
        match addresses.is_empty() {
            true => log.field(VslTag::ReqHeader, b"X-Forwarded-For", address),
            false => log.pieces(VslTag::ReqHeader, &[b"X-Forwarded-For: ", &addresses, address]),
        }
        headers.set_named(HeaderId::XForwardedFor, b"X-Forwarded-For", &[&addresses, address]);
    }

    /// Fields that say where a response comes from.
    pub(super) fn head_of_delivery(&mut self, object: Option<&Arc<Object>>, now: f64) {
        let xid = self.host.xid;
        let is_hit = self.is_hit;
        let headers = &mut self.host.response.headers;
        let (mut room, mut other_room) = ([0; 20], [0; 20]);
        let own = numbers::decimal(xid, &mut room);
        match object.filter(|_| is_hit).map(|object| object.xid()).or(self.passed_xid) {
            Some(number) => {
                let of_object = numbers::decimal(number, &mut other_room);
                headers.set_named(HeaderId::Other, b"X-Varnish", &[own, b" ", of_object]);
            }
            None => headers.set_named(HeaderId::Other, b"X-Varnish", &[own]),
        }
        let age = object.map_or(0, |object| seconds_of(object.age(now)));
        headers.set_named(HeaderId::Age, b"Age", &[numbers::decimal(age, &mut room)]);
        let via: &[u8] = &self.loaded.via;
        let before: Vec<u8> = headers.all_known(HeaderId::Via).collect::<Vec<_>>().join(&b", "[..]);
        let comma: &[u8] = if before.is_empty() { b"" } else { b", " };
        headers.set_named(HeaderId::Via, b"Via", &[&before, comma, via]);
    }
}
