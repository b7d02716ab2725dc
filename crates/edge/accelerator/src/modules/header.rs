//! `header` of varnish-modules: fields of which a message has several.

use http::Headers;
use vcl::{
    modules::FunctionId,
    run::{Value, Workspace},
};

use super::{Arguments, Exchange, Outcome, argument, fail, header_at, string, text_at};
use crate::common::set_field;
use crate::log::{Log, REQ};

/// Does what a function does.
pub(super) fn call<'w>(
    exchange: &mut impl Exchange,
    id: FunctionId,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Option<Outcome<'w>> {
    if id == FunctionId::HeaderRegsub {
        return Some(regsub(exchange, arguments));
    }
    let header = header_at(arguments, 0)?;
    let name = header.name.lower.as_bytes();
    let pattern = match argument(arguments, 1) {
        Some(Value::Regex(pattern)) => Some(pattern),
        _ => None,
    };
    let matches = |value: &[u8]| pattern.is_some_and(|pattern| pattern.is_match(value).unwrap_or(false));
    if id == FunctionId::HeaderGet {
        let found = exchange.values(header.message, name)?.into_iter().find(|value| matches(value));
        return Some(string(workspace, found.as_deref()));
    }
    if id == FunctionId::HeaderCopy {
        let to = header_at(arguments, 1)?;
        let values = exchange.values(header.message, name)?;
        let Some(headers) = exchange.headers_mut(to.message) else { return Some(refuse("copy")) };
        for value in values {
            headers.add(to.name.text.as_bytes(), &value);
        }
        return Some(Ok(Value::Void));
    }
    let Some(headers) = exchange.headers_mut(header.message) else {
        return Some(refuse(if id == FunctionId::HeaderAppend { "append" } else { "remove" }));
    };
    match id {
        FunctionId::HeaderAppend => Some(append(headers, arguments)),
        FunctionId::HeaderRemove => {
            headers.retain(|known, value| !known.eq_ignore_ascii_case(name) || !matches(value));
            Some(Ok(Value::Void))
        }
        _ => None,
    }
}

fn refuse<'w>(function: &str) -> Outcome<'w> {
    fail(format!("header.{function}(): header argument can not be used here"))
}

fn append<'w>(headers: &mut Headers, arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    let Some(header) = header_at(arguments, 0) else { return refuse("append") };
    // The same rules as for `set`, on a field of its own.
    let mut one = Headers::new();
    set_field(&mut one, header, text_at(arguments, 1), (&mut Log::default(), REQ))?;
    headers.add(header.name.text.as_bytes(), text_at(arguments, 1));
    Ok(Value::Void)
}

/// `header.regsub(message, expression, sub, all)`: on each whole field, with its name.
fn regsub<'w>(exchange: &mut impl Exchange, arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    let (Some(Value::Message(message)), Some(Value::Regex(pattern))) = (argument(arguments, 0), argument(arguments, 1))
    else {
        return refuse("regsub");
    };
    let (replacement, all) = (text_at(arguments, 2), argument(arguments, 3).is_some_and(Value::is_true));
    let Some(headers) = exchange.headers_mut(message) else { return refuse("regsub") };
    // NOTE: names are in small letters here, whatever they came as. Programs are written for `Set-Cookie: `.
    let substituted = |name: &[u8], value: &[u8]| pattern.substitute(&[name, b": ", value].concat(), replacement, all);
    let changed: Vec<Option<Vec<u8>>> = headers
        .iter()
        .map(|(name, value)| substituted(&capitalized(name), value).or_else(|| substituted(name, value)))
        .collect();
    if changed.iter().all(Option::is_none) {
        return Ok(Value::Void);
    }
    let before: Vec<(Vec<u8>, Vec<u8>)> = headers.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    headers.retain(|_, _| false);
    for ((name, value), changed) in before.iter().zip(&changed) {
        let field = changed.as_deref().map(|field| {
            let at = field.iter().position(|byte| *byte == b':')?;
            let (name, value) = (field.get(..at)?, field.get(at + 1..)?.trim_ascii());
            let is_field = is_token(name) && !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
            is_field.then_some((name, value))
        });
        match field {
            None => headers.add(name, value),
            Some(Some((name, value))) => headers.add(name, value),
            // What is no field any more goes.
            Some(None) => {}
        }
    }
    Ok(Value::Void)
}

/// A name of a field (RFC 9110, section 5.6.2).
fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

/// `Set-Cookie`
fn capitalized(name: &[u8]) -> Vec<u8> {
    let mut is_first = true;
    let letter = |byte: &u8| {
        let shown = if is_first { byte.to_ascii_uppercase() } else { *byte };
        is_first = *byte == b'-';
        shown
    };
    name.iter().map(letter).collect()
}
