//! Words one after the other.

use super::{Compiler, Outcome};
use crate::{
    diagnostic::Diagnostic,
    source::{SourceId, Span},
    token::{Kind, Sign, Token},
};

/// How deep statements and expressions may be nested.
const DEPTH_MAX: usize = 100;

impl Compiler<'_> {
    /// The next word.
    pub(super) fn peek(&self) -> Token {
        self.look(0)
    }

    /// The word behind `ahead` others.
    pub(super) fn look(&self, ahead: usize) -> Token {
        let end = Token { kind: Kind::End, span: Span { source: SourceId(0), start: 0, end: 0 } };
        self.tokens.get(self.at + ahead).or(self.tokens.last()).copied().unwrap_or(end)
    }

    /// The word before the next one.
    pub(super) fn last_span(&self) -> Span {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(self.peek().span, |token| token.span)
    }

    /// Takes the next word.
    pub(super) fn next(&mut self) -> Token {
        let token = self.peek();
        if token.kind != Kind::End {
            self.at += 1;
        }
        token
    }

    /// Takes the next word and gives its text.
    pub(super) fn next_text(&mut self) -> &str {
        let token = self.next();
        self.text(token)
    }

    /// Takes the next word, which must be a name, and gives its text.
    pub(super) fn identifier(&mut self) -> Outcome<&str> {
        let token = self.expect_kind(Kind::Identifier)?;
        Ok(self.text(token))
    }

    /// The text of a word.
    pub(super) fn text(&self, token: Token) -> &str {
        self.sources.text(token.span)
    }

    /// Whether the next word is this sign.
    pub(super) fn is(&self, sign: Sign) -> bool {
        self.peek().kind == Kind::Sign(sign)
    }

    /// Whether the next word is this name.
    pub(super) fn is_word(&self, word: &str) -> bool {
        let token = self.peek();
        token.kind == Kind::Identifier && self.text(token) == word
    }

    /// Takes the next word if it is this sign.
    pub(super) fn take(&mut self, sign: Sign) -> bool {
        let is = self.is(sign);
        if is {
            self.next();
        }
        is
    }

    /// Takes the next word, which must be this sign.
    pub(super) fn expect(&mut self, sign: Sign) -> Outcome<Token> {
        self.expect_kind(Kind::Sign(sign))
    }

    /// Takes the next word, which must be of this kind.
    pub(super) fn expect_kind(&mut self, kind: Kind) -> Outcome<Token> {
        let token = self.peek();
        if token.kind == kind {
            return Ok(self.next());
        }
        Err(self.unexpected(kind))
    }

    /// The message that another word was expected.
    pub(super) fn unexpected(&self, wanted: Kind) -> Diagnostic {
        let token = self.peek();
        let wanted = match wanted {
            Kind::Sign(sign) => format!("'{}'", sign.text()),
            other => other.name().to_owned(),
        };
        let found = if token.kind == Kind::End { "end of input" } else { self.text(token) };
        Diagnostic::at(format!("Expected {wanted} got '{found}'"), token.span)
    }

    /// Goes one level deeper; the caller comes up again.
    pub(super) fn descend(&mut self) -> Outcome<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let words = format!("This is nested more than {DEPTH_MAX} deep.");
            return Err(Diagnostic::at(words, self.peek().span));
        }
        Ok(())
    }
}
