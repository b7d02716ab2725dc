//! What comes with a request, checked against what its route declares.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Kind, Parameter, Route};

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
    ) -> Result<Self, String> {
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
            _ => return Err("the body is no JSON object".into()),
        }
        for parameter in route.parameters {
            if parameter.is_required && !input.0.contains_key(parameter.name) {
                return Err(format!("'{}' is missing: {}", parameter.name, parameter.about));
            }
        }
        Ok(input)
    }

    fn take_text<H>(&mut self, route: &Route<H>, name: &str, text: &str) -> Result<(), String> {
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

    fn take_fields<H>(&mut self, route: &Route<H>, fields: &Map<String, Value>) -> Result<(), String> {
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

    fn put(&mut self, parameter: &Parameter, value: Value) -> Result<(), String> {
        match self.0.insert(parameter.name, value.clone()) {
            Some(other) if other != value => Err(format!("'{}' is given twice: {other} and {value}", parameter.name)),
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

fn parameter<H>(route: &Route<H>, name: &str) -> Result<&'static Parameter, String> {
    route.parameters.iter().find(|parameter| parameter.name == name).ok_or_else(|| {
        let known: Vec<&str> = route.parameters.iter().map(|parameter| parameter.name).collect();
        let known =
            if known.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", known.join(", ")) };
        format!("'{name}' is no parameter of {} {}: {known}", route.method, route.path)
    })
}

fn wrong(parameter: &Parameter, value: &str) -> String {
    let kind = match parameter.kind {
        Kind::Integer => "a number from 0 up",
        Kind::Text => "text",
        Kind::Flag => "true or false",
    };
    let shown: String = value.chars().take(80).collect();
    format!("'{}' is {kind}, not {shown}", parameter.name)
}

/// The names and values of a query, or of a form.
///
/// # Errors
///
/// A percent sign without two digits.
pub fn query_pairs(query: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = query.split('&').filter(|part| !part.is_empty()).map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (name.replace('+', " "), value.replace('+', " "));
        Some((decoded(&name)?, decoded(&value)?))
    });
    pairs
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| "the query cannot be read: % is followed by two hexadecimal digits".into())
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
