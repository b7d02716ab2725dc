//! Names that texts declare.

use super::{Compiler, Draft, Outcome};
use crate::{
    diagnostic::Diagnostic,
    program::{AclIndex, BackendIndex, ObjectIndex, ProbeIndex, RoutineIndex},
    source::Span,
    subroutine::Subroutine,
    token::{Kind, Sign, Token},
    types::Type,
};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A backend.
    Backend(BackendIndex),
    /// A director of VCL 3.
    Director(u32),
    /// A list of addresses.
    Acl(AclIndex),
    /// A probe.
    Probe(ProbeIndex),
    /// A routine.
    Routine(RoutineIndex),
    /// An object.
    Object(ObjectIndex),
}

impl Symbol {
    /// What messages call it.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Backend(_) | Self::Director(_) => "backend",
            Self::Acl(_) => "acl",
            Self::Probe(_) => "probe",
            Self::Routine(_) => "sub",
            Self::Object(_) => "instance",
        }
    }

    /// What it is in an expression.
    pub const fn as_type(self) -> Type {
        match self {
            Self::Backend(_) | Self::Director(_) => Type::Backend,
            Self::Acl(_) => Type::Acl,
            Self::Probe(_) => Type::Probe,
            Self::Routine(_) => Type::Sub,
            Self::Object(_) => Type::Void,
        }
    }
}

/// Words that declare something, and what must not be a name.
const RESERVED: &[&str] = &[
    "acl", "backend", "director", "else", "elseif", "elsif", "elif", "if", "import", "include", "new", "none", "probe",
    "return", "set", "sub", "unset", "vcl",
];

