//! The list of arguments in parentheses after a fetch or a converter.
//!
//! Quotes and backslashes inside the parentheses are a second level, below those of the configuration line: a comma or a
//! parenthesis in an argument stands in quotes that survived the first level.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::map::Map;
use crate::number;
use crate::parser::{ParseContext, ReferenceKind};
use crate::token::PublicKeys;
use crate::variables::{SetCondition, VariableName};
use http::HeaderId;
use pcre::Regex;

/// The type that a keyword declares for an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentType {
    /// A signed integer.
    Sint,
    /// A string.
    Str,
    /// An IPv4 address.
    Ipv4,
    /// An IPv4 mask, dotted or in bits.
    Mask4,
    /// An IPv6 address.
    Ipv6,
    /// An IPv6 mask, in colon form or in bits.
    Mask6,
    /// The name of a frontend.
    Frontend,
    /// The name of a backend.
    Backend,
    /// The name of a server, with or without its backend.
    Server,
    /// The name of a stick table.
    Table,
    /// The name of a user list.
    UserList,
    /// A regular expression.
    Regex,
    /// Numbers of protocol buffers fields, dotted.
    ProtobufField,
}

impl ArgumentType {
    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ArgumentType::Sint => "integer",
            ArgumentType::Str => "string",
            ArgumentType::Ipv4 => "IPv4 address",
            ArgumentType::Mask4 => "IPv4 mask",
            ArgumentType::Ipv6 => "IPv6 address",
            ArgumentType::Mask6 => "IPv6 mask",
            ArgumentType::Frontend => "frontend",
            ArgumentType::Backend => "backend",
            ArgumentType::Server => "server",
            ArgumentType::Table => "table",
            ArgumentType::UserList => "user list",
            ArgumentType::Regex => "regex",
            ArgumentType::ProtobufField => "Protocol buffers field number",
        }
    }

    fn reference(self) -> Option<ReferenceKind> {
        Some(match self {
            ArgumentType::Frontend => ReferenceKind::Frontend,
            ArgumentType::Backend => ReferenceKind::Backend,
            ArgumentType::Server => ReferenceKind::Server,
            ArgumentType::Table => ReferenceKind::Table,
            ArgumentType::UserList => ReferenceKind::UserList,
            _ => return None,
        })
    }
}

/// An argument, read and checked.
#[derive(Clone, Debug)]
pub(crate) enum Argument {
    Sint(i64),
    Str(Box<[u8]>),
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    Mask4(u32),
    Mask6(u128),
    /// A frontend, backend, table or user list.
    Name(Box<str>),
    Server {
        backend: Box<str>,
        server: Box<str>,
    },
    Variable(VariableName),
    /// The name of a header; its id is compared first.
    Header(HeaderId, Box<[u8]>),
    Regex(Arc<Regex>),
    Map(Arc<Map>),
    /// Numbers with dots between them.
    Numbers(Box<[u32]>),
    Conditions(Vec<SetCondition>),
    /// The public keys of the configuration.
    PublicKeys(PublicKeys),
}

/// The arguments of one keyword, which its check may replace by what it made of them.
pub(crate) type Arguments = Vec<Argument>;

/// The most bytes that one argument may have.
const ARGUMENT_BYTES_MAX: usize = 16_383;

/// Reads the arguments at the start of `text`, which begins right after a keyword; the arguments and the bytes used.
///
/// An opening parenthesis that is not there is an empty list. An empty argument is there when a comma follows or precedes
/// it or when it is required.
pub(crate) fn parse(
    text: &[u8],
    keyword: &str,
    types: &[ArgumentType],
    required: usize,
    parser: &mut ParseContext<'_>,
) -> Result<(Vec<Argument>, usize), (Error, usize)> {
    let mut reader = Reader { text, position: 0 };
    let mut arguments = Vec::new();
    let opened = reader.take_if(b'(');
    let at_end = || !opened;
    if !types.is_empty() && (opened || required > 0) {
        for (index, kind) in types.iter().enumerate() {
            let word = if at_end() { Vec::new() } else { reader.word(*kind, index).map_err(|error| (error, index))? };
            if word.is_empty()
                && !matches!(kind, ArgumentType::Str)
                && kind.reference().is_none()
                && *kind != ArgumentType::Regex
            {
                // Nothing at all between the parentheses, or nothing where a value of this type must be.
                if arguments.len() >= required {
                    break;
                }
                let message = format!("expected type '{}' at position {}, but got nothing", kind.name(), index + 1);
                return Err((Error::new(ErrorKind::Argument, message), index));
            }
            let argument = convert(&word, *kind, index, keyword, parser).map_err(|error| (error, index))?;
            arguments.push(argument);
            if at_end() || !reader.comma_follows() || index + 1 == types.len() {
                break;
            }
            reader.position += 1;
        }
    }
    if arguments.len() < required {
        let kind = types.get(arguments.len()).map_or("", |kind| kind.name());
        let message = format!("missing arguments (got {}/{required}), type '{kind}' expected", arguments.len());
        return Err((Error::new(ErrorKind::Argument, message), arguments.len()));
    }
    if opened && !reader.take_if(b')') {
        let rest = String::from_utf8_lossy(reader.rest()).into_owned();
        let message = if rest.is_empty() { "expected ')'".to_owned() } else { format!("expected ')' before '{rest}'") };
        let position = arguments.len().saturating_sub(usize::from(arguments.len() > 1));
        return Err((Error::new(ErrorKind::Argument, message), position));
    }
    Ok((arguments, reader.position))
}

