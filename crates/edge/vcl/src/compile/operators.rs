//! What signs do with types: sums, products, comparisons, matches.

use std::sync::Arc;

use super::{
    Compiler, Outcome,
    expressions::{Typed, is_text, text},
};
use crate::{
    diagnostic::Diagnostic,
    pattern::Pattern,
    program::{Arithmetic, Comparison, Constant, Expression},
    source::Span,
    token::{Kind, Sign, Token},
    types::Type,
};

/// What two types give, if they go together.
fn result(operator: Arithmetic, left: Type, right: Type) -> Option<Type> {
    use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
    match (operator, left, right) {
        (_, Type::Int, Type::Int) => Some(Type::Int),
        (Add | Subtract | Multiply | Divide, Type::Int | Type::Real, Type::Int | Type::Real) => Some(Type::Real),
        (Add | Subtract, Type::Duration, Type::Duration) => Some(Type::Duration),
        (Add | Subtract, Type::Bytes, Type::Bytes) => Some(Type::Bytes),
        (Add | Subtract, Type::Time, Type::Duration) => Some(Type::Time),
        (Subtract, Type::Time, Type::Time) => Some(Type::Duration),
        (Multiply | Divide, Type::Duration, Type::Int | Type::Real) => Some(Type::Duration),
        (Multiply | Divide, Type::Bytes, Type::Int | Type::Real) => Some(Type::Bytes),
        (Remainder, ..) | (Add | Subtract | Multiply | Divide, ..) => None,
    }
}

/// Whether a sum of two values is counted.
pub(super) fn can_be_added(left: Type, right: Type) -> bool {
    result(Arithmetic::Add, left, right).is_some()
}

/// Two values and a sign of counting.
pub(super) fn arithmetic(left: Typed, sign: Token, right: Typed) -> Outcome<Typed> {
    let operator = match sign.kind {
        Kind::Sign(Sign::Plus) => Arithmetic::Add,
        Kind::Sign(Sign::Minus) => Arithmetic::Subtract,
        Kind::Sign(Sign::Times) => Arithmetic::Multiply,
        Kind::Sign(Sign::Slash) => Arithmetic::Divide,
        _ => Arithmetic::Remainder,
    };
    let (of_left, of_right) = (named(left.kind), named(right.kind));
    let Some(kind) = result(operator, left.kind, right.kind) else {
        let written = match sign.kind {
            Kind::Sign(sign) => sign.text(),
            _ => "",
        };
        let words = match operator {
            Arithmetic::Remainder => "Operator % only possible on INT".to_owned(),
            Arithmetic::Multiply | Arithmetic::Divide if !left.kind.is_number() => {
                format!("Operator {written} not possible on type {of_left}.")
            }
            _ => format!("{of_left} {written} {of_right} not possible."),
        };
        return Err(Diagnostic::at(words, sign.span));
    };
    let span = left.span.to(right.span);
    let both = Box::new((left.expression, right.expression));
    Ok(Typed { expression: Expression::Arithmetic(operator, kind, both), kind, span })
}

/// Headers are strings to whoever reads about types.
fn named(kind: Type) -> Type {
    if kind == Type::Header { Type::String } else { kind }
}

