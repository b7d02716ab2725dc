//! Frames on the wire: RFC 9113 sections 4 and 6.

use crate::error::ErrorCode;

/// Bytes of a frame's header.
pub const HEADER_LEN: usize = 9;

/// The largest frame that everybody takes, and the smallest bound that a side may set.
pub const FRAME_BYTES_MIN: u32 = 16_384;

/// What a client begins with (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames.
pub mod kind {
    /// A piece of a body.
    pub const DATA: u8 = 0;
    /// The beginning of a header block.
    pub const HEADERS: u8 = 1;
    /// Priorities, which are not used any more.
    pub const PRIORITY: u8 = 2;
    /// The end of a stream before its time.
    pub const RST_STREAM: u8 = 3;
    /// Settings, or their acknowledgement.
    pub const SETTINGS: u8 = 4;
    /// A request that a server makes up.
    pub const PUSH_PROMISE: u8 = 5;
    /// A sign of life.
    pub const PING: u8 = 6;
    /// No more streams.
    pub const GOAWAY: u8 = 7;
    /// Room for more data.
    pub const WINDOW_UPDATE: u8 = 8;
    /// More of a header block.
    pub const CONTINUATION: u8 = 9;
    /// How urgent a stream is (RFC 9218 section 7.1).
    pub const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of frames.
pub mod flag {
    /// Of SETTINGS and PING: an answer.
    pub const ACK: u8 = 1;
    /// Of DATA and HEADERS: the last of its side of the stream.
    pub const END_STREAM: u8 = 1;
    /// Of HEADERS and CONTINUATION: the header block is whole.
    pub const END_HEADERS: u8 = 4;
    /// Of DATA and HEADERS: padded.
    pub const PADDED: u8 = 8;
    /// Of HEADERS: with priority.
    pub const PRIORITY: u8 = 32;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of its payload.
    pub length: u32,
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0 is the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads one.
    #[must_use]
    #[inline]
    pub fn read(bytes: [u8; HEADER_LEN]) -> Self {
        let [a, b, c, kind, flags, s0, s1, s2, s3] = bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff,
        }
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn bytes(self) -> [u8; HEADER_LEN] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s0, s1, s2, s3]
    }

    /// Whether it has this flag.
    #[must_use]
    #[inline]
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Appends it.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }
}

/// Appends a RST_STREAM.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    FrameHeader { length: 4, kind: kind::RST_STREAM, flags: 0, stream }.write(out);
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends a WINDOW_UPDATE.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    FrameHeader { length: 4, kind: kind::WINDOW_UPDATE, flags: 0, stream }.write(out);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Appends a PING.
pub fn write_ping(out: &mut Vec<u8>, flags: u8, data: [u8; 8]) {
    FrameHeader { length: 8, kind: kind::PING, flags, stream: 0 }.write(out);
    out.extend_from_slice(&data);
}

/// Appends a GOAWAY.
pub fn write_goaway(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode) {
    FrameHeader { length: 8, kind: kind::GOAWAY, flags: 0, stream: 0 }.write(out);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends SETTINGS.
pub fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let length = u32::try_from(settings.len() * 6).unwrap_or(0);
    FrameHeader { length, kind: kind::SETTINGS, flags: 0, stream: 0 }.write(out);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of SETTINGS.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    FrameHeader { length: 0, kind: kind::SETTINGS, flags: flag::ACK, stream: 0 }.write(out);
}

/// Appends the frames of a header block, which begins at `start` of `out` and was written with room for one frame's header before
/// it; the block is cut where the other side takes no larger frames.
pub fn finish_header_block(out: &mut Vec<u8>, start: usize, stream: u32, flags: u8, frame_bytes_max: usize) {
    let block = start + HEADER_LEN;
    let length = out.len().saturating_sub(block);
    let set = |out: &mut Vec<u8>, at: usize, header: FrameHeader| {
        if let Some(place) = out.get_mut(at..at + HEADER_LEN) {
            place.copy_from_slice(&header.bytes());
        }
    };
    let in_frame = |length: usize| u32::try_from(length).unwrap_or(0);
    if length <= frame_bytes_max {
        let header =
            FrameHeader { length: in_frame(length), kind: kind::HEADERS, flags: flags | flag::END_HEADERS, stream };
        return set(out, start, header);
    }
    // Rare: a head of more than 16 KiB.
    let rest = out.split_off(block + frame_bytes_max);
    set(out, start, FrameHeader { length: in_frame(frame_bytes_max), kind: kind::HEADERS, flags, stream });
    let mut pieces = rest.chunks(frame_bytes_max).peekable();
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() { flag::END_HEADERS } else { 0 };
        FrameHeader { length: in_frame(piece.len()), kind: kind::CONTINUATION, flags, stream }.write(out);
        out.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_were_written() {
        let header = FrameHeader { length: 0x0001_0203, kind: kind::HEADERS, flags: flag::PADDED, stream: 0x7fff_fffe };
        assert_eq!(FrameHeader::read(header.bytes()), header);
        assert_eq!(header.bytes(), [1, 2, 3, 1, 8, 0x7f, 0xff, 0xff, 0xfe]);
        assert_eq!(
            FrameHeader::read([0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]).stream,
            0x7fff_ffff,
            "one bit is reserved"
        );
    }

    #[test]
    fn long_header_blocks_are_cut() {
        for (length, expected) in
            [(5, vec![(1, 5, 5)]), (10, vec![(1, 5, 10)]), (25, vec![(1, 1, 10), (9, 0, 10), (9, 4, 5)])]
        {
            let mut out = b"before".to_vec();
            out.extend_from_slice(&[0; HEADER_LEN]);
            out.extend((0..length).map(|byte| byte as u8));
            finish_header_block(&mut out, 6, 3, flag::END_STREAM, 10);
            let mut rest = &out[6..];
            let mut frames = Vec::new();
            let mut block = Vec::new();
            while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
                let header = FrameHeader::read(*header);
                let (payload, after) = after.split_at(header.length as usize);
                frames.push((header.kind, header.flags, payload.len()));
                block.extend_from_slice(payload);
                rest = after;
            }
            assert_eq!(frames, expected);
            assert_eq!(block, (0..length).map(|byte| byte as u8).collect::<Vec<_>>());
        }
    }
}