struct Reader<'a> {
    text: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn take_if(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn comma_follows(&self) -> bool {
        self.peek() == Some(b',')
    }

    /// Reads up to the comma or the parenthesis that ends an argument, which stays, and undoes its quotes.
    fn word(&mut self, kind: ArgumentType, index: usize) -> Result<Vec<u8>, Error> {
        let mut word = Vec::new();
        let (mut single, mut double) = (false, false);
        while let Some(byte) = self.peek() {
            if word.len() >= ARGUMENT_BYTES_MAX {
                let message =
                    format!("too small buffer size to store decoded argument {}, increase bufsize ?", index + 1);
                return Err(Error::new(ErrorKind::Argument, message));
            }
            match byte {
                b'"' if !single => double = !double,
                b'\'' if !double => single = !single,
                b'\\' if !single => match self.text.get(self.position + 1) {
                    None => {
                        let message = format!(
                            "failed to parse '\\' after '{}' as type '{}' at position {}",
                            String::from_utf8_lossy(&word),
                            kind.name(),
                            index + 1
                        );
                        return Err(Error::new(ErrorKind::Argument, message));
                    }
                    Some(escaped) => {
                        let plain = match escaped {
                            b'\\' | b' ' | b'"' | b'\'' => Some(*escaped),
                            b'r' => Some(b'\r'),
                            b'n' => Some(b'\n'),
                            b't' => Some(b'\t'),
                            _ => None,
                        };
                        // A lone backslash stays, and so does what follows it.
                        word.push(plain.unwrap_or(byte));
                        self.position += usize::from(plain.is_some());
                    }
                },
                b',' | b')' if !single && !double => break,
                _ => word.push(byte),
            }
            self.position += 1;
        }
        Ok(word)
    }
}

fn convert(
    word: &[u8],
    kind: ArgumentType,
    index: usize,
    keyword: &str,
    parser: &mut ParseContext<'_>,
) -> Result<Argument, Error> {
    let malformed = || {
        let message = format!(
            "failed to parse '{}' as type '{}' at position {}",
            String::from_utf8_lossy(word),
            kind.name(),
            index + 1
        );
        Error::new(ErrorKind::Argument, message).word(word)
    };
    let text = || std::str::from_utf8(word).map_err(|_| malformed());
    Ok(match kind {
        ArgumentType::Sint => match number::read_int64(word) {
            (value, used) if used == word.len() => Argument::Sint(value),
            _ => return Err(malformed()),
        },
        ArgumentType::Str => Argument::Str(word.into()),
        ArgumentType::Ipv4 => Argument::Ipv4(text()?.parse().map_err(|_| malformed())?),
        ArgumentType::Ipv6 => Argument::Ipv6(text()?.parse().map_err(|_| malformed())?),
        ArgumentType::Mask4 => Argument::Mask4(number::parse_mask4(word).ok_or_else(malformed)?),
        ArgumentType::Mask6 => Argument::Mask6(number::parse_mask6(word).ok_or_else(malformed)?),
        ArgumentType::Regex => Argument::Str(word.into()),
        ArgumentType::ProtobufField => Argument::Numbers(number::parse_dotted_list(word).ok_or_else(malformed)?),
        ArgumentType::Server => {
            let text = text()?;
            let (backend, server) = match text.rsplit_once('/') {
                Some((backend, server)) => (backend, server),
                None => (parser.proxy, text),
            };
            if server.is_empty() {
                let message = format!("missing server name in arg {} of '{keyword}'", index + 1);
                return Err(Error::new(ErrorKind::Argument, message));
            }
            let argument = Argument::Server { backend: backend.into(), server: server.into() };
            parser.refer(ReferenceKind::Server, format!("{backend}/{server}"), keyword, index);
            argument
        }
        ArgumentType::Frontend | ArgumentType::Backend | ArgumentType::Table | ArgumentType::UserList => {
            // The name of the proxy that is being read is the default, except for user lists.
            let name = match text()? {
                "" if kind != ArgumentType::UserList => parser.proxy,
                name => name,
            };
            let argument = Argument::Name(name.into());
            if let Some(reference) = kind.reference() {
                parser.refer(reference, name.to_owned(), keyword, index);
            }
            argument
        }
    })
}
