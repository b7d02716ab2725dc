//! What comes with a request, checked against what its route declares.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Kind, Parameter, Route};

/// Why a request is not what its route takes. The client is to blame, and what it has to mend is named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The body.
    #[error("the body is no JSON object")]
    NoObject,
    /// The query.
    #[error("the query cannot be read: % is followed by two hexadecimal digits")]
    Query,
    /// A parameter that must be there.
    #[error("'{name}' is missing: {about}")]
    Missing {
        /// Which.
        name: &'static str,
        /// What it is.
        about: &'static str,
    },
    /// Two values.
    #[error("'{name}' is given twice: {one} and {other}")]
    Twice {
        /// Of which parameter.
        name: &'static str,
        /// One of them.
        one: Value,
        /// The other one.
        other: Value,
    },
    /// No parameter of the route.
    #[error("'{name}' is no parameter of {method} {path}: {}", if known.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", known.join(", ")) })]
    Unknown {
        /// What was given.
        name: String,
        /// The route's method.
        method: &'static str,
        /// The route's path.
        path: &'static str,
        /// The parameters that it takes.
        known: Vec<&'static str>,
    },
    /// A value of another kind.
    #[error("'{name}' is {}, not {given}", wanted.described())]
    Kind {
        /// Of which parameter.
        name: &'static str,
        /// What it is to be.
        wanted: Kind,
        /// What was given, cut short.
        given: String,
    },
}

impl Kind {
    fn described(self) -> &'static str {
        match self {
            Self::Integer => "a number from 0 up",
            Self::Text => "text",
            Self::Flag => "true or false",
        }
    }
}

/// The values of a request by name. All that must be there are, and each is what its route says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Input(BTreeMap<&'static str, Value>);

impl Input {
    /// Puts together the parts of a path, a query and a body.
    ///
    /// # Errors
    ///
    /// Something is missing, is no parameter of the route, or is not what it should be.
    pub fn of<H>(
        route: &Route<H>,
        path: BTreeMap<&'static str, String>,
        query: &str,
        body: &Value,
    ) -> Result<Self, InputError> {
        let mut input = Self::default();
        for (name, text) in path {
            input.take_text(route, name, &text)?;
        }
        for (name, text) in query_pairs(query)? {
            input.take_text(route, &name, &text)?;
        }
        match body {
            Value::Null => {}
            Value::Object(fields) => input.take_fields(route, fields)?,
            _ => return Err(InputError::NoObject),
        }
        for parameter in route.parameters {
            if parameter.is_required && !input.0.contains_key(parameter.name) {
                return Err(InputError::Missing { name: parameter.name, about: parameter.about });
            }
        }
        Ok(input)
    }

    fn take_text<H>(&mut self, route: &Route<H>, name: &str, text: &str) -> Result<(), InputError> {
        let parameter = parameter(route, name)?;
        let value = match parameter.kind {
            Kind::Text => Some(Value::from(text)),
            Kind::Integer => text.parse::<u64>().ok().map(Value::from),
            Kind::Flag => match text {
                "true" | "1" | "" => Some(true.into()),
                "false" | "0" => Some(false.into()),
                _ => None,
            },
        };
        let value = value.ok_or_else(|| wrong(parameter, text))?;
        self.put(parameter, value)
    }

    fn take_fields<H>(&mut self, route: &Route<H>, fields: &Map<String, Value>) -> Result<(), InputError> {
        for (name, value) in fields {
            let parameter = parameter(route, name)?;
            let is_right = match parameter.kind {
                Kind::Text => value.is_string(),
                Kind::Integer => value.is_u64(),
                Kind::Flag => value.is_boolean(),
            };
            // As if it were not there.
            if value.is_null() {
                continue;
            }
            if !is_right {
                return Err(wrong(parameter, &value.to_string()));
            }
            self.put(parameter, value.clone())?;
        }
        Ok(())
    }

    fn put(&mut self, parameter: &Parameter, value: Value) -> Result<(), InputError> {
        match self.0.insert(parameter.name, value.clone()) {
            Some(one) if one != value => Err(InputError::Twice { name: parameter.name, one, other: value }),
            _ => Ok(()),
        }
    }

    /// A number; 0 stands for one that was left out.
    #[must_use]
    pub fn integer(&self, name: &str) -> u64 {
        self.maybe_integer(name).unwrap_or(0)
    }

    /// A number, if it was given.
    #[must_use]
    pub fn maybe_integer(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    /// A text, if it was given.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// Whether something is to be; one that was left out is not.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }
}

fn parameter<H>(route: &Route<H>, name: &str) -> Result<&'static Parameter, InputError> {
    route.parameters.iter().find(|parameter| parameter.name == name).ok_or_else(|| {
        let known = route.parameters.iter().map(|parameter| parameter.name).collect();
        InputError::Unknown { name: name.to_owned(), method: route.method, path: route.path, known }
    })
}

fn wrong(parameter: &Parameter, value: &str) -> InputError {
    const SHOWN_MAX: usize = 80;
    InputError::Kind { name: parameter.name, wanted: parameter.kind, given: value.chars().take(SHOWN_MAX).collect() }
}

/// The names and values of a query, or of a form.
///
/// # Errors
///
/// A percent sign without two digits.
pub fn query_pairs(query: &str) -> Result<Vec<(String, String)>, InputError> {
    let pairs = query.split('&').filter(|part| !part.is_empty()).map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (name.replace('+', " "), value.replace('+', " "));
        Some((decoded(&name)?, decoded(&value)?))
    });
    pairs.collect::<Option<Vec<_>>>().ok_or(InputError::Query)
}

/// Text with its `%41` made characters; nothing if that makes no text.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push((high * 16 + low) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
