//! Expressions: what binds how strongly, and what becomes of a value where another type is wanted.
//!
//! ```text
//! or  := and { "||" and }          sum     := product { ("+" | "-") product }
//! and := not { "&&" not }          product := suffixed { ("*" | "/" | "%") suffixed }
//! not := "!" comparison | comparison    suffixed := primary { "." method }
//! ```

use super::{Compiler, Outcome};
use crate::{
    diagnostic::Diagnostic,
    program::{Constant, Expression},
    source::Span,
    token::Sign,
    types::Type,
};

/// An expression with its type and place.
#[derive(Debug)]
pub(super) struct Typed {
    pub expression: Expression,
    pub kind: Type,
    pub span: Span,
}

impl Compiler<'_> {
    /// An expression that gives a value of this type.
    pub(super) fn expression(&mut self, wanted: Type) -> Outcome<Expression> {
        let typed = self.value(wanted)?;
        convert(typed, wanted)
    }

    /// An expression of whatever type it has; `wanted` helps where a word could be several things.
    pub(super) fn value(&mut self, wanted: Type) -> Outcome<Typed> {
        self.descend()?;
        let typed = self.alternatives(wanted)?;
        self.depth -= 1;
        Ok(typed)
    }

    fn alternatives(&mut self, wanted: Type) -> Outcome<Typed> {
        let first = self.conjunction(wanted)?;
        self.chain(first, Sign::Or, |compiler| compiler.conjunction(wanted), Expression::Or)
    }

    fn conjunction(&mut self, wanted: Type) -> Outcome<Typed> {
        let first = self.negation(wanted)?;
        self.chain(first, Sign::And, |compiler| compiler.negation(wanted), Expression::And)
    }

    /// `first SIGN next SIGN next`, all conditions.
    fn chain(
        &mut self,
        first: Typed,
        sign: Sign,
        mut next: impl FnMut(&mut Self) -> Outcome<Typed>,
        make: impl FnOnce(Vec<Expression>) -> Expression,
    ) -> Outcome<Typed> {
        if !self.is(sign) {
            return Ok(first);
        }
        let mut span = first.span;
        let mut all = vec![condition(first, sign, "preceeded")?];
        while self.take(sign) {
            let typed = next(self)?;
            span = span.to(typed.span);
            all.push(condition(typed, sign, "followed")?);
        }
        Ok(Typed { expression: make(all), kind: Type::Bool, span })
    }

    fn negation(&mut self, wanted: Type) -> Outcome<Typed> {
        if !self.is(Sign::Not) {
            return self.comparison(wanted);
        }
        let sign = self.next();
        self.descend()?;
        let typed = self.negation(Type::Bool)?;
        self.depth -= 1;
        let span = sign.span.to(typed.span);
        let inner = condition(typed, Sign::Not, "followed")?;
        Ok(Typed { expression: Expression::Not(Box::new(inner)), kind: Type::Bool, span })
    }

    /// Numbers and strings with what is between them.
    pub(super) fn sum(&mut self, wanted: Type) -> Outcome<Typed> {
        let mut left = self.product(wanted)?;
        loop {
            let token = self.peek();
            // What stands beside a number with a unit has one too.
            let beside = if matches!(left.kind, Type::Bytes | Type::Duration) { left.kind } else { wanted };
            let adds = self.is(Sign::Plus);
            if adds && is_text(left.kind) {
                left = self.concatenation(left, None)?;
            } else if adds && wanted == Type::String && left.kind.is_printable() {
                // NOTE: what can be counted is counted; the rest stands behind one another.
                self.next();
                let right = self.product(beside)?;
                left = if super::operators::can_be_added(left.kind, right.kind) {
                    super::operators::arithmetic(left, token, right)?
                } else {
                    self.concatenation(left, Some(right))?
                };
            } else if adds || self.is(Sign::Minus) {
                self.next();
                let right = self.product(beside)?;
                left = super::operators::arithmetic(left, token, right)?;
            } else if self.version() <= crate::variables::Version::V3 && is_text(left.kind) && self.continues_text() {
                left = self.concatenation(left, None)?;
            } else {
                return Ok(left);
            }
        }
    }

    /// VCL 3 puts strings behind one another without a sign.
    fn continues_text(&self) -> bool {
        use crate::token::Kind;
        matches!(self.peek().kind, Kind::String | Kind::Identifier)
    }

    /// The pieces of a string; the second one may have been read already.
    fn concatenation(&mut self, first: Typed, second: Option<Typed>) -> Outcome<Typed> {
        let mut span = first.span;
        let mut pieces = vec![text(first)?];
        if let Some(second) = second {
            span = span.to(second.span);
            pieces.push(text(second)?);
        }
        let is_old = self.version() <= crate::variables::Version::V3;
        while self.take(Sign::Plus) || is_old && self.continues_text() {
            let piece = self.product(Type::String)?;
            span = span.to(piece.span);
            pieces.push(text(piece)?);
        }
        let mut joined: Vec<Expression> = Vec::new();
        for piece in pieces {
            // Constants that stand beside one another are one.
            if let (Some(Expression::Constant(Constant::String(last))), Expression::Constant(Constant::String(next))) =
                (joined.last_mut(), &piece)
            {
                *last = [&**last, &**next].concat().into();
            } else {
                joined.push(piece);
            }
        }
        let expression = match <[Expression; 1]>::try_from(joined) {
            Ok([single]) => single,
            Err(several) => Expression::Concat(several),
        };
        Ok(Typed { expression, kind: Type::String, span })
    }

    fn product(&mut self, wanted: Type) -> Outcome<Typed> {
        let mut left = self.suffixed(wanted)?;
        while self.is(Sign::Times) || self.is(Sign::Slash) || self.is(Sign::Percent) {
            let token = self.next();
            let right = self.suffixed(Type::Real)?;
            left = super::operators::arithmetic(left, token, right)?;
        }
        Ok(left)
    }
}

