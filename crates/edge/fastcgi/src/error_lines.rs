//! What a program complains about, as lines of a log.
//!
//! It may contain anything, of whomever: a log gets no control characters of it, and not more than a bound.

/// Bytes of a line; a longer one goes on in the next.
const LINE_BYTES_MAX: usize = 4096;

/// Bytes of one request's complaints.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// What was said last when there is more.
const MORE: &str = "(the program said more about this request, which is not logged)";

/// The complaints about one request.
#[derive(Debug, Default)]
pub struct ErrorLines {
    /// A line that is not over.
    line: Vec<u8>,
    said: usize,
}

impl ErrorLines {
    /// More has come: `log` gets each line that is whole.
    pub fn push(&mut self, bytes: &[u8], mut log: impl FnMut(&str)) {
        if self.said >= REQUEST_BYTES_MAX {
            return;
        }
        let taken = bytes.len().min(REQUEST_BYTES_MAX - self.said);
        self.said += taken;
        let bytes = bytes.get(..taken).unwrap_or_default();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match piece {
                [text @ .., b'\n'] => (text, true),
                text => (text, false),
            };
            for part in text.chunks(LINE_BYTES_MAX) {
                if self.line.len() + part.len() > LINE_BYTES_MAX {
                    self.flush(&mut log);
                }
                self.line.extend_from_slice(part);
            }
            if is_whole {
                self.flush(&mut log);
            }
        }
        if self.said >= REQUEST_BYTES_MAX {
            self.flush(&mut log);
            log(MORE);
        }
    }

    /// The request is over: `log` gets what stands behind the last end of a line.
    pub fn finish(&mut self, mut log: impl FnMut(&str)) {
        self.flush(&mut log);
        self.said = 0;
    }

    fn flush(&mut self, log: &mut impl FnMut(&str)) {
        let text = clean(&self.line);
        if !text.is_empty() {
            log(&text);
        }
        self.line.clear();
    }
}

/// The text without control characters, in place of which there are dots, as in HAProxy.
fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.trim_ascii());
    text.chars().map(|character| if character.is_control() { '.' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut found) = (ErrorLines::default(), Vec::new());
        pieces.iter().for_each(|piece| lines.push(piece, |line| found.push(line.to_owned())));
        lines.finish(|line| found.push(line.to_owned()));
        found
    }

    #[test]
    fn lines_are_clean() {
        assert_eq!(lines(&[b"one\ntw", b"o\n\n  \nthree"]), ["one", "two", "three"]);
        assert_eq!(lines(&[b"a\x1b[2Jb\0c\r\n\xc2\x9bd\xff"]), ["a.[2Jb.c", ".d\u{fffd}"]);
        assert_eq!(lines(&[b"", b"\n"]), [""; 0]);
    }

    #[test]
    fn lines_and_requests_have_bounds() {
        let found = lines(&[&[b'x'; 10_000]]);
        assert_eq!(found.iter().map(String::len).collect::<Vec<_>>(), [4096, 4096, 10_000 - 8192]);
        let flood: Vec<&[u8]> = vec![b"0123456789abcde\n"; 100_000];
        let found = lines(&flood);
        assert_eq!(found.len(), REQUEST_BYTES_MAX / 16 + 1);
        assert_eq!(found.last().unwrap(), MORE);
    }
}
