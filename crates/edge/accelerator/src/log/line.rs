//! Short texts on their way into the log, without memory of their own.

use std::fmt::{self, Write as _};

/// A short text on its way into the log. What does not fit is cut.
pub(super) struct Line {
    pub(super) text: [u8; Self::BYTES_MAX],
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { text: [0; Self::BYTES_MAX], len: 0 }
    }
}

impl Line {
    const BYTES_MAX: usize = 256;

    pub(super) fn bytes(&self) -> &[u8] {
        self.text.get(..self.len).unwrap_or_default()
    }

    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) {
        let room = self.text.get_mut(self.len..).unwrap_or_default();
        let count = text.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..count), text.get(..count)) {
            to.copy_from_slice(from);
            self.len += count;
        }
    }

    pub(super) fn push_number(&mut self, number: u64) {
        // A line takes what fits.
        let _ = write!(self, "{number}");
    }

    /// Seconds with six digits behind the point.
    pub(super) fn push_seconds(&mut self, seconds: f64) {
        const DIGITS_MAX: usize = 21;
        let mut digits = [b'0'; DIGITS_MAX];
        let mut left = (seconds * 1e6).round() as u64;
        let mut at = DIGITS_MAX;
        for place in 0.. {
            at -= 1;
            if place == 6 {
                if let Some(digit) = digits.get_mut(at) {
                    *digit = b'.';
                }
                continue;
            }
            if let Some(digit) = digits.get_mut(at) {
                *digit = b'0' + (left % 10) as u8;
            }
            left /= 10;
            // At least one digit before the point.
            if left == 0 && place >= 7 || at == 0 {
                break;
            }
        }
        self.push(digits.get(at..).unwrap_or_default());
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_six_digits() {
        for (seconds, text) in [
            (0.0, "0.000000"),
            (0.000_012, "0.000012"),
            (12.5, "12.500000"),
            (1_795_450_853.793_648, "1795450853.793648"),
        ] {
            let mut line = Line::default();
            line.push_seconds(seconds);
            assert_eq!(std::str::from_utf8(line.bytes()).unwrap(), text);
        }
    }
}
