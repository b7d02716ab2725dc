//! A reply in pieces: growing does not move what is there, and nothing is copied to be sent later.

use std::collections::VecDeque;

/// From so many bytes on a piece is not added to.
pub(crate) const PIECE_FROM: usize = 64 * 1024;

/// The pieces of a reply.
#[derive(Debug, Default)]
pub struct Pieces {
    pieces: VecDeque<Vec<u8>>,
    /// How much of the first one has been taken.
    taken: usize,
    len: usize,
}

impl Pieces {
    /// How many bytes are left.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds one behind the others.
    pub(crate) fn push(&mut self, piece: Vec<u8>) {
        self.len += piece.len();
        self.pieces.push_back(piece);
    }

    /// Puts one in front of the others, of which none has been taken.
    pub(crate) fn push_front(&mut self, piece: Vec<u8>) {
        self.len += piece.len();
        self.pieces.push_front(piece);
    }

    /// Takes up to so many bytes to the end of `out`. Returns whether that was all.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> bool {
        let mut left = bytes_max;
        while let Some(first) = self.pieces.front_mut() {
            let rest = first.get(self.taken..).unwrap_or_default();
            if rest.len() > left {
                out.extend_from_slice(rest.get(..left).unwrap_or_default());
                (self.taken, self.len) = (self.taken + left, self.len - left);
                return false;
            }
            (left, self.len) = (left - rest.len(), self.len - rest.len());
            if out.is_empty() && self.taken == 0 {
                *out = std::mem::take(first);
            } else {
                out.extend_from_slice(rest);
            }
            self.pieces.pop_front();
            self.taken = 0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_given_in_order_and_in_any_portions() {
        for portion in 1..12 {
            let mut pieces = Pieces::default();
            for piece in ["bc", "", "defgh", "i"] {
                pieces.push(piece.into());
            }
            pieces.push_front("a".into());
            let (mut all, mut portions) = (Vec::new(), 0);
            loop {
                assert_eq!(pieces.len() + all.len(), 9);
                let mut out = if portions % 2 == 0 { Vec::new() } else { b"-".to_vec() };
                let before = out.len();
                let is_over = pieces.take(&mut out, portion);
                portions += 1;
                assert!(is_over || out.len() - before == portion);
                all.extend_from_slice(&out[before..]);
                if is_over {
                    break;
                }
            }
            assert_eq!((all.as_slice(), pieces.len()), (b"abcdefghi".as_slice(), 0));
            assert_eq!(portions, 9_usize.div_ceil(portion).max(1), "{portion}");
        }
    }
}
