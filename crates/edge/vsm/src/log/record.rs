//! A record while its text is written, in the buffer where it stays.
//!
//! Numbers are made into digits here, eight at a time in one word, and not by `core::fmt`; short texts are copied as two words that
//! overlap, because calling `memcpy` costs more than that.

use std::{fmt, net::IpAddr};

use super::buffer::{HEAD_BYTES, SLACK_BYTES};

/// Microseconds of a second.
const SECOND_US: u64 = 1_000_000;
/// The least number that has more than eight digits.
const EIGHT_DIGITS: u64 = 100_000_000;
/// The least number that has eight.
const EIGHT_DIGITS_LEAST: u64 = 10_000_000;
/// Eight digits that are 0.
const ZEROS: u64 = 0x3030_3030_3030_3030;
const POINT: u64 = b'.' as u64;

/// A record that is being written, in so much room: head, text, and some bytes more. What does not fit is cut. Without
/// [`Record::end`] there is none.
#[derive(Debug)]
pub struct Record<'b, const ROOM: usize> {
    room: &'b mut [u8; ROOM],
    /// Where the next byte of text goes.
    at: usize,
    /// Where the text ends at the latest, which is looked at when it is whole.
    limit: usize,
    /// The head, but for the length.
    head: u64,
    /// Bytes and records of the buffer.
    filled: &'b mut usize,
    records: &'b mut u32,
}

impl<'b, const ROOM: usize> Record<'b, ROOM> {
    /// Where a text ends at the latest.
    const LIMIT: usize = ROOM - SLACK_BYTES;

    /// Begins in that room with that head; the text gets `most` bytes at most.
    #[inline]
    pub(super) fn new(
        room: &'b mut [u8; ROOM],
        (filled, records): (&'b mut usize, &'b mut u32),
        head: u64,
        most: usize,
    ) -> Self {
        Self { room, at: HEAD_BYTES, limit: (HEAD_BYTES + most).min(Self::LIMIT), head, filled, records }
    }

    /// Adds bytes.
    #[inline]
    pub fn push(&mut self, text: &[u8]) {
        let text = match text.get(..Self::LIMIT.saturating_sub(self.at)) {
            Some(cut) => cut,
            None => text,
        };
        if let Some(to) = self.room.get_mut(self.at..self.at + text.len()) {
            copy_short(to, text);
            self.at += text.len();
        }
    }

    /// Adds the first bytes of a word. Those behind them are written too: there is always that much room.
    #[inline(always)]
    fn push_word(&mut self, word: u64, count: usize) {
        if let Some(to) = self.room.get_mut(self.at..).and_then(|rest| rest.first_chunk_mut()) {
            *to = word.to_le_bytes();
            self.at += count;
        }
    }

    /// Adds a number.
    #[inline]
    pub fn push_number(&mut self, number: u64) {
        if number < 10 {
            return self.push_word(u64::from(b'0') | number, 1);
        }
        if number >= EIGHT_DIGITS {
            return self.push_long_number(number);
        }
        let digits = eight_digits(number as u32);
        // Without the zeros before it.
        let zeros = (digits & !ZEROS).trailing_zeros() / 8;
        self.push_word(digits >> (zeros * 8), 8 - zeros as usize);
    }

    #[inline(never)]
    fn push_long_number(&mut self, number: u64) {
        let (first, last) = (number / EIGHT_DIGITS, eight_digits((number % EIGHT_DIGITS) as u32));
        self.push_number(first);
        self.push_word(last, 8);
    }

    /// Adds seconds with six digits behind the point.
    #[inline]
    pub fn push_seconds(&mut self, seconds: f64) {
        self.push_us(microseconds(seconds));
    }

    /// Adds microseconds as seconds with six digits behind the point.
    #[inline(always)]
    pub fn push_us(&mut self, us: u64) {
        if us >= 10 * SECOND_US {
            return self.push_long_us(us);
        }
        // The first of the eight digits is 0; the point goes where the second one is.
        let digits = eight_digits(us as u32);
        self.push_word(digits & !0xffff | POINT << 8 | (digits >> 8 & 0xff), 8);
    }

