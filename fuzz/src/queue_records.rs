//! A record of a queue that holds anything.

use queue::{Header, Message, State};

/// Bytes are read as each kind of record. What is understood can be written, and is read as the same.
pub fn record(data: &[u8]) {
    queue::decode_anything(data);
    if let Ok(header) = Header::decode(data) {
        assert_eq!(Header::decode(&header.encode()), Ok(header.clone()));
        // Sums of what it says are no overflow.
        header.len();
        header.next_due(u64::MAX);
        header.has_room(u64::MAX, u64::MAX);
    }
    if let Ok(message) = Message::decode(data) {
        assert!(message.size() <= data.len() as u64);
    }
    let _ = State::decode(data);
}
