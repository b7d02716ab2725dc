//! What the other end of replication may send: a master to its replica, and a replica to its master.

use oplog::{Offset, ReplicationId};
use replication::{
    cut::PIECE_LEN,
    master::Upstream,
    parting::Histories,
    replica::{Event, Link, LinkOptions, LinkState, Position},
};

/// A link holds what it is not asked for within bounds, gives the stream as it came and in order, and ends with an error or not at all.
/// The first byte says how much comes at once.
pub fn master(data: &[u8]) {
    // What it says when it is asked for its histories.
    let _ = Histories::in_info(&String::from_utf8_lossy(data));
    let Some((step, data)) = data.split_first() else { return };
    let options = LinkOptions {
        timeout_ms: 1_000_000,
        password: (step & 1 == 1).then(|| b"x".to_vec()),
        ..LinkOptions::default()
    };
    let position = Position { history: ReplicationId::from_random([1; 20]), offset: Offset(10) };
    let mut link = Link::new(options, position, 0);
    link.handle_connected(0);
    let mut at = None;
    let mut snapshot = 0;
    for bytes in data.chunks(usize::from(*step).max(1)) {
        if link.handle_bytes(bytes, 1).is_err() || link.handle_time(2000).is_err() {
            return;
        }
        while let Ok(Some(event)) = link.poll_event() {
            match event {
                Event::Continued(..) => at = Some(Offset(10)),
                Event::FullCopy(position, _) => at = Some(position.offset),
                Event::Snapshot(bytes) => snapshot += bytes.len(),
                Event::SnapshotEnd => {
                    assert_eq!(link.state(), LinkState::Sync);
                    if link.loaded(3).is_err() {
                        return;
                    }
                }
                Event::Piece(piece) => {
                    assert_eq!(Some(piece.offset), at, "no gap");
                    at = Some(piece.end());
                    link.handle_progress(piece.end(), piece.offset, 4);
                }
            }
        }
        while link.poll_transmit().is_some() {}
    }
    assert!(snapshot <= data.len());
    assert!(data.len() < PIECE_LEN || !link.wants_bytes() || link.state() != LinkState::Handshake);
}

/// What a replica says is an acknowledgement, nothing, or the end of its link.
pub fn replica(data: &[u8]) {
    let mut whole = Upstream::default();
    let Ok(expected) = whole.handle_bytes(data) else { return };
    let mut parts = Upstream::default();
    let mut last = None;
    for byte in data {
        let Ok(found) = parts.handle_bytes(&[*byte]) else { return };
        last = found.or(last);
    }
    assert_eq!(last, expected, "however it comes");
}
