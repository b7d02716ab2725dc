//! The words that a command takes, for `COMMAND DOCS`: from it `redis-cli` makes its hints and its help.
//!
//! A command's declaration has them as a text of arguments with a space between each two:
//!
//! | written | is |
//! |---|---|
//! | `name`, `name:integer` | a text, or what another type has: `integer`, `double`, `pattern`, `unix-time` |
//! | `name#0` | a key that the first of the command's rules for keys finds |
//! | `NX`, `operator="="` | a word that is written as it is, with the name `nx`, or with another one |
//! | `EX/seconds:integer` | an argument behind such a word |
//! | `name<a\|b>` | one of several |
//! | `name{a b}` | several, one behind the other |
//! | `[a]` | what may be left out |
//! | `a...`, `a...*` | what may come more than once; with the word in front of it each time |
//! | `a@6.2.0`, `a!6.2.0` | what came with that version of Redis, and what is not to be used since |

use resp::Reply;

/// What an argument is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Something plain, by its type's name.
    Plain(&'static str),
    /// A key, and which rule finds it.
    Key(i64),
    /// A word that is written as it is.
    Word,
    OneOf(Vec<Argument>),
    Block(Vec<Argument>),
}

/// An argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Argument {
    name: String,
    kind: Kind,
    /// The word in front of it, or that it is.
    token: Option<&'static str>,
    is_optional: bool,
    is_multiple: bool,
    is_token_multiple: bool,
    since: Option<&'static str>,
    deprecated_since: Option<&'static str>,
}

/// Types by which an argument may be called behind its name.
const TYPES: &[&str] = &["integer", "double", "pattern", "unix-time"];

/// The arguments that a declaration has; nothing if it is not written as it should.
pub(crate) fn arguments(text: &'static str) -> Option<Vec<Argument>> {
    let mut parser = Parser { rest: text };
    let arguments = parser.list()?;
    parser.rest.is_empty().then_some(arguments)
}

struct Parser {
    rest: &'static str,
}

impl Parser {
    fn eat(&mut self, what: &str) -> bool {
        let rest = self.rest.strip_prefix(what);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// What comes as long as this is true.
    fn eat_while(&mut self, is_part: impl Fn(char) -> bool) -> &'static str {
        let end = self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len());
        let (eaten, rest) = self.rest.split_at(end);
        self.rest = rest;
        eaten
    }

    fn list(&mut self) -> Option<Vec<Argument>> {
        let mut arguments = Vec::new();
        while !self.rest.is_empty() && !self.rest.starts_with('}') {
            arguments.push(self.item()?);
            self.eat(" ");
        }
        Some(arguments)
    }

    fn item(&mut self) -> Option<Argument> {
        if !self.eat("[") {
            return self.argument();
        }
        let argument = self.argument()?;
        self.eat("]").then_some(Argument { is_optional: true, ..argument })
    }

    fn quoted(&mut self) -> Option<&'static str> {
        let text = self.eat_while(|character| character != '"');
        self.eat("\"").then_some(text)
    }

    fn word(&mut self) -> Option<&'static str> {
        let word = self.eat_while(|character| character.is_ascii_alphanumeric() || "_-:/".contains(character));
        (!word.is_empty()).then_some(word)
    }

    fn argument(&mut self) -> Option<Argument> {
        let mut token = None;
        let mut word = if self.eat("\"") {
            token = Some(self.quoted()?);
            self.eat("/").then(|| self.word())??
        } else {
            self.word()?
        };
        if let Some((before, behind)) = word.split_once('/')
            && is_token(before)
        {
            (token, word) = (Some(before), behind);
        }
        let mut name = word.to_owned();
        let kind = if self.eat("=") {
            token = Some(if self.eat("\"") { self.quoted()? } else { self.word()? });
            Kind::Word
        } else if self.eat("<") {
            let mut choices = vec![self.item()?];
            while self.eat("|") {
                choices.push(self.item()?);
            }
            self.eat(">").then_some(Kind::OneOf(choices))?
        } else if self.eat("{") {
            let parts = self.list()?;
            self.eat("}").then_some(Kind::Block(parts))?
        } else if self.eat("#") {
            Kind::Key(self.eat_while(|character| character.is_ascii_digit()).parse().ok()?)
        } else if token.is_none() && is_token(word) {
            token = Some(word);
            name = word.to_ascii_lowercase().replace('-', "_");
            Kind::Word
        } else {
            let typed = TYPES.iter().find_map(|kind| Some((word.strip_suffix(kind)?.strip_suffix(':')?, *kind)));
            if let Some((before, _)) = typed {
                name = before.to_owned();
            }
            Kind::Plain(typed.map_or("string", |(_, kind)| kind))
        };
        let is_multiple = self.eat("...");
        let is_token_multiple = self.eat("*");
        let version = |parser: &mut Self, sign| {
            parser.eat(sign).then(|| parser.eat_while(|character| character.is_ascii_digit() || character == '.'))
        };
        let since = version(self, "@");
        let deprecated_since = version(self, "!");
        Some(Argument {
            name,
            kind,
            token,
            is_optional: false,
            is_multiple,
            is_token_multiple,
            since,
            deprecated_since,
        })
    }
}

