//! Reads a query: first what binds least.
//!
//! ```text
//! queries    = query { end-of-line query }
//! query      = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" query ")" | test
//! test       = "vxid" comparison number | selection [ operator operand ]
//! selection  = [ "{" level [ "+" | "-" ] "}" ] tag { "," tag } [ ":" prefix ] [ "[" field "]" ]
//! ```

use std::ops::Range;

use pcre::Regex;

use crate::ring::TagSet;

use super::{
    DEPTH_MAX, Expression, QUERY_BYTES_MAX, QueryError,
    lexer::{Comparison, Kind, Token, is_of_word, tokens},
    selection::{Level, Selection},
    test::{Condition, Test},
    vocabulary::{TagName, Vocabulary},
};

type Read<T> = Result<T, QueryError>;

/// Words that are operators and no names.
const KEYWORDS: [&str; 5] = ["and", "or", "not", "eq", "ne"];

pub(super) fn parse(vocabulary: &Vocabulary, text: &str) -> Read<Expression> {
    if text.len() > QUERY_BYTES_MAX {
        let message = format!("a query may have {QUERY_BYTES_MAX} bytes, this one has {}", text.len());
        return Err(QueryError::new(message, 0..0));
    }
    let tokens = tokens(text);
    let mut parser = Parser { vocabulary, text, tokens: &tokens, at: 0, depth: 0 };
    let mut queries = Vec::new();
    while parser.at < tokens.len() {
        if parser.take(&Kind::End) {
            continue;
        }
        queries.push(parser.query()?);
        if !parser.take(&Kind::End) {
            return Err(parser.unexpected("the end, 'and' or 'or'"));
        }
    }
    match queries.len() {
        0 => Err(QueryError::new("the query is empty; write for instance RespStatus >= 500", 0..text.len())),
        _ => Ok(one_or(queries, Expression::Any)),
    }
}

fn one_or(mut list: Vec<Expression>, join: impl FnOnce(Vec<Expression>) -> Expression) -> Expression {
    match list.pop() {
        Some(only) if list.is_empty() => only,
        last => {
            list.extend(last);
            join(list)
        }
    }
}

