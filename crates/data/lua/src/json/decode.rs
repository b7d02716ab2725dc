//! JSON as tables. What strict JSON does not have but cjson reads by default is read: numbers as C has them, `NaN`.

use mlua::{Lua, Table, Value};

use super::{DEPTH_MAX, Settings};
use crate::{library::raised, number_text};

/// A piece of the text.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Colon,
    Comma,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    End,
    Error(&'static str),
}

impl Token {
    /// The name that cjson's errors have for it.
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::Text(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::End => "T_END",
            Self::Error(reason) => reason,
        }
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    /// Where the last token began.
    token_at: usize,
    depth: i32,
    settings: &'a Settings,
}

/// The value of a text.
pub(super) fn decode(lua: &Lua, text: &[u8], settings: &Settings) -> mlua::Result<Value> {
    if matches!(text, [0, _, ..] | [_, 0, ..]) {
        return Err(raised("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder { lua, text, at: 0, token_at: 0, depth: 0, settings };
    let token = decoder.next();
    let value = decoder.value(token)?;
    match decoder.next() {
        Token::End => Ok(value),
        token => Err(decoder.unexpected("the end", &token)),
    }
}

impl Decoder<'_> {
    /// A byte; behind the end there are zeros, and a zero is an end.
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn error(&mut self, reason: &'static str) -> Token {
        self.token_at = self.at;
        Token::Error(reason)
    }

    fn unexpected(&self, expected: &str, found: &Token) -> mlua::Error {
        raised(format!("Expected {expected} but found {} at character {}", found.name(), self.token_at + 1))
    }

    fn next(&mut self) -> Token {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.token_at = self.at;
        let single = match self.byte(self.at) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            0 => return Token::End,
            b'"' => return self.text_token(),
            b'-' | b'0'..=b'9' => {
                if !self.settings.decode_invalid && self.is_invalid_number() {
                    return self.error("invalid number");
                }
                return self.number_token();
            }
            b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+' => return self.word_token(),
            _ => return self.error("invalid token"),
        };
        self.at += 1;
        single
    }

    fn word_token(&mut self) -> Token {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let (token, len) = if rest.starts_with(b"true") {
            (Token::Boolean(true), 4)
        } else if rest.starts_with(b"false") {
            (Token::Boolean(false), 5)
        } else if rest.starts_with(b"null") {
            (Token::Null, 4)
        } else if self.settings.decode_invalid && self.is_invalid_number() {
            return self.number_token();
        } else {
            return self.error("invalid token");
        };
        self.at += len;
        token
    }

    /// Whether what follows is a number for C and none for JSON.
    fn is_invalid_number(&self) -> bool {
        let mut at = self.at;
        match self.byte(at) {
            b'+' => return true,
            b'-' => at += 1,
            _ => {}
        }
        match self.byte(at) {
            b'0' => {
                let next = self.byte(at + 1);
                next | 0x20 == b'x' || next.is_ascii_digit()
            }
            0..=b'9' => false,
            _ => {
                let word = self.text.get(at..at + 3).unwrap_or_default();
                word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")
            }
        }
    }

    fn number_token(&mut self) -> Token {
        match number_text::leading(self.text.get(self.at..).unwrap_or_default()) {
            Some((number, len)) => {
                self.at += len;
                Token::Number(number)
            }
            None => self.error("invalid number"),
        }
    }

    fn text_token(&mut self) -> Token {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.byte(self.at) {
                b'"' => {
                    self.at += 1;
                    return Token::Text(text);
                }
                0 => return self.error("unexpected end of string"),
                b'\\' => {
                    let escaped = match self.byte(self.at + 1) {
                        byte @ (b'"' | b'\\' | b'/') => byte,
                        b'b' => 8,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 12,
                        b'r' => b'\r',
                        b'u' => {
                            let Some(len) = self.unicode_escape(&mut text) else {
                                return self.error("invalid unicode escape code");
                            };
                            self.at += len;
                            continue;
                        }
                        _ => return self.error("invalid escape code"),
                    };
                    text.push(escaped);
                    self.at += 2;
                }
                byte => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    /// Appends what `\uXXXX`, or two of them, stand for; gives how long that was.
    fn unicode_escape(&self, text: &mut Vec<u8>) -> Option<usize> {
        let unit = |at: usize| {
            let digits = self.text.get(at + 2..at + 6)?;
            digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
        };
        let first = unit(self.at)?;
        let (code, len) = match first {
            0xd800..0xdc00 => {
                if self.byte(self.at + 6) != b'\\' || self.byte(self.at + 7) != b'u' {
                    return None;
                }
                let second = unit(self.at + 6).filter(|second| (0xdc00..0xe000).contains(second))?;
                (0x10000 + ((first & 0x3ff) << 10 | second & 0x3ff), 12)
            }
            0xdc00..0xe000 => return None,
            code => (code, 6),
        };
        let mut buffer = [0; 4];
        text.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut buffer).as_bytes());
        Some(len)
    }

    fn value(&mut self, token: Token) -> mlua::Result<Value> {
        Ok(match token {
            Token::Text(text) => Value::String(self.lua.create_string(text)?),
            Token::Number(number) => Value::Number(number),
            Token::Boolean(truth) => Value::Boolean(truth),
            Token::ObjectBegin => Value::Table(self.object()?),
            Token::ArrayBegin => Value::Table(self.array()?),
            Token::Null => Value::NULL,
            token => return Err(self.unexpected("value", &token)),
        })
    }

    fn descend(&mut self) -> mlua::Result<()> {
        self.depth += 1;
        if self.depth > self.settings.decode_depth.min(DEPTH_MAX) {
            let (depth, at) = (self.depth, self.at);
            return Err(raised(format!("Found too many nested data structures ({depth}) at character {at}")));
        }
        Ok(())
    }

    /// An object. No room is made beforehand: a table's order follows from how it grew, and scripts see the order.
    fn object(&mut self) -> mlua::Result<Table> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if !matches!(token, Token::ObjectEnd) {
            loop {
                let Token::Text(name) = token else { return Err(self.unexpected("object key string", &token)) };
                let name = self.lua.create_string(name)?;
                match self.next() {
                    Token::Colon => {}
                    token => return Err(self.unexpected("colon", &token)),
                }
                let token_of_value = self.next();
                table.raw_set(name, self.value(token_of_value)?)?;
                match self.next() {
                    Token::ObjectEnd => break,
                    Token::Comma => token = self.next(),
                    token => return Err(self.unexpected("comma or object end", &token)),
                }
            }
        }
        self.depth -= 1;
        Ok(table)
    }

    fn array(&mut self) -> mlua::Result<Table> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if !matches!(token, Token::ArrayEnd) {
            for place in 1_i64.. {
                table.raw_set(place, self.value(token)?)?;
                match self.next() {
                    Token::ArrayEnd => break,
                    Token::Comma => token = self.next(),
                    token => return Err(self.unexpected("comma or array end", &token)),
                }
            }
        }
        self.depth -= 1;
        Ok(table)
    }
}