/// Whether a word is one that is written as it is.
fn is_token(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Arguments for people: `key value [NX|XX] [EX seconds]`.
pub(crate) fn usage(arguments: &[Argument]) -> String {
    arguments.iter().map(Argument::usage).collect::<Vec<_>>().join(" ")
}

/// Writes arguments as `COMMAND DOCS` has them.
pub(crate) fn write(reply: &mut Reply<'_>, arguments: &[Argument]) {
    reply.array(arguments.len());
    for argument in arguments {
        argument.write(reply);
    }
}

impl Argument {
    fn usage(&self) -> String {
        let own = match &self.kind {
            Kind::Plain(_) | Kind::Key(_) => self.name.clone(),
            Kind::Word => String::new(),
            Kind::OneOf(choices) => choices.iter().map(Self::usage).collect::<Vec<_>>().join("|"),
            Kind::Block(parts) => usage(parts),
        };
        let token = match self.token {
            Some("") => "\"\"",
            Some(token) => token,
            None => "",
        };
        let space = if token.is_empty() || own.is_empty() { "" } else { " " };
        let again = match (self.is_multiple, self.is_token_multiple) {
            (false, _) => String::new(),
            (true, false) => format!(" [{own} ...]"),
            (true, true) => format!(" [{token}{space}{own} ...]"),
        };
        let text = format!("{token}{space}{own}{again}");
        if self.is_optional { format!("[{text}]") } else { text }
    }

    fn write(&self, reply: &mut Reply<'_>) {
        let flags = [
            (self.is_optional, "optional"),
            (self.is_multiple, "multiple"),
            (self.is_token_multiple, "multiple_token"),
        ];
        let flags: Vec<&str> = flags.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
        let (kind, parts) = match &self.kind {
            Kind::Plain(kind) => (*kind, None),
            Kind::Key(_) => ("key", None),
            Kind::Word => ("pure-token", None),
            Kind::OneOf(parts) => ("oneof", Some(parts)),
            Kind::Block(parts) => ("block", Some(parts)),
        };
        let texts = [("token", self.token), ("since", self.since), ("deprecated_since", self.deprecated_since)];
        let texts: Vec<(&str, &str)> = texts.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
        let key = if let Kind::Key(index) = self.kind { Some(index) } else { None };
        reply.map(
            2 + usize::from(key.is_some())
                + texts.len()
                + usize::from(!flags.is_empty())
                + usize::from(parts.is_some()),
        );
        for (name, text) in [("name", self.name.as_str()), ("type", kind)] {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        }
        if let Some(index) = key {
            reply.bulk(b"key_spec_index");
            reply.integer(index);
        }
        for (name, text) in texts {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            reply.set(flags.len());
            flags.iter().for_each(|flag| reply.simple(flag));
        }
        if let Some(parts) = parts {
            reply.bulk(b"arguments");
            write(reply, parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{groups, server::Command};

    fn plain(name: &str, kind: Kind) -> Argument {
        Argument {
            name: name.to_owned(),
            kind,
            token: None,
            is_optional: false,
            is_multiple: false,
            is_token_multiple: false,
            since: None,
            deprecated_since: None,
        }
    }

    #[test]
    fn what_is_written_of_arguments() {
        let string = Kind::Plain("string");
        let integer = Kind::Plain("integer");
        let expected = [
            ("key#0 value", vec![plain("key", Kind::Key(0)), plain("value", string.clone())]),
            ("ip:port yes/no", vec![plain("ip:port", string.clone()), plain("yes/no", string.clone())]),
            (
                "[EX/seconds:integer...*@2.6.12!7.0.0]",
                vec![Argument {
                    token: Some("EX"),
                    is_optional: true,
                    is_multiple: true,
                    is_token_multiple: true,
                    since: Some("2.6.12"),
                    deprecated_since: Some("7.0.0"),
                    ..plain("seconds", integer.clone())
                }],
            ),
            (
                r#"either<NO-ONE|equal="="|both{a b:integer}>"#,
                vec![plain(
                    "either",
                    Kind::OneOf(vec![
                        Argument { token: Some("NO-ONE"), ..plain("no_one", Kind::Word) },
                        Argument { token: Some("="), ..plain("equal", Kind::Word) },
                        plain("both", Kind::Block(vec![plain("a", string), plain("b", integer)])),
                    ]),
                )],
            ),
        ];
        for (text, arguments) in expected {
            assert_eq!(super::arguments(text), Some(arguments), "{text}");
        }
        for wrong in ["[a", "a]", "a<b", "a{b", "a#", "a=", "\"x", "\"x\"a", "a}", "<a>"] {
            assert_eq!(super::arguments(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_people_are_told() {
        let expected = [
            ("key#0 value [condition<NX|XX>@2.6.12] [EX/seconds:integer]", "key value [NX|XX] [EX seconds]"),
            ("key#0 field_value{field value}...", "key field value [field value ...]"),
            ("[GET/pattern:pattern...*] [empty=\"\"]", "[GET pattern [GET pattern ...]] [\"\"]"),
        ];
        for (text, said) in expected {
            assert_eq!(usage(&super::arguments(text).unwrap()), said);
        }
    }

    #[test]
    fn every_command_says_what_words_it_takes() {
        /// Containers, what takes nothing that can be told, and what `HELP` tells.
        fn is_told_elsewhere(command: &Command) -> bool {
            !command.subcommands.is_empty()
                || command.missing.is_some()
                || ["DEBUG", "QUIT", "REPLCONF"].contains(&command.name)
        }
        let table = groups::table();
        let mut silent = Vec::new();
        for found in table.each() {
            let command = found.command;
            assert!(arguments(command.syntax).is_some(), "{}: {}", found.full_name(), command.syntax);
            let own = if found.container.is_some() { 2 } else { 1 };
            let takes_more = command.arity < 0 || !command.takes(own);
            if command.syntax.is_empty() && takes_more && !is_told_elsewhere(command) {
                silent.push(found.full_name());
            }
        }
        assert_eq!(silent, Vec::<String>::new());
    }
}
