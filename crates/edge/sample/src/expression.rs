//! Expressions: a fetch and the converters after it.

use std::cell::Cell;

use crate::arguments::{self, Argument};
use crate::context::{Context, Options};
use crate::converter;
use crate::error::{Error, ErrorKind};
use crate::fetch;
use crate::keyword::{Call, Converter, Cursor, Fetch, Fetched, State};
use crate::parser::ParseContext;
use crate::place::{Places, Sources};
use crate::value::{Type, Value};
use basics::nearest;

/// A compiled expression: `req.hdr(host),lower,field(1,:)`.
#[derive(Clone, Debug)]
pub struct Expression {
    text: Box<str>,
    fetch: &'static Fetch,
    arguments: Box<[Argument]>,
    conversions: Box<[Conversion]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Conversion {
    converter: &'static Converter,
    arguments: Box<[Argument]>,
}

impl std::fmt::Debug for Fetch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Fetch({})", self.name)
    }
}

impl std::fmt::Debug for Converter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Converter({})", self.name)
    }
}

/// The most converters that one expression may have.
const CONVERSIONS_MAX: usize = 256;

/// Whether `byte` may be part of the name of a fetch or a converter.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-+:".contains(&byte)
}

pub(crate) fn name_length(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_name_byte(**byte)).count()
}

/// Reads the name and the arguments of a fetch at the start of `text`; the bytes used.
fn parse_fetch(text: &[u8], parser: &mut ParseContext<'_>) -> Result<(&'static Fetch, Vec<Argument>, usize), Error> {
    let length = name_length(text);
    if length == 0 {
        return Err(Error::new(ErrorKind::Syntax, "missing fetch method").word(text));
    }
    let name = text.get(..length).unwrap_or_default();
    let shown = String::from_utf8_lossy(name).into_owned();
    let Some(found) = fetch::find(&shown) else {
        return Err(Error::new(ErrorKind::Unknown, format!("unknown fetch method '{shown}'"))
            .word(name)
            .near(nearest(&shown, fetch::names())));
    };
    if let State::NotYet { comes_with } = found.state {
        return Err(unsupported("fetch method", &shown, comes_with));
    }
    let rest = text.get(length..).unwrap_or_default();
    let (arguments, used) = parse_arguments(rest, &shown, found, parser).map_err(|refused| match refused {
        Refused::List(error) => error.context(|message| format!("fetch method '{shown}' : {message}")),
        Refused::Check(error) => error.context(|message| format!("invalid args in fetch method '{shown}' : {message}")),
    })?;
    Ok((found, arguments, length + used))
}

pub(crate) fn unsupported(kind: &str, name: &str, comes_with: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{kind} '{name}' is not supported yet: it comes with {comes_with}"))
        .word(name.as_bytes())
}

/// Why arguments were refused: as a list, or for what they say.
pub(crate) enum Refused {
    List(Error),
    Check(Error),
}

/// Reads and checks the arguments of `fetch`.
pub(crate) fn parse_arguments(
    text: &[u8],
    name: &str,
    fetch: &'static Fetch,
    parser: &mut ParseContext<'_>,
) -> Result<(Vec<Argument>, usize), Refused> {
    let (mut arguments, used) = arguments::parse(text, name, fetch.arguments, fetch.required, parser)
        .map_err(|(error, _)| Refused::List(error))?;
    if let Some(check) = fetch.check
        && !arguments.is_empty()
    {
        check(&mut arguments, parser).map_err(|reason| Refused::Check(Error::new(ErrorKind::Argument, reason)))?;
    }
    Ok((arguments, used))
}