/// Whether it is a string already.
pub(super) fn is_text(kind: Type) -> bool {
    matches!(kind, Type::String | Type::Header)
}

/// What a value becomes as a string.
pub(super) fn text(typed: Typed) -> Outcome<Expression> {
    match typed.kind {
        Type::String | Type::Header => Ok(typed.expression),
        kind if kind.is_printable() => Ok(Expression::Text(Box::new(typed.expression))),
        kind => Err(Diagnostic::new(format!("Cannot convert {kind} to STRING")).show_range(typed.span)),
    }
}

fn condition(typed: Typed, sign: Sign, where_it_is: &str) -> Outcome<Expression> {
    let kind = typed.kind;
    if !kind.is_condition() {
        let words = format!("'{}' must be {where_it_is} by BOOL, found {kind}.", sign.text());
        return Err(Diagnostic::new(words).show_range(typed.span));
    }
    Ok(truth(typed))
}

/// What a value is as a condition.
fn truth(typed: Typed) -> Expression {
    if typed.kind == Type::Bool { typed.expression } else { Expression::Truth(Box::new(typed.expression)) }
}

/// The value as the type that is wanted.
pub(super) fn convert(typed: Typed, wanted: Type) -> Outcome<Expression> {
    let Typed { expression, kind, span } = typed;
    if kind == wanted {
        return Ok(expression);
    }
    match (kind, wanted) {
        (_, Type::String) => text(Typed { expression, kind, span }),
        (kind, Type::Bool) if kind.is_condition() => Ok(truth(Typed { expression, kind, span })),
        (Type::Int, Type::Real) => Ok(Expression::Convert(Type::Real, Box::new(expression))),
        (Type::Header, Type::Body) | (Type::String, Type::Body) => Ok(expression),
        (Type::Blob, Type::Body) => Ok(expression),
        (kind, Type::Body) if kind.is_printable() => Ok(Expression::Text(Box::new(expression))),
        _ => Err(Diagnostic::new(format!("Expression has type {kind}, expected {wanted}")).show_range(span)),
    }
}
