//! Statements: `set`, `unset`, `if`, `call`, `return`, `new`, and functions for what they do.

use super::{
    Compiler, Outcome,
    access::Verb,
    expressions::{convert, text},
    legacy::{self, Renamed},
    symbols::Symbol,
};
use crate::{
    action::Action,
    diagnostic::Diagnostic,
    modules,
    program::{
        Arithmetic, Constant, Expression, HeaderName, HeaderRef, LabelIndex, Object, ObjectIndex, Return, Statement,
    },
    source::Span,
    subroutine::{Subroutine, Subroutines},
    token::{Kind, Sign, Token},
    types::Type,
    variables::{Access, Message, Variable, Version},
    words::Word,
};

/// Names of headers may be this long.
const HEADER_NAME_BYTES_MAX: usize = 127;

/// What a name of variables stands for.
pub(super) enum ResolvedName {
    Header(HeaderRef),
    Variable(Variable),
    /// A function of what a name of VCL 3 asked for: `server.port`.
    Derived(Expression, Type),
}

impl Compiler<'_> {
    /// `{ statement ... }`
    pub(super) fn block(&mut self) -> Outcome<Vec<Statement>> {
        self.descend()?;
        self.expect(Sign::BraceOpen)?;
        let mut body = Vec::new();
        while !self.take(Sign::BraceClose) {
            if self.is(Sign::BraceOpen) {
                body.extend(self.block()?);
            } else if !self.take(Sign::Semicolon) {
                self.statement(&mut body)?;
            }
        }
        self.depth -= 1;
        Ok(body)
    }

    fn statement(&mut self, body: &mut Vec<Statement>) -> Outcome<()> {
        let token = self.peek();
        match token.kind {
            Kind::InlineC => return Err(super::declarations::refuse_inline_c(token)),
            Kind::Identifier => {}
            _ => return Err(self.unexpected(Kind::Identifier)),
        }
        let is_old = self.version() <= Version::V3;
        let word = self.text(token).to_owned();
        match word.as_str() {
            "if" => return self.condition(body),
            "set" => body.push(self.set()?),
            "unset" => body.push(self.unset()?),
            "remove" if is_old => body.push(self.unset()?),
            "call" => body.push(self.call()?),
            "return" => self.answer(body)?,
            "new" => body.push(self.new_object()?),
            "hash_data" | "synthetic" | "ban" => body.push(self.builtin(&word)?),
            "error" if is_old => body.push(self.old_error()?),
            "purge" if is_old => body.push(self.old_purge()?),
            "esi" if is_old => {
                let span = self.next().span;
                self.note_use(Variable::BerespDoEsi.definition().access.write, Verb::Set, span);
                body.push(Statement::Set(Variable::BerespDoEsi, Expression::Constant(Constant::Bool(true))));
            }
            "ban_url" | "purge_url" if is_old => body.push(self.old_ban_url()?),
            _ => body.push(self.effect(token, &word)?),
        }
        self.expect(Sign::Semicolon)?;
        Ok(())
    }

    /// A function or method for what it does.
    fn effect(&mut self, token: Token, word: &str) -> Outcome<Statement> {
        let is_function = self.module_called(word).is_some();
        let is_object = matches!(self.symbols.get(word), Some(Symbol::Object(_)));
        if is_function || is_object {
            let typed = self.suffixed(Type::Void)?;
            return Ok(Statement::Do(typed.expression));
        }
        if self.symbols.contains_key(word) {
            return Err(Diagnostic::at("Symbol cannot be used here", token.span));
        }
        let mut end = token.span;
        while self.look(1).kind == Kind::Sign(Sign::Period) && self.look(2).kind == Kind::Identifier {
            self.next();
            self.next();
            end = self.peek().span;
        }
        let span = token.span.to(end);
        let error = Diagnostic::new(format!("Symbol not found: '{}'", self.sources.text(span))).show_range(span);
        Err(if modules::is_module(word) { error.say(format!("Write 'import {word};' first.")) } else { error })
    }

    /// `if (...) { ... } elsif (...) { ... } else { ... }`
    fn condition(&mut self, body: &mut Vec<Statement>) -> Outcome<()> {
        let mut arms = Vec::new();
        self.next();
        loop {
            self.expect(Sign::ParenthesisOpen)?;
            let condition = self.expression(Type::Bool)?;
            self.expect(Sign::ParenthesisClose)?;
            arms.push((Some(condition), self.block()?));
            if self.is_word("else") {
                self.next();
                if self.is_word("if") {
                    self.next();
                    continue;
                }
                arms.push((None, self.block()?));
                break;
            }
            if self.is_word("elseif") || self.is_word("elsif") || self.is_word("elif") {
                self.next();
                continue;
            }
            break;
        }
        body.push(Statement::If(arms));
        Ok(())
    }

    /// `set variable = value;`, also with `+=` and its like.
    fn set(&mut self) -> Outcome<Statement> {
        self.next();
        let (found, span) = self.variable_name()?;
        let (kind, access) = match &found {
            ResolvedName::Header(header) => (Type::Header, header.message.headers()),
            ResolvedName::Variable(variable) => (variable.definition().kind, variable.definition().access),
            ResolvedName::Derived(..) => (Type::Void, NOWHERE),
        };
        let is_assignment = matches!(
            self.peek().kind,
            Kind::Sign(
                Sign::Assign | Sign::AddAssign | Sign::SubtractAssign | Sign::MultiplyAssign | Sign::DivideAssign
            )
        );
        if !is_assignment {
            return Err(self.unexpected(Kind::Sign(Sign::Assign)));
        }
        if access.write.is_empty() {
            let place = self.current.and_then(|index| self.subroutine_of(index));
            if let Some(place) = place.filter(|place| !access.read.is_empty() && !access.read.contains(*place)) {
                let words = format!("Not available in subroutine '{place}'.");
                return Err(Diagnostic::default().show_range(span).say(words));
            }
            let words = if access.read.is_empty() { "Variable cannot be set." } else { "Variable is read only." };
            if place.is_none() && !access.read.is_empty() {
                // NOTE: where the routine is called from may forbid the variable altogether: that is said first.
                self.note_use(access.read, Verb::Read, span);
                self.read_only.get_or_insert_with(|| Diagnostic::default().show_range(span).say(words));
                while !self.is(Sign::Semicolon) && self.peek().kind != Kind::End {
                    self.next();
                }
                return Ok(Statement::Leave);
            }
            return Err(Diagnostic::default().show_range(span).say(words));
        }
        self.note_use(access.write, Verb::Set, span);
        let sign = self.next();
        let arithmetic = match sign.kind {
            Kind::Sign(Sign::Assign) => None,
            Kind::Sign(Sign::AddAssign) => Some(Arithmetic::Add),
            Kind::Sign(Sign::SubtractAssign) if kind.is_number() => Some(Arithmetic::Subtract),
            Kind::Sign(Sign::MultiplyAssign) if kind.is_number() => Some(Arithmetic::Multiply),
            Kind::Sign(Sign::DivideAssign) if kind.is_number() => Some(Arithmetic::Divide),
            _ => {
                self.at = self.at.saturating_sub(1);
                return Err(self.unexpected(Kind::Sign(Sign::Assign)));
            }
        };
        match (found, kind, arithmetic) {
            (ResolvedName::Header(header), _, None) => Ok(Statement::SetHeader(header, self.expression(Type::String)?)),
            (ResolvedName::Header(header), _, Some(_)) => {
                self.note_use(access.read, Verb::Read, span);
                let added = self.expression(Type::String)?;
                let whole = Expression::Concat(vec![Expression::Header(header.clone()), added]);
                Ok(Statement::SetHeader(header, whole))
            }
            (ResolvedName::Variable(variable), Type::Body, None) => self.set_body(variable),
            (ResolvedName::Variable(variable), Type::Body, Some(_)) => {
                Ok(Statement::AppendBody(variable, self.expression(Type::Body)?))
            }
            (ResolvedName::Variable(variable), kind, None) => Ok(Statement::Set(variable, self.expression(kind)?)),
            (ResolvedName::Variable(variable), Type::String, Some(_)) => {
                let added = self.expression(Type::String)?;
                Ok(Statement::Set(variable, Expression::Concat(vec![Expression::Variable(variable), added])))
            }
            (ResolvedName::Variable(variable), kind, Some(operator)) if kind.is_number() => {
                let scales = matches!(operator, Arithmetic::Multiply | Arithmetic::Divide) && kind != Type::Int;
                let added = self.expression(if scales { Type::Real } else { kind })?;
                let both = Box::new((Expression::Variable(variable), added));
                Ok(Statement::Set(variable, Expression::Arithmetic(operator, kind, both)))
            }
            (_, kind, Some(_)) => {
                let words = format!("Expected '=' got '{}'", self.text(sign));
                Err(Diagnostic::at(words, sign.span).say(format!("There is nothing to add to a {kind}.")))
            }
            (ResolvedName::Derived(..), ..) => Err(Diagnostic::at("Variable is read only.", span)),
        }
    }

    fn set_body(&mut self, variable: Variable) -> Outcome<Statement> {
        let typed = self.value(Type::String)?;
        Ok(Statement::Set(variable, convert(typed, Type::Body)?))
    }

    fn unset(&mut self) -> Outcome<Statement> {
        self.next();
        let (found, span) = self.variable_name()?;
        let access = match &found {
            ResolvedName::Header(header) => header.message.headers(),
            ResolvedName::Variable(variable) => variable.definition().access,
            ResolvedName::Derived(..) => NOWHERE,
        };
        if access.unset.is_empty() {
            return Err(Diagnostic::default().show_range(span).say("Variable cannot be unset."));
        }
        self.note_use(access.unset, Verb::Unset, span);
        Ok(match found {
            ResolvedName::Header(header) => Statement::UnsetHeader(header),
            ResolvedName::Variable(variable) => Statement::Unset(variable),
            ResolvedName::Derived(..) => return Err(Diagnostic::at("Variable cannot be unset.", span)),
        })
    }

    fn call(&mut self) -> Outcome<Statement> {
        self.next();
        let token = self.peek();
        if token.kind != Kind::Identifier {
            return Err(self.unexpected(Kind::Identifier));
        }
        let written = self.next_text().to_owned();
        let name = self.modern_subroutine(token, &written);
        if let Some(other) = self.symbols.get(&name).filter(|symbol| !matches!(symbol, Symbol::Routine(_))) {
            let words = format!("Symbol '{name}' has wrong type ({}), expected sub:", other.kind());
            return Err(Diagnostic::at(words, token.span));
        }
        let index = self.routine(&name, token.span);
        self.note_call(index, token.span);
        Ok(Statement::Call(index))
    }

    /// `return;`, `return (action);`, `return (synth(404, "reason"));`
    fn answer(&mut self, body: &mut Vec<Statement>) -> Outcome<()> {
        self.next();
        if self.is(Sign::Semicolon) {
            let entry = self.current.and_then(|index| self.subroutine_of(index));
            if entry.is_some() {
                return Err(self.unexpected(Kind::Sign(Sign::ParenthesisOpen)));
            }
            body.push(Statement::Leave);
            return Ok(());
        }
        let has_parenthesis = self.take(Sign::ParenthesisOpen);
        if !has_parenthesis && self.version() > Version::V3 {
            return Err(self.unexpected(Kind::Sign(Sign::ParenthesisOpen)));
        }
        let token = self.peek();
        if token.kind != Kind::Identifier {
            return Err(Diagnostic::at("Expected return action name.", token.span));
        }
        let name = self.next_text().to_owned();
        let is_old = self.version() <= Version::V3;
        let action = if is_old { self.modern_action(&name, token.span) } else { Action::of_name(&name) };
        let Some(action) = action else {
            return Err(Diagnostic::at("Expected return action name.", token.span).say(
                self.legacy_place
                    .map_or_else(String::new, |place| format!("Legal returns are: {}", Action::legal_in(place))),
            ));
        };
        self.note_return(action, token.span);
        let mut answer = self.answer_arguments(action)?;
        if name == "hit_for_pass" {
            answer.number = Some(Expression::Variable(Variable::BerespTtl));
        }
        if has_parenthesis {
            self.expect(Sign::ParenthesisClose)?;
        }
        body.push(Statement::Return(answer));
        Ok(())
    }

    /// What stands in parentheses behind an action.
    fn answer_arguments(&mut self, action: Action) -> Outcome<Return> {
        let mut answer = Return { action, number: None, text: None, label: None };
        if !self.is(Sign::ParenthesisOpen) {
            if action == Action::Synth && self.version() > Version::V3 || action == Action::Vcl {
                return Err(Diagnostic::at("Missing argument.", self.last_span()));
            }
            return Ok(answer);
        }
        let open = self.next();
        match action {
            Action::Synth | Action::Error => {
                answer.number = Some(self.expression(Type::Int)?);
                if self.take(Sign::Comma) {
                    answer.text = Some(self.expression(Type::String)?);
                }
            }
            Action::Fail => answer.text = Some(self.expression(Type::String)?),
            Action::Pass => {
                self.note_use(Subroutine::BackendResponse.alone(), Verb::Read, open.span);
                answer.number = Some(self.expression(Type::Duration)?);
            }
            Action::Vcl => {
                let token = self.expect_kind(Kind::Identifier)?;
                answer.label = Some(self.label(token)?);
            }
            _ => return Err(Diagnostic::at("Arguments not allowed.", open.span)),
        }
        self.expect(Sign::ParenthesisClose)?;
        Ok(answer)
    }

    fn label(&mut self, token: Token) -> Outcome<LabelIndex> {
        let name = self.text(token).to_owned();
        if let Some(symbol) = self.symbols.get(&name)
            && !self.options.labels.contains(&name)
        {
            let words = match self.version() {
                Version::V4_1 => format!("Symbol '{name}' has wrong type ({}), expected vcl:", symbol.kind()),
                _ => format!("Symbol not found: '{name}'"),
            };
            return Err(Diagnostic::at(words, token.span));
        }
        if !self.options.labels.contains(&name) {
            return Err(Diagnostic::at(format!("No VCL labeled {name}"), token.span));
        }
        let place = self.program.labels.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.program.labels.push(name);
            self.program.labels.len() - 1
        });
        Ok(LabelIndex(u32::try_from(place).unwrap_or(u32::MAX)))
    }

    /// `new name = module.class(...);`
    fn new_object(&mut self) -> Outcome<Statement> {
        let word = self.next();
        self.note_use(Subroutine::Init.alone(), Verb::Read, word.span);
        let (name, span) = self.declared_name("VCL object")?;
        match self.symbols.get(&name) {
            Some(Symbol::Object(_)) => return Err(Diagnostic::at(format!("Instance '{name}' redefined."), span)),
            Some(_) => return Err(Diagnostic::at(format!("Name '{name}' already defined."), span)),
            None => {}
        }
        self.expect(Sign::Assign)?;
        let module = self.expect_kind(Kind::Identifier)?;
        self.expect(Sign::Period)?;
        let class = self.expect_kind(Kind::Identifier)?;
        let whole = module.span.to(class.span);
        let written = self.sources.text(whole).to_owned();
        let named = self.module_called(self.text(module)).map(|own| format!("{own}.{}", self.text(class)));
        let class = modules::classes().iter().find(|class| named.as_deref() == Some(class.name));
        let Some(class) = class else {
            return Err(Diagnostic::new(format!("Symbol not found: '{written}'")).show_range(whole));
        };
        let index = ObjectIndex(u32::try_from(self.program.objects.len()).unwrap_or(u32::MAX));
        let arguments = self.arguments(class.parameters, whole)?;
        self.program.objects.push(Object { name: name.clone(), class });
        self.symbols.insert(name, Symbol::Object(index));
        Ok(Statement::New(index, arguments))
    }

    /// `hash_data(...)`, `synthetic(...)`, `ban(...)`
    fn builtin(&mut self, word: &str) -> Outcome<Statement> {
        let token = self.next();
        let places = Word::of_name(word).map_or(Subroutines::ALL, |word| word.places);
        self.note_use(places, Verb::Do, token.span);
        // VCL 3 has `synthetic "text" "more";`.
        let has_parenthesis = self.version() > Version::V3 || self.is(Sign::ParenthesisOpen);
        if has_parenthesis {
            self.expect(Sign::ParenthesisOpen)?;
        }
        let typed = self.value(Type::String)?;
        let value = if word == "synthetic" && typed.kind == Type::Blob { typed.expression } else { text(typed)? };
        if has_parenthesis {
            self.expect(Sign::ParenthesisClose)?;
        }
        Ok(match word {
            "hash_data" => Statement::HashData(value),
            "ban" => Statement::Ban(value),
            _ => {
                // The place decides which body; a routine of both is asked at run time.
                let in_fetch = self.legacy_place == Some(Subroutine::BackendError);
                Statement::AppendBody(if in_fetch { Variable::BerespBody } else { Variable::RespBody }, value)
            }
        })
    }

    /// `error 404 "reason";`
    fn old_error(&mut self) -> Outcome<Statement> {
        let span = self.next().span;
        let in_fetch = self.legacy_place == Some(Subroutine::BackendResponse);
        let action = if in_fetch { Action::Error } else { Action::Synth };
        self.note_return(action, span);
        let has_parenthesis = self.take(Sign::ParenthesisOpen);
        let number = if self.is(Sign::Semicolon) {
            Expression::Constant(Constant::Int(503))
        } else {
            self.expression(Type::Int)?
        };
        if has_parenthesis {
            self.take(Sign::Comma);
        }
        let ends = self.is(Sign::Semicolon) || self.is(Sign::ParenthesisClose);
        let reason = if ends { None } else { Some(self.expression(Type::String)?) };
        if has_parenthesis {
            self.expect(Sign::ParenthesisClose)?;
        }
        Ok(Statement::Return(Return { action, number: Some(number), text: reason, label: None }))
    }

    /// `purge;` in `vcl_hit` and `vcl_miss`.
    fn old_purge(&mut self) -> Outcome<Statement> {
        let span = self.next().span;
        let Some(function) = modules::function("purge", "hard") else {
            return Err(Diagnostic::at("Symbol not found.", span));
        };
        self.note_use(function.places, Verb::Read, span);
        Ok(Statement::Do(Expression::Call(function, Vec::new())))
    }

    /// `ban_url("pattern");`
    fn old_ban_url(&mut self) -> Outcome<Statement> {
        self.next();
        self.expect(Sign::ParenthesisOpen)?;
        let pattern = self.expression(Type::String)?;
        self.expect(Sign::ParenthesisClose)?;
        let begin = Expression::Constant(Constant::String(b"req.url ~ ".as_slice().into()));
        Ok(Statement::Ban(Expression::Concat(vec![begin, pattern])))
    }

    /// A variable for its value.
    pub(super) fn variable(&mut self, wanted: Type) -> Outcome<super::expressions::Typed> {
        let first = self.peek();
        let before = self.at;
        let (found, span) = match self.variable_name() {
            Ok(found) => found,
            Err(error) => {
                self.at = before;
                return Err(self.unknown_name(first, wanted, error));
            }
        };
        let (expression, kind, places) = match found {
            ResolvedName::Header(header) => {
                let places = header.message.headers().read;
                (Expression::Header(header), Type::Header, places)
            }
            ResolvedName::Variable(variable) => {
                let definition = variable.definition();
                (Expression::Variable(variable), definition.kind, definition.access.read)
            }
            ResolvedName::Derived(expression, kind) => (expression, kind, Subroutines::BOTH),
        };
        if kind == Type::Body {
            return Err(Diagnostic::new(format!("Expression has type BODY, expected {wanted}")).show_range(span));
        }
        if places.is_empty() {
            return Err(Diagnostic::default().show_range(span).say("Variable cannot be read."));
        }
        self.note_use(places, Verb::Read, span);
        Ok(super::expressions::Typed { expression, kind, span })
    }

    /// `req.nope`: the message is there, and has nothing of that name.
    fn unknown_name(&self, first: Token, wanted: Type, error: Diagnostic) -> Diagnostic {
        let name = self.text(first);
        let is_message = Message::ALL.iter().any(|message| message.name() == name && *message != Message::Obj);
        if is_message
            && self.look(1).kind == Kind::Sign(Sign::Period)
            && error.summary().starts_with("Symbol not found")
        {
            let member = self.look(2);
            if self.text(member) != "http" && !error.summary().contains("Only available") {
                let words = format!("Unknown property '{}' for type HTTP", self.text(member));
                return Diagnostic::at(words, member.span);
            }
        }
        let _ = wanted;
        if modules::is_module(name) { error.say(format!("Write 'import {name};' first.")) } else { error }
    }

    /// Reads the name of a variable.
    pub(super) fn variable_name(&mut self) -> Outcome<(ResolvedName, Span)> {
        let first = self.peek();
        if first.kind != Kind::Identifier {
            return Err(self.unexpected(Kind::Identifier));
        }
        let is_http = self.look(1).kind == Kind::Sign(Sign::Period) && self.text(self.look(2)) == "http";
        let message = Message::ALL.iter().find(|message| message.name() == self.text(first)).copied();
        if let (Some(message), true) = (message, is_http) {
            return self.header(message);
        }
        // The longest name that there is: `beresp.backend.name` before `beresp.backend`.
        let mut end = 1;
        while self.look(end).kind == Kind::Sign(Sign::Period) && self.look(end + 1).kind == Kind::Identifier {
            end += 2;
        }
        let whole = first.span.to(self.look(end - 1).span);
        let mut length = end;
        let mut wrong_version = None;
        while length > 0 {
            let span = first.span.to(self.look(length - 1).span);
            let name = self.sources.text(span).to_owned();
            // What is left over can only be a method: `req.url.upper()`.
            let is_whole =
                length == end || self.look(end).kind == Kind::Sign(Sign::ParenthesisOpen) && length + 2 == end;
            if let Some(found) = self.lookup(&name, span, &mut wrong_version)?.filter(|_| is_whole) {
                self.at += length;
                return Ok((found, span));
            }
            length = length.saturating_sub(2);
        }
        let name = self.sources.text(whole);
        Err(wrong_version.unwrap_or_else(|| Diagnostic::new(format!("Symbol not found: '{name}'")).show_range(whole)))
    }

    fn lookup(
        &mut self,
        name: &str,
        span: Span,
        wrong_version: &mut Option<Diagnostic>,
    ) -> Outcome<Option<ResolvedName>> {
        let version = self.version();
        let name = if version <= Version::V3 {
            if let Some(derived) = self.derived(name, span) {
                return Ok(Some(derived));
            }
            match legacy::renamed(name, self.legacy_place) {
                Renamed::Same => name.to_owned(),
                Renamed::To(new) => {
                    self.note_moved(name, span);
                    new
                }
                Renamed::Gone(instead) => {
                    Self::gone(name, instead, span)?;
                    return Ok(None);
                }
            }
        } else {
            name.to_owned()
        };
        for variable in Variable::of_name(&name) {
            let definition = variable.definition();
            if (definition.since..=definition.until).contains(&version) {
                return Ok(Some(ResolvedName::Variable(variable)));
            }
            let bound = if definition.since > version {
                format!("Only available when {}.{} <= VCL syntax", definition.since.0 / 10, definition.since.0 % 10)
            } else {
                format!("Only available when VCL syntax <= {}.{}", definition.until.0 / 10, definition.until.0 % 10)
            };
            let words = format!("Symbol not found: '{name}' ({bound})");
            *wrong_version = Some(Diagnostic::new(words).show_range(span));
        }
        Ok(None)
    }

    /// What VCL 3 has as a variable and today is a function of one.
    fn derived(&mut self, name: &str, _span: Span) -> Option<ResolvedName> {
        let in_fetch = matches!(self.legacy_place, Some(Subroutine::BackendResponse | Subroutine::BackendError));
        let backend = if in_fetch { Variable::BereqBackend } else { Variable::ReqBackendHint };
        let (function, of) = match name {
            "server.port" => ("port", Variable::ServerIp),
            "client.port" => ("port", Variable::ClientIp),
            "req.backend.healthy" => ("healthy", backend),
            _ => return None,
        };
        let function = modules::function("std", function)?;
        let call = Expression::Call(function, vec![Some(Expression::Variable(of))]);
        Some(ResolvedName::Derived(call, function.returns))
    }

    fn note_moved(&mut self, name: &str, span: Span) {
        if name.starts_with("bereq.") && matches!(self.legacy_place, Some(Subroutine::Miss | Subroutine::Pass)) {
            self.note(
                "bereq in vcl_miss and vcl_pass stands for req, of which the backend's request is made: what is set there is \
                 also seen by vcl_deliver.",
                span,
            );
        } else if name.starts_with("req.") && self.legacy_place == Some(Subroutine::BackendResponse) {
            self.note(
                "req in vcl_fetch stands for bereq, the copy that went to the backend: what is set there is not seen by \
                 vcl_deliver.",
                span,
            );
        }
    }

    /// `req.http.name`, `req.http."name"`.
    fn header(&mut self, message: Message) -> Outcome<(ResolvedName, Span)> {
        let first = self.next();
        self.next();
        self.next();
        self.expect(Sign::Period)?;
        let token = self.peek();
        let name = match token.kind {
            Kind::Identifier => self.next_text().to_owned(),
            Kind::String if self.version() >= Version::V4_1 => {
                let name = self.string_text(token.span).to_owned();
                if let Some(wrong) = name.chars().find(|sign| !sign.is_ascii_graphic() || ":\"".contains(*sign)) {
                    let words = format!("Invalid character '{}' in header name", wrong.escape_default());
                    return Err(Diagnostic::at(words, token.span));
                }
                self.next();
                name
            }
            Kind::String => {
                return Err(Diagnostic::at("Quoted headers are available for VCL >= 4.1", token.span));
            }
            _ => return Err(self.unexpected(Kind::Identifier)),
        };
        if name.is_empty() {
            return Err(Diagnostic::at("Empty header name.", token.span));
        }
        if name.len() > HEADER_NAME_BYTES_MAX {
            let shown = name.get(..20).unwrap_or(&name);
            return Err(Diagnostic::at(format!("HTTP header ({shown}..) is too long."), token.span));
        }
        let span = first.span.to(token.span);
        let mut message = message;
        if self.version() <= Version::V3
            && let Renamed::To(new) = legacy::renamed(&format!("{}.http.{name}", message.name()), self.legacy_place)
        {
            self.note_moved(&format!("{}.http", message.name()), span);
            let of = new.split('.').next().unwrap_or_default();
            message = Message::ALL.iter().find(|other| other.name() == of).copied().unwrap_or(message);
        }
        Ok((ResolvedName::Header(HeaderRef { message, name: HeaderName::new(&name) }), span))
    }
}

/// What can be neither read nor set.
const NOWHERE: Access = Access { read: Subroutines::NONE, write: Subroutines::NONE, unset: Subroutines::NONE };