impl Conversion {
    /// Reads a converter at the start of `text`, which must take samples of type `input`; the bytes used, or none if there is
    /// no such converter and `optional` says that this is fine.
    pub(crate) fn parse(
        text: &[u8],
        input: Type,
        optional: bool,
        parser: &mut ParseContext<'_>,
    ) -> Result<Option<(Self, usize)>, Error> {
        let length = name_length(text);
        let name = text.get(..length).unwrap_or_default();
        let shown = String::from_utf8_lossy(name).into_owned();
        let Some(found) = converter::find(&shown) else {
            if optional {
                return Ok(None);
            }
            return Err(Error::new(ErrorKind::Unknown, format!("unknown converter '{shown}'"))
                .word(name)
                .near(nearest(&shown, converter::names())));
        };
        if let State::NotYet { comes_with } = found.state {
            return Err(unsupported("converter", &shown, comes_with));
        }
        if !input.casts_to(found.input) {
            return Err(Error::new(ErrorKind::Type, format!("converter '{shown}' cannot be applied")).word(name));
        }
        let rest = text.get(length..).unwrap_or_default();
        let (mut arguments, used) =
            arguments::parse(rest, &shown, found.arguments, found.required, parser).map_err(|(error, index)| {
                error.context(|message| format!("invalid arg {} in converter '{shown}' : {message}", index + 1))
            })?;
        if let Some(check) = found.check {
            check(&mut arguments, parser).map_err(|reason| {
                Error::new(ErrorKind::Argument, format!("invalid args in converter '{shown}' : {reason}"))
            })?;
        }
        let conversion = Conversion { converter: found, arguments: arguments.into_boxed_slice() };
        Ok(Some((conversion, length + used)))
    }

    pub(crate) fn output(&self) -> Type {
        self.converter.output
    }
}

impl Expression {
    /// Reads an expression from the words of a line: a fetch, then converters after commas, or as words of their own. The
    /// number of words used is returned too; what follows is not part of the expression.
    ///
    /// # Errors
    /// What is wrong, in HAProxy's words.
    pub fn parse<W: AsRef<[u8]>>(words: &[W], parser: &mut ParseContext<'_>) -> Result<(Self, usize), Error> {
        let mut index = 0;
        let mut text = words.first().map(AsRef::as_ref).unwrap_or_default();
        let (fetch, arguments, mut used) = parse_fetch(text, parser)?;
        let mut conversions: Vec<Conversion> = Vec::new();
        let mut output = fetch.output;
        let mut previous = String::from_utf8_lossy(text.get(..name_length(text)).unwrap_or_default()).into_owned();
        loop {
            let rest = text.get(used..).unwrap_or_default();
            if rest.first().is_some_and(|byte| *byte != b',') {
                let kind = if conversions.is_empty() { "fetch keyword" } else { "converter" };
                return Err(
                    Error::new(ErrorKind::Syntax, format!("missing comma after {kind} '{previous}'")).word(rest)
                );
            }
            used += rest.iter().take_while(|byte| **byte == b',').count();
            let mut optional = false;
            if used >= text.len() {
                index += 1;
                match words.get(index) {
                    Some(word) if !word.as_ref().is_empty() => {
                        text = word.as_ref();
                        used = 0;
                        optional = true;
                    }
                    _ => break,
                }
            }
            let rest = text.get(used..).unwrap_or_default();
            match Conversion::parse(rest, output, optional, parser)? {
                None => break,
                Some(_) if conversions.len() >= CONVERSIONS_MAX => {
                    return Err(Error::new(ErrorKind::Syntax, "too many converters").word(rest));
                }
                Some((conversion, length)) => {
                    previous = conversion.converter.name.to_owned();
                    output = conversion.output();
                    conversions.push(conversion);
                    used += length;
                }
            }
        }
        let shown: Vec<_> = words.iter().take(index).map(|word| String::from_utf8_lossy(word.as_ref())).collect();
        Ok((Expression::build(&shown.join(","), fetch, arguments, conversions), index))
    }

    /// Reads an expression that is the whole text.
    ///
    /// # Errors
    /// What is wrong, in HAProxy's words.
    pub fn parse_text(text: impl AsRef<[u8]>, parser: &mut ParseContext<'_>) -> Result<Self, Error> {
        Self::parse(&[text.as_ref()], parser).map(|(expression, _)| expression)
    }

