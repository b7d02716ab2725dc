//! Texts, the versions that they say they are of, and what they include.

use super::{Compiler, Outcome};
use crate::{
    diagnostic::Diagnostic,
    lexer,
    source::SourceId,
    token::{Kind, Sign, Token},
    variables::Version,
};

/// The built-in VCL, which stands behind every program.
const BUILTIN: &str = include_str!("../builtin.vcl");

/// How deep texts may include others, and how many there may be.
pub const INCLUDE_DEPTH_MAX: usize = 16;
const SOURCES_MAX: usize = 1_000;

/// What is known of a text.
#[derive(Clone, Debug)]
pub struct Text {
    /// The version that it says.
    version: Option<Version>,
    /// The text that includes it.
    parent: Option<SourceId>,
}

impl Compiler<'_> {
    pub(super) fn load_builtin(&mut self) -> Outcome<Vec<Token>> {
        self.load("Builtin", BUILTIN)
    }

    /// A text and all that it includes, as words.
    pub(super) fn load(&mut self, name: &str, text: &str) -> Outcome<Vec<Token>> {
        let mut out = Vec::new();
        self.load_into(name, text, None, 0, &mut out)?;
        Ok(out)
    }

    fn load_into(
        &mut self,
        name: &str,
        text: &str,
        parent: Option<SourceId>,
        depth: usize,
        out: &mut Vec<Token>,
    ) -> Outcome<()> {
        let id = self.sources.add(name, text).filter(|_| self.texts.len() < SOURCES_MAX);
        let Some(id) = id else {
            return Err(Diagnostic::new(format!("More than {SOURCES_MAX} files are included; is there a circle?")));
        };
        self.texts.push(Text { version: None, parent });
        let tokens = lexer::words(id, text)?;
        self.note_version(&tokens);
        let mut rest = tokens.as_slice();
        while let [first, behind @ ..] = rest {
            rest = behind;
            if first.kind == Kind::End {
                if parent.is_none() {
                    out.push(*first);
                }
            } else if first.kind == Kind::Identifier && self.sources.text(first.span) == "include" {
                rest = self.include(*first, behind, id, depth, out)?;
            } else {
                out.push(*first);
            }
        }
        Ok(())
    }

    /// `include "file";`, `include +glob "pattern";`: gives what is behind it.
    fn include<'t>(
        &mut self,
        word: Token,
        behind: &'t [Token],
        from: SourceId,
        depth: usize,
        out: &mut Vec<Token>,
    ) -> Outcome<&'t [Token]> {
        let (globs, behind) = match behind {
            [plus, flag, rest @ ..]
                if plus.kind == Kind::Sign(Sign::Plus) && self.sources.text(flag.span) == "glob" =>
            {
                (true, rest)
            }
            rest => (false, rest),
        };
        let (path, rest) = match behind {
            [path, rest @ ..] if path.kind == Kind::String => (path, rest),
            [other, ..] => return Err(Diagnostic::at("include not followed by string constant.", other.span)),
            [] => return Err(Diagnostic::at("include not followed by string constant.", word.span)),
        };
        let rest = match rest {
            [end, rest @ ..] if end.kind == Kind::Sign(Sign::Semicolon) => rest,
            [other, ..] => return Err(Diagnostic::at("include <string> not followed by semicolon.", other.span)),
            [] => return Err(Diagnostic::at("include <string> not followed by semicolon.", path.span)),
        };
        if depth >= INCLUDE_DEPTH_MAX {
            let words = format!("Files include one another more than {INCLUDE_DEPTH_MAX} deep.");
            return Err(Diagnostic::at(words, path.span));
        }
        let named = self.string_text(path.span).to_owned();
        let named = match named.strip_prefix("./") {
            Some(beside) => {
                let of_parent = self.sources.get(from).map(|source| source.name.clone()).unwrap_or_default();
                let Some((folder, _)) = of_parent.rsplit_once('/') else {
                    return Err(Diagnostic::at("needs absolute filename of including file.", path.span));
                };
                format!("{folder}/{beside}")
            }
            None => named,
        };
        let files = if globs {
            let found = self.options.files.glob(&named).map_err(|why| Diagnostic::at(why, path.span))?;
            if found.is_empty() {
                return Err(Diagnostic::at("glob pattern matched no files.", path.span));
            }
            found
        } else {
            vec![named]
        };
        for file in files {
            let mut above = Some(from);
            while let Some(id) = above {
                if self.sources.get(id).is_some_and(|source| source.name == file) {
                    return Err(Diagnostic::at(format!("Recursive use of file\n\t\"{file}\""), path.span));
                }
                above = self.texts.get(usize::from(id.0)).and_then(|text| text.parent);
            }
            let text = self
                .options
                .files
                .read(&file)
                .map_err(|why| Diagnostic::at(format!("Cannot read file '{file}': {why}"), path.span))?;
            self.load_into(&file, &text, Some(from), depth + 1, out)?;
        }
        Ok(rest)
    }

    /// The version that a text says in its first line, which decides what its names mean. What is wrong with it is told when it
    /// is read.
    fn note_version(&mut self, tokens: &[Token]) {
        if let [word, number, ..] = tokens
            && self.sources.text(word.span) == "vcl"
        {
            let version = match self.sources.text(number.span) {
                "4.0" => Version::V4_0,
                "4.1" => Version::V4_1,
                _ => return,
            };
            self.set_version(word.span.source, version);
        }
    }

    /// What a string says, without its quotes.
    pub(super) fn string_text(&self, span: crate::source::Span) -> &str {
        let text = self.sources.text(span);
        let long = text
            .strip_prefix("{\"")
            .and_then(|rest| rest.strip_suffix("\"}"))
            .or_else(|| text.strip_prefix("\"\"\"").and_then(|rest| rest.strip_suffix("\"\"\"")));
        long.or_else(|| text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))).unwrap_or(text)
    }

    /// Notes the version that a text says it is of.
    pub(super) fn set_version(&mut self, source: SourceId, version: Version) {
        if let Some(text) = self.texts.get_mut(usize::from(source.0)) {
            text.version = Some(version);
        }
    }

    /// The version of a text: what it says, or what the text says that includes it.
    pub(super) fn version_of(&self, source: SourceId) -> Version {
        let mut at = Some(source);
        while let Some(id) = at {
            let Some(text) = self.texts.get(usize::from(id.0)) else { break };
            if let Some(version) = text.version {
                return version;
            }
            at = text.parent;
        }
        Version::V3
    }

    /// The version of the main text, which stands behind the built-in one.
    pub(super) fn version_of_main(&self) -> Version {
        self.version_of(SourceId(1))
    }

    /// The version that holds where the next word stands.
    pub(super) fn version(&self) -> Version {
        let source = self.peek().span.source;
        // The built-in VCL follows the program that it stands behind.
        if source == SourceId(0) { self.version_of_main().max(Version::V4_0) } else { self.version_of(source) }
    }
}