struct Parser<'a> {
    vocabulary: &'a Vocabulary,
    text: &'a str,
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a Kind {
        self.tokens.get(self.at).map_or(&Kind::End, |token| &token.kind)
    }

    /// Where the next token stands.
    fn place(&self) -> Range<usize> {
        self.tokens.get(self.at).map_or(self.text.len()..self.text.len(), |token| token.range.clone())
    }

    fn take(&mut self, kind: &Kind) -> bool {
        let is_it = self.at < self.tokens.len() && self.peek() == kind;
        self.at += usize::from(is_it);
        is_it
    }

    fn take_sign(&mut self, sign: char) -> bool {
        self.take(&Kind::Sign(sign))
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Kind::Word(next) if next == word);
        self.at += usize::from(is_it);
        is_it
    }

    fn unexpected(&self, expected: &str) -> QueryError {
        let place = self.place();
        if let Kind::Bad(message) = self.peek() {
            return QueryError::new(message.clone(), place);
        }
        let found = match self.text.get(place.clone()).unwrap_or_default() {
            "" => "the query ends here".to_owned(),
            text => format!("'{text}' cannot stand here"),
        };
        QueryError::new(format!("{found}; expected {expected}"), place)
    }

    fn query(&mut self) -> Read<Expression> {
        let mut list = vec![self.all()?];
        while self.take_word("or") {
            list.push(self.all()?);
        }
        Ok(one_or(list, Expression::Any))
    }

    fn all(&mut self) -> Read<Expression> {
        let mut list = vec![self.one()?];
        while self.take_word("and") {
            list.push(self.one()?);
        }
        Ok(one_or(list, Expression::All))
    }

    fn one(&mut self) -> Read<Expression> {
        let place = self.place();
        let negates = self.take_word("not");
        if !negates && !self.take_sign('(') {
            return self.test().map(Expression::Test);
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(QueryError::new(format!("more than {DEPTH_MAX} expressions within one another"), place));
        }
        let inner = if negates { self.one()? } else { self.query()? };
        self.depth -= 1;
        if negates {
            return Ok(Expression::Not(Box::new(inner)));
        }
        if !self.take_sign(')') {
            return Err(self.unexpected("')' for the '(' before it"));
        }
        Ok(inner)
    }

    fn test(&mut self) -> Read<Test> {
        if self.take_word("vxid") {
            return self.transaction();
        }
        let start = self.place().start;
        let level = self.level()?;
        let tags = self.tags()?;
        let prefix = self.prefix(start, &tags)?;
        let field = self.field()?;
        let tags = tags.iter().fold(TagSet::NONE, |set, tag| set.with_number(tag.number));
        let condition = self.condition()?;
        Ok(Test::Record(Selection { level, tags, prefix, field }, condition))
    }

    /// What follows `vxid`.
    fn transaction(&mut self) -> Read<Test> {
        let Kind::Comparison(comparison) = *self.peek() else {
            return Err(self.unexpected("one of == != < <= > >= and the number of a transaction"));
        };
        self.at += 1;
        let number = match self.peek() {
            Kind::Word(word) => word.parse().ok(),
            _ => None,
        };
        let Some(number) = number else { return Err(self.unexpected("the number of a transaction")) };
        self.at += 1;
        Ok(Test::Transaction(comparison, number))
    }

    fn level(&mut self) -> Read<Option<Level>> {
        if !self.take_sign('{') {
            return Ok(None);
        }
        let level = match self.peek() {
            Kind::Word(word) => {
                let (digits, make): (&str, fn(u32) -> Level) = match (word.strip_suffix('+'), word.strip_suffix('-')) {
                    (Some(digits), _) => (digits, Level::AtLeast),
                    (_, Some(digits)) => (digits, Level::AtMost),
                    _ => (word, Level::Exactly),
                };
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse().ok().filter(|_| is_number).map(make)
            }
            _ => None,
        };
        let Some(level) = level else { return Err(self.unexpected("a level, as in {1}, {2+} (and deeper) or {2-}")) };
        self.at += 1;
        if !self.take_sign('}') {
            return Err(self.unexpected("'}' behind the level"));
        }
        Ok(Some(level))
    }

    fn tags(&mut self) -> Read<Vec<TagName>> {
        let mut tags = Vec::new();
        loop {
            let place = self.place();
            match self.peek() {
                Kind::Word(word) if !KEYWORDS.contains(&word.as_str()) => {
                    tags.extend(self.vocabulary.named(word).map_err(|message| QueryError::new(message, place))?);
                    self.at += 1;
                }
                _ => return Err(self.unexpected("a tag, as RespStatus")),
            }
            if !self.take_sign(',') {
                return Ok(tags);
            }
        }
    }

    /// `:prefix`, which means something only where records have a name before a colon. `start` is where the selection begins.
    fn prefix(&mut self, start: usize, tags: &[TagName]) -> Read<Option<String>> {
        let colon = self.place().start;
        if !self.take_sign(':') {
            return Ok(None);
        }
        let names = tags.iter().any(|tag| tag.has_names);
        let prefix = match self.peek() {
            Kind::Word(word) if !KEYWORDS.contains(&word.as_str()) => word.clone(),
            Kind::Quoted { text, .. } => text.clone(),
            // It is no name, but may be what somebody looks for: what is wrong then is the colon.
            Kind::Bad(_) if !names => self.text.get(self.place()).unwrap_or_default().to_owned(),
            _ => return Err(self.unexpected("the name before the colon of a record, as in ReqHeader:host")),
        };
        let end = self.place().end;
        if !names {
            let selected = self.text.get(start..colon).unwrap_or_default().trim_end();
            return Err(no_prefix(selected, &prefix, start..end));
        }
        self.at += 1;
        Ok(Some(prefix))
    }

    fn field(&mut self) -> Read<Option<usize>> {
        if !self.take_sign('[') {
            return Ok(None);
        }
        let number = match self.peek() {
            Kind::Word(word) => word.parse().ok().filter(|number| *number > 0),
            _ => None,
        };
        let Some(number) = number else { return Err(self.unexpected("which of the record's words, from 1 on")) };
        self.at += 1;
        if !self.take_sign(']') {
            return Err(self.unexpected("']' behind the number of the word"));
        }
        Ok(Some(number))
    }

    fn condition(&mut self) -> Read<Condition> {
        match self.peek() {
            Kind::Comparison(comparison) => {
                self.at += 1;
                self.number(*comparison)
            }
            Kind::Matches { negated } => {
                self.at += 1;
                self.pattern(*negated)
            }
            Kind::Word(word) if word == "eq" || word == "ne" => {
                self.at += 1;
                let (text, _) =
                    self.operand("a text; one that is not made of letters, digits and + - _ . * needs quotes")?;
                Ok(Condition::Text { equal: word == "eq", text })
            }
            Kind::Bad(_) => Err(self.unexpected("an operator")),
            Kind::Word(word) if !KEYWORDS.contains(&word.as_str()) => {
                Err(self
                    .unexpected("an operator: == != < <= > >= for numbers, eq ne for text, ~ !~ for patterns, and, or"))
            }
            _ => Ok(Condition::Exists),
        }
    }

    /// A word or a text in quotes; and whether a backslash stands in that before a letter.
    fn operand(&mut self, expected: &str) -> Read<(String, bool)> {
        let operand = match self.peek() {
            Kind::Word(word) if !KEYWORDS.contains(&word.as_str()) => (word.clone(), false),
            Kind::Quoted { text, escapes_letter } => (text.clone(), *escapes_letter),
            _ => return Err(self.unexpected(expected)),
        };
        self.at += 1;
        Ok(operand)
    }

    fn number(&mut self, comparison: Comparison) -> Read<Condition> {
        let place = self.place();
        let (text, _) = self.operand("a number")?;
        let is_float = text.contains(['.', 'e', 'E']);
        let integer = text.parse().ok().filter(|_| !is_float).map(|number| Condition::Integer(comparison, number));
        // NaN and infinities are no numbers here.
        let float = text.parse().ok().filter(|number: &f64| is_float && number.is_finite());
        integer.or(float.map(|number| Condition::Float(comparison, number))).ok_or_else(|| {
            let quoted =
                if text.chars().all(is_of_word) && !text.is_empty() { text.clone() } else { format!("{text:?}") };
            let instead = match comparison {
                Comparison::Equal => format!("eq {quoted}"),
                Comparison::NotEqual => format!("ne {quoted}"),
                _ => {
                    return QueryError::new(format!("'{text}' is no number, and this compares numbers"), place.clone());
                }
            };
            QueryError::new(format!("'{text}' is no number; write {instead} to compare text"), place.clone())
        })
    }

    fn pattern(&mut self, negated: bool) -> Read<Condition> {
        let place = self.place();
        let (text, escapes_letter) = self.operand("a regular expression; quotes are needed for most of them")?;
        if escapes_letter {
            let message = "a backslash in quotes has the next letter stand for itself; write two of them: \"\\\\d\"";
            return Err(QueryError::new(message, place));
        }
        let pattern = Regex::new(text.as_bytes(), false)
            .map_err(|reason| QueryError::new(format!("'{text}' is no regular expression: {reason}"), place))?;
        Ok(Condition::Pattern { negated, pattern })
    }
}

/// What to write instead of `RespStatus:503`.
fn no_prefix(selected: &str, prefix: &str, place: Range<usize>) -> QueryError {
    let instead = if prefix.parse::<i64>().is_ok() {
        format!("{selected} == {prefix}, or {selected} ~ {prefix} for what contains it")
    } else {
        format!("{selected} ~ {prefix:?}")
    };
    let message =
        format!("records of {selected} have no name before a colon that ':{prefix}' could be; write {instead}");
    QueryError::new(message, place)
}
