//! `director name round-robin { { .backend = a; } }`: how VCL 3 puts backends together.

use super::{Compiler, Outcome, probe::unknown_field, symbols::Symbol};
use crate::{
    diagnostic::Diagnostic,
    program::{BackendIndex, Director, Policy},
    token::{Kind, Sign},
    variables::Version,
};

impl Compiler<'_> {
    pub(super) fn director_declaration(&mut self) -> Outcome<()> {
        let word = self.next();
        if self.version() > Version::V3 {
            return Err(Diagnostic::at("Directors are objects since VCL 4.0.", word.span).say(
                "Write 'import directors;' and, in vcl_init, 'new NAME = directors.round_robin();' and 'NAME.add_backend(...);'.",
            ));
        }
        let (name, span) = self.declared_name("director")?;
        let Some(symbol @ Symbol::Director(_)) = self.symbols.get(&name).copied() else {
            return Err(Diagnostic::at(format!("Name {name} must have type 'director'."), span));
        };
        self.declare(symbol, "Director", &name, span)?;
        let token = self.expect_kind(Kind::Identifier)?;
        let policy = match self.text(token) {
            "random" => Policy::Random,
            "round-robin" => Policy::RoundRobin,
            "client" => Policy::Client,
            "hash" => Policy::Hash,
            "fallback" => Policy::Fallback,
            other => {
                return Err(Diagnostic::at(format!("Unknown director policy: '{other}'"), token.span)
                    .say("There are random, round-robin, client, hash and fallback; dns has no counterpart."));
            }
        };
        self.expect(Sign::BraceOpen)?;
        let mut retries = None;
        let mut members = Vec::new();
        let mut seen = Vec::new();
        while !self.is(Sign::BraceClose) {
            if self.is(Sign::Period) {
                let (field, span) = self.field(&mut seen)?;
                if field != "retries" {
                    return Err(unknown_field(&field, span, "In director specification starting at:", token.span));
                }
                retries = Some(self.plain_integer()?);
                self.expect(Sign::Semicolon)?;
            } else {
                let number = members.len();
                members.push(self.member(&name, number)?);
            }
        }
        self.next();
        if members.is_empty() {
            return Err(Diagnostic::at(format!("Director '{name}' has no backends."), span));
        }
        self.program.directors.push(Director { name, policy, retries, members });
        Ok(())
    }

    /// `{ .backend = name; .weight = 2; }`
    fn member(&mut self, director: &str, number: usize) -> Outcome<(BackendIndex, f64)> {
        let begin = self.expect(Sign::BraceOpen)?.span;
        let (mut backend, mut weight) = (None, 1.0);
        let mut seen = Vec::new();
        while !self.is(Sign::BraceClose) {
            let (field, span) = self.field(&mut seen)?;
            match field.as_str() {
                "backend" if self.is(Sign::BraceOpen) => {
                    backend = Some(self.backend_in_place(format!("{director}[{number}]"))?);
                    self.take(Sign::Semicolon);
                    continue;
                }
                "backend" => {
                    let token = self.expect_kind(Kind::Identifier)?;
                    let name = self.text(token).to_owned();
                    backend = match self.refer(&name, token.span) {
                        Some(Symbol::Backend(index)) => Some(index),
                        _ => {
                            return Err(Diagnostic::at(
                                format!("Undefined backend {name}, first reference:"),
                                token.span,
                            ));
                        }
                    };
                }
                "weight" => weight = f64::from(self.plain_integer()?),
                _ => return Err(unknown_field(&field, span, "In member specification starting at:", begin)),
            }
            self.expect(Sign::Semicolon)?;
        }
        let end = self.next();
        match backend {
            Some(backend) => Ok((backend, weight)),
            None => Err(Diagnostic::at("This member has no .backend.", end.span)),
        }
    }
}