    #[inline(never)]
    fn push_long_us(&mut self, us: u64) {
        let (first, last) = (us / EIGHT_DIGITS, eight_digits((us % EIGHT_DIGITS) as u32));
        match first {
            0 => {}
            EIGHT_DIGITS_LEAST..EIGHT_DIGITS => self.push_word(eight_digits(first as u32), 8),
            _ => self.push_number(first),
        }
        // Two of the last eight digits stand before the point.
        self.push_word(last & 0xffff | POINT << 16 | last >> 16 << 24, 8);
        self.push_word(last >> 56, 1);
    }

    /// Adds an address as people write it.
    #[inline]
    pub fn push_address(&mut self, address: IpAddr) {
        use fmt::Write as _;
        match address {
            IpAddr::V4(address) => {
                let [a, b, c, d] = address.octets().map(u64::from);
                self.push_number(a);
                for octet in [b, c, d] {
                    self.push_word(POINT, 1);
                    self.push_number(octet);
                }
            }
            // A record takes what fits.
            IpAddr::V6(address) => drop(write!(self, "{address}")),
        }
    }

    /// The record is whole.
    #[inline]
    pub fn end(self) {
        let Self { room, at, limit, head, filled, records } = self;
        *filled += finish(room, head, at.min(limit));
        *records += 1;
    }
}

impl<const ROOM: usize> fmt::Write for Record<'_, ROOM> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Writes a record with a text that fits into the room; the bytes that it takes.
#[inline(always)]
pub(super) fn write_short<const ROOM: usize>(room: &mut [u8; ROOM], head: u64, text: &[u8]) -> usize {
    let end = HEAD_BYTES + text.len();
    if let Some(to) = room.get_mut(HEAD_BYTES..end) {
        copy_short(to, text);
    }
    finish(room, head, end)
}

/// Puts a zero behind a text that ends there, up to a whole word, and the head before it; the bytes that all of it takes.
#[inline(always)]
fn finish<const ROOM: usize>(room: &mut [u8; ROOM], head: u64, end: usize) -> usize {
    if let Some(last) = room.get_mut(end..).and_then(|rest| rest.first_chunk_mut()) {
        *last = [0; 4];
    }
    let end = end + 1;
    if let Some(start) = room.first_chunk_mut() {
        *start = first_word_first(head | (end - HEAD_BYTES) as u64);
    }
    (end + 3) & !3
}

/// Seconds as microseconds, rounded; none is negative.
#[inline(always)]
#[must_use]
pub fn microseconds(seconds: f64) -> u64 {
    /// Where the next number is one more: of what is added to it, the lower bits are the whole number.
    const WHOLE: f64 = (1_u64 << 52) as f64;
    let us = seconds * 1e6;
    if us < WHOLE { (us + WHOLE).to_bits() & ((1 << 52) - 1) } else { us as u64 }
}

/// Copies between slices of the same length.
#[inline(always)]
fn copy_short(to: &mut [u8], from: &[u8]) {
    /// The first and the last `N` bytes, which overlap.
    #[inline(always)]
    fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
        if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
            if let Some(to) = to.first_chunk_mut() {
                *to = *first;
            }
            if let Some(to) = to.last_chunk_mut() {
                *to = *last;
            }
        }
    }
    match from.len() {
        0 => {}
        count @ 1..4 => {
            for place in [0, count / 2, count - 1] {
                if let (Some(to), Some(from)) = (to.get_mut(place), from.get(place)) {
                    *to = *from;
                }
            }
        }
        4..8 => ends::<4>(to, from),
        8..=16 => ends::<8>(to, from),
        17..=32 => ends::<16>(to, from),
        33..=64 => ends::<32>(to, from),
        _ => {
            if to.len() == from.len() {
                to.copy_from_slice(from);
            }
        }
    }
}

