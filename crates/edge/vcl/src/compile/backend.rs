//! `backend name { .host = "192.0.2.1"; }`, `backend name none;`

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Compiler, Outcome, probe::unknown_field, symbols::Symbol};
use crate::{
    diagnostic::Diagnostic,
    program::{Backend, BackendIndex, Endpoint, Health, ProbeIndex},
    source::{SourceId, Span},
    token::{Kind, Sign},
    variables::Version,
};

impl Compiler<'_> {
    pub(super) fn backend_declaration(&mut self) -> Outcome<()> {
        self.next();
        let (name, span) = self.declared_name("backend")?;
        let Some(symbol @ Symbol::Backend(index)) = self.symbols.get(&name).copied() else {
            return Err(Diagnostic::at(format!("Name {name} must have type 'backend'."), span));
        };
        self.declare(symbol, "Backend", &name, span)?;
        if name == "default" {
            self.chosen_default = Some(index);
        }
        let backend = if self.is_word("none") || self.is_word("None") {
            self.next();
            self.expect(Sign::Semicolon)?;
            empty(name, Endpoint::None, span)
        } else {
            self.backend_body(name, span)?
        };
        self.keep_backend(index, backend);
        Ok(())
    }

    /// A backend within a director of VCL 3.
    pub(super) fn backend_in_place(&mut self, name: String) -> Outcome<BackendIndex> {
        let span = self.peek().span;
        let backend = self.backend_body(name, span)?;
        let named = self.symbols.values().filter(|symbol| matches!(symbol, Symbol::Backend(_))).count();
        let index = BackendIndex(u32::try_from(self.program.backends.len().max(named)).unwrap_or(u32::MAX));
        self.keep_backend(index, backend);
        Ok(index)
    }

    fn keep_backend(&mut self, index: BackendIndex, backend: Backend) {
        let place = index.0 as usize;
        let nowhere = Span { source: SourceId(0), start: 0, end: 0 };
        while self.program.backends.len() <= place {
            self.program.backends.push(empty(String::new(), Endpoint::Given, nowhere));
        }
        if let Some(kept) = self.program.backends.get_mut(place) {
            *kept = backend;
        }
    }

    fn backend_body(&mut self, name: String, span: Span) -> Outcome<Backend> {
        let begin = self.last_span();
        self.expect(Sign::BraceOpen)?;
        let mut backend = empty(name, Endpoint::None, span);
        let mut host: Option<(String, Span)> = None;
        let mut port: Option<String> = None;
        let mut path: Option<(String, Span)> = None;
        let mut seen = Vec::new();
        while !self.is(Sign::BraceClose) {
            if self.is_word("set") {
                return Err(Diagnostic::at("NB: Backend Syntax has changed:", self.peek().span)
                    .say("Remove \"set\" and \"backend\" in front of backend fields."));
            }
            let (field, field_span) = self.field(&mut seen)?;
            match field.as_str() {
                "host" | "path" => {
                    if let Some((_, first)) = host.as_ref().or(path.as_ref()) {
                        return Err(Diagnostic::at("Address redefinition at:", field_span)
                            .say("Previous definition at:")
                            .show(*first));
                    }
                    let value_span = self.peek().span;
                    let text = self.field_string()?;
                    if field == "path" && !text.starts_with('/') {
                        return Err(Diagnostic::at("Must be an absolute path:", value_span));
                    }
                    *(if field == "host" { &mut host } else { &mut path }) = Some((text, field_span));
                }
                "port" => port = Some(self.field_string()?),
                "host_header" => backend.host_header = Some(self.field_string()?),
                "preamble" => {
                    let token = self.expect_kind(Kind::Blob)?;
                    let bytes = STANDARD.decode(self.text(token).trim_matches(':'));
                    let illegal = |why| Diagnostic::at(format!("Illegal BLOB: {why}"), token.span);
                    backend.preamble = bytes.map_err(illegal)?.into();
                }
                "connect_timeout" => backend.connect_timeout = Some(self.duration()?),
                "first_byte_timeout" => backend.first_byte_timeout = Some(self.duration()?),
                "between_bytes_timeout" => backend.between_bytes_timeout = Some(self.duration()?),
                "max_connections" => backend.max_connections = Some(self.plain_integer()?),
                "proxy_header" => {
                    let token = self.peek();
                    let version = self.plain_integer()?;
                    if !(1..=2).contains(&version) {
                        return Err(Diagnostic::at(".proxy_header must be 1 or 2", token.span));
                    }
                    backend.proxy_header = u8::try_from(version).ok();
                }
                "probe" => {
                    if self.is(Sign::BraceOpen) {
                        backend.health = Health::Probe(self.probe_in_place()?);
                        // A probe that stands here ends with its brace.
                        self.take(Sign::Semicolon);
                        continue;
                    }
                    backend.health = Health::Probe(self.probe_by_name()?);
                }
                "saintmode_threshold" if self.version() <= Version::V3 => {
                    self.plain_integer()?;
                    let words = ".saintmode_threshold has no effect: there is no saint mode since Varnish 4.";
                    self.notes.push(Diagnostic::at(words, field_span));
                }
                _ => return Err(unknown_field(&field, field_span, "In backend specification starting at:", begin)),
            }
            self.expect(Sign::Semicolon)?;
        }
        self.next();
        backend.endpoint = match (host, path) {
            (Some((host, host_span)), _) => {
                let (host, in_host) = split_port(&host).map_err(|why| Diagnostic::at(why, host_span))?;
                Endpoint::Host { host, port: port.or(in_host).unwrap_or_else(|| "80".to_owned()) }
            }
            (None, Some((path, _))) => Endpoint::Path(path),
            (None, None) => return Err(Diagnostic::at("Expected .host or .path.", span)),
        };
        Ok(backend)
    }

    fn probe_by_name(&mut self) -> Outcome<ProbeIndex> {
        let token = self.peek();
        if token.kind != Kind::Identifier {
            let found = self.text(token);
            return Err(Diagnostic::at(format!("Expected '{{' or name of probe, got '{found}'"), token.span));
        }
        let name = self.next_text().to_owned();
        if name == "default" && !self.symbols.contains_key("default") {
            return Err(Diagnostic::at("No default probe defined", token.span));
        }
        match self.refer(&name, token.span) {
            // A probe stands before what uses it.
            Some(symbol @ Symbol::Probe(_)) if self.version() > Version::V3 && !self.declared.contains_key(&symbol) => {
                Err(Diagnostic::at(format!("Symbol not found: '{name}'"), token.span))
            }
            Some(Symbol::Probe(index)) => Ok(index),
            Some(other) => {
                let words = format!("Symbol '{name}' has wrong type ({}), expected probe:", other.kind());
                Err(Diagnostic::at(words, token.span))
            }
            None => Err(Diagnostic::at(format!("Symbol not found: '{name}'"), token.span)),
        }
    }

    /// The backend of requests that no rule gives one: the one that is called so, the one that VCL says, or the first one.
    pub(super) fn choose_default_backend(&mut self) -> Outcome<()> {
        let first = (!self.program.backends.is_empty()).then_some(BackendIndex(0));
        self.program.default_backend = self.chosen_default.or(first);
        for name in self.options.backends {
            if let Some(Symbol::Backend(index)) = self.symbols.get(name).copied()
                && self.program.backends.get(index.0 as usize).is_none()
            {
                let span = Span { source: SourceId(1), start: 0, end: 0 };
                self.keep_backend(index, empty(name.clone(), Endpoint::Given, span));
            }
        }
        if self.program.default_backend.is_none() && self.options.backends.is_empty() {
            return Err(Diagnostic::new("No backends or directors found in VCL program, at least one is necessary."));
        }
        Ok(())
    }
}

