//! Cuts a line into words.
//!
//! The rules are HAProxy's (chapter 2.2 and 2.3 of its manual). Outside of quotes a blank separates words, `#` begins a
//! comment and a backslash takes the special meaning from the character after it; `"..."` protects blanks, `#` and `'`,
//! and is the only place where `$NAME`, `${NAME}`, `${NAME-default}` and `${NAME[*]}` stand for the environment;
//! `'...'` protects everything. A backslash before any other character stands for itself, so that `\1` and `\.` reach
//! regular expressions as they are. There is no continuation of lines: a statement is a line.

use basics::hex;
use std::collections::BTreeMap;

use crate::line::Word;

/// Most words of a line, as in HAProxy.
pub const LINE_WORDS_MAX: usize = 64;

/// Most bytes of a line, before and after expansion of variables. HAProxy has no limit but memory.
pub const LINE_LEN_MAX: usize = 1 << 20;

/// What a line may refer to.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The environment.
    pub environment: &'a BTreeMap<String, String>,
    /// `.FILE`.
    pub file: &'a str,
    /// `.LINE`.
    pub number: u32,
    /// `.SECTION`: the name of the section, or its keyword if it has none.
    pub section: &'a str,
}

/// Why a line cannot be cut into words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexError {
    /// HAProxy's message.
    pub message: String,
    /// Where in the line, in bytes from 0.
    pub column: u32,
}

/// Cuts `text`, a line without its line feed, into words.
///
/// Words that are empty are kept (`""`), but for the one that trailing blanks would make.
///
/// # Errors
/// When a quote or brace is not closed, a variable's name or an escape is malformed, or there is too much of something.
pub fn words(text: &[u8], surroundings: &Surroundings<'_>) -> Result<Vec<Word>, LexError> {
    if text.len() > LINE_LEN_MAX {
        return Err(LexError { message: format!("line too long, the maximum is {LINE_LEN_MAX} bytes"), column: 0 });
    }
    let mut lexer = Lexer { text, position: 0, words: Vec::new(), word: Vec::new(), start: 0, size: 0, surroundings };
    lexer.run()?;
    Ok(lexer.words)
}

struct Lexer<'a> {
    text: &'a [u8],
    position: usize,
    words: Vec<Word>,
    /// The word so far.
    word: Vec<u8>,
    /// Where the word began.
    start: usize,
    /// Bytes of all words so far.
    size: usize,
    surroundings: &'a Surroundings<'a>,
}

