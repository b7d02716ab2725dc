//! Expressions.

use std::cmp::Ordering;

use super::{
    host::{Failure, Host},
    pure,
    text::write_value,
    value::{Backend, Value},
    workspace::Workspace,
};
use crate::{
    pattern::Pattern,
    program::{AclIndex, Argument, Arithmetic, BackendIndex, Comparison, Constant, Expression, Program},
    types::Type,
};

/// A run of a subroutine.
pub(super) struct Run<'w, 'h, H> {
    pub program: &'w Program,
    pub host: &'h mut H,
    pub workspace: &'w Workspace,
}

/// The pieces of a string.
pub(super) fn texts(expression: &Expression) -> &[Expression] {
    match expression {
        Expression::Concat(pieces) => pieces,
        other => std::slice::from_ref(other),
    }
}

impl<'w, H: Host> Run<'w, '_, H> {
    /// Whether a condition holds.
    pub(super) fn holds(&mut self, expression: &'w Expression) -> Result<bool, Failure> {
        match expression {
            Expression::And(all) => {
                for one in all {
                    if !self.holds(one)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expression::Or(all) => {
                for one in all {
                    if self.holds(one)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expression::Not(inner) => Ok(!self.holds(inner)?),
            // NOTE: headers are looked at where they are; most conditions are about them.
            Expression::Truth(inner) => match &**inner {
                Expression::Header(header) => Ok(self.host.header(header).is_some()),
                inner => Ok(self.value(inner)?.is_true()),
            },
            Expression::Match { subject, pattern, negated } => {
                let in_place = match &**subject {
                    Expression::Header(header) => Some(self.host.header(header).unwrap_or_default()),
                    Expression::Variable(variable) => self.host.borrowed(*variable),
                    _ => None,
                };
                let found = match in_place {
                    Some(text) => pattern.is_match(text),
                    None => pattern.is_match(self.text(subject)?.unwrap_or_default()),
                };
                let found = found.unwrap_or_else(|why| {
                    self.host.log_hard_match(pattern.text(), why);
                    false
                });
                Ok(found != *negated)
            }
            Expression::InAcl { address, acl, negated } => Ok(self.in_acl(address, acl)? != *negated),
            Expression::Compare(comparison, both) => self.compare(*comparison, &both.0, &both.1),
            other => Ok(self.value(other)?.is_true()),
        }
    }

    /// The value of an expression.
    pub(super) fn value(&mut self, expression: &'w Expression) -> Result<Value<'w>, Failure> {
        match expression {
            Expression::Constant(Constant::Backend(Some(BackendIndex::DEFAULT))) => {
                Ok(Value::Backend(self.program.default_backend.map(Backend::Declared)))
            }
            Expression::Constant(constant) => Ok(of_constant(constant)),
            Expression::Variable(variable) => self.host.variable(*variable, self.workspace),
            Expression::Header(header) => match self.host.header(header) {
                Some(value) => self.workspace.keep(value).map(|value| Value::String(Some(value))),
                None => Ok(Value::String(None)),
            },
            Expression::Storage(storage, variable) => Ok(self.host.storage(*storage, *variable)),
            Expression::Concat(pieces) => self.concat(pieces),
            Expression::Text(inner) => {
                let mut out = Vec::new();
                self.append(inner, &mut out)?;
                self.kept(&out)
            }
            Expression::Convert(kind, inner) => {
                let number = self.value(inner)?.number().ok_or(Failure::NoAnswer)?;
                number_as(*kind, number)
            }
            Expression::Negate(inner) => match self.value(inner)? {
                Value::Int(value) => value.checked_neg().map(Value::Int).ok_or(Failure::Arithmetic),
                Value::Real(value) => Ok(Value::Real(-value)),
                Value::Duration(value) => Ok(Value::Duration(-value)),
                other => Ok(other),
            },
            Expression::Arithmetic(operator, kind, both) => {
                let (left, right) = (self.value(&both.0)?, self.value(&both.1)?);
                arithmetic(*operator, *kind, left, right)
            }
            Expression::Substitute { parts, all } => {
                let (subject, pattern, replacement) = &**parts;
                self.substitute(subject, pattern, replacement, *all)
            }
            Expression::Case { text, upper } => {
                let Some(text) = self.text(text)? else { return Ok(Value::String(None)) };
                let changed = if *upper { text.to_ascii_uppercase() } else { text.to_ascii_lowercase() };
                self.kept(&changed)
            }
            Expression::Resolve(inner) => match self.value(inner)? {
                Value::Backend(backend) => Ok(Value::Backend(self.host.resolve(backend))),
                _ => Ok(Value::Backend(None)),
            },
            Expression::Call(function, arguments) => {
                let arguments = self.arguments(arguments)?;
                match pure::call(function.id, &arguments, self.workspace) {
                    Some(result) => result,
                    None => self.host.call(function, &arguments, self.workspace),
                }
            }
            Expression::Method(object, method, arguments) => {
                let arguments = self.arguments(arguments)?;
                self.host.method(*object, method, &arguments, self.workspace)
            }
            Expression::Truth(_)
            | Expression::Not(_)
            | Expression::And(_)
            | Expression::Or(_)
            | Expression::Compare(..)
            | Expression::Match { .. }
            | Expression::InAcl { .. } => self.holds(expression).map(Value::Bool),
        }
    }

    pub(super) fn arguments(&mut self, arguments: &'w [Argument]) -> Result<Vec<Option<Value<'w>>>, Failure> {
        arguments.iter().map(|argument| argument.as_ref().map(|value| self.value(value)).transpose()).collect()
    }

    /// The text of an expression; none for what is not set.
    pub(super) fn text(&mut self, expression: &'w Expression) -> Result<Option<&'w [u8]>, Failure> {
        match self.value(expression)? {
            Value::String(text) => Ok(text),
            other => {
                let mut out = Vec::new();
                write_value(&mut out, other, self.program, self.host)?;
                self.workspace.keep(&out).map(Some)
            }
        }
    }

    fn kept(&self, bytes: &[u8]) -> Result<Value<'w>, Failure> {
        self.workspace.keep(bytes).map(|bytes| Value::String(Some(bytes)))
    }

    fn concat(&mut self, pieces: &'w [Expression]) -> Result<Value<'w>, Failure> {
        let mut out = Vec::with_capacity(128);
        for piece in pieces {
            self.append(piece, &mut out)?;
        }
        self.kept(&out)
    }

    /// Puts the text of an expression behind `out`.
    fn append(&mut self, expression: &'w Expression, out: &mut Vec<u8>) -> Result<(), Failure> {
        match expression {
            Expression::Header(header) => out.extend_from_slice(self.host.header(header).unwrap_or_default()),
            Expression::Constant(Constant::String(text)) => out.extend_from_slice(text),
            Expression::Text(inner) => {
                let value = self.value(inner)?;
                write_value(out, value, self.program, self.host)?;
            }
            other => {
                let value = self.value(other)?;
                write_value(out, value, self.program, self.host)?;
            }
        }
        Ok(())
    }

    fn substitute(
        &mut self,
        subject: &'w Expression,
        pattern: &'w Pattern,
        replacement: &'w Expression,
        all: bool,
    ) -> Result<Value<'w>, Failure> {
        let subject = self.text(subject)?.unwrap_or_default();
        let replacement = self.text(replacement)?.unwrap_or_default();
        match pattern.substitute(subject, replacement, all) {
            Some(changed) => self.kept(&changed),
            None => Ok(Value::String(Some(subject))),
        }
    }

    fn in_acl(&mut self, address: &'w Expression, acl: &'w Expression) -> Result<bool, Failure> {
        let (Value::Ip(address), Value::Acl(AclIndex(index))) = (self.value(address)?, self.value(acl)?) else {
            return Err(Failure::NoAnswer);
        };
        let acl = self.program.acls.get(index as usize).ok_or(Failure::NoAnswer)?;
        let entry = address.and_then(|(address, _)| acl.deciding(address));
        if acl.logs {
            self.host.log_acl(&acl.name, entry.map(|entry| entry.text.as_str()));
        }
        Ok(entry.is_some_and(|entry| !entry.negated))
    }

    fn compare(
        &mut self,
        comparison: Comparison,
        left: &'w Expression,
        right: &'w Expression,
    ) -> Result<bool, Failure> {
        if let (Expression::Header(header), Expression::Constant(Constant::String(text))) = (left, right) {
            // NOTE: what is not set equals nothing, and is greater than everything, as in Varnish.
            let ordering = self.host.header(header).map_or(Ordering::Greater, |value| value.cmp(text));
            return Ok(ordered(comparison, ordering));
        }
        if let (Expression::Variable(variable), Expression::Constant(Constant::String(text))) = (left, right)
            && let Some(value) = self.host.borrowed(*variable)
        {
            return Ok(ordered(comparison, value.cmp(text)));
        }
        let (left, right) = (self.value(left)?, self.value(right)?);
        let ordering = match (left, right) {
            (Value::String(left), Value::String(right)) => match left.zip(right) {
                Some((left, right)) => left.cmp(right),
                None => Ordering::Greater,
            },
            (Value::Int(left), Value::Int(right)) | (Value::Bytes(left), Value::Bytes(right)) => left.cmp(&right),
            (Value::Ip(left), Value::Ip(right)) => {
                same(left.map(|(address, _)| address) == right.map(|(address, _)| address))
            }
            (Value::Backend(left), Value::Backend(right)) => same(left == right),
            (Value::Bool(left), Value::Bool(right)) => same(left == right),
            (Value::Storage(left), Value::Storage(right)) => same(left == right),
            (Value::Probe(left), Value::Probe(right)) => same(left == right),
            (Value::Acl(left), Value::Acl(right)) => same(left == right),
            (left, right) => match (left.number(), right.number()) {
                (Some(left), Some(right)) => left.partial_cmp(&right).unwrap_or(Ordering::Less),
                _ => return Err(Failure::NoAnswer),
            },
        };
        Ok(ordered(comparison, ordering))
    }
}

const fn same(is_same: bool) -> Ordering {
    if is_same { Ordering::Equal } else { Ordering::Less }
}

fn ordered(comparison: Comparison, ordering: Ordering) -> bool {
    match comparison {
        Comparison::Equal => ordering.is_eq(),
        Comparison::NotEqual => ordering.is_ne(),
        Comparison::Less => ordering.is_lt(),
        Comparison::LessOrEqual => ordering.is_le(),
        Comparison::Greater => ordering.is_gt(),
        Comparison::GreaterOrEqual => ordering.is_ge(),
    }
}

fn of_constant(constant: &Constant) -> Value<'_> {
    match constant {
        Constant::Bool(value) => Value::Bool(*value),
        Constant::Int(value) => Value::Int(*value),
        Constant::Real(value) => Value::Real(*value),
        Constant::Duration(value) => Value::Duration(*value),
        Constant::Bytes(value) => Value::Bytes(*value),
        Constant::String(text) => Value::String(Some(text)),
        Constant::Blob(bytes) => Value::Blob(Some(bytes)),
        Constant::Ip(address, port) => Value::Ip(Some((*address, *port))),
        Constant::Backend(backend) => Value::Backend(backend.map(Backend::Declared)),
        Constant::Director(index) => Value::Backend(Some(Backend::Director(*index))),
        Constant::Probe(index) => Value::Probe(Some(*index)),
        Constant::Acl(index) => Value::Acl(*index),
        Constant::Routine(index) => Value::Routine(*index),
        Constant::Storage(index) => Value::Storage(Some(*index)),
        Constant::Enum(word) => Value::Enum(word),
        Constant::Header(header) => Value::Header(header),
        Constant::Message(message) => Value::Message(*message),
        Constant::Regex(pattern) => Value::Regex(pattern),
    }
}

/// A number as a value of this type.
pub(crate) fn number_as<'w>(kind: Type, number: f64) -> Result<Value<'w>, Failure> {
    // Whole numbers beyond 2^53 are not told apart as reals.
    let whole = || if number.abs() < 9.2e18 { Ok(number as i64) } else { Err(Failure::Arithmetic) };
    if !number.is_finite() {
        return Err(Failure::Arithmetic);
    }
    Ok(match kind {
        Type::Int => Value::Int(whole()?),
        Type::Bytes => Value::Bytes(whole()?),
        Type::Duration => Value::Duration(number),
        Type::Time => Value::Time(number),
        _ => Value::Real(number),
    })
}

fn arithmetic<'w>(operator: Arithmetic, kind: Type, left: Value<'w>, right: Value<'w>) -> Result<Value<'w>, Failure> {
    if let (Value::Int(left), Value::Int(right), Type::Int) = (left, right, kind) {
        let result = match operator {
            Arithmetic::Add => left.checked_add(right),
            Arithmetic::Subtract => left.checked_sub(right),
            Arithmetic::Multiply => left.checked_mul(right),
            Arithmetic::Divide => left.checked_div(right),
            Arithmetic::Remainder => left.checked_rem(right),
        };
        return result.map(Value::Int).ok_or(Failure::Arithmetic);
    }
    let (Some(left), Some(right)) = (left.number(), right.number()) else { return Err(Failure::NoAnswer) };
    let result = match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => left % right,
    };
    number_as(kind, result)
}
