//! Calls of functions, methods and constructors: arguments by place and by name.

use super::{
    Compiler, Outcome,
    access::Verb,
    expressions::{Typed, convert},
};
use crate::{
    diagnostic::Diagnostic,
    modules::{self, Absent, Class, Parameter},
    program::{Argument, Constant, Expression, ObjectIndex},
    source::Span,
    token::{Kind, Sign, Token},
    types::Type,
    variables::{Message, Variable},
};

impl Compiler<'_> {
    /// `module.function(...)`
    pub(super) fn function_call(&mut self) -> Outcome<Typed> {
        let module = self.next();
        if !self.is(Sign::Period) {
            let words = format!("Symbol '{}' type (vmod) can not be used in expression.", self.text(module));
            return Err(Diagnostic::at(words, module.span));
        }
        self.next();
        let name = self.expect_kind(Kind::Identifier)?;
        let span = module.span.to(name.span);
        let own_name = self.module_called(self.text(module)).unwrap_or_default();
        let Some(function) = modules::function(own_name, self.text(name)) else {
            return Err(Diagnostic::new(format!("Symbol not found: '{}'", self.sources.text(span))).show_range(span));
        };
        self.note_use(function.places, Verb::Read, span);
        if !self.program.functions.contains(&function.id) {
            self.program.functions.push(function.id);
        }
        let arguments = self.arguments(function.parameters, span)?;
        let span = span.to(self.last_span());
        Ok(Typed { expression: Expression::Call(function, arguments), kind: function.returns, span })
    }

    /// `object.method(...)`, behind the object's name.
    pub(super) fn method_call(&mut self, object: ObjectIndex, token: Token, wanted: Type) -> Outcome<Typed> {
        let class = self.program.objects.get(object.0 as usize).map(|object| object.class);
        let Some(class) = class else { return Err(Diagnostic::at("Symbol not found.", token.span)) };
        if !self.is(Sign::Period) {
            let words = match wanted {
                Type::Void => self.unexpected(Kind::Sign(Sign::Period)),
                wanted => Diagnostic::at(format!("Expression has type {}, expected {wanted}", class.name), token.span),
            };
            return Err(words.say(methods_of(class)));
        }
        self.next();
        let name = self.expect_kind(Kind::Identifier)?;
        let span = token.span.to(name.span);
        let Some(method) = class.methods.iter().find(|method| method.name == self.text(name)) else {
            return Err(Diagnostic::new(format!("Symbol not found: '{}'", self.sources.text(span)))
                .show_range(span)
                .say(methods_of(class)));
        };
        self.note_use(method.places, Verb::Read, span);
        let arguments = self.arguments(method.parameters, span)?;
        let span = span.to(self.last_span());
        Ok(Typed { expression: Expression::Method(object, method, arguments), kind: method.returns, span })
    }

    /// `(a, b, name=c)`
    pub(super) fn arguments(&mut self, parameters: &'static [Parameter], called: Span) -> Outcome<Vec<Argument>> {
        let within = |error: Diagnostic| error.say("While compiling function call:").show_range(called);
        self.arguments_inside(parameters).map_err(within)
    }

    fn arguments_inside(&mut self, parameters: &'static [Parameter]) -> Outcome<Vec<Argument>> {
        self.expect(Sign::ParenthesisOpen)?;
        let mut given: Vec<Argument> = parameters.iter().map(|_| None).collect();
        let mut place = 0;
        let mut by_name = false;
        while !self.is(Sign::ParenthesisClose) {
            let token = self.peek();
            let names = token.kind == Kind::Identifier && self.look(1).kind == Kind::Sign(Sign::Assign);
            let index = if names {
                by_name = true;
                let name = self.text(token);
                let found =
                    parameters.iter().position(|parameter| !parameter.name.is_empty() && parameter.name == name);
                let index = found.ok_or_else(|| Diagnostic::at(format!("Unknown argument '{name}'"), token.span))?;
                self.next();
                self.next();
                index
            } else if by_name || place >= parameters.len() {
                return Err(self.unexpected(Kind::Sign(Sign::ParenthesisClose)));
            } else {
                place += 1;
                place - 1
            };
            let Some(parameter) = parameters.get(index) else { break };
            if given.get(index).is_some_and(Option::is_some) {
                let words = format!("Argument '{}' already used", parameter.name);
                return Err(Diagnostic::at(words, token.span));
            }
            let value = self.argument(parameter)?;
            if let Some(slot) = given.get_mut(index) {
                *slot = Some(value);
            }
            if !self.take(Sign::Comma) {
                break;
            }
        }
        let end = self.expect(Sign::ParenthesisClose)?;
        for (slot, parameter) in given.iter_mut().zip(parameters) {
            if slot.is_none() {
                *slot = absent(parameter, end)?;
            }
        }
        Ok(given)
    }

    fn argument(&mut self, parameter: &Parameter) -> Outcome<Expression> {
        let token = self.peek();
        match parameter.kind {
            Type::Enum => {
                let word = parameter.words.iter().find(|word| **word == self.text(token)).copied();
                let Some(word) = word else {
                    let all = parameter.words.join(", ");
                    return Err(
                        Diagnostic::at("Wrong enum value.  Expected one of:", token.span).say(format!("\t{all}"))
                    );
                };
                self.next();
                Ok(Expression::Constant(Constant::Enum(word)))
            }
            Type::Http => {
                let message = Message::ALL.iter().find(|message| message.name() == self.text(token)).copied();
                let Some(message) = message else {
                    let typed = self.value(Type::Http)?;
                    return convert(typed, Type::Http);
                };
                self.next();
                if let Some(whole) = Variable::of_name(message.name()).next() {
                    self.note_use(whole.definition().access.read, Verb::Read, token.span);
                }
                Ok(Expression::Constant(Constant::Message(message)))
            }
            Type::Header => {
                let typed = self.value(Type::Header)?;
                match typed.expression {
                    Expression::Header(header) => Ok(Expression::Constant(Constant::Header(header))),
                    _ => {
                        let words = format!("Expression has type {}, expected HEADER", typed.kind);
                        Err(Diagnostic::new(words).show_range(typed.span))
                    }
                }
            }
            kind => self.expression(kind),
        }
    }

    /// `regsub(text, "pattern", "replacement")`
    pub(super) fn substitution(&mut self) -> Outcome<Typed> {
        let name = self.next();
        let all = self.text(name) == "regsuball";
        self.expect(Sign::ParenthesisOpen)?;
        let subject = self.expression(Type::String)?;
        self.expect(Sign::Comma)?;
        let pattern = self.value(Type::String)?;
        let pattern = self.pattern(pattern)?;
        self.expect(Sign::Comma)?;
        let replacement = self.expression(Type::String)?;
        let end = self.expect(Sign::ParenthesisClose)?;
        let parts = Box::new((subject, pattern, replacement));
        let span = name.span.to(end.span);
        Ok(Typed { expression: Expression::Substitute { parts, all }, kind: Type::String, span })
    }
}

/// What stands for a parameter that is left out.
fn absent(parameter: &Parameter, end: Token) -> Outcome<Argument> {
    let constant = match parameter.absent {
        Absent::Needed if parameter.name.is_empty() => return Err(Diagnostic::at("Missing argument.", end.span)),
        Absent::Needed => return Err(Diagnostic::at(format!("Argument '{}' missing", parameter.name), end.span)),
        Absent::Unknown => return Ok(None),
        Absent::Bool(value) => Constant::Bool(value),
        Absent::Int(value) if parameter.kind == Type::Bytes => Constant::Bytes(value),
        Absent::Int(value) => Constant::Int(value),
        Absent::Real(value) => Constant::Real(value),
        Absent::Duration(value) => Constant::Duration(value),
        Absent::String(value) => Constant::String(value.as_bytes().into()),
        Absent::Word(value) => Constant::Enum(value),
    };
    Ok(Some(Expression::Constant(constant)))
}

fn methods_of(class: &Class) -> String {
    let names: Vec<String> = class.methods.iter().map(|method| format!(".{}()", method.name)).collect();
    format!("{} has {}.", class.name, names.join(", "))
}