/// The digits of a number below a hundred million, with zeros before it; the first one in the lowest byte.
///
/// All of them are made at once: the word is divided into two parts of four digits, then four of two, then eight of one. Factors and
/// shifts stand for divisions by 100 and 10, and are right for numbers of so few digits.
#[inline(always)]
fn eight_digits(number: u32) -> u64 {
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos - tens * 10) << 8;
    ones | ZEROS
}

/// The two words of a head as bytes: the lower half is the first word.
#[inline(always)]
pub(super) fn first_word_first(head: u64) -> [u8; HEAD_BYTES] {
    if cfg!(target_endian = "little") { head.to_ne_bytes() } else { head.rotate_left(32).to_ne_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = HEAD_BYTES + 300 + SLACK_BYTES;

    /// The text of a record of at most `most` bytes.
    fn text(most: usize, write: impl FnOnce(&mut Record<'_, ROOM>)) -> String {
        let (mut room, mut filled, mut records) = ([b'#'; ROOM], 0, 0);
        let mut record = Record::new(&mut room, (&mut filled, &mut records), 7 << 24, most);
        write(&mut record);
        record.end();
        let head = u32::from_ne_bytes(*room.first_chunk().unwrap());
        assert_eq!((head >> 24, records), (7, 1));
        let bytes = (head & 0xffff) as usize;
        assert_eq!(filled, HEAD_BYTES + bytes.next_multiple_of(4));
        assert!(room[HEAD_BYTES + bytes - 1..filled].iter().all(|byte| *byte == 0));
        String::from_utf8(room[HEAD_BYTES..HEAD_BYTES + bytes - 1].to_vec()).unwrap()
    }

    #[test]
    fn seconds_have_six_digits() {
        for (seconds, wanted) in [
            (0.0, "0.000000"),
            (0.000_012, "0.000012"),
            (9.999_999, "9.999999"),
            (12.5, "12.500000"),
            (100.0, "100.000000"),
            (86_400.25, "86400.250000"),
            (999_999_999.0, "999999999.000000"),
            (4_294_967_296.5, "4294967296.500000"),
            (1e10, "10000000000.000000"),
            (0.999_999_9, "1.000000"),
            (1_795_450_853.793_648, "1795450853.793648"),
        ] {
            assert_eq!(text(96, |record| record.push_seconds(seconds)), wanted);
        }
    }

    #[test]
    fn numbers_and_addresses_are_as_they_are_written() {
        for number in [0, 1, 9, 10, 99, 100, 101, 1_000, 65_535, 1_073_741_823, 10_000_000_000, u64::MAX] {
            assert_eq!(text(96, |record| record.push_number(number)), number.to_string());
        }
        for address in ["0.0.0.0", "127.0.0.1", "192.0.2.255", "::1", "2001:db8::7"] {
            assert_eq!(text(96, |record| record.push_address(address.parse().unwrap())), address);
        }
    }

    #[test]
    fn digits_are_those_of_the_library() {
        let steps = (0..EIGHT_DIGITS as u32).step_by(997).chain((0..EIGHT_DIGITS as u32).step_by(9_999));
        for number in steps.chain(0..20_000).chain([99_999_999]) {
            assert_eq!(eight_digits(number).to_le_bytes(), *format!("{number:08}").as_bytes());
        }
    }

    #[test]
    fn texts_of_any_length_are_whole() {
        let letters: String = (0..140).map(|place| char::from(b'a' + place % 26)).collect();
        for count in 0..letters.len() {
            assert_eq!(text(300, |record| record.push(&letters.as_bytes()[..count])), letters[..count]);
            let in_two = text(300, |record| {
                record.push(&letters.as_bytes()[..count]);
                record.push(letters.as_bytes());
            });
            assert_eq!(in_two, format!("{}{letters}", &letters[..count]));
        }
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        let cut = |record: &mut Record<'_, ROOM>| {
            record.push(b"ab");
            record.push_number(12_345);
            record.push(b"cd");
        };
        assert_eq!(text(4, cut), "ab12");
        assert_eq!(text(0, cut), "");
        let long = |record: &mut Record<'_, ROOM>| (0..100).for_each(|_| record.push_number(12_345));
        assert_eq!(text(1_000, long), "12345".repeat(60));
    }
}
