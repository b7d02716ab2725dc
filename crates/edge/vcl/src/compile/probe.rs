//! `probe name { .url = "/"; .interval = 5s; }`, also within a backend.

use super::{Compiler, Outcome, symbols::Symbol};
use crate::{
    diagnostic::Diagnostic,
    program::{Probe, ProbeIndex, ProbeRequest},
    source::Span,
    token::{Kind, Sign},
};

impl Compiler<'_> {
    pub(super) fn probe_declaration(&mut self) -> Outcome<()> {
        self.next();
        let (name, span) = self.declared_name("probe")?;
        let Some(symbol @ Symbol::Probe(index)) = self.symbols.get(&name).copied() else {
            return Err(Diagnostic::at(format!("Name {name} must have type 'probe'."), span));
        };
        self.declare(symbol, "Probe", &name, span)?;
        let probe = self.probe_body(Some(name))?;
        // Probes within backends stand behind those that have names.
        let place = index.0 as usize;
        self.keep_probe(place, probe);
        Ok(())
    }

    /// A probe within a backend.
    pub(super) fn probe_in_place(&mut self) -> Outcome<ProbeIndex> {
        let named = self.symbols.values().filter(|symbol| matches!(symbol, Symbol::Probe(_))).count();
        let probe = self.probe_body(None)?;
        let place = self.program.probes.len().max(named);
        self.keep_probe(place, probe);
        Ok(ProbeIndex(u32::try_from(place).unwrap_or(u32::MAX)))
    }

    fn keep_probe(&mut self, place: usize, probe: Probe) {
        while self.program.probes.len() <= place {
            self.program.probes.push(Probe {
                name: None,
                request: ProbeRequest::Url("/".to_owned()),
                expected_response: 200,
                timeout: 2.0,
                interval: 5.0,
                window: 8,
                threshold: 3,
                initial: 2,
            });
        }
        if let Some(kept) = self.program.probes.get_mut(place) {
            *kept = probe;
        }
    }

    fn probe_body(&mut self, name: Option<String>) -> Outcome<Probe> {
        let begin = self.expect(Sign::BraceOpen)?.span;
        let mut request = None;
        let (mut expected_response, mut timeout, mut interval) = (200, 2.0, 5.0);
        let (mut window, mut threshold, mut initial) = (None, None, None);
        let mut seen = Vec::new();
        while !self.is(Sign::BraceClose) {
            let (field, span) = self.field(&mut seen)?;
            match field.as_str() {
                "url" | "request" => {
                    if let Some((_, first)) = &request {
                        return Err(Diagnostic::at("Probe request redefinition at:", span)
                            .say("Previous definition at:")
                            .show(*first));
                    }
                    let said = if field == "url" {
                        ProbeRequest::Url(self.field_string()?)
                    } else {
                        let mut lines = vec![self.field_string()?];
                        while self.peek().kind == Kind::String {
                            lines.push(self.field_string()?);
                        }
                        ProbeRequest::Lines(lines)
                    };
                    request = Some((said, span));
                }
                "expected_response" => {
                    let token = self.peek();
                    let status = u16::try_from(self.plain_integer()?).ok();
                    let Some(status) = status.filter(|status| (100..=999).contains(status)) else {
                        let words = "Must specify .expected_response with exactly three digits (100 <= x <= 999)";
                        return Err(Diagnostic::at(words, token.span));
                    };
                    expected_response = status;
                }
                "timeout" => timeout = self.duration()?,
                "interval" => interval = self.duration()?,
                "window" => window = Some((self.plain_integer()?, span)),
                "threshold" => threshold = Some((self.plain_integer()?, span)),
                "initial" => initial = Some(self.plain_integer()?),
                _ => return Err(unknown_field(&field, span, "In probe specification starting at:", begin)),
            }
            self.expect(Sign::Semicolon)?;
        }
        self.next();
        let (window, threshold) = bounds(window, threshold)?;
        Ok(Probe {
            name,
            request: request.map_or_else(|| ProbeRequest::Url("/".to_owned()), |(request, _)| request),
            expected_response,
            timeout,
            interval,
            window,
            threshold,
            initial: initial.map_or(threshold.saturating_sub(1), |initial| u8::try_from(initial).unwrap_or(threshold)),
        })
    }

    /// `.name =`
    pub(super) fn field(&mut self, seen: &mut Vec<(String, Span)>) -> Outcome<(String, Span)> {
        self.expect(Sign::Period)?;
        let token = self.expect_kind(Kind::Identifier)?;
        let name = self.text(token).to_owned();
        if let Some((_, first)) = seen.iter().find(|(other, _)| *other == name) {
            return Err(Diagnostic::at(format!("Field '{name}' redefined at:"), token.span)
                .say("First defined at:")
                .show(*first));
        }
        seen.push((name.clone(), token.span));
        self.expect(Sign::Assign)?;
        Ok((name, token.span))
    }

    /// The string of a field.
    pub(super) fn field_string(&mut self) -> Outcome<String> {
        let token = self.expect_kind(Kind::String)?;
        Ok(self.string_text(token.span).to_owned())
    }
}

/// Says that a field is not known.
pub(super) fn unknown_field(name: &str, span: Span, within: &str, begin: Span) -> Diagnostic {
    Diagnostic::at(format!("Unknown field: '{name}' at"), span).say(within).show(begin)
}

fn bounds(window: Option<(u32, Span)>, threshold: Option<(u32, Span)>) -> Outcome<(u8, u8)> {
    let too_many = |what: &str, span: Span| Diagnostic::at(format!("{what} must be 64 or less."), span);
    let within = |value: Option<(u32, Span)>, what: &str| match value {
        Some((number, span)) => match u8::try_from(number).ok().filter(|number| *number <= 64) {
            Some(number) => Ok(Some((number, span))),
            None => Err(too_many(what, span)),
        },
        None => Ok(None),
    };
    let (window, threshold) = (within(window, "Window")?, within(threshold, "Threshold")?);
    match (window, threshold) {
        (None, None) => Ok((8, 3)),
        (Some((_, span)), None) => Err(Diagnostic::at("Must specify .threshold with .window", span)),
        (None, Some((threshold, _))) if threshold <= 8 => Ok((8, threshold)),
        (None, Some((threshold, _))) => Ok((threshold, threshold)),
        (Some((window, _)), Some((threshold, span))) if threshold > window => {
            Err(Diagnostic::at("Threshold can not be greater than window.", span))
        }
        (Some((window, _)), Some((threshold, _))) => Ok((window, threshold)),
    }
}