fn empty(name: String, endpoint: Endpoint, span: Span) -> Backend {
    Backend {
        name,
        endpoint,
        host_header: None,
        connect_timeout: None,
        first_byte_timeout: None,
        between_bytes_timeout: None,
        max_connections: None,
        proxy_header: None,
        preamble: Box::default(),
        health: Health::Unprobed,
        span,
    }
}

/// `192.0.2.1:80`, `192.0.2.1 80`, `[2001:db8::1]:80`, a bare address or name.
fn split_port(text: &str) -> Result<(String, Option<String>), String> {
    if let Some(inside) = text.strip_prefix('[') {
        let Some((host, rest)) = inside.split_once(']') else { return Err("IPv6 address lacks ']'".to_owned()) };
        return match rest.strip_prefix([':', ' ']) {
            Some(port) => Ok((host.to_owned(), Some(port.trim().to_owned()))),
            None if rest.is_empty() => Ok((host.to_owned(), None)),
            None => Err("IPv6 address has wrong port separator".to_owned()),
        };
    }
    if let Some((host, port)) = text.split_once(' ') {
        return Ok((host.to_owned(), Some(port.trim().to_owned())));
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => Ok((host.to_owned(), Some(port.to_owned()))),
        _ => Ok((text.to_owned(), None)),
    }
}
