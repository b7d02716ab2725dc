//! Command lines: words between spaces, in quotes or not, with backslashes, and a text of several lines at the end.
//!
//! ```text
//! vcl.load boot "/etc/varnish/my file.vcl"
//! vcl.inline other << EndOfText
//! vcl 4.1;
//! EndOfText
//! ```

/// Bytes of a command, at most; one with a VCL in it is the largest that there is.
const COMMAND_BYTES_MAX: usize = 16 << 20;
/// Bytes of a line of a client that has not said who it is.
const UNKNOWN_CLIENT_BYTES_MAX: usize = 80;

/// Why a line is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// A backslash before what cannot follow one.
    #[error("Invalid backslash sequence")]
    Backslash,
    /// A quote within a word.
    #[error("Invalid '\"'")]
    Quote,
    /// No quote at the end.
    #[error("Missing '\"'")]
    MissingQuote,
    /// No space between two quoted words.
    #[error("Missing separator between arguments")]
    MissingSeparator,
    /// More bytes than a command may have.
    #[error("a command may have {COMMAND_BYTES_MAX} bytes")]
    TooLong,
}

/// The words of a line. `separator` separates them besides spaces.
///
/// # Errors
/// When quotes or backslashes are wrong.
pub fn words(line: &[u8], separator: Option<u8>) -> Result<Vec<Vec<u8>>, SyntaxError> {
    let mut found = Vec::new();
    let mut rest = line;
    // What ended the word before.
    let mut ended_by = None;
    while let Some((&first, behind)) = rest.split_first() {
        if first.is_ascii_whitespace() {
            if ended_by == Some(b'"') {
                ended_by = Some(first);
            }
            rest = behind;
            continue;
        }
        if Some(first) == separator && ended_by.is_some_and(|byte: u8| byte.is_ascii_whitespace()) {
            (ended_by, rest) = (None, behind);
            continue;
        }
        if first == b'"' && ended_by == Some(b'"') {
            return Err(SyntaxError::MissingSeparator);
        }
        let is_quoted = first == b'"';
        let (word, behind, end) = word(if is_quoted { behind } else { rest }, is_quoted, separator)?;
        found.push(word);
        (ended_by, rest) = (end, behind);
    }
    if ended_by.is_some() && ended_by == separator {
        found.push(Vec::new());
    }
    Ok(found)
}

/// A word, what is behind it and its end, and what ended it.
type Word<'a> = (Vec<u8>, &'a [u8], Option<u8>);

fn word(text: &[u8], is_quoted: bool, separator: Option<u8>) -> Result<Word<'_>, SyntaxError> {
    let mut word = Vec::new();
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        match byte {
            b'\\' => {
                let (decoded, length) = backslash(rest).ok_or(SyntaxError::Backslash)?;
                word.push(decoded);
                rest = rest.get(length..).unwrap_or_default();
                continue;
            }
            b'"' if is_quoted => return Ok((word, behind, Some(b'"'))),
            b'"' => return Err(SyntaxError::Quote),
            _ if !is_quoted && (byte.is_ascii_whitespace() || Some(byte) == separator) => {
                return Ok((word, behind, Some(byte)));
            }
            _ => word.push(byte),
        }
        rest = behind;
    }
    if is_quoted { Err(SyntaxError::MissingQuote) } else { Ok((word, rest, None)) }
}

/// What a text that begins with a backslash stands for, and how many bytes that takes.
fn backslash(text: &[u8]) -> Option<(u8, usize)> {
    let second = *text.get(1)?;
    match second {
        b'n' => Some((b'\n', 2)),
        b'r' => Some((b'\r', 2)),
        b't' => Some((b'\t', 2)),
        b'"' | b'\\' => Some((second, 2)),
        b'0'..=b'7' => {
            let digits = text.iter().skip(1).take(3).take_while(|byte| matches!(byte, b'0'..=b'7'));
            let value = digits.clone().fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
            Some((value.to_le_bytes()[0], 1 + digits.count()))
        }
        b'x' => {
            let digits = std::str::from_utf8(text.get(2..4)?).ok().filter(|digits| !digits.starts_with('+'))?;
            Some((u8::from_str_radix(digits, 16).ok()?, 4))
        }
        _ => None,
    }
}

/// A word as it stands in a line: in quotes where it needs them.
#[must_use]
pub fn quoted(word: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    if !word.is_empty() && word.iter().all(is_plain) {
        return word.iter().map(|byte| char::from(*byte)).collect();
    }
    let mut text = String::from("\"");
    for byte in word {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\{byte:03o}")),
        }
    }
    text.push('"');
    text
}

/// Commands out of a stream of bytes.
#[derive(Debug, Default)]
pub struct LineReader {
    buffer: Vec<u8>,
    /// Bytes of the buffer that were looked at and have no end of a line.
    looked_at: usize,
    /// The words of a command whose last one is a text that still comes, and the word that ends that.
    text_of: Option<(Vec<Vec<u8>>, Vec<u8>)>,
}

