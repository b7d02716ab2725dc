//! `cookie`: the cookies of a request, as a list that this request or fetch keeps.

use telemetry::vsl::VslTag;
use vcl::{
    modules::FunctionId,
    run::{Value, Workspace},
};

use super::{Arguments, Outcome, argument, string, text_at};
use crate::common::Common;

type Jar = Vec<(Vec<u8>, Vec<u8>)>;

/// Does what a function does.
pub(super) fn call<'w>(
    common: &mut Common,
    id: FunctionId,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Option<Outcome<'w>> {
    let name = text_at(arguments, 0);
    let matches = |name: &[u8]| match argument(arguments, 0) {
        Some(Value::Regex(pattern)) => pattern.is_match(name).unwrap_or(false),
        _ => false,
    };
    if id == FunctionId::CookieParse {
        parse(common, name);
        return Some(Ok(Value::Void));
    }
    let jar = &mut common.cookies;
    match id {
        FunctionId::CookieClean => jar.clear(),
        FunctionId::CookieDelete => {
            if let Some(place) = jar.iter().position(|(known, _)| known == name) {
                jar.remove(place);
            }
        }
        FunctionId::CookieFilter => jar.retain(|(known, _)| !listed(name).any(|item| item == known)),
        FunctionId::CookieKeep => jar.retain(|(known, _)| listed(name).any(|item| item == known)),
        FunctionId::CookieFilterRe => jar.retain(|(known, _)| !matches(known)),
        FunctionId::CookieKeepRe => jar.retain(|(known, _)| matches(known)),
        FunctionId::CookieSet => set(jar, name, text_at(arguments, 1)),
        FunctionId::CookieIsset => return Some(Ok(Value::Bool(find(jar, name).is_some()))),
        FunctionId::CookieGet => return Some(string(workspace, find(jar, name))),
        FunctionId::CookieGetRe => {
            let found = jar.iter().find(|(known, _)| matches(known));
            return Some(string(workspace, found.map(|(_, value)| value.as_slice())));
        }
        FunctionId::CookieGetString => return Some(string(workspace, Some(&joined(jar)))),
        _ => return None,
    }
    Some(Ok(Value::Void))
}

fn find<'j>(jar: &'j Jar, name: &[u8]) -> Option<&'j [u8]> {
    jar.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
}

/// One without a name or a value is none.
fn set(jar: &mut Jar, name: &[u8], value: &[u8]) {
    if name.is_empty() || value.is_empty() {
        return;
    }
    match jar.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value.to_vec(),
        None => jar.push((name.to_vec(), value.to_vec())),
    }
}

/// Names between commas; blanks count behind a name, not before it.
fn listed(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii_start).filter(|name| !name.is_empty())
}

/// `a=1; b=2;`
fn joined(jar: &Jar) -> Vec<u8> {
    let mut out = Vec::new();
    for (place, (name, value)) in jar.iter().enumerate() {
        let blank: &[u8] = if place == 0 { b"" } else { b" " };
        for part in [blank, name, b"=", value, b";"] {
            out.extend_from_slice(part);
        }
    }
    out
}

fn parse(common: &mut Common, header: &[u8]) {
    if header.is_empty() {
        return common.record(VslTag::Debug, b"cookie: nothing to parse");
    }
    let jar = &mut common.cookies;
    jar.clear();
    let mut count = 0;
    let mut rest = header;
    loop {
        rest = rest.trim_ascii_start();
        let Some(at) = rest.iter().position(|byte| *byte == b'=') else { break };
        let (name, behind) = (rest.get(..at).unwrap_or_default(), rest.get(at + 1..).unwrap_or_default());
        let end = behind.iter().position(|byte| *byte == b';').unwrap_or(behind.len());
        set(jar, name, behind.get(..end).unwrap_or_default());
        count += 1;
        match behind.get(end + 1..) {
            Some(more) => rest = more,
            None => break,
        }
    }
    common.record(VslTag::Debug, format!("cookie: parsed {count} cookies.").as_bytes());
}
