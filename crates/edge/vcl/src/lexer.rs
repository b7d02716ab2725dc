//! A text into words.

use crate::{
    diagnostic::Diagnostic,
    source::{SourceId, Span},
    token::{Kind, SIGNS, Token},
};

/// Texts of more bytes are refused.
pub const SOURCE_BYTES_MAX: usize = 16 << 20;

/// Divides a text into words; the last one is [`Kind::End`].
///
/// # Errors
/// What is no word, where it is, and what to do.
pub fn words(source: SourceId, text: &str) -> Result<Vec<Token>, Diagnostic> {
    if text.len() > SOURCE_BYTES_MAX {
        let span = Span { source, start: 0, end: 0 };
        let words = format!("The text has {} bytes; at most {SOURCE_BYTES_MAX} are taken.", text.len());
        return Err(Diagnostic::at(words, span));
    }
    let mut lexer = Lexer { source, text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks()?;
        let token = lexer.word()?;
        tokens.push(token);
        if token.kind == Kind::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    source: SourceId,
    text: &'a str,
    at: usize,
}

/// The digits of a BLOB by their value.
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn span(&self, start: usize, end: usize) -> Span {
        // NOTE: no text is longer than SOURCE_BYTES_MAX.
        Span { source: self.source, start: start as u32, end: end as u32 }
    }

    /// Takes `length` bytes as a token.
    fn take(&mut self, kind: Kind, length: usize) -> Token {
        let start = self.at;
        self.at += length;
        Token { kind, span: self.span(start, self.at) }
    }

    /// The beginning of something that has no end: its first bytes.
    fn unterminated(&self, what: &str, length: usize) -> Diagnostic {
        Diagnostic::at(format!("Unterminated {what}, starting at"), self.span(self.at, self.at + length))
    }

    fn skip_blanks(&mut self) -> Result<(), Diagnostic> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c', '\x0b']).len();
            self.at += blanks;
            let rest = self.rest();
            if rest.starts_with('#') || rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(inside) = rest.strip_prefix("/*") {
                let end = inside.find("*/");
                let within = inside.get(..end.unwrap_or(inside.len())).unwrap_or_default();
                if let Some(nested) = within.find("/*") {
                    let at = self.at + 2 + nested;
                    return Err(Diagnostic::at("/* ... */ comment contains /*", self.span(at, at + 2)));
                }
                let end = end.ok_or_else(|| self.unterminated("/* ... */ comment", 2))?;
                self.at += end + 4;
            } else if blanks == 0 {
                return Ok(());
            }
        }
    }

    fn word(&mut self) -> Result<Token, Diagnostic> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(self.take(Kind::End, 0)) };
        if let Some(inside) = rest.strip_prefix("C{") {
            let end = inside.find("}C").ok_or_else(|| self.unterminated("inline C source", 2))?;
            return Ok(self.take(Kind::InlineC, end + 4));
        }
        if let Some(inside) = rest.strip_prefix("{\"") {
            let end = inside.find("\"}").ok_or_else(|| self.unterminated("long-string", 2))?;
            return Ok(self.take(Kind::String, end + 4));
        }
        if let Some(inside) = rest.strip_prefix("\"\"\"") {
            let end = inside.find("\"\"\"").ok_or_else(|| self.unterminated("long-string", 3))?;
            return Ok(self.take(Kind::String, end + 6));
        }
        if let Some(inside) = rest.strip_prefix('"') {
            let end = inside.find(['"', '\n', '\r']).filter(|end| inside.as_bytes().get(*end) == Some(&b'"'));
            let end = end.ok_or_else(|| self.unterminated("string", 1))?;
            return Ok(self.take(Kind::String, end + 2));
        }
        if first == ':' {
            return self.blob();
        }
        if first.is_ascii_alphabetic() {
            let length = rest.find(|sign: char| !(sign.is_ascii_alphanumeric() || "_-".contains(sign)));
            return Ok(self.take(Kind::Identifier, length.unwrap_or(rest.len())));
        }
        if first.is_ascii_digit() {
            return self.number();
        }
        if let Some((text, sign)) = SIGNS.iter().find(|(text, _)| rest.starts_with(text)) {
            return Ok(self.take(Kind::Sign(*sign), text.len()));
        }
        let span = self.span(self.at, self.at + first.len_utf8());
        let shown = if first.is_ascii_graphic() { first.to_string() } else { format!("0x{:02x}", first as u32) };
        Err(Diagnostic::at(format!("Syntax error at '{shown}'"), span))
    }

    fn number(&mut self) -> Result<Token, Diagnostic> {
        let digits = |text: &str| text.len() - text.trim_start_matches(|sign: char| sign.is_ascii_digit()).len();
        let rest = self.rest();
        let whole = digits(rest);
        let behind = rest.get(whole..).unwrap_or_default();
        let Some(fraction) = behind.strip_prefix('.').map(digits) else {
            if whole > 15 {
                return Err(Diagnostic::at("Too many digits for integer.", self.span(self.at, self.at + whole)));
            }
            return Ok(self.take(Kind::Integer, whole));
        };
        let length = whole + 1 + fraction;
        if whole > 12 || fraction > 3 {
            return Err(Diagnostic::at("Too many digits for real.", self.span(self.at, self.at + length)));
        }
        Ok(self.take(Kind::Real, length))
    }

    /// `:base64:`.
    fn blob(&mut self) -> Result<Token, Diagnostic> {
        let inside = self.rest().get(1..).unwrap_or_default();
        let is_digit = |sign: char| sign.is_ascii_alphanumeric() || "+/=".contains(sign);
        let length = inside.find(|sign: char| !is_digit(sign)).unwrap_or(inside.len());
        let digits = inside.get(..length).unwrap_or_default();
        let end = self.at + 1 + length;
        match inside.get(length..).and_then(|rest| rest.chars().next()) {
            Some(':') => {}
            Some(sign) if !sign.is_whitespace() && !";),".contains(sign) => {
                let shown = format!("Illegal BLOB character: '{sign}'");
                return Err(Diagnostic::at(shown, self.span(end, end + sign.len_utf8())));
            }
            _ => return Err(Diagnostic::at("Missing colon at end of BLOB", self.span(self.at, end))),
        }
        let padding = digits.len() - digits.trim_end_matches('=').len();
        if padding > 2 || digits.trim_end_matches('=').contains('=') {
            return Err(Diagnostic::at("Wrong padding ('=') in BLOB", self.span(self.at, end + 1)));
        }
        if digits.len() % 4 != 0 {
            let words = "BLOB must have n*4 base64 characters";
            return Err(Diagnostic::at(words, self.span(self.at, end + 1)));
        }
        // RFC 4648 section 3.5: bits that stand for nothing are zero.
        let unused = match padding {
            1 => 4,
            2 => 16,
            _ => 1,
        };
        let last = digits.trim_end_matches('=').chars().next_back();
        let value = last.and_then(|last| BASE64.find(last));
        if value.is_some_and(|value| value % unused != 0) {
            return Err(Diagnostic::at("Illegal BLOB character:", self.span(end - padding - 1, end - padding)));
        }
        Ok(self.take(Kind::Blob, length + 2))
    }
}