    /// Reads an expression at the start of `text`; the bytes used, up to the first that is not part of it.
    pub(crate) fn parse_prefix(text: &[u8], parser: &mut ParseContext<'_>) -> Result<(Self, usize), Error> {
        let (fetch, arguments, mut used) = parse_fetch(text, parser)?;
        let mut conversions: Vec<Conversion> = Vec::new();
        let mut output = fetch.output;
        loop {
            let rest = text.get(used..).unwrap_or_default();
            let commas = rest.iter().take_while(|byte| **byte == b',').count();
            if commas == 0 {
                break;
            }
            used += commas;
            let rest = text.get(used..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            if conversions.len() >= CONVERSIONS_MAX {
                return Err(Error::new(ErrorKind::Syntax, "too many converters").word(rest));
            }
            if let Some((conversion, length)) = Conversion::parse(rest, output, false, parser)? {
                output = conversion.output();
                conversions.push(conversion);
                used += length;
            }
        }
        let shown = String::from_utf8_lossy(text.get(..used).unwrap_or_default()).into_owned();
        Ok((Expression::build(&shown, fetch, arguments, conversions), used))
    }

    pub(crate) fn build(
        text: &str,
        fetch: &'static Fetch,
        arguments: Vec<Argument>,
        conversions: Vec<Conversion>,
    ) -> Self {
        Expression {
            text: text.into(),
            fetch,
            arguments: arguments.into_boxed_slice(),
            conversions: conversions.into_boxed_slice(),
        }
    }

    /// The expression as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its fetch.
    #[must_use]
    pub fn fetch(&self) -> &'static Fetch {
        self.fetch
    }

    /// The type of its value.
    #[must_use]
    pub fn output(&self) -> Type {
        self.conversions.last().map_or(self.fetch.output, Conversion::output)
    }

    /// Where it may be used.
    #[must_use]
    pub fn places(&self) -> Places {
        self.fetch.places()
    }

    /// What it reads.
    #[must_use]
    pub fn sources(&self) -> Sources {
        self.fetch.sources
    }

    pub(crate) fn first_argument(&self) -> Option<&Argument> {
        self.arguments.first()
    }

    /// Evaluates it; where a fetch has several occurrences, the one that is meant by default (the last).
    pub fn evaluate<'a>(&'a self, context: &'a dyn Context, options: Options) -> Fetched<'a> {
        self.next(context, options, false, &mut Cursor::default())
    }

    /// Its value, cast to `to`.
    pub fn value<'a>(&'a self, context: &'a dyn Context, options: Options, to: Type) -> Option<Value<'a>> {
        self.evaluate(context, options).value()?.cast(to)
    }

    /// Its value as a string.
    pub fn string<'a>(&'a self, context: &'a dyn Context, options: Options) -> Option<crate::bytes::Bytes<'a>> {
        self.evaluate(context, options).value()?.into_text()
    }

    /// Its value as an integer.
    pub fn integer(&self, context: &dyn Context, options: Options) -> Option<i64> {
        match self.value(context, options, Type::Sint)? {
            Value::Sint(value) => Some(value),
            _ => None,
        }
    }

    /// Calls `visit` with the value of every occurrence, in order, until it answers false.
    pub fn each<'a>(&'a self, context: &'a dyn Context, options: Options, mut visit: impl FnMut(Value<'a>) -> bool) {
        let mut cursor = Cursor::default();
        loop {
            cursor.more = false;
            let found = self.next(context, options, true, &mut cursor);
            if let Some(value) = found.value()
                && !visit(value)
            {
                return;
            }
            if !cursor.more {
                return;
            }
        }
    }

    /// The next occurrence.
    pub(crate) fn next<'a>(
        &'a self,
        context: &'a dyn Context,
        options: Options,
        iterate: bool,
        cursor: &mut Cursor,
    ) -> Fetched<'a> {
        let call = Call { arguments: &self.arguments, context, options, iterate, may_change: Cell::new(None) };
        if self.conversions.is_empty() {
            // What is found goes straight to the caller: copying it costs more than most fetches.
            return (self.fetch.run)(&call, cursor);
        }
        let (value, mut changing) = match (self.fetch.run)(&call, cursor) {
            Fetched::Value(value) => (value, false),
            Fetched::Changing(value) => (value, true),
            other => return other,
        };
        let converted = self.conversions.iter().try_fold(value, |value, conversion| {
            let value = value.cast(conversion.converter.input)?;
            let call =
                Call { arguments: &conversion.arguments, context, options, iterate, may_change: Cell::new(None) };
            let converted = (conversion.converter.run)(value, &call);
            changing = call.may_change.get().unwrap_or(changing);
            converted
        });
        match (converted, changing) {
            (Some(value), false) => Fetched::Value(value),
            (Some(value), true) => Fetched::Changing(value),
            (None, false) => Fetched::Missing,
            (None, true) => Fetched::NotYet,
        }
    }
}