impl Lexer<'_> {
    fn run(&mut self) -> Result<(), LexError> {
        // Where the open quote is, for the message when nothing closes it.
        let mut strong = None;
        let mut weak = None;
        self.skip_blanks();
        self.start = self.position;
        // Whether anything, be it an empty pair of quotes, has been seen since the last separator.
        let mut in_word = false;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' | b'\r' => break,
                b'#' if strong.is_none() && weak.is_none() => break,
                b'"' if strong.is_none() => {
                    weak = if weak.is_some() { None } else { Some(self.position) };
                    self.position += 1;
                }
                b'\'' if weak.is_none() => {
                    strong = if strong.is_some() { None } else { Some(self.position) };
                    self.position += 1;
                }
                b'\\' if strong.is_none() => self.escape(weak.is_some())?,
                b'$' if weak.is_some() => self.variable()?,
                _ if is_blank(byte) && strong.is_none() && weak.is_none() => {
                    let end = self.position;
                    self.skip_blanks();
                    self.end_word(end)?;
                    in_word = false;
                    continue;
                }
                _ => {
                    self.emit(byte)?;
                    self.position += 1;
                }
            }
            in_word = true;
        }
        if let Some(quote) = strong.or(weak) {
            return Err(error(format!("unmatched quote at position {}", quote + 1), quote));
        }
        if in_word {
            self.end_word(self.position)?;
        }
        Ok(())
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.position + ahead).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek(0).is_some_and(|byte| is_blank(byte) && byte != b'\r' && byte != b'\n') {
            self.position += 1;
        }
    }

    fn emit(&mut self, byte: u8) -> Result<(), LexError> {
        self.size += 1;
        if self.size > LINE_LEN_MAX {
            let message = format!("line too long after expansion, the maximum is {LINE_LEN_MAX} bytes");
            return Err(error(message, self.start));
        }
        self.word.push(byte);
        Ok(())
    }

    /// Ends the word, which was written up to `end`; the next begins at the current position.
    fn end_word(&mut self, end: usize) -> Result<(), LexError> {
        let bytes = std::mem::take(&mut self.word);
        if self.words.len() == LINE_WORDS_MAX {
            let last = self.words.last().map_or("", Word::text);
            let column = self.words.last().map_or(0, |word| word.columns().start);
            let message = format!(
                "too many words, truncating after word {LINE_WORDS_MAX}, position {}: <{last}>.",
                column.saturating_add(1)
            );
            return Err(LexError { message, column: column_of(self.start) });
        }
        self.words.push(Word::new(bytes, column_of(self.start)..column_of(end.max(self.start))));
        self.start = self.position;
        Ok(())
    }

    /// At a backslash outside of strong quotes.
    fn escape(&mut self, in_weak: bool) -> Result<(), LexError> {
        let (byte, length) = match self.peek(1) {
            Some(next @ (b' ' | b'\\' | b'#' | b'\'' | b'"')) => (next, 2),
            Some(b'$') if in_weak => (b'$', 2),
            Some(b't') => (b'\t', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b'x') => {
                let (Some(high), Some(low)) = (self.peek(2).and_then(hex::value), self.peek(3).and_then(hex::value))
                else {
                    let message =
                        format!("truncated or invalid hexadecimal sequence at position {}", self.position + 1);
                    return Err(error(message, self.position));
                };
                (high << 4 | low, 4)
            }
            _ => (b'\\', 1),
        };
        self.emit(byte)?;
        self.position += length;
        Ok(())
    }

    /// At a `$` within weak quotes.
    fn variable(&mut self) -> Result<(), LexError> {
        let dollar = self.position;
        self.position += 1;
        let brace = (self.peek(0) == Some(b'{')).then_some(self.position);
        if brace.is_some() {
            self.position += 1;
        }
        let name_start = self.position;
        let is_internal = self.peek(0) == Some(b'.');
        if !is_internal && !self.peek(0).is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_') {
            return Err(self.forbidden_name(name_start));
        }
        if is_internal {
            self.position += 1;
        }
        while self.peek(0).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            self.position += 1;
        }
        let name = self.text.get(name_start..self.position).unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let mut value = match name.as_str() {
            ".LINE" => Some(self.surroundings.number.to_string()),
            ".FILE" => Some(self.surroundings.file.to_owned()),
            ".SECTION" => Some(self.surroundings.section.to_owned()),
            _ if is_internal => return Err(self.forbidden_name(name_start)),
            _ => self.surroundings.environment.get(&name).cloned(),
        };
        let mut expands = false;
        if brace.is_some() && self.peek(0) == Some(b'[') {
            if self.peek(1) != Some(b'*') || self.peek(2) != Some(b']') {
                let message = format!("truncated or invalid word expansion sequence at position {}", self.position + 1);
                return Err(error(message, self.position));
            }
            expands = true;
            self.position += 3;
        }
        if let Some(brace) = brace {
            if self.peek(0) == Some(b'-') {
                let default_start = self.position + 1;
                while self.peek(0).is_some_and(|byte| byte != b'}' && byte != b'\n') {
                    self.position += 1;
                }
                if value.is_none() {
                    let default = self.text.get(default_start..self.position).unwrap_or_default();
                    value = Some(String::from_utf8_lossy(default).into_owned());
                }
            }
            if self.peek(0) != Some(b'}') {
                let message = format!("unmatched brace in environment variable name at position {}", brace + 1);
                return Err(error(message, brace));
            }
            self.position += 1;
        }
        self.expand(&value.unwrap_or_default(), expands, dollar)
    }

    /// Writes the value of the variable that began at `dollar`, as several words if `expands`.
    fn expand(&mut self, value: &str, expands: bool, dollar: usize) -> Result<(), LexError> {
        if !expands {
            return value.bytes().try_for_each(|byte| self.emit(byte));
        }
        let mut was_blank = false;
        for byte in value.bytes() {
            if is_blank(byte) {
                if !was_blank {
                    self.end_word(self.position)?;
                    self.start = dollar;
                }
                was_blank = true;
            } else {
                was_blank = false;
                self.emit(byte)?;
            }
        }
        Ok(())
    }

    fn forbidden_name(&self, column: usize) -> LexError {
        let message = format!("forbidden first char in environment variable name at position {}", column + 1);
        error(message, column)
    }
}

fn error(message: String, column: usize) -> LexError {
    LexError { message, column: column_of(column) }
}