impl Compiler<'_> {
    /// Finds the names that a text declares, wherever it does.
    pub(super) fn collect(&mut self, tokens: &[Token], is_builtin: bool) -> Outcome<()> {
        let mut depth = 0_usize;
        for (at, token) in tokens.iter().enumerate() {
            match token.kind {
                Kind::Sign(Sign::BraceOpen) => depth += 1,
                Kind::Sign(Sign::BraceClose) => depth = depth.saturating_sub(1),
                Kind::Identifier if depth == 0 => {
                    let Some(name) = tokens.get(at + 1).filter(|next| next.kind == Kind::Identifier) else { continue };
                    let before = at.checked_sub(1).and_then(|at| tokens.get(at)).map(|token| token.kind);
                    let begins = matches!(before, None | Some(Kind::Sign(Sign::BraceClose | Sign::Semicolon)));
                    if begins {
                        let word = self.text(*token).to_owned();
                        self.collect_one(&word, *name, is_builtin)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn collect_one(&mut self, word: &str, token: Token, is_builtin: bool) -> Outcome<()> {
        let written = self.text(token).to_owned();
        let name = if word == "sub" { self.modern_subroutine(token, &written) } else { written };
        if self.symbols.contains_key(&name) {
            // What is declared twice is told where it stands.
            return Ok(());
        }
        let next = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let symbol = match word {
            "sub" => {
                if name.starts_with("vcl_") && !is_builtin {
                    return Err(self.reserved_subroutine(token.span));
                }
                let index = RoutineIndex(next(self.drafts.len()));
                self.drafts.push(Draft { name: name.clone(), ..Draft::default() });
                Symbol::Routine(index)
            }
            "backend" => {
                let count = self.symbols.values().filter(|symbol| matches!(symbol, Symbol::Backend(_))).count();
                Symbol::Backend(BackendIndex(next(count)))
            }
            "acl" => {
                let count = self.symbols.values().filter(|symbol| matches!(symbol, Symbol::Acl(_))).count();
                Symbol::Acl(AclIndex(next(count)))
            }
            "probe" => {
                let count = self.symbols.values().filter(|symbol| matches!(symbol, Symbol::Probe(_))).count();
                Symbol::Probe(ProbeIndex(next(count)))
            }
            "director" => {
                let count = self.symbols.values().filter(|symbol| matches!(symbol, Symbol::Director(_))).count();
                Symbol::Director(next(count))
            }
            _ => return Ok(()),
        };
        self.symbols.insert(name, symbol);
        Ok(())
    }

    fn reserved_subroutine(&self, span: Span) -> Diagnostic {
        let mut names: Vec<&str> =
            self.drafts.iter().map(|draft| draft.name.as_str()).filter(|name| name.starts_with("vcl_")).collect();
        names.sort_unstable();
        let listed: String = names.iter().map(|name| format!("\n\t{name}")).collect();
        Diagnostic::at("The names 'vcl_*' are reserved for subroutines.", span)
            .say(format!("Valid vcl_* subroutines are:{listed}"))
    }

    /// Backends that the program has without declaring them.
    pub(super) fn declare_given_backends(&mut self) {
        for name in self.options.backends {
            if !self.symbols.contains_key(name) {
                let count = self.symbols.values().filter(|symbol| matches!(symbol, Symbol::Backend(_))).count();
                let index = BackendIndex(u32::try_from(count).unwrap_or(u32::MAX));
                self.symbols.insert(name.clone(), Symbol::Backend(index));
            }
        }
    }

    /// Takes the name of something that is declared here.
    pub(super) fn declared_name(&mut self, what: &str) -> Outcome<(String, Span)> {
        let token = self.peek();
        if token.kind != Kind::Identifier {
            return Err(self.unexpected(Kind::Identifier));
        }
        let name = self.text(token).to_owned();
        self.next();
        if self.is(Sign::Period) {
            let whole = token.span.to(self.look(1).span);
            let words = format!("Name of {what}, '{}', contains illegal character '.'", self.sources.text(whole));
            return Err(Diagnostic::at(words, token.span));
        }
        if RESERVED.contains(&name.as_str()) {
            return Err(Diagnostic::at(format!("Symbol '{name}' is a reserved word."), token.span));
        }
        if name.starts_with("vcl_") && what != "subroutine" {
            return Err(Diagnostic::at("Symbols named 'vcl_*' are reserved.", token.span));
        }
        Ok((name, token.span))
    }

    /// Notes that a name is declared here; an error says that it is declared already, or is something else.
    pub(super) fn declare(&mut self, symbol: Symbol, what: &str, name: &str, span: Span) -> Outcome<()> {
        if let Some(first) = self.declared.insert(symbol, span) {
            let words = match name {
                "default" if what == "Backend" => "Only one default director possible.".to_owned(),
                _ => format!("{what} '{name}' redefined"),
            };
            return Err(Diagnostic::at(words, span).say("First definition:").show(first));
        }
        Ok(())
    }

    /// What a name stands for, and that it is used here.
    pub(super) fn refer(&mut self, name: &str, span: Span) -> Option<Symbol> {
        let symbol = *self.symbols.get(name)?;
        self.used.entry(symbol).or_insert(span);
        Some(symbol)
    }

    /// What is used and not there, or there and not used.
    pub(super) fn check_references(&self) -> Outcome<()> {
        for draft in &self.drafts {
            if let (Some(span), None) = (draft.referenced, draft.defined) {
                return Err(undefined("sub", &draft.name, span));
            }
        }
        for (name, symbol) in self.sorted_symbols() {
            let is_given = self.options.backends.contains(name);
            let unused = !self.used.contains_key(&symbol);
            match (symbol, self.declared.get(&symbol)) {
                (Symbol::Routine(index), _) => {
                    let draft = self.drafts.get(index.0 as usize);
                    let left = draft.filter(|draft| draft.referenced.is_none() && !draft.name.starts_with("vcl_"));
                    if let Some(span) = left.and_then(|draft| draft.defined) {
                        self.unused("sub", name, span)?;
                    }
                }
                (Symbol::Object(_), _) => {}
                (_, None) if !is_given => {
                    if let Some(span) = self.used.get(&symbol) {
                        return Err(undefined(symbol.kind(), name, *span));
                    }
                }
                (Symbol::Backend(_), Some(_)) if name == "default" => {}
                (Symbol::Backend(index), Some(_)) if Some(index) == self.chosen_default => {}
                (Symbol::Probe(_), Some(_)) if name == "default" => {}
                // The first backend is the default one when none says so.
                (Symbol::Backend(BackendIndex(0)), Some(_)) if self.chosen_default.is_none() => {}
                (_, Some(span)) if unused => self.unused(symbol.kind(), name, *span)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn unused(&self, kind: &str, name: &str, span: Span) -> Outcome<()> {
        if self.options.unused_is_error && self.version_of_main() > crate::variables::Version::V3 {
            return Err(Diagnostic::at(format!("Unused {kind} {name}, defined:"), span));
        }
        Ok(())
    }

    /// By where they are declared, so that the first one is told.
    fn sorted_symbols(&self) -> Vec<(&String, Symbol)> {
        let mut all: Vec<_> = self.symbols.iter().map(|(name, symbol)| (name, *symbol)).collect();
        all.sort_by_key(|(name, symbol)| {
            let span = self.declared.get(symbol).or(self.used.get(symbol));
            (span.map(|span| (span.source, span.start)), name.as_str())
        });
        all
    }

    /// The routine of a name, which is used here.
    pub(super) fn routine(&mut self, name: &str, span: Span) -> RoutineIndex {
        let index = match self.symbols.get(name) {
            Some(Symbol::Routine(index)) => *index,
            _ => {
                let index = RoutineIndex(u32::try_from(self.drafts.len()).unwrap_or(u32::MAX));
                self.drafts.push(Draft { name: name.to_owned(), ..Draft::default() });
                self.symbols.insert(name.to_owned(), Symbol::Routine(index));
                index
            }
        };
        if let Some(draft) = self.drafts.get_mut(index.0 as usize) {
            draft.referenced.get_or_insert(span);
        }
        index
    }

    /// Whether a routine is one that the cache calls.
    pub(super) fn subroutine_of(&self, index: RoutineIndex) -> Option<Subroutine> {
        self.drafts.get(index.0 as usize).and_then(|draft| Subroutine::of_name(&draft.name))
    }
}

fn undefined(kind: &str, name: &str, span: Span) -> Diagnostic {
    Diagnostic::at(format!("Undefined {kind} {name}, first reference:"), span)
}
