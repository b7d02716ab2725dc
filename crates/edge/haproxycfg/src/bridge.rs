//! To the sample language: conditions, expressions and log formats of the section that is read.

use std::{net::IpAddr, sync::Arc};

use sample::{
    AclSet, Condition, Error, Expression, Loader, LogFormat, LogFormatOptions, ParseContext, Place, Places, Regex,
    VariableName,
};

use crate::{
    diagnostics::Problem,
    line::Line,
    model::Mode,
    scope::{NamedReference, Scope, Section},
    source::Files,
};

/// Reads pattern files through [`Files`].
struct PatternLoader<'a> {
    files: &'a dyn Files,
    directory: Option<String>,
}

impl Loader for PatternLoader<'_> {
    fn load(&self, path: &str) -> Result<Vec<u8>, String> {
        // HAProxy's name for a list that is no file: it begins empty, and commands fill it.
        if path.starts_with("virt@") {
            return Ok(Vec::new());
        }
        let path = crate::scope::join(self.directory.as_deref(), path);
        self.files.read(&path).map(|contents| contents.to_vec()).map_err(|error| error.0)
    }

    fn resolve(&self, _name: &str) -> Option<IpAddr> {
        // Names are not resolved while reading: the result would depend on when it was read.
        None
    }
}

impl Scope<'_> {
    /// Where rules on requests stand in this section.
    #[must_use]
    pub fn request_places(&self) -> Places {
        self.places(Place::FrontendRequestHeaders, Place::BackendRequestHeaders)
    }

    /// Where rules on responses stand in this section.
    #[must_use]
    pub fn response_places(&self) -> Places {
        self.places(Place::FrontendResponseHeaders, Place::BackendResponseHeaders)
    }

    /// The place of a frontend, of a backend, or both, by the sides that this section has.
    #[must_use]
    pub fn places(&self, frontend: Place, backend: Place) -> Places {
        let mut places = Places::NONE;
        if self.has_frontend() {
            places = places.union(Places::only(frontend));
        }
        if self.has_backend() {
            places = places.union(Places::only(backend));
        }
        places
    }

    /// The condition that begins with `if` or `unless` at `index` and ends with the line; `None` at the end of the
    /// line. Warns when it looks at what is not there at any of `places`.
    ///
    /// # Errors
    /// When it is malformed or refers to an unknown ACL.
    pub fn condition(&mut self, line: &Line, index: usize, places: Places) -> Result<Option<Condition>, Problem> {
        if line.word(index).is_empty() {
            return Ok(None);
        }
        let words: Vec<&[u8]> = line.words().iter().skip(index).map(crate::line::Word::bytes).collect();
        let condition = self.sample(line, index, |acls, context| Condition::parse(&words, acls, context))?;
        self.warn_of_conflict(line, index, &condition, places);
        Ok(Some(condition))
    }

    fn warn_of_conflict(&mut self, line: &Line, index: usize, condition: &Condition, places: Places) {
        if places.is_empty() {
            return;
        }
        let conflicts: Option<Vec<String>> = places.iter().map(|place| condition.conflict(place)).collect();
        // What is there at one of the places is good enough, as for HAProxy.
        if let Some(message) = conflicts.and_then(|conflicts| conflicts.into_iter().next()) {
            self.warn(line, Problem::new(message).at(index));
        }
    }

    /// The expression at `index`, converters included; moves the index past it.
    ///
    /// # Errors
    /// When it is malformed, or looks at what is not there at any of `places`.
    pub fn expr(&mut self, line: &Line, index: &mut usize, places: Places) -> Result<Expression, Problem> {
        let start = *index;
        let words: Vec<&[u8]> = line.words().iter().skip(start).map(crate::line::Word::bytes).collect();
        let (expression, used) = self.sample(line, start, |_, context| Expression::parse(&words, context))?;
        if !places.is_empty() && !expression.places().intersects(places) {
            let message = format!(
                "fetch method '{}' extracts information from '{}', none of which is available here",
                line.word(start),
                expression.sources().names()
            );
            return Err(Problem::new(message).at(start));
        }
        *index = start + used;
        Ok(expression)
    }

    /// The word at `index` as a log-format string of a rule: a header's value, a path, a location.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn log_format(&mut self, line: &Line, index: usize, places: Places) -> Result<LogFormat, Problem> {
        self.log_format_with(line, index, line.bytes(index), places, LogFormatOptions::RULE)
    }

    /// `text`, which comes from the word at `index`, as a log-format string of a rule.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn log_format_text(
        &mut self,
        line: &Line,
        index: usize,
        text: &[u8],
        places: Places,
    ) -> Result<LogFormat, Problem> {
        self.log_format_with(line, index, text, places, LogFormatOptions::RULE)
    }

    /// `text`, which comes from the word at `index`, as a log-format string of any kind.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn log_format_with(
        &mut self,
        line: &Line,
        index: usize,
        text: &[u8],
        places: Places,
        options: LogFormatOptions,
    ) -> Result<LogFormat, Problem> {
        self.sample(line, index, |_, context| LogFormat::parse(text, places, options, context))
    }

    /// The word at `index` as a regular expression.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn regex(&mut self, line: &Line, index: usize, ignore_case: bool) -> Result<Regex, Problem> {
        Regex::new(line.bytes(index), ignore_case).map_err(|message| Problem::new(message).at(index))
    }

    /// `name`, which comes from the word at `index`, as the name of a variable.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn variable(&mut self, line: &Line, index: usize, name: &str) -> Result<VariableName, Problem> {
        VariableName::parse(name.as_bytes()).map_err(|error| problem_of(line, index, &error))
    }

    /// The ACL that the words after `acl` declare.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn define_acl(&mut self, line: &Line) -> Result<(), Problem> {
        let words: Vec<&[u8]> = line.words().iter().skip(1).map(crate::line::Word::bytes).collect();
        self.sample(line, 1, |acls, context| acls.declare(&words, context))
    }

    /// Parses something of the sample language that begins at `index`, and keeps its warnings and references.
    pub fn sample<T>(
        &mut self,
        line: &Line,
        index: usize,
        parse: impl FnOnce(&mut AclSet, &mut ParseContext<'_>) -> Result<T, Error>,
    ) -> Result<T, Problem> {
        let loader = PatternLoader { files: self.files, directory: self.state.simple.current_directory.clone() };
        let state = &mut *self.state;
        // NOTE: whoever names them may ask for them; too many are found and none too few.
        let mentions = |text: &str| line.words().iter().any(|word| word.text().contains(text));
        state.asks_request_body |= ["req.body", "req.len", "req_len"].into_iter().any(mentions);
        state.asks_response_body |= ["res.body", "res.len"].into_iter().any(mentions);
        let draft = match self.section {
            Section::Defaults(index) => state.defaults.get_mut(index),
            Section::Proxy(index) => state.proxies.get_mut(index),
            _ => None,
        };
        let draft = draft.unwrap_or(&mut self.outside);
        let name = Arc::clone(&draft.proxy.name);
        let http = draft.proxy.mode == Mode::Http;
        let file = Arc::clone(line.file());
        let mut context = ParseContext::new(&file, line.number(), &name, http, &loader, &mut state.patterns);
        context.keys = state.keys.clone();
        let outcome = parse(&mut draft.acls, &mut context);
        let warnings = std::mem::take(&mut context.warnings);
        let references = std::mem::take(&mut context.references);
        for warning in warnings {
            self.warn(line, Problem::new(warning).at(index));
        }
        let section = self.section;
        self.state.references.extend(references.into_iter().map(|reference| NamedReference {
            reference,
            line: line.clone(),
            section,
        }));
        outcome.map_err(|error| problem_of(line, index, &error))
    }
}

/// An error of the sample language as a problem of the line: the caret goes under the word at fault, which stands
/// somewhere in the words from `index` on.
fn problem_of(line: &Line, index: usize, error: &Error) -> Problem {
    let mut problem = Problem::new(error.message());
    if let Some(nearest) = error.suggestion() {
        problem.nearest = Some(nearest.to_owned());
    }
    let culprit = error.culprit().filter(|culprit| !culprit.is_empty());
    let found = culprit.and_then(|culprit| {
        let exact = (index..line.len()).find(|index| line.word(*index) == culprit);
        let place = exact.map(|index| (index, 0));
        place
            .or_else(|| (index..line.len()).find_map(|index| Some((index, line.word(index).find(culprit)?))))
            .map(|(index, offset)| (index, offset..offset + culprit.len()))
    });
    match found {
        Some((index, range)) => problem.within(line, index, range),
        None => problem.at(index),
    }
}
