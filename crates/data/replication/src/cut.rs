//! A stream of commands, cut into pieces that can be applied and kept as a whole: commands, and transactions from MULTI to EXEC.

use oplog::Offset;
use resp::{Limits, Progress, RequestParser};

/// The longest piece: a transaction that is longer is not taken. It is held in memory until its end has come.
pub const PIECE_LEN_MAX: usize = 2 << 30;
/// So many bytes of whole commands are given at once, unless one of them is longer.
pub const PIECE_LEN: usize = 1 << 20;

/// A part of a stream: whole commands, and whole transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub offset: Offset,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The master asks in it how far the replica is (`REPLCONF GETACK`).
    pub asks_for_ack: bool,
}

impl Piece {
    /// Where it ends.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.offset + self.bytes.len() as u64
    }
}

/// Why a stream cannot be cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// What comes is no command.
    #[error("what the master sends at offset {offset} is no command: {reason}")]
    NoCommand {
        /// Where.
        offset: Offset,
        /// What is wrong with it.
        reason: String,
    },
    /// A transaction or command is too long.
    #[error("a transaction of the master at offset {offset} has more than {PIECE_LEN_MAX} bytes")]
    TooLong {
        /// Where it begins.
        offset: Offset,
    },
}

/// Cuts a stream.
#[derive(Debug)]
pub struct Cutter {
    buffer: Vec<u8>,
    /// Where the buffer begins in the stream.
    offset: Offset,
    /// How far commands have been found in the buffer.
    parsed: usize,
    /// Up to where what was found can be applied: behind the last command that ends no part of a transaction.
    whole: usize,
    parser: RequestParser,
    is_in_transaction: bool,
    asks_for_ack: bool,
}

impl Cutter {
    /// Of a stream that goes on at an offset.
    #[must_use]
    pub fn new(offset: Offset) -> Self {
        Self {
            buffer: Vec::new(),
            offset,
            parsed: 0,
            whole: 0,
            parser: RequestParser::new(),
            is_in_transaction: false,
            asks_for_ack: false,
        }
    }

    /// What comes next of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// How much has come that was not given yet.
    #[must_use]
    pub fn held_len(&self) -> usize {
        self.buffer.len()
    }

    /// The next piece, if one is whole.
    ///
    /// # Errors
    ///
    /// What has come is no stream of commands, or too long.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, CutError> {
        // No argument was longer when the master got it.
        let limits = Limits { bulk_len_max: PIECE_LEN_MAX as u64, ..Limits::default() };
        while self.whole < PIECE_LEN {
            let rest = self.buffer.get(self.parsed..).unwrap_or_default();
            let at = self.offset + self.parsed as u64;
            let no_command = |reason: String| CutError::NoCommand { offset: at, reason };
            let progress = self.parser.parse(rest, &limits).map_err(|error| no_command(error.to_string()))?;
            match progress {
                Progress::Incomplete { .. } => break,
                Progress::Empty { consumed } => self.parsed += consumed,
                Progress::Complete { consumed } => {
                    let words = self.parser.arguments(rest);
                    let is = |index, name: &str| {
                        words.get(index).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
                    };
                    match (self.is_in_transaction, is(0, "MULTI"), is(0, "EXEC")) {
                        (false, true, _) => self.is_in_transaction = true,
                        (true, true, _) => return Err(no_command("a MULTI within a transaction".into())),
                        (true, _, true) => self.is_in_transaction = false,
                        (false, _, true) => return Err(no_command("an EXEC without a MULTI".into())),
                        _ => {}
                    }
                    self.asks_for_ack |= is(0, "REPLCONF") && is(1, "GETACK");
                    self.parsed += consumed;
                }
            }
            if !self.is_in_transaction {
                self.whole = self.parsed;
            }
        }
        if self.buffer.len() - self.whole > PIECE_LEN_MAX {
            return Err(CutError::TooLong { offset: self.offset + self.whole as u64 });
        }
        Ok(self.take_whole())
    }

    fn take_whole(&mut self) -> Option<Piece> {
        if self.whole == 0 {
            return None;
        }
        let rest = self.buffer.split_off(self.whole);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        let piece = Piece { offset: self.offset, bytes, asks_for_ack: std::mem::take(&mut self.asks_for_ack) };
        self.offset = piece.end();
        self.parsed -= self.whole;
        self.whole = 0;
        Some(piece)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
    const MULTI: &str = "*1\r\n$5\r\nMULTI\r\n";
    const EXEC: &str = "*1\r\n$4\r\nEXEC\r\n";
    const GETACK: &str = "*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

    /// The pieces of a stream that comes so many bytes at a time.
    fn cut(stream: &str, step: usize) -> Result<Vec<Piece>, CutError> {
        let mut cutter = Cutter::new(Offset(7));
        let mut pieces = Vec::new();
        for bytes in stream.as_bytes().chunks(step) {
            cutter.push(bytes);
            while let Some(piece) = cutter.next_piece()? {
                pieces.push(piece);
            }
        }
        Ok(pieces)
    }

    #[test]
    fn nothing_is_given_that_a_transaction_may_still_take_back() {
        let transaction = [MULTI, SET, SET, EXEC].concat();
        let stream = [SET, &transaction, SET].concat();
        for step in 1..stream.len() {
            let pieces = cut(&stream, step).unwrap();
            let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.clone()).collect();
            assert_eq!(joined, stream.as_bytes(), "{step}");
            let mut at = Offset(7);
            for piece in &pieces {
                assert_eq!(piece.offset, at, "{step}");
                at = piece.end();
                let text = String::from_utf8(piece.bytes.clone()).unwrap();
                assert_eq!(text.matches("MULTI").count(), text.matches("EXEC").count(), "{step}");
                assert_eq!(text.matches("\r\n").count() % 2, 1_usize.min(text.matches("\r\n").count() % 2));
            }
        }
        assert_eq!(cut(&transaction[..transaction.len() - 1], 5).unwrap(), []);
    }

    #[test]
    fn a_question_for_the_offset_is_seen() {
        let pieces = cut(&[SET, GETACK, SET].concat(), usize::MAX).unwrap();
        assert_eq!(pieces.len(), 1);
        assert!(pieces[0].asks_for_ack);
        assert!(!cut(SET, usize::MAX).unwrap()[0].asks_for_ack);
    }

    #[test]
    fn what_is_no_stream_of_commands_is_an_error() {
        for (stream, reason) in [
            (EXEC.to_owned(), "an EXEC without a MULTI"),
            ([MULTI, MULTI].concat(), "a MULTI within a transaction"),
            (format!("{SET}*1\r\n+1\r\n"), "expected '$', got '+'"),
        ] {
            match cut(&stream, 3).unwrap_err() {
                CutError::NoCommand { reason: found, .. } => assert!(found.contains(reason), "{found}"),
                other => unreachable!("{other}"),
            }
        }
    }
}
