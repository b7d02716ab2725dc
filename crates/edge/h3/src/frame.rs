//! Frames on the wire: RFC 9114 section 7, with the numbers of RFC 9000 section 16.

/// Types of frames.
pub mod kind {
    /// A piece of a body.
    pub const DATA: u64 = 0x0;
    /// A field section.
    pub const HEADERS: u64 = 0x1;
    /// A push that is not wanted.
    pub const CANCEL_PUSH: u64 = 0x3;
    /// Settings.
    pub const SETTINGS: u64 = 0x4;
    /// A request that a server makes up.
    pub const PUSH_PROMISE: u64 = 0x5;
    /// No more requests.
    pub const GOAWAY: u64 = 0x7;
    /// Pushes that are allowed.
    pub const MAX_PUSH_ID: u64 = 0xd;
    /// How urgent a request is (RFC 9218 section 7.2).
    pub const PRIORITY_UPDATE_REQUEST: u64 = 0xf_0700;
    /// How urgent a push is.
    pub const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;

    /// Whether it was a type of HTTP/2's, and must not be sent (RFC 9114 section 7.2.8).
    #[must_use]
    pub fn is_of_http2(kind: u64) -> bool {
        matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// Types of unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).
pub mod stream_kind {
    /// The control stream.
    pub const CONTROL: u64 = 0x0;
    /// A push.
    pub const PUSH: u64 = 0x1;
    /// What an encoder of fields does to its table.
    pub const ENCODER: u64 = 0x2;
    /// What a decoder of fields acknowledges.
    pub const DECODER: u64 = 0x3;
}

/// The largest number.
pub const NUMBER_MAX: u64 = (1 << 62) - 1;

/// Reads a number; what is left behind it. `None` if it is not whole.
#[must_use]
#[inline]
pub fn read_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let length = 1_usize << (first >> 6);
    let (number, rest) = bytes.split_at_checked(length)?;
    let number = number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Some((number & (u64::MAX >> (66 - 8 * length as u32).min(58)), rest))
}

/// Appends a number.
#[inline]
pub fn write_number(out: &mut Vec<u8>, number: u64) {
    match number {
        0..0x40 => out.push(number as u8),
        0x40..0x4000 => out.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(number as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(number.min(NUMBER_MAX) | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Its type.
    pub kind: u64,
    /// Bytes of its payload.
    pub length: u64,
}

impl FrameHeader {
    /// Appends it.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        write_number(out, self.kind);
        write_number(out, self.length);
    }

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (kind, rest) = read_number(bytes)?;
        let (length, rest) = read_number(rest)?;
        Some((Self { kind, length }, rest))
    }
}

/// What there is of the input.
#[derive(Debug)]
pub struct Input<'i, 'u> {
    /// All of it.
    pub bytes: &'i [u8],
    /// How much of it has been used.
    pub used: &'u mut usize,
}

impl<'i> Input<'i, '_> {
    /// What has not been used.
    #[must_use]
    #[inline]
    pub fn rest(&self) -> &'i [u8] {
        self.bytes.get(*self.used..).unwrap_or_default()
    }

    /// Up to so many bytes.
    #[inline]
    pub fn take(&mut self, most: u64) -> &'i [u8] {
        let rest = self.rest();
        let count = rest.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        *self.used += count;
        rest.get(..count).unwrap_or_default()
    }

    /// All that is left.
    pub fn take_all(&mut self) -> &'i [u8] {
        self.take(u64::MAX)
    }
}

/// What has come of a frame's header, or of another number or two.
#[derive(Clone, Copy, Debug, Default)]
pub struct Partial {
    bytes: [u8; 16],
    length: u8,
}

impl Partial {
    /// Whether nothing has come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Reads a frame's header, once it is whole.
    #[inline]
    pub fn frame_header(&mut self, input: &mut Input<'_, '_>) -> Option<FrameHeader> {
        self.read(input, FrameHeader::read)
    }

    /// Reads a number, once it is whole.
    pub fn number(&mut self, input: &mut Input<'_, '_>) -> Option<u64> {
        self.read(input, read_number)
    }

    #[inline]
    fn read<T>(&mut self, input: &mut Input<'_, '_>, read: impl Fn(&[u8]) -> Option<(T, &[u8])>) -> Option<T> {
        let here = input.rest();
        if self.length == 0
            && let Some((value, rest)) = read(here)
        {
            *input.used += here.len() - rest.len();
            return Some(value);
        }
        let before = usize::from(self.length);
        let place = self.bytes.get_mut(before..).unwrap_or_default();
        let copied = place.len().min(here.len());
        if let (Some(place), Some(here)) = (place.get_mut(..copied), here.get(..copied)) {
            place.copy_from_slice(here);
        }
        let known = self.bytes.get(..before + copied).unwrap_or_default();
        match read(known) {
            Some((value, rest)) => {
                *input.used += known.len() - rest.len() - before;
                self.length = 0;
                Some(value)
            }
            // Two numbers are never more than 16 bytes: what is not whole has been copied whole.
            None => {
                *input.used += copied;
                self.length = u8::try_from(before + copied).unwrap_or(u8::MAX);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_standard() {
        // RFC 9000 appendix A.1.
        for (bytes, number) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0xff; 8], NUMBER_MAX),
        ] {
            assert_eq!(read_number(bytes), Some((number, &[][..])));
            assert_eq!(read_number(&bytes[..bytes.len() - 1]), None);
            let mut out = Vec::new();
            write_number(&mut out, number);
            assert_eq!(out, bytes);
        }
        assert_eq!(read_number(&[0x40, 0x25, 7]), Some((37, &[7][..])), "longer than needed");
    }

    #[test]
    fn headers_come_in_any_pieces() {
        for header in [
            FrameHeader { kind: 0, length: 0 },
            FrameHeader { kind: 0x1f * 7 + 0x21, length: 100_000 },
            FrameHeader { kind: NUMBER_MAX, length: NUMBER_MAX },
        ] {
            let mut bytes = Vec::new();
            header.write(&mut bytes);
            let length = bytes.len();
            bytes.extend_from_slice(b"payload");
            for cut in 0..=length {
                let mut partial = Partial::default();
                let mut used = 0;
                let first = partial.frame_header(&mut Input { bytes: &bytes[..cut], used: &mut used });
                assert_eq!((first.is_some(), used), (cut == length, cut));
                if first.is_none() {
                    let whole = partial.frame_header(&mut Input { bytes: &bytes, used: &mut used });
                    assert_eq!((whole, used), (Some(header), length));
                    assert!(partial.is_empty());
                }
            }
        }
    }
}
