//! A query as tokens.

use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, a number or an operand without quotes.
    Word(String),
    /// An operand in quotes, and whether a backslash stands in it before a letter or digit.
    Quoted {
        text: String,
        escapes_letter: bool,
    },
    Comparison(Comparison),
    /// `~`, and whether it is `!~`.
    Matches {
        negated: bool,
    },
    /// One of `( ) { } [ ] : ,`.
    Sign(char),
    /// What is no token, and why. It is an error where the parser comes to it.
    Bad(String),
    /// The end of a line: of one query.
    End,
}

/// Operators that compare numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

/// Operators made of signs; longer ones come before those that they begin with.
const OPERATORS: [(&str, Kind); 8] = [
    ("==", Kind::Comparison(Comparison::Equal)),
    ("!=", Kind::Comparison(Comparison::NotEqual)),
    ("<=", Kind::Comparison(Comparison::LessOrEqual)),
    (">=", Kind::Comparison(Comparison::GreaterOrEqual)),
    ("!~", Kind::Matches { negated: true }),
    ("<", Kind::Comparison(Comparison::Less)),
    (">", Kind::Comparison(Comparison::Greater)),
    ("~", Kind::Matches { negated: false }),
];

/// Whether a letter may stand in a word. Others stand in quotes.
pub(super) fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "+-_.*".contains(letter)
}

pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let first = rest.chars().next().unwrap_or_default();
        let (kind, length) = match first {
            '\n' => (Some(Kind::End), 1),
            '\\' if rest.starts_with("\\\n") => (None, 2),
            '\\' if rest.starts_with("\\\r\n") => (None, 3),
            _ if first.is_whitespace() => (None, first.len_utf8()),
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '"' | '\'' => quoted(rest, first),
            _ => plain(rest, first),
        };
        // The end of a line is no text that a message could show.
        let shown = if kind == Some(Kind::End) { 0 } else { length };
        tokens.extend(kind.map(|kind| Token { kind, range: at..at + shown }));
        at += length;
    }
    tokens.push(Token { kind: Kind::End, range: text.len()..text.len() });
    tokens
}

/// An operator, a sign or a word at the beginning of `rest`, and its length.
fn plain(rest: &str, first: char) -> (Option<Kind>, usize) {
    if let Some((sign, kind)) = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign)) {
        return (Some(kind.clone()), sign.len());
    }
    if "(){}[]:,".contains(first) {
        return (Some(Kind::Sign(first)), 1);
    }
    let end_of = |ends: fn(char) -> bool| rest.find(ends).unwrap_or(rest.len());
    let length = end_of(|letter| !is_of_word(letter));
    if let Some(word) = rest.get(..length).filter(|word| !word.is_empty()) {
        return (Some(Kind::Word(word.to_owned())), length);
    }
    let (message, length) = match first {
        '=' => ("there is no operator '='; write == for numbers and eq for text".to_owned(), 1),
        '!' => (
            "'!' cannot stand alone; write not before an expression, != before a number, !~ before a pattern"
                .to_owned(),
            1,
        ),
        '&' => ("there is no operator '&'; write and".to_owned(), 1),
        '|' => ("there is no operator '|'; write or".to_owned(), 1),
        _ => {
            let length = end_of(|letter| letter.is_whitespace() || "()".contains(letter)).max(first.len_utf8());
            let word = rest.get(..length).unwrap_or_default();
            (format!("{word:?} needs its quotes: only letters, digits and + - _ . * may stand without"), length)
        }
    };
    (Some(Kind::Bad(message)), length)
}

/// A text in quotes at the beginning of `rest`, and its length: a backslash has the next letter stand for itself.
fn quoted(rest: &str, quote: char) -> (Option<Kind>, usize) {
    let mut text = String::new();
    let mut escapes_letter = false;
    let mut letters = rest.char_indices().skip(1);
    while let Some((place, letter)) = letters.next() {
        match letter {
            _ if letter == quote => return (Some(Kind::Quoted { text, escapes_letter }), place + 1),
            '\n' => break,
            '\\' => match letters.next() {
                Some((_, '\n')) | None => break,
                Some((_, escaped)) => {
                    escapes_letter |= escaped.is_alphanumeric();
                    text.push(escaped);
                }
            },
            _ => text.push(letter),
        }
    }
    let message = format!("the text that begins here has no end; put a {quote} behind it");
    (Some(Kind::Bad(message)), rest.find('\n').unwrap_or(rest.len()))
}
