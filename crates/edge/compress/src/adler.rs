//! Adler-32, the checksum of RFC 1950.

const MODULUS: u32 = 65_521;

/// Bytes after which the sums must be reduced, or they overflow (RFC 1950 section 9).
const STRETCH: usize = 5_552;

/// The checksum so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adler {
    a: u32,
    b: u32,
}

impl Default for Adler {
    fn default() -> Self {
        Self { a: 1, b: 0 }
    }
}

impl Adler {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for stretch in bytes.chunks(STRETCH) {
            for byte in stretch {
                self.a += u32::from(*byte);
                self.b += self.a;
            }
            self.a %= MODULUS;
            self.b %= MODULUS;
        }
    }

    pub(crate) fn value(self) -> u32 {
        self.b << 16 | self.a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (text, expected) in [("", 1), ("a", 0x0062_0062), ("Wikipedia", 0x11E6_0398)] {
            let mut sum = Adler::default();
            sum.update(text.as_bytes());
            assert_eq!(sum.value(), expected, "{text}");
        }
        let mut sum = Adler::default();
        sum.update(&vec![0xFF; 1_000_000]);
        assert_eq!(sum.value(), 0x3843e1be, "no overflow");
    }
}
