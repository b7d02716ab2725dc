//! What is different between the two ends of a connection.

use http::HeaderId;

use super::{Connection, Event};
use crate::{
    calm::Cost,
    error::{ConnectionError, ErrorCode},
    hpack::Indexing,
    streams::Stream,
};

/// One of the two ends: [`Server`](super::server::Server) or [`Client`](super::client::Client).
pub trait Role: Sized {
    /// The head of what the peer sends.
    type Head;

    /// Whether frames on streams that ended long ago are nobody's fault: a peer may go on for a while with what was reset.
    const FORGIVES_LATE_FRAMES: bool;

    /// Whether the peer may say how urgent streams are.
    const GETS_PRIORITIES: bool;

    /// The last stream of the peer's that this side has taken.
    fn last_stream(&self) -> u32;

    /// Whether a stream has not begun.
    fn is_idle(&self, id: u32) -> bool;

    /// Takes a setting of the peer's that only this role knows.
    ///
    /// # Errors
    /// When this role's peer may not have it.
    fn note_setting(&mut self, name: u16, value: u32) -> Result<(), ConnectionError>;

    /// An event that does not come of a frame of its own.
    fn poll_event(&mut self) -> Option<Event>;

    /// Takes a whole header block.
    ///
    /// # Errors
    /// When the connection is over.
    fn take_block(
        connection: &mut Connection<Self>,
        id: u32,
        ends: bool,
        block: &[u8],
        head: &mut Self::Head,
    ) -> Result<Option<Event>, ConnectionError>;

    /// What a stream is reset with that is let go of with `code`.
    fn release_code(stream: &Stream, code: ErrorCode) -> ErrorCode;

    /// Whether the peer may still send what is on its way on a stream that is let go of.
    fn may_end_late(stream: &Stream) -> bool;

    /// What it costs the peer to reset a stream, if anything.
    fn cost_of_reset(stream: &Stream) -> Option<Cost>;

    /// The peer has answered to a PING.
    fn is_acknowledged(connection: &mut Connection<Self>, ping: [u8; 8]);

    /// The peer goes on with this stream and those before it, and with no more.
    fn peer_leaves(connection: &mut Connection<Self>, last: u32);

    /// How a field is sent; `None` if it is not.
    fn indexing(id: HeaderId, value: &[u8]) -> Option<Indexing>;
}
