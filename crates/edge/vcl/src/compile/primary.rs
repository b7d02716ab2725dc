//! What an expression begins with: constants, variables, names, functions, parentheses; and the methods behind it.

use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    Compiler, Outcome,
    expressions::{Typed, is_text},
    symbols::Symbol,
};
use crate::{
    diagnostic::Diagnostic,
    program::{BackendIndex, Constant, Expression, StorageIndex},
    token::{Kind, Sign, Token},
    types::Type,
    variables::{StorageVariable, Version},
};

impl Compiler<'_> {
    pub(super) fn suffixed(&mut self, wanted: Type) -> Outcome<Typed> {
        let mut typed = self.primary(wanted)?;
        while self.is(Sign::Period) {
            typed = self.property(typed)?;
        }
        Ok(typed)
    }

    /// `.upper()`, `.lower()`, `.resolve()`.
    fn property(&mut self, typed: Typed) -> Outcome<Typed> {
        self.expect(Sign::Period)?;
        let token = self.expect_kind(Kind::Identifier)?;
        let name = self.text(token).to_owned();
        let inner = Box::new(typed.expression);
        let (expression, kind) = match (name.as_str(), typed.kind) {
            ("upper" | "lower", kind) if is_text(kind) => {
                (Expression::Case { text: inner, upper: name == "upper" }, Type::String)
            }
            ("resolve", Type::Backend) => (Expression::Resolve(inner), Type::Backend),
            (_, kind) => {
                let shown = if is_text(kind) { "STRINGS" } else { kind.name() };
                return Err(Diagnostic::at(format!("Unknown property '{name}' for type {shown}"), token.span));
            }
        };
        self.expect(Sign::ParenthesisOpen)?;
        let end = self.expect(Sign::ParenthesisClose)?;
        Ok(Typed { expression, kind, span: typed.span.to(end.span) })
    }

    fn primary(&mut self, wanted: Type) -> Outcome<Typed> {
        let token = self.peek();
        match token.kind {
            Kind::Sign(Sign::ParenthesisOpen) => {
                self.next();
                let inner = self.value(wanted)?;
                let end = self.expect(Sign::ParenthesisClose)?;
                Ok(Typed { span: token.span.to(end.span), ..inner })
            }
            Kind::Sign(Sign::Minus) => self.negative(wanted),
            Kind::Integer | Kind::Real => self.number(wanted),
            Kind::String => self.string(wanted),
            Kind::Blob => {
                let text = self.next_text().trim_matches(':').to_owned();
                let bytes = STANDARD
                    .decode(text.as_bytes())
                    .map_err(|why| Diagnostic::at(format!("Illegal BLOB character: {why}"), token.span))?;
                Ok(constant(Constant::Blob(bytes.into()), Type::Blob, token))
            }
            Kind::Identifier => self.named(token, wanted),
            Kind::InlineC => Err(super::declarations::refuse_inline_c(token)),
            _ => Err(Diagnostic::at(
                format!("Unknown token '{}' when looking for {wanted}:", self.text(token)),
                token.span,
            )),
        }
    }

    /// `-1`, `-2.5s`, `-std.integer(req.http.x)`.
    ///
    /// NOTE: before anything but a number, the sign is that of all that follows, as in Varnish: `-a + b` is `-(a + b)`.
    fn negative(&mut self, wanted: Type) -> Outcome<Typed> {
        let sign = self.next();
        let is_number = matches!(self.peek().kind, Kind::Integer | Kind::Real);
        if !is_number && !matches!(wanted, Type::Int | Type::Real | Type::Duration | Type::String) {
            let words = format!("Unknown token '-' when looking for {wanted}:");
            return Err(Diagnostic::at(words, sign.span));
        }
        let number = if is_number { self.number(wanted)? } else { self.value(wanted)? };
        if !matches!(number.kind, Type::Int | Type::Real | Type::Duration | Type::Bytes) {
            let words = format!("'-' must be followed by a number, found {}.", number.kind);
            return Err(Diagnostic::new(words).show_range(number.span));
        }
        let span = sign.span.to(number.span);
        let expression = match number.expression {
            Expression::Constant(Constant::Int(value)) => Expression::Constant(Constant::Int(-value)),
            Expression::Constant(Constant::Real(value)) => Expression::Constant(Constant::Real(-value)),
            Expression::Constant(Constant::Duration(value)) => Expression::Constant(Constant::Duration(-value)),
            other => Expression::Negate(Box::new(other)),
        };
        Ok(Typed { expression, span, ..number })
    }

    fn number(&mut self, wanted: Type) -> Outcome<Typed> {
        let token = self.next();
        let text = self.text(token).to_owned();
        let as_real: f64 = text.parse().unwrap_or(0.0);
        if wanted == Type::Bytes {
            let bytes = self.bytes_unit(as_real)?;
            let span = token.span.to(self.last_span());
            return Ok(Typed { expression: Expression::Constant(Constant::Bytes(bytes)), kind: Type::Bytes, span });
        }
        let is_unit = self.peek().kind == Kind::Identifier
            && (self.version() > Version::V3 || super::numbers::seconds_of(self.text(self.peek())).is_some());
        if is_unit {
            let seconds = self.duration_unit(as_real)?;
            let span = token.span.to(self.last_span());
            return Ok(Typed {
                expression: Expression::Constant(Constant::Duration(seconds)),
                kind: Type::Duration,
                span,
            });
        }
        if token.kind == Kind::Real {
            return Ok(constant(Constant::Real(as_real), Type::Real, token));
        }
        Ok(constant(Constant::Int(text.parse().unwrap_or(i64::MAX)), Type::Int, token))
    }

    fn string(&mut self, wanted: Type) -> Outcome<Typed> {
        let token = self.next();
        let text = self.string_text(token.span).to_owned();
        if wanted == Type::Ip {
            let (address, port) = parse_address(&text).or_else(|| self.resolve_address(&text)).ok_or_else(|| {
                Diagnostic::at(format!("\"{text}\" could not be resolved to an IP address."), token.span)
            })?;
            return Ok(constant(Constant::Ip(address, port), Type::Ip, token));
        }
        let typed = constant(Constant::String(text.into_bytes().into()), Type::String, token);
        if wanted == Type::Regex {
            let pattern = self.pattern(typed)?;
            return Ok(constant(Constant::Regex(pattern), Type::Regex, token));
        }
        Ok(typed)
    }

    fn resolve_address(&self, text: &str) -> Option<(IpAddr, u16)> {
        let found = self.options.resolver.resolve(text).ok()?;
        found.first().map(|address| (*address, 80))
    }

    /// A name: a constant word, a declared thing, a variable, a function.
    fn named(&mut self, token: Token, wanted: Type) -> Outcome<Typed> {
        let name = self.text(token).to_owned();
        match name.as_str() {
            "true" | "false" | "True" | "False" => {
                self.next();
                return Ok(constant(Constant::Bool(name.eq_ignore_ascii_case("true")), Type::Bool, token));
            }
            "none" if wanted == Type::Backend => {
                self.next();
                return Ok(constant(Constant::Backend(None), Type::Backend, token));
            }
            "default" if wanted == Type::Backend && !self.symbols.contains_key("default") => {
                // NOTE: which one that is may be said further down.
                self.next();
                return Ok(constant(Constant::Backend(Some(BackendIndex::DEFAULT)), Type::Backend, token));
            }
            "default" if wanted == Type::Probe && !self.symbols.contains_key("default") => {
                return Err(Diagnostic::at("No default probe defined", token.span));
            }
            "regsub" | "regsuball" => return self.substitution(),
            _ => {}
        }
        if let Some(symbol) = self.symbols.get(&name).copied() {
            return self.symbol(symbol, token, &name, wanted);
        }
        if self.module_called(&name).is_some() {
            return self.function_call();
        }
        if name == "storage" || wanted == Type::Stevedore && self.options.storages.contains(&name) {
            return self.storage();
        }
        let is_alone = self.look(1).kind != Kind::Sign(Sign::Period);
        if is_alone && wanted == Type::Backend && self.version() > Version::V3 {
            return Err(Diagnostic::at(format!("Undefined backend {name}, first reference:"), token.span));
        }
        self.variable(wanted)
    }

    fn symbol(&mut self, symbol: Symbol, token: Token, name: &str, wanted: Type) -> Outcome<Typed> {
        self.next();
        self.used.entry(symbol).or_insert(token.span);
        let of = match symbol {
            Symbol::Backend(index) => Constant::Backend(Some(index)),
            Symbol::Director(index) => Constant::Director(index),
            Symbol::Acl(index) => Constant::Acl(index),
            Symbol::Probe(index) => Constant::Probe(index),
            Symbol::Routine(index) => {
                if wanted != Type::Sub || self.subroutine_of(index).is_some() {
                    let words = format!("Symbol '{name}' can only be used as a SUB expression");
                    return Err(Diagnostic::at(words, token.span));
                }
                Constant::Routine(self.routine(name, token.span))
            }
            Symbol::Object(index) => return self.method_call(index, token, wanted),
        };
        Ok(constant(of, symbol.as_type(), token))
    }

    /// `storage.NAME`, `storage.NAME.free_space`.
    fn storage(&mut self) -> Outcome<Typed> {
        let first = self.next();
        let mut token = first;
        if self.text(first) == "storage" {
            self.expect(Sign::Period)?;
            token = self.expect_kind(Kind::Identifier)?;
        }
        let name = self.text(token).to_owned();
        let span = first.span.to(token.span);
        if !self.options.storages.contains(&name) {
            let words = format!("Symbol not found: 'storage.{name}'");
            return Err(Diagnostic::at(words, span).say(format!("Storages: {}.", self.options.storages.join(", "))));
        }
        let place = self.program.storages.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.program.storages.push(name);
            self.program.storages.len() - 1
        });
        let index = StorageIndex(u32::try_from(place).unwrap_or(u32::MAX));
        if self.is(Sign::Period)
            && let Some((variable, kind)) = StorageVariable::of_name(self.text(self.look(1)))
        {
            self.next();
            let end = self.next();
            let span = span.to(end.span);
            self.note_use(StorageVariable::ACCESS.read, super::access::Verb::Read, span);
            return Ok(Typed { expression: Expression::Storage(index, variable), kind, span });
        }
        Ok(Typed { expression: Expression::Constant(Constant::Storage(index)), kind: Type::Stevedore, span })
    }
}

/// A constant of one word.
pub(super) fn constant(value: Constant, kind: Type, token: Token) -> Typed {
    Typed { expression: Expression::Constant(value), kind, span: token.span }
}

/// `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]:80`; the port is 80 if nothing else is said.
pub(crate) fn parse_address(text: &str) -> Option<(IpAddr, u16)> {
    parse_address_and_port(text, Some(80))
}

/// The same with another port where nothing else is said; one that is `None` must be said.
pub(crate) fn parse_address_and_port(text: &str, standard: Option<u16>) -> Option<(IpAddr, u16)> {
    if let Ok(address) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text).parse() {
        return Some((address, standard?));
    }
    if let Ok(both) = text.parse::<std::net::SocketAddr>() {
        return Some((both.ip(), both.port()));
    }
    let (host, port) = text.split_once(' ').or_else(|| text.rsplit_once(':'))?;
    let port = port.trim();
    let port = port.parse().ok().or(match port {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })?;
    Some((host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()?, port))
}
