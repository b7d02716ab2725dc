//! Reading log formats.

use super::{Flags, Item, LOG_VARIABLES, LogFormat, LogFormatOptions, LogVariable};
use crate::error::{Error, ErrorKind};
use crate::expression::{Expression, unsupported};
use crate::keyword::State;
use crate::parser::ParseContext;
use crate::place::{Places, Sources};
use basics::nearest;

struct Builder {
    items: Vec<Item>,
    text: Vec<u8>,
    merge_spaces: bool,
}

impl Builder {
    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.items.push(Item::Text(std::mem::take(&mut self.text).into_boxed_slice()));
        }
    }

    fn byte(&mut self, byte: u8) {
        if byte == b' ' && self.merge_spaces {
            self.flush();
            self.items.push(Item::Separator);
        } else {
            self.text.push(byte);
        }
    }

    fn item(&mut self, item: Item) {
        self.flush();
        self.items.push(item);
    }
}

impl LogFormat {
    /// Reads a format that is used at `places`.
    ///
    /// # Errors
    /// What is wrong, in HAProxy's words.
    pub fn parse(
        text: impl AsRef<[u8]>,
        places: Places,
        options: LogFormatOptions,
        parser: &mut ParseContext<'_>,
    ) -> Result<Self, Error> {
        let text = text.as_ref();
        let mut builder = Builder { items: Vec::new(), text: Vec::new(), merge_spaces: options.merge_spaces };
        let mut defaults = Flags { mandatory: options.mandatory, ..Flags::default() };
        let mut position = 0;
        while let Some(byte) = text.get(position).copied() {
            position += 1;
            if byte != b'%' {
                builder.byte(byte);
                continue;
            }
            let mut flags = defaults;
            let start = position;
            if text.get(position) == Some(&b'{') {
                let rest = text.get(position + 1..).unwrap_or_default();
                let Some(end) = rest.iter().position(|byte| *byte == b'}') else {
                    return Err(truncated(rest));
                };
                let arguments = rest.get(..end).unwrap_or_default();
                flags.apply(arguments);
                position += end + 2;
                if !text.get(position).is_some_and(|byte| *byte == b'[' || byte.is_ascii_alphanumeric()) {
                    let message = format!(
                        "parse argument modifier without variable name near '%{{{}}}'",
                        String::from_utf8_lossy(arguments)
                    );
                    return Err(Error::new(ErrorKind::Syntax, message).word(arguments));
                }
            }
            let had_flags = position > start;
            match text.get(position) {
                Some(b'[') => {
                    position += 1;
                    let rest = text.get(position..).unwrap_or_default();
                    let (item, used) = expression(rest, flags, places, options, parser)?;
                    builder.item(item);
                    position += used;
                    close(text, position, rest)?;
                    position += 1;
                }
                Some(first) if first.is_ascii_alphabetic() || (had_flags && first.is_ascii_digit()) => {
                    let rest = text.get(position..).unwrap_or_default();
                    let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
                    position += length;
                    match variable(rest.get(..length).unwrap_or_default(), parser)? {
                        LogVariable::Options => defaults = flags,
                        variable => builder.item(Item::Variable(variable, flags)),
                    }
                }
                Some(b'%') => {
                    builder.byte(b'%');
                    position += 1;
                }
                Some(other) if other.is_ascii_digit() || *other == b' ' || *other == b'\t' => {
                    let message = format!(
                        "unexpected variable name near '{}' at position {position} line : '{}'. Maybe you want to write a \
                         single '%', use the syntax '%%'",
                        char::from(*other),
                        String::from_utf8_lossy(text)
                    );
                    return Err(Error::new(ErrorKind::Syntax, message));
                }
                // Before anything else the percent sign disappears.
                Some(_) => {}
                None => return Err(truncated(b"%")),
            }
        }
        builder.flush();
        let text = String::from_utf8_lossy(text).into_owned().into_boxed_str();
        Ok(LogFormat { text, items: builder.items.into_boxed_slice(), http: options.http })
    }
}

fn truncated(after: &[u8]) -> Error {
    Error::new(ErrorKind::Syntax, format!("truncated line after '{}'", String::from_utf8_lossy(after)))
}

fn close(text: &[u8], position: usize, expression: &[u8]) -> Result<(), Error> {
    let used = position - (text.len() - expression.len()).min(position);
    let shown = String::from_utf8_lossy(expression.get(..used).unwrap_or_default()).into_owned();
    match text.get(position) {
        Some(b']') => Ok(()),
        Some(other) if (b' '..=b'~').contains(other) => {
            let message = format!("expected ']' after '{shown}', but found '{}'", char::from(*other));
            Err(Error::new(ErrorKind::Syntax, message).word(shown.as_bytes()))
        }
        _ => Err(Error::new(ErrorKind::Syntax, format!("missing ']' after '{shown}'")).word(shown.as_bytes())),
    }
}

impl Flags {
    /// Applies `+Q,-E` and the like; unknown ones are ignored, as HAProxy ignores them.
    fn apply(&mut self, arguments: &[u8]) {
        for argument in arguments.split(|byte| *byte == b',') {
            let (on, name) = match argument.iter().rposition(|byte| matches!(byte, b'+' | b'-')) {
                Some(sign) => (argument.get(sign) == Some(&b'+'), argument.get(sign + 1..).unwrap_or_default()),
                None => continue,
            };
            match name {
                b"M" => self.mandatory = on,
                b"Q" => self.quote = on,
                b"X" => self.hexadecimal = on,
                b"E" => self.escape = on,
                _ => {}
            }
        }
    }
}

fn variable(name: &[u8], parser: &ParseContext<'_>) -> Result<LogVariable, Error> {
    let shown = String::from_utf8_lossy(name).into_owned();
    let Some(entry) = LOG_VARIABLES.iter().find(|entry| entry.name == shown) else {
        let message = format!(
            "no such format variable '{shown}'. If you wanted to emit the '%' character verbatim, you need to use '%%'"
        );
        let near = nearest(&shown, LOG_VARIABLES.iter().map(|entry| entry.name));
        return Err(Error::new(ErrorKind::Unknown, message).word(name).near(near));
    };
    if let State::NotYet { comes_with } = entry.state {
        return Err(unsupported("format variable", &shown, comes_with));
    }
    if entry.http && !parser.http {
        let message = format!("format variable '{shown}' is reserved for HTTP mode");
        return Err(Error::new(ErrorKind::Place, message).word(name));
    }
    Ok(entry.variable)
}

fn expression(
    text: &[u8],
    flags: Flags,
    places: Places,
    options: LogFormatOptions,
    parser: &mut ParseContext<'_>,
) -> Result<(Item, usize), Error> {
    let shown = String::from_utf8_lossy(text).into_owned();
    let (expression, used) = Expression::parse_prefix(text, parser)
        .map_err(|error| error.context(|message| format!("failed to parse sample expression <{shown}> : {message}")))?;
    let here = expression.places().intersection(places);
    if here.is_empty() {
        let message = format!(
            "sample fetch <{shown}> may not be reliably used here because it needs '{}' which is not available here",
            expression.sources().names()
        );
        return Err(Error::new(ErrorKind::Place, message).word(expression.text().as_bytes()));
    }
    if options.http && expression.sources().intersects(Sources::BUFFERS) {
        parser.warn(format!("L6 sample fetch <{shown}> ignored in HTTP log-format string."));
    }
    let request = here.intersects(Places::REQUEST);
    let response = here.intersects(Places::RESPONSE);
    Ok((Item::Expression { expression, flags, request, response }, used))
}