impl LineReader {
    /// Takes bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    /// The next command's words, once they are there. `knows_client` says that the client has said who it is.
    pub fn next(&mut self, knows_client: bool) -> Option<Result<Vec<Vec<u8>>, SyntaxError>> {
        if let Some((words, end)) = self.text_of.take() {
            return self.text(words, end);
        }
        let spaces = self.buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if spaces > 0 {
            self.buffer.drain(..spaces);
            self.looked_at = 0;
        }
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let end = self.buffer.iter().skip(self.looked_at).position(is_end).map(|at| at + self.looked_at);
        let cut = (!knows_client).then_some(UNKNOWN_CLIENT_BYTES_MAX);
        let Some(end) = end.into_iter().chain(cut.filter(|cut| *cut < self.buffer.len())).min() else {
            self.looked_at = self.buffer.len();
            return (self.buffer.len() > COMMAND_BYTES_MAX).then_some(Err(SyntaxError::TooLong));
        };
        let line: Vec<u8> = self.buffer.drain(..=end).take(end).collect();
        self.looked_at = 0;
        let line = line.strip_prefix(b"-").unwrap_or(&line);
        let words = match words(line, None) {
            Ok(words) => words,
            Err(error) => return Some(Err(error)),
        };
        match words.as_slice() {
            [before @ .., arrows, end] if knows_client && arrows == b"<<" && !end.is_empty() => {
                self.text(before.to_vec(), end.clone())
            }
            _ => Some(Ok(words)),
        }
    }

    /// A command whose last word is a text up to a line that ends with `end`.
    fn text(&mut self, mut words: Vec<Vec<u8>>, end: Vec<u8>) -> Option<Result<Vec<Vec<u8>>, SyntaxError>> {
        let window = end.len() + 1;
        let from = self.looked_at.saturating_sub(window);
        let is_end = |part: &[u8]| {
            part.strip_prefix(end.as_slice()).is_some_and(|rest| matches!(rest.first(), Some(b'\n' | b'\r')))
        };
        let found = self.buffer.get(from..).unwrap_or_default().windows(window).position(is_end);
        let Some(at) = found.map(|at| at + from) else {
            self.looked_at = self.buffer.len();
            self.text_of = Some((words, end));
            return (self.buffer.len() > COMMAND_BYTES_MAX).then_some(Err(SyntaxError::TooLong));
        };
        words.push(self.buffer.drain(..at + window).take(at).collect());
        self.looked_at = 0;
        Some(Ok(words))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn texts(line: &str, separator: Option<u8>) -> Result<Vec<String>, SyntaxError> {
        Ok(words(line.as_bytes(), separator)?.into_iter().map(|word| String::from_utf8(word).unwrap()).collect())
    }

    #[test]
    fn words_are_as_in_varnish() {
        use SyntaxError::{Backslash, MissingQuote, MissingSeparator, Quote};
        let cases: &[(&str, Result<&[&str], SyntaxError>)] = &[
            ("", Ok(&[])),
            ("  a  b ", Ok(&["a", "b"])),
            (r#"a "b c" d"#, Ok(&["a", "b c", "d"])),
            (r#"a """#, Ok(&["a", ""])),
            (r#""a" "b""#, Ok(&["a", "b"])),
            (r#""a""b""#, Err(MissingSeparator)),
            (r#"a"b"#, Err(Quote)),
            (r#""ab"#, Err(MissingQuote)),
            (r#""a\"b\\c\n\101\x42""#, Ok(&["a\"b\\c\nAB"])),
            (r"a\q", Err(Backslash)),
            (r"a\x4", Err(Backslash)),
            ("a\\", Err(Backslash)),
            ("a,b", Ok(&["a,b"])),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            assert_eq!(texts(line, None), expected, "{line}");
        }
        assert_eq!(texts("+a, -b ,c", Some(b',')).unwrap(), ["+a", "-b", "c"]);
        assert_eq!(texts("a,", Some(b',')).unwrap(), ["a", ""]);
    }

    fn commands(chunks: &[&str], knows_client: bool) -> Vec<Result<Vec<String>, SyntaxError>> {
        let mut reader = LineReader::default();
        let mut found = Vec::new();
        for chunk in chunks {
            reader.push(chunk.as_bytes());
            while let Some(words) = reader.next(knows_client) {
                found.push(words.map(|words| words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()));
            }
        }
        found
    }

    #[test]
    fn commands_come_in_pieces() {
        let text = "vcl.inline a << END\nvcl 4.1;\n# END of it\nEND\n\n-ping\r\nstatus\n";
        let expected = [vec!["vcl.inline", "a", "vcl 4.1;\n# END of it\n"], vec!["ping"], vec!["status"]];
        let whole: Vec<Vec<String>> = commands(&[text], true).into_iter().map(Result::unwrap).collect();
        assert_eq!(whole, expected);
        let bytes: Vec<&str> = text.split("").collect();
        let pieces: Vec<Vec<String>> = commands(&bytes, true).into_iter().map(Result::unwrap).collect();
        assert_eq!(pieces, expected);
    }

    #[test]
    fn a_stranger_has_short_lines_and_no_texts() {
        let line = "x".repeat(200);
        let found = commands(&[&line], false);
        assert_eq!(found[0].as_ref().unwrap()[0].len(), UNKNOWN_CLIENT_BYTES_MAX);
        assert_eq!(commands(&["a << b\n"], false), [Ok(vec!["a".to_owned(), "<<".to_owned(), "b".to_owned()])]);
    }

    proptest! {
        /// A word comes back as it was, whatever is in it.
        #[test]
        fn quoted_words_are_read_again(all in vec(vec(any::<u8>(), 0..12), 1..5)) {
            let line = all.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(words(line.as_bytes(), None), Ok(all));
        }

        #[test]
        fn any_bytes_are_survived(chunks in vec(vec(any::<u8>(), 0..100), 0..8), knows_client in any::<bool>()) {
            let mut reader = LineReader::default();
            for chunk in &chunks {
                reader.push(chunk);
                while reader.next(knows_client).is_some() {}
            }
        }
    }
}
