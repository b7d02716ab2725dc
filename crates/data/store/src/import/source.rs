//! A file that is read once from its beginning to its end: bytes, with where they are, their checksum, and a copy of what is wanted.

use std::io::{self, BufRead, Read as _};

use super::Problem;
use keyspace::{encoding::lzf, rdb::crc64};

/// What is read of a length at once: one that is wrong takes no more memory than the file has.
const PIECE: u64 = 64 << 10;

/// What is still to be read.
#[derive(Debug)]
pub struct Source<R> {
    inner: R,
    /// Where the next byte is.
    pub at: u64,
    /// The checksum of all before.
    pub sum: u64,
    /// What is read is added here.
    copy: Option<Vec<u8>>,
}

impl<R: BufRead> Source<R> {
    /// Reads from the beginning.
    pub fn new(inner: R) -> Self {
        Self { inner, at: 0, sum: 0, copy: None }
    }

    /// Begins a copy of what is read, with a byte in front.
    pub fn begin_copy(&mut self, first: u8) {
        self.copy = Some(vec![first]);
    }

    /// How long it is by now.
    pub fn copy_len(&self) -> usize {
        self.copy.as_ref().map_or(0, Vec::len)
    }

    /// Ends it.
    pub fn end_copy(&mut self) -> Vec<u8> {
        self.copy.take().unwrap_or_default()
    }

    /// Whether nothing is left.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn is_at_end(&mut self) -> Result<bool, Problem> {
        Ok(self.inner.fill_buf()?.is_empty())
    }

    /// The next byte, which stays where it is.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn peek(&mut self) -> Result<Option<u8>, Problem> {
        Ok(self.inner.fill_buf()?.first().copied())
    }

    /// The next bytes.
    ///
    /// # Errors
    ///
    /// There are fewer.
    pub fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], Problem> {
        let mut bytes = [0; LEN];
        self.inner.read_exact(&mut bytes).map_err(|error| self.ended(error))?;
        self.count(&bytes);
        Ok(bytes)
    }

    /// The next bytes, in memory.
    ///
    /// # Errors
    ///
    /// There are fewer.
    pub fn bytes(&mut self, len: u64) -> Result<Vec<u8>, Problem> {
        let mut bytes = Vec::new();
        self.each_piece(len, |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// Goes on behind so many bytes.
    ///
    /// # Errors
    ///
    /// There are fewer.
    pub fn skip(&mut self, len: u64) -> Result<(), Problem> {
        self.each_piece(len, |_| {})
    }

    fn each_piece(&mut self, len: u64, mut each: impl FnMut(&[u8])) -> Result<(), Problem> {
        let mut left = len;
        let mut piece = Vec::new();
        while left > 0 {
            piece.clear();
            let wanted = left.min(PIECE);
            let read = self.inner.by_ref().take(wanted).read_to_end(&mut piece)? as u64;
            if read < wanted {
                return Err(Problem::Ends(self.at + read));
            }
            self.count(&piece);
            each(&piece);
            left -= wanted;
        }
        Ok(())
    }

    /// A line without its end, of this many bytes at most.
    ///
    /// # Errors
    ///
    /// It is longer, or the file ends in it.
    pub fn line(&mut self, len_max: u64) -> Result<Vec<u8>, Problem> {
        let mut line = Vec::new();
        self.inner.by_ref().take(len_max).read_until(b'\n', &mut line)?;
        self.count(&line);
        match line.pop() {
            Some(b'\n') => {}
            _ if self.is_at_end()? => return Err(Problem::Ends(self.at)),
            _ => return Err(Problem::Format(self.at, "a line is too long")),
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }

    fn count(&mut self, bytes: &[u8]) {
        self.at += bytes.len() as u64;
        self.sum = crc64::continued(self.sum, bytes);
        if let Some(copy) = &mut self.copy {
            copy.extend_from_slice(bytes);
        }
    }

    fn ended(&self, error: io::Error) -> Problem {
        if error.kind() == io::ErrorKind::UnexpectedEof { Problem::Ends(self.at) } else { Problem::Read(error) }
    }

    /// RDB's numbers and lengths; behind one of a special form, which says how a string is written.
    fn length(&mut self) -> Result<Result<u64, u8>, Problem> {
        let [first] = self.array()?;
        let low = u64::from(first & 0x3f);
        Ok(Ok(match first {
            0x00..=0x3f => low,
            0x40..=0x7f => low << 8 | u64::from(u8::from_be_bytes(self.array()?)),
            0x80 => u64::from(u32::from_be_bytes(self.array()?)),
            0x81 => u64::from_be_bytes(self.array()?),
            0xc0.. => return Ok(Err(first & 0x3f)),
            _ => return Err(Problem::Format(self.at, "a length")),
        }))
    }

    /// A number as lengths are written.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn number(&mut self) -> Result<u64, Problem> {
        self.length()?.map_err(|_| Problem::Format(self.at, "a number"))
    }

    /// A string in any of its forms.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn string(&mut self) -> Result<Vec<u8>, Problem> {
        let number = match self.length()? {
            Ok(len) => return self.bytes(len),
            Err(0) => i32::from(i8::from_le_bytes(self.array()?)),
            Err(1) => i32::from(i16::from_le_bytes(self.array()?)),
            Err(2) => i32::from_le_bytes(self.array()?),
            Err(3) => {
                let (len, expanded) = (self.number()?, self.number()?);
                let block = self.bytes(len)?;
                let expanded = usize::try_from(expanded).unwrap_or(usize::MAX);
                return lzf::decompress(&block, expanded).map_err(|_| Problem::Format(self.at, "a compressed string"));
            }
            Err(_) => return Err(Problem::Format(self.at, "a string")),
        };
        Ok(number.to_string().into_bytes())
    }

    /// Goes on behind a string.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn skip_string(&mut self) -> Result<(), Problem> {
        let len = match self.length()? {
            Ok(len) => len,
            Err(0) => 1,
            Err(1) => 2,
            Err(2) => 4,
            Err(3) => {
                let len = self.number()?;
                self.number()?;
                len
            }
            Err(_) => return Err(Problem::Format(self.at, "a string")),
        };
        self.skip(len)
    }
}
