//! From a word to its keyword in the table: refuses what is unknown, misplaced or not supported, and runs the parser.

use crate::{
    args,
    diagnostics::Problem,
    line::{Line, Modifier},
    scope::Scope,
    table::{self, Group, Keyword, Parse, Sections, Support},
};

impl Scope<'_> {
    /// Parses a line by the keyword of `group` at `index`.
    ///
    /// # Errors
    /// What the keyword's parser says, or why there is none.
    pub fn dispatch(&mut self, line: &Line, index: usize, group: Group) -> Result<(), Problem> {
        let keyword = self.lookup(line, index, group)?;
        if !self.is_in_place(line, index, keyword)? {
            return Ok(());
        }
        if line.modifier() != Modifier::Set && !keyword.negatable {
            let message = match group {
                Group::Option => format!("negation/default is not supported for option '{}'.", keyword.name),
                _ => "negation/default currently supported only for options, log, busy-polling, set-dumpable, \
                      strict-limits, insecure-fork-wanted and numa-cpu-mapping."
                    .to_owned(),
            };
            return Err(Problem::new(message).at(index));
        }
        match keyword.parse {
            Parse::Line(parser) => parser(self, line),
            _ if group == Group::Global && matches!(keyword.support, Support::Harmless(_)) => {
                args::as_declared(self, line, keyword.arguments)
            }
            _ => Ok(()),
        }
    }

    /// The supported keyword of `group` that the word at `index` is. Warns of one that is deprecated or has no effect.
    ///
    /// # Errors
    /// When it is unknown, or known and not supported or not allowed.
    pub fn lookup(&mut self, line: &Line, index: usize, group: Group) -> Result<&'static Keyword, Problem> {
        let word = line.word(index);
        let Some(keyword) = table::find(group, word) else {
            return Err(self.unknown(line, index, group));
        };
        if keyword.experimental && !self.state.simple.exposes_experimental {
            let kind = if matches!(keyword.parse, Parse::HttpAction(_) | Parse::StreamAction(_)) {
                "action"
            } else {
                "directive"
            };
            let message = format!(
                "'{word}' {kind} is experimental, must be allowed via a global 'expose-experimental-directives'"
            );
            return Err(Problem::new(message).at(index));
        }
        self.state.global.uses_experimental |= keyword.experimental;
        match keyword.support {
            Support::Supported => {}
            Support::Deprecated(message) => self.warn(line, Problem::new(message).at(index)),
            Support::Harmless(why) => {
                self.warn(line, Problem::new(format!("'{word}' has no effect: {why}.")).at(index));
            }
            Support::NotYet(why) => {
                return Err(Problem::new(format!("'{word}' is not supported yet: {why}.")).at(index));
            }
            Support::Removed(message) => return Err(Problem::new(message).at(index)),
        }
        Ok(keyword)
    }

    /// Whether the section has the side that the keyword is for; warns if not.
    fn is_in_place(&mut self, line: &Line, index: usize, keyword: &Keyword) -> Result<bool, Problem> {
        let sections = keyword.sections;
        if sections == Sections::NONE || !self.in_proxy() {
            return Ok(true);
        }
        let word = line.word(index);
        if self.in_defaults() {
            if sections.contains(Sections::DEFAULTS)
                || (sections.contains(Sections::NAMED_DEFAULTS) && self.in_named_defaults())
            {
                return Ok(true);
            }
            let anonymous = if sections.contains(Sections::NAMED_DEFAULTS) { "anonymous " } else { "" };
            return Err(Problem::new(format!("'{word}' not allowed in {anonymous}'defaults' section.")).at(index));
        }
        if (sections.contains(Sections::FRONTEND) && self.has_frontend())
            || (sections.contains(Sections::BACKEND) && self.has_backend())
        {
            return Ok(true);
        }
        let missing = if sections.contains(Sections::FRONTEND) { "frontend" } else { "backend" };
        let kind = self.kind_word();
        let name = std::sync::Arc::clone(&self.proxy().proxy.name);
        let hint = match (keyword.group, word) {
            (Group::Proxy, "maxconn") => " Maybe you want 'fullconn' instead ?",
            (Group::Proxy, "fullconn") => " Maybe you want 'maxconn' instead ?",
            _ => "",
        };
        let verb = if keyword.strict { "not allowed" } else { "ignored" };
        let message = format!("'{word}' {verb} because {kind} '{name}' has no {missing} capability.{hint}");
        let problem = Problem::new(message).at(index);
        if keyword.strict {
            return Err(problem);
        }
        self.warn(line, problem);
        Ok(false)
    }

    fn unknown(&self, line: &Line, index: usize, group: Group) -> Problem {
        let word = line.word(index);
        let first = line.word(0);
        let known: Vec<&str> = table::supported_names(group).collect();
        let listed = || known.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        if word.is_empty() && index > 0 {
            let message = match group {
                Group::Option => format!("'{first}' expects an option name."),
                _ => format!("'{}' expects one of {}.", first, listed()),
            };
            return Problem::new(message).at(index);
        }
        let message = match group {
            Group::Option => format!("unknown option '{word}'"),
            Group::Timeout => format!("'timeout' supports {} (got '{word}')", listed()),
            Group::Bind => {
                let section = self.section_word();
                format!("'{first} {}' in section '{section}' : unknown keyword '{word}'", line.word(1))
            }
            Group::Server => format!("unknown keyword '{word}'"),
            Group::Directive => format!("unknown directive '{word}'"),
            _ if index > 0 => {
                let above = line.texts_from(0).take(index).collect::<Vec<_>>().join(" ");
                format!("'{above}' : unknown keyword '{word}'")
            }
            _ => format!("unknown keyword '{word}' in '{}' section", self.section_word()),
        };
        let problem = Problem::new(message).at(index).nearest(word, known.iter().copied());
        match table::elsewhere(group, word) {
            Some(place) if problem.nearest.is_none() => {
                problem.expected(format!("a keyword of this section; '{word}' {place}"))
            }
            _ => problem,
        }
    }
}
