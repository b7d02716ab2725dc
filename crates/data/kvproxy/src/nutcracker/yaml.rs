//! The YAML of nutcracker.yml: pools with their directives, each of one value or a list of them.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, Span};

use super::ConfigError;

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub struct Text {
    pub line: usize,
    pub text: String,
}

/// What a directive is set to.
#[derive(Clone, Debug)]
pub enum Setting {
    One(Text),
    List(Vec<Text>),
}

/// A pool as it stands in the file.
#[derive(Clone, Debug)]
pub struct RawPool {
    pub name: Text,
    pub directives: Vec<(Text, Setting)>,
}

/// Takes the file apart.
pub fn read(text: &str) -> Result<Vec<RawPool>, ConfigError> {
    let mut reader = Reader { parser: Parser::new_from_str(text), line: 0 };
    let mut pools = Vec::new();
    loop {
        match reader.next()? {
            Event::MappingStart(..) => break,
            Event::StreamEnd => return Ok(pools),
            // An empty document.
            Event::Scalar(text, ..) if text == "~" || text.is_empty() => {}
            Event::Scalar(..) | Event::SequenceStart(..) => {
                return Err(reader.wrong("pools are expected, each a name with a colon and its directives below it"));
            }
            other => reader.allow(&other)?,
        }
    }
    while let Some(name) = reader.key()? {
        match reader.next()? {
            Event::MappingStart(..) => {}
            _ => return Err(reader.wrong(&format!("pool '{}' has no directives below it", name.text))),
        }
        let mut directives = Vec::new();
        while let Some(key) = reader.key()? {
            let setting = reader.setting(&key)?;
            directives.push((key, setting));
        }
        pools.push(RawPool { name, directives });
    }
    loop {
        match reader.next()? {
            Event::StreamEnd => return Ok(pools),
            Event::DocumentStart(..) => return Err(reader.wrong("only one document is allowed")),
            _ => {}
        }
    }
}

struct Reader<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    /// Of the last event.
    line: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<Event<'t>, ConfigError> {
        match self.parser.next_event() {
            Some(Ok((event, Span { start, .. }))) => {
                self.line = start.line();
                self.allow(&event)?;
                Ok(event)
            }
            Some(Err(error)) => Err(ConfigError::at(error.marker().line(), format!("no YAML: {}", error.info()))),
            None => Ok(Event::StreamEnd),
        }
    }

    fn wrong(&self, problem: &str) -> ConfigError {
        ConfigError::at(self.line, problem)
    }

    /// What nutcracker.yml may not have.
    fn allow(&self, event: &Event<'_>) -> Result<(), ConfigError> {
        match event {
            Event::Alias(_) => Err(self.wrong("aliases (*name) are not allowed here")),
            _ => Ok(()),
        }
    }

    /// The next key of a mapping; `None` at its end.
    fn key(&mut self) -> Result<Option<Text>, ConfigError> {
        match self.next()? {
            Event::MappingEnd => Ok(None),
            Event::Scalar(text, ..) => Ok(Some(self.text(text))),
            _ => Err(self.wrong("a name with a colon is expected")),
        }
    }

    fn setting(&mut self, key: &Text) -> Result<Setting, ConfigError> {
        match self.next()? {
            Event::Scalar(text, ..) => Ok(Setting::One(self.text(text))),
            Event::SequenceStart(..) => {
                let mut list = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => return Ok(Setting::List(list)),
                        Event::Scalar(text, ..) => list.push(self.text(text)),
                        _ => {
                            return Err(self.wrong(&format!("directive \"{}\" takes a list of plain values", key.text)));
                        }
                    }
                }
            }
            _ => Err(self.wrong(&format!("directive \"{}\" takes a value, or a list of values", key.text))),
        }
    }

    fn text(&self, text: Cow<'_, str>) -> Text {
        Text { line: self.line, text: text.into_owned() }
    }
}