fn column_of(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// C's `isspace`.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Whether names of sections, servers and ACLs may contain it.
pub fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.' | ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lex(text: &str) -> Result<Vec<String>, LexError> {
        let environment = [("NAME", "value"), ("LIST", "one  two three"), ("EMPTY", "")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let surroundings = Surroundings { environment: &environment, file: "a.cfg", number: 7, section: "web" };
        words(text.as_bytes(), &surroundings).map(|words| words.iter().map(|word| word.text().to_owned()).collect())
    }

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(lex(text).unwrap(), expected, "{text}");
    }

    #[test]
    fn words_are_separated_by_blanks() {
        check("", &[]);
        check("   ", &[]);
        check("# all comment", &[]);
        check("  bind\t:80  ", &["bind", ":80"]);
        check("global#comment", &["global"]);
        check("a \"\" b", &["a", "", "b"]);
        check("mode http\r", &["mode", "http"]);
        check("a\rb", &["a"]);
    }

    #[test]
    fn quotes_and_escapes() {
        let same = "%{+Q}o %t %s %{-Q}r";
        for text in [
            r"log-format %{+Q}o\ %t\ %s\ %{-Q}r",
            r#"log-format "%{+Q}o %t %s %{-Q}r""#,
            "log-format '%{+Q}o %t %s %{-Q}r'",
            r#"log-format "%{+Q}o %t"' %s %{-Q}r'"#,
            r#"log-format "%{+Q}o %t"' %s'\ %{-Q}r"#,
        ] {
            check(text, &["log-format", same]);
        }
        check(r"a\#b \\ \' \x41\x4a", &["a#b", "\\", "'", "AJ"]);
        check(r#""a\"b" '\"' "\'" "#, &["a\"b", "\\\"", "'"]);
        check(r"\1 \. \$x \", &["\\1", "\\.", "\\$x", "\\"]);
        check(r#""\1 \$x \t""#, &["\\1 $x \t"]);
        check("'#' \"#\" $NAME '$NAME'", &["#", "#", "$NAME", "$NAME"]);
        check("\\\tx", &["\\", "x"]);
    }

    #[test]
    fn variables() {
        check(r#""$NAME" "${NAME}x" "a${NONE}b" "${NONE-d e}" "${EMPTY-d}""#, &["value", "valuex", "ab", "d e", ""]);
        check(r#"a "${LIST[*]}" b"#, &["a", "one", "two", "three", "b"]);
        check(r#""x${LIST[*]}y""#, &["xone", "two", "threey"]);
        check(r#""$LIST""#, &["one  two three"]);
        check(r#""${NONE[*]-p q}""#, &["p", "q"]);
        check(r#""${.FILE}:${.LINE}" "$.SECTION""#, &["a.cfg:7", "web"]);
    }

    #[test]
    fn errors_point_at_their_place() {
        let error = |text: &str| {
            let error = lex(text).unwrap_err();
            (error.message, error.column)
        };
        assert_eq!(error("  a \"b"), ("unmatched quote at position 5".into(), 4));
        assert_eq!(error("'a\" b"), ("unmatched quote at position 1".into(), 0));
        assert_eq!(error(r"a \x4g"), ("truncated or invalid hexadecimal sequence at position 3".into(), 2));
        assert_eq!(error("\"${NAME\""), ("unmatched brace in environment variable name at position 3".into(), 2));
        assert_eq!(error("\"${NAME-x\""), ("unmatched brace in environment variable name at position 3".into(), 2));
        assert_eq!(error("\"$1\""), ("forbidden first char in environment variable name at position 3".into(), 2));
        assert_eq!(error("\"$.NOPE\"").1, 2);
        assert_eq!(error("\"${LIST[x]}\""), ("truncated or invalid word expansion sequence at position 8".into(), 7));
        let many = vec!["w"; 65].join(" ");
        assert_eq!(error(&many), ("too many words, truncating after word 64, position 127: <w>.".into(), 128));
        assert!(lex(&vec!["w"; 64].join(" ")).is_ok());
    }

    #[test]
    fn columns_are_those_of_the_original() {
        let environment = BTreeMap::from([("A".to_owned(), "a long value".to_owned())]);
        let surroundings = Surroundings { environment: &environment, file: "", number: 1, section: "" };
        let words = words(b"  x \"$A\"  'y z'", &surroundings).unwrap();
        let columns: Vec<_> = words.iter().map(Word::columns).collect();
        assert_eq!(columns, [2..3, 4..8, 10..15]);
    }

    #[test]
    fn any_byte_survives() {
        let environment = BTreeMap::new();
        let surroundings = Surroundings { environment: &environment, file: "", number: 1, section: "" };
        let words = words(b"\\xff\\x00 \xe9", &surroundings).unwrap();
        assert_eq!(words.iter().map(Word::bytes).collect::<Vec<_>>(), [&b"\xff\0"[..], b"\xe9"]);
    }
}
