//! A client's socket.

use std::io::{self, Read as _, Write as _};

use commands::SessionId;

use crate::listener::Stream;

/// How much room for output a client keeps when all of it was sent.
const ROOM_KEPT: usize = 32 * 1024;

/// Who has sent so many commands at once...
const PIPELINE_MIN: u64 = 4;
/// ... so often in a row sends pipelines.
const PIPELINES_MIN: u8 = 8;

/// A socket with what is known of its readiness.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    /// Whose it is.
    pub session: SessionId,
    /// The socket took no more: it will be reported writable.
    pub write_blocked: bool,
    /// Its replies wait until the log is safe; what it sends meanwhile is not read.
    pub holds: Holds,
    /// The socket was readable while it was held.
    pub read_pending: bool,
    /// The client sends no more than what is there. The kernel tells that once, maybe together with the last bytes.
    pub sends_no_more: bool,
    /// All it sent was read: the connection is closed when the replies have been sent.
    pub is_read: bool,
    /// It has sent something.
    is_heard: bool,
    /// How many of its last reads brought several commands.
    pipelines: u8,
}

/// For how many offsets of the log a client's replies wait: until the last of them is safe. Who goes on over turns has replies that
/// wait for a later one while earlier ones wait still.
#[derive(Debug, Default)]
pub struct Holds(u32);

impl Holds {
    /// Its replies wait for another offset.
    pub fn add(&mut self) {
        self.0 += 1;
    }

    /// One of these offsets is safe. Returns whether all are.
    pub fn release(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 == 0
    }

    /// Whether its replies wait.
    pub fn any(&self) -> bool {
        self.0 > 0
    }
}

/// What reading came to.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// There may be more.
    More,
    /// All that was there has been read.
    Drained,
    /// The client has closed, or the connection is broken.
    Closed,
}

impl Connection {
    /// A new one.
    pub fn new(stream: Stream, session: SessionId) -> Self {
        Self {
            stream,
            session,
            write_blocked: false,
            holds: Holds::default(),
            read_pending: false,
            sends_no_more: false,
            is_read: false,
            is_heard: false,
            pipelines: 0,
        }
    }

    /// A read brought so many commands.
    pub fn note_commands(&mut self, count: u64) {
        self.pipelines = if count >= PIPELINE_MIN { self.pipelines.saturating_add(1) } else { 0 };
    }

    /// Whether it sends many commands at once.
    pub fn is_pipeline(&self) -> bool {
        self.pipelines >= PIPELINES_MIN
    }

    /// Whether nothing is known of the socket that whoever has it next would not be told again.
    pub fn is_movable(&self) -> bool {
        let is_known_alone = self.write_blocked || self.sends_no_more || self.is_read || self.stream.may_read();
        !self.holds.any() && !is_known_alone
    }

    /// The socket, for another thread.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// The socket.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Whether the socket has something to send before more can be read.
    pub fn has_unsent(&mut self) -> bool {
        self.stream.has_unsent()
    }

    /// Reads once, at the end of `into`. A read that does not fill `scratch` has taken all there was, so the next event is
    /// waited for without asking the kernel again.
    pub fn read(&mut self, scratch: &mut [u8], into: &mut Vec<u8>) -> ReadOutcome {
        loop {
            match self.stream.read(scratch) {
                Ok(0) => return ReadOutcome::Closed,
                Ok(len) => {
                    let is_first = !std::mem::replace(&mut self.is_heard, true);
                    if is_first && self.stream.is_strange(scratch.get(..len).unwrap_or_default()) {
                        return ReadOutcome::Closed;
                    }
                    into.extend_from_slice(scratch.get(..len).unwrap_or_default());
                    let is_all = len < scratch.len() && !self.stream.may_read();
                    return if is_all { ReadOutcome::Drained } else { ReadOutcome::More };
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return ReadOutcome::Drained,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return ReadOutcome::Closed,
            }
        }
    }

    /// Writes as much as the socket takes. Returns false if the connection is broken.
    pub fn write(&mut self, output: &mut Vec<u8>) -> bool {
        let mut sent = 0;
        while let Some(rest) = output.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return false,
                Ok(len) => sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.write_blocked = true;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        if sent == output.len() && output.capacity() > ROOM_KEPT {
            // Room that stayed would count as memory in use, and keys would go for what is told of keys that went.
            *output = Vec::new();
        } else if sent == output.len() {
            output.clear();
        } else {
            output.drain(..sent);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_wait_for_the_last_offset() {
        let mut holds = Holds::default();
        assert!(!holds.any());
        holds.add();
        holds.add();
        assert!(!holds.release() && holds.any());
        assert!(holds.release() && !holds.any());
    }
}
