//! Where a reply of a server ends. Replies are passed on as they are, so nothing else of them is looked at.

/// Longest line that is no error message or simple string of a sane server.
const LINE_LEN_MAX: usize = 1024 * 1024;

/// What came is no reply: nobody knows where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server sent what is no reply of Redis' protocol")]
pub struct Malformed;

/// Finds the end of one reply after the other, in pieces as they come.
#[derive(Debug, Default)]
pub struct FrameScanner {
    /// How far the reply that the buffer begins with has been looked at: the beginning of an element.
    position: usize,
    /// How much of the line there has been searched for its end.
    searched: usize,
    /// Elements that are missing of it; 0 between replies.
    missing: u64,
}

impl FrameScanner {
    /// The length of the reply that `buffer` begins with, once it is whole. Until then the same bytes are given again with more
    /// behind them.
    ///
    /// # Errors
    /// It is none.
    #[inline]
    pub fn scan(&mut self, buffer: &[u8]) -> Result<Option<usize>, Malformed> {
        if self.missing == 0 {
            (self.missing, self.position, self.searched) = (1, 0, 0);
        }
        while self.missing > 0 {
            let rest = buffer.get(self.position..).unwrap_or_default();
            let Some(end) = memchr::memchr(b'\n', rest.get(self.searched..).unwrap_or_default()) else {
                self.searched = rest.len();
                return if rest.len() > LINE_LEN_MAX { Err(Malformed) } else { Ok(None) };
            };
            let end = self.searched + end;
            let Some((kind, line)) = rest.get(..end).and_then(|line| line.strip_suffix(b"\r")?.split_first()) else {
                return Err(Malformed);
            };
            let mut after = end + 1;
            match kind {
                b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => self.missing -= 1,
                b'$' | b'!' | b'=' => {
                    if let Some(length) = length(line)? {
                        after = after.saturating_add(length).saturating_add(2);
                        if rest.len() < after {
                            // The line is found again quickly.
                            self.searched = 0;
                            return Ok(None);
                        }
                    }
                    self.missing -= 1;
                }
                b'*' | b'~' | b'>' => self.missing = self.with_elements(length(line)?, 1)?,
                b'%' => self.missing = self.with_elements(length(line)?, 2)?,
                // What an attribute belongs to follows it.
                b'|' => self.missing = self.with_elements(length(line)?, 2)?.checked_add(1).ok_or(Malformed)?,
                _ => return Err(Malformed),
            }
            self.position += after;
            self.searched = 0;
        }
        Ok(Some(self.position))
    }

    /// How many elements are missing when a collection has begun.
    fn with_elements(&self, count: Option<usize>, each: u64) -> Result<u64, Malformed> {
        let elements = (count.unwrap_or(0) as u64).checked_mul(each).ok_or(Malformed)?;
        (self.missing - 1).checked_add(elements).ok_or(Malformed)
    }
}

/// A length or count; `None` is that of a null.
#[inline]
fn length(digits: &[u8]) -> Result<Option<usize>, Malformed> {
    match digits {
        b"-1" => Ok(None),
        [] => Err(Malformed),
        digits if digits.len() <= 18 => digits
            .iter()
            .try_fold(0usize, |number, digit| digit.is_ascii_digit().then(|| number * 10 + usize::from(digit - b'0')))
            .map(Some)
            .ok_or(Malformed),
        _ => Err(Malformed),
    }
}

/// The elements of an array, a set or a push, each whole; `None` if the reply is none of these.
pub fn elements(reply: &[u8]) -> Option<Vec<&[u8]>> {
    let line = memchr::memchr(b'\n', reply)?;
    let (kind, digits) = reply.get(..line)?.strip_suffix(b"\r")?.split_first()?;
    let count = matches!(kind, b'*' | b'~' | b'>').then(|| length(digits).ok()?)??;
    let mut rest = reply.get(line + 1..)?;
    let mut found = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        let end = FrameScanner::default().scan(rest).ok()??;
        let (element, following) = rest.split_at_checked(end)?;
        found.push(element);
        rest = following;
    }
    Some(found)
}

/// The number that a reply is.
pub fn integer(reply: &[u8]) -> Option<i64> {
    std::str::from_utf8(reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?).ok()?.parse().ok()
}

/// The bytes of a bulk string.
pub fn bulk(reply: &[u8]) -> Option<&[u8]> {
    let line = memchr::memchr(b'\n', reply)?;
    length(reply.get(..line)?.strip_suffix(b"\r")?.strip_prefix(b"$")?).ok()??;
    reply.get(line + 1..)?.strip_suffix(b"\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: [&[u8]; 10] = [
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":42\r\n",
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b"$5\r\na\r\nbc\r\n",
        b"*2\r\n$1\r\na\r\n*2\r\n:1\r\n*0\r\n",
        b"*-1\r\n",
        b"%1\r\n+a\r\n~2\r\n#t\r\n,1.5\r\n",
        b"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n",
    ];

    #[test]
    fn replies_end_where_they_end_in_whatever_pieces_they_come() {
        let all = REPLIES.concat();
        for piece in [1, 2, 3, 7, 1000] {
            let (mut scanner, mut start, mut ends) = (FrameScanner::default(), 0, Vec::new());
            for len in (piece..all.len() + piece).step_by(piece) {
                while let Some(end) = scanner.scan(&all[start..len.min(all.len())]).unwrap() {
                    ends.push(&all[start..start + end]);
                    start += end;
                }
            }
            assert_eq!(ends, REPLIES, "in pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in [&b"hello\r\n"[..], b"$x\r\n", b"*\r\n", b"$99999999999999999999\r\n", b"+OK\n"] {
            assert_eq!(FrameScanner::default().scan(bytes), Err(Malformed));
        }
    }

    #[test]
    fn replies_are_taken_apart() {
        assert_eq!(elements(b"*2\r\n$1\r\na\r\n:1\r\n").unwrap(), [&b"$1\r\na\r\n"[..], b":1\r\n"]);
        assert_eq!(elements(b">1\r\n$1\r\na\r\n").unwrap(), [&b"$1\r\na\r\n"[..]]);
        assert_eq!((elements(b"-ERR\r\n"), elements(b"_\r\n"), elements(b"*-1\r\n")), (None, None, None));
        assert_eq!((integer(b":-3\r\n"), bulk(b"$2\r\nab\r\n"), bulk(b"$-1\r\n")), (Some(-3), Some(&b"ab"[..]), None));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_bring_it_down(bytes: Vec<u8>) {
            let _ = FrameScanner::default().scan(&bytes);
            let _ = elements(&bytes);
        }
    }
}
