//! HTTP/2 as the streams of a connection know it.

use h2::{ErrorCode, ServerConnection, StreamKey};
use http::{PseudoFields, ResponseHead};

use crate::session::streams::{Machine, Release, Shared};

impl Machine for ServerConnection {
    const VERSION: &'static [u8] = b"HTTP/2.0";

    #[inline]
    fn slot(key: StreamKey) -> usize {
        key.slot()
    }

    #[inline]
    fn is_reset(&self, key: StreamKey) -> bool {
        Self::is_reset(self, key)
    }

    #[inline]
    fn consumed(&mut self, key: StreamKey, count: usize) {
        Self::consumed(self, key, count);
    }

    #[inline]
    fn receive(_: &Shared<Self>, _: StreamKey, _: usize) {
        // All streams come on one socket, from which the connection receives.
    }

    fn release(&mut self, key: StreamKey, why: Release) {
        let code = match why {
            Release::Failed => ErrorCode::INTERNAL_ERROR,
            Release::NotBegun => ErrorCode::REFUSED_STREAM,
        };
        Self::release(self, key, code);
    }

    fn has_room(&self) -> bool {
        self.may_receive()
    }

    fn send_head(&mut self, key: StreamKey, head: &ResponseHead) -> usize {
        Self::send_head(self, key, head, false)
    }

    fn pseudo_fields(&self) -> &PseudoFields {
        Self::pseudo_fields(self)
    }

    fn rest(&mut self) {
        Self::rest(self);
    }
}