impl Compiler<'_> {
    /// `a == b`, `a ~ "pattern"`, `a ~ list`, or a value alone.
    pub(super) fn comparison(&mut self, wanted: Type) -> Outcome<Typed> {
        let left = self.sum(wanted)?;
        let sign = self.peek();
        let comparison = match sign.kind {
            Kind::Sign(Sign::Equal) => Comparison::Equal,
            Kind::Sign(Sign::NotEqual) => Comparison::NotEqual,
            Kind::Sign(Sign::Less) => Comparison::Less,
            Kind::Sign(Sign::LessOrEqual) => Comparison::LessOrEqual,
            Kind::Sign(Sign::Greater) => Comparison::Greater,
            Kind::Sign(Sign::GreaterOrEqual) => Comparison::GreaterOrEqual,
            Kind::Sign(Sign::Tilde | Sign::NoMatch) => return self.matching(left),
            _ => return Ok(left),
        };
        let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        let allowed = match left.kind {
            Type::Header | Type::String => true,
            kind if kind.is_number() => true,
            Type::Ip | Type::Backend | Type::Bool | Type::Stevedore | Type::Probe | Type::Acl => is_equality,
            _ => false,
        };
        if !allowed {
            let written = self.text(sign);
            let words = format!("Operator {written} not possible on {}", named(left.kind));
            return Err(Diagnostic::at(words, sign.span));
        }
        self.next();
        let right = self.sum(left.kind)?;
        self.compare(comparison, sign, left, right)
    }

    fn compare(&self, comparison: Comparison, sign: Token, left: Typed, right: Typed) -> Outcome<Typed> {
        let span = left.span.to(right.span);
        let (left, right) = match (named(left.kind), named(right.kind)) {
            (Type::Int, Type::Real) => (Expression::Convert(Type::Real, Box::new(left.expression)), right.expression),
            (Type::Real, Type::Int) => (left.expression, Expression::Convert(Type::Real, Box::new(right.expression))),
            (of_left, of_right) if of_left == of_right => (left.expression, right.expression),
            (of_left, of_right) => {
                let words = format!("Comparison of different types: {of_left} '{}' {of_right}", self.text(sign));
                return Err(Diagnostic::at(words, sign.span));
            }
        };
        let expression = Expression::Compare(comparison, Box::new((left, right)));
        Ok(Typed { expression, kind: Type::Bool, span })
    }

    fn matching(&mut self, left: Typed) -> Outcome<Typed> {
        let sign = self.next();
        let negated = sign.kind == Kind::Sign(Sign::NoMatch);
        if left.kind == Type::Ip {
            let right = self.sum(Type::Acl)?;
            if right.kind != Type::Acl {
                let name = self.sources.text(right.span);
                return Err(Diagnostic::new(format!("Name {name} must have type 'acl'.")).show_range(right.span));
            }
            let span = left.span.to(right.span);
            let (address, acl) = (Box::new(left.expression), Box::new(right.expression));
            return Ok(Typed { expression: Expression::InAcl { address, acl, negated }, kind: Type::Bool, span });
        }
        if !is_text(left.kind) {
            let words = format!("Operator {} not possible on {}", self.text(sign), left.kind);
            return Err(Diagnostic::at(words, sign.span));
        }
        let begin = self.peek();
        let mut text_of_pattern = String::new();
        loop {
            let token = self.peek();
            if token.kind != Kind::String {
                if text_of_pattern.is_empty() && matches!(token.kind, Kind::Sign(_)) {
                    let words = format!("Unknown token '{}' when looking for REGEX:", self.text(token));
                    return Err(Diagnostic::at(words, token.span));
                }
                let words = match text_of_pattern.is_empty() {
                    true => "Expression has type STRING, expected REGEX".to_owned(),
                    false => format!("Expected CSTR got '{}'", self.text(token)),
                };
                return Err(Diagnostic::at(words, token.span)
                    .say("A regular expression must be known when the program is compiled: write it as a string."));
            }
            text_of_pattern.push_str(self.string_text(token.span));
            self.next();
            if !self.take(Sign::Plus) {
                break;
            }
        }
        let written = begin.span.to(self.last_span());
        let span = left.span.to(written);
        let pattern = compiled(&text_of_pattern, written)?;
        let subject = Box::new(text(left)?);
        Ok(Typed { expression: Expression::Match { subject, pattern, negated }, kind: Type::Bool, span })
    }

    /// The regular expression that a constant string is.
    pub(super) fn pattern(&self, typed: Typed) -> Outcome<Arc<Pattern>> {
        match typed.expression {
            Expression::Constant(Constant::String(bytes)) => {
                let text = String::from_utf8_lossy(&bytes);
                compiled(&text, typed.span)
            }
            Expression::Constant(Constant::Regex(pattern)) => Ok(pattern),
            _ => Err(Diagnostic::new("Expression has type STRING, expected REGEX")
                .show_range(typed.span)
                .say("A regular expression must be known when the program is compiled: write it as a string.")),
        }
    }
}

fn compiled(text: &str, span: Span) -> Outcome<Arc<Pattern>> {
    Pattern::new(text)
        .map(Arc::new)
        .map_err(|why| Diagnostic::new("Regexp compilation error:").say(why).show_range(span))
}
