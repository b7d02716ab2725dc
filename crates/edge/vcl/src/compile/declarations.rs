//! What stands at the top of a text: its version, modules, lists, probes, backends, routines.

use super::{Compiler, Outcome, legacy, symbols::Symbol};
use crate::{
    diagnostic::Diagnostic,
    modules,
    program::RoutineIndex,
    subroutine::Subroutine,
    token::{Kind, Sign, Token},
    variables::Version,
};

impl Compiler<'_> {
    /// Reads the words of a text.
    pub(super) fn read(&mut self, tokens: Vec<Token>) -> Outcome<()> {
        self.tokens = tokens;
        self.at = 0;
        while self.peek().kind != Kind::End {
            self.declaration()?;
        }
        Ok(())
    }

    fn declaration(&mut self) -> Outcome<()> {
        let token = self.peek();
        match token.kind {
            Kind::InlineC => return Err(refuse_inline_c(token)),
            Kind::Identifier => {}
            _ => return Err(self.unexpected(Kind::Identifier)),
        }
        match self.text(token) {
            "vcl" => self.version_line(),
            "import" => self.import(),
            "acl" => self.acl(),
            "probe" => self.probe_declaration(),
            "backend" => self.backend_declaration(),
            "director" => self.director_declaration(),
            "sub" => self.routine_declaration(),
            "default" => Err(Diagnostic::at("Symbol 'default' is a reserved word.", token.span)),
            word => {
                let expected =
                    "Expected one of 'acl', 'sub', 'backend', 'probe', 'import', 'include', 'vcl', or 'default'";
                Err(Diagnostic::at(format!("{expected}\nFound: '{word}' at"), token.span))
            }
        }
    }

    /// `vcl 4.1;`
    fn version_line(&mut self) -> Outcome<()> {
        let word = self.next();
        let token = self.peek();
        if token.kind != Kind::Real {
            return Err(self.unexpected(Kind::Real));
        }
        let said = self.text(token).to_owned();
        let version = match said.as_str() {
            "4.0" => Version::V4_0,
            "4.1" => Version::V4_1,
            "3.0" => Version::V3,
            _ if is_odd(&said) => {
                let words = "Don't play silly buggers with VCL version numbers";
                return Err(Diagnostic::at(words, word.span.to(token.span)));
            }
            _ => return Err(Diagnostic::at(format!("VCL version {said} not supported."), word.span.to(token.span))),
        };
        self.next();
        let main = self.version_of_main();
        let is_main =
            token.span.source == crate::source::SourceId(1) || token.span.source == crate::source::SourceId(0);
        if !is_main && version > main {
            let words = format!(
                "VCL version {said} in an included file is newer than {}.{} of the file that includes it.",
                main.0 / 10,
                main.0 % 10
            );
            return Err(Diagnostic::at(words, word.span.to(token.span)));
        }
        self.set_version(token.span.source, version);
        if !self.take(Sign::Semicolon) {
            return Err(Diagnostic::at("Expected 'vcl N.N;' found no semi-colon", word.span.to(token.span)));
        }
        Ok(())
    }

    /// `import std;`, `import std from "path";`
    fn import(&mut self) -> Outcome<()> {
        self.next();
        let token = self.peek();
        let name = self.identifier()?.to_owned();
        let mut alias = name.clone();
        if self.is_word("as") {
            self.next();
            alias = self.identifier()?.to_owned();
        }
        if let Some(symbol) = self.symbols.get(&alias) {
            let words = format!("Symbol '{alias}' has wrong type ({}), expected vmod:", symbol.kind());
            return Err(Diagnostic::at(words, token.span));
        }
        if self.is_word("from") {
            self.next();
            self.expect_kind(Kind::String)?;
        }
        if !modules::is_module(&name) {
            let mut known: Vec<&str> = modules::functions().iter().map(|function| function.module).collect();
            known.dedup();
            return Err(Diagnostic::at(format!("Could not find VMOD {name}"), token.span)
                .say(format!("There are: {}.", known.join(", "))));
        }
        if let Some((_, other)) = self.aliases.iter().find(|(known, of)| *known == alias && *of != name) {
            return Err(Diagnostic::at(format!("Module {other} is called '{alias}' already."), token.span));
        }
        if !self.modules.contains(&name) {
            self.modules.push(name.clone());
        }
        self.aliases.push((alias, name));
        self.expect(Sign::Semicolon)?;
        Ok(())
    }

    /// The module that a word stands for, in this text.
    pub(super) fn module_called(&self, word: &str) -> Option<&str> {
        self.aliases.iter().find(|(alias, _)| alias == word).map(|(_, module)| module.as_str())
    }

    /// `sub name { ... }`
    fn routine_declaration(&mut self) -> Outcome<()> {
        self.next();
        let token = self.peek();
        let (written, span) = self.declared_name("subroutine")?;
        let name = self.modern_subroutine(token, &written);
        let index = match self.symbols.get(&name) {
            Some(Symbol::Routine(index)) => *index,
            Some(other) => {
                let words = format!("Symbol '{name}' has wrong type ({}), expected sub:", other.kind());
                return Err(Diagnostic::at(words, span));
            }
            None => return Err(Diagnostic::at(format!("Symbol not found: '{name}'"), span)),
        };
        let accumulates = name.starts_with("vcl_");
        if let Some(draft) = self.drafts.get_mut(index.0 as usize) {
            if let Some(first) = draft.defined.filter(|_| !accumulates) {
                return Err(Diagnostic::at(format!("Subroutine '{name}' redefined"), span)
                    .say("First definition:")
                    .show(first));
            }
            draft.defined.get_or_insert(span);
        }
        let body_at = self.at;
        self.routine_body(index, Subroutine::of_name(&name))?;
        if written == legacy::ERROR {
            // It makes responses of our own and those in place of a backend's, so it becomes both subroutines.
            let behind = std::mem::replace(&mut self.at, body_at);
            let twin = self.routine(Subroutine::BackendError.name(), span);
            if let Some(draft) = self.drafts.get_mut(twin.0 as usize) {
                draft.defined.get_or_insert(span);
            }
            self.routine_body(twin, Some(Subroutine::BackendError))?;
            self.at = behind;
        }
        Ok(())
    }

    fn routine_body(&mut self, index: RoutineIndex, place: Option<Subroutine>) -> Outcome<()> {
        self.current = Some(index);
        self.legacy_place = place;
        let body = self.block()?;
        if let Some(draft) = self.drafts.get_mut(index.0 as usize) {
            draft.body.extend(body);
        }
        self.current = None;
        self.legacy_place = None;
        Ok(())
    }
}

/// Whether a version is written in another way than as a digit, a point and a digit.
fn is_odd(version: &str) -> bool {
    let is_digit = |part: &str| part.len() == 1 && part.bytes().all(|byte| byte.is_ascii_digit());
    !version.split_once('.').is_some_and(|(major, minor)| is_digit(major) && is_digit(minor))
}

/// There is no compiler of C here, and nothing that could load what it makes.
pub(super) fn refuse_inline_c(token: Token) -> Diagnostic {
    Diagnostic::at("Inline-C not allowed", token.span).say(
        "Tidegate runs VCL itself and has no compiler of C. What inline C was used for is mostly in modules: std, header, \
         cookie, blob.",
    )
}
