//! Strings.

use std::ops::Range;
use std::sync::Arc;

use super::{MADE_BYTES_MAX, bytes};
use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::bytes::Bytes;
use crate::keyword::{Call, Converter};
use crate::number;
use crate::parser::ParseContext;
use crate::value::{Type, Value};
use pcre::{Regex, expand};

const PART: &[ArgumentType] = &[ArgumentType::Sint, ArgumentType::Str, ArgumentType::Sint];
const STRING: &[ArgumentType] = &[ArgumentType::Str];

pub(super) const CONVERTERS: &[Converter] = &[
    Converter::new("bytes", Type::Bin, Type::Bin, cut)
        .takes(&[ArgumentType::Sint, ArgumentType::Sint], 1)
        .doc("The bytes from an offset on, at most as many as the second argument says.", "acl png req.body,bytes(1,3) -m str PNG"),
    Converter::new("cut_crlf", Type::Str, Type::Str, |value, _| {
        let text = bytes(value)?;
        let end = memchr::memchr2(b'\r', b'\n', &text).unwrap_or(text.len());
        Some(Value::Str(text.slice(0, end)))
    })
    .doc("What is before the first end of line.", "http-request set-var(txn.line) req.body,cut_crlf"),
    Converter::new("field", Type::Str, Type::Str, |value, call| {
        let text = bytes(value)?;
        let range = field(&text, call.integer(0)?, call.text(1)?, call.integer(2).unwrap_or(1))?;
        Some(Value::Str(text.slice(range.start, range.end)))
    })
    .takes(PART, 2)
    .checked(check_part)
    .doc("A field, from 1 or backward from -1; empty ones count. With a count several; 0 is all that follow.", "http-request set-var(txn.sub) req.hdr(host),field(1,.)"),
    Converter::new("word", Type::Str, Type::Str, |value, call| {
        let text = bytes(value)?;
        let range = word(&text, call.integer(0)?, call.text(1)?, call.integer(2).unwrap_or(1));
        Some(Value::Str(text.slice(range.start, range.end)))
    })
    .takes(PART, 2)
    .checked(check_part)
    .doc("A word, from 1 or backward from -1; delimiters together separate once. With a count several; 0 is all that follow.", "http-request set-var(txn.dir) path,word(1,/)"),
    Converter::new("host_only", Type::Str, Type::Str, |value, _| {
        let text = bytes(value)?;
        let end = port_start(&text).map_or(text.len(), |start| start - 1);
        lower(Value::Str(text.slice(0, end)))
    })
    .doc("A Host without its port, in lower case.", "use_backend %[req.hdr(host),host_only]"),
    Converter::new("port_only", Type::Str, Type::Sint, |value, _| {
        let text = bytes(value)?;
        let port = port_start(&text).and_then(|start| text.get(start..)).unwrap_or_default();
        Some(Value::Sint(number::read_int64(port).0))
    })
    .doc("The port of a Host, or 0.", "acl standard req.hdr(host),port_only 0 80 443"),
    Converter::new("length", Type::Str, Type::Sint, |value, _| {
        Some(Value::Sint(i64::try_from(bytes(value)?.len()).unwrap_or(i64::MAX)))
    })
    .doc("The length in bytes.", "http-request deny if { path,length gt 200 }"),
    Converter::new("lower", Type::Str, Type::Str, |value, _| lower(value))
    .doc("ASCII letters in lower case.", "use_backend %[req.hdr(host),lower]"),
    Converter::new("upper", Type::Str, Type::Str, |value, _| {
        change_case(value, u8::is_ascii_lowercase, <[u8]>::make_ascii_uppercase)
    })
    .doc("ASCII letters in upper case.", "http-request set-header X-Name %[hdr(name),upper]"),
    Converter::new("ltrim", Type::Str, Type::Str, |value, call| {
        let (text, set) = (bytes(value)?, call.text(0)?);
        let start = text.iter().take_while(|byte| set.contains(byte)).count();
        let end = text.len();
        Some(Value::Str(text.slice(start, end)))
    })
    .takes(STRING, 1)
    .doc("Without the bytes at the start that are in the argument.", "http-request set-var(txn.name) hdr(name),ltrim(0)"),
    Converter::new("rtrim", Type::Str, Type::Str, |value, call| {
        let (text, set) = (bytes(value)?, call.text(0)?);
        let end = text.len() - text.iter().rev().take_while(|byte| set.contains(byte)).count();
        Some(Value::Str(text.slice(0, end)))
    })
    .takes(STRING, 1)
    .doc("Without the bytes at the end that are in the argument.", "http-request set-var(txn.path) path,rtrim(/)"),
    Converter::new("regsub", Type::Str, Type::Str, substitute)
        .takes(&[ArgumentType::Regex, ArgumentType::Str, ArgumentType::Str], 2)
        .checked(check_regex)
        .doc("What matches an expression replaced, once or with the flag g everywhere; the flag i ignores case.", "http-request set-path %[path,regsub(^/old/,/new/)]"),
    Converter::new("language", Type::Str, Type::Str, language)
        .takes(&[ArgumentType::Str, ArgumentType::Str], 1)
        .doc("Of the languages in the argument, separated by semicolons, the one that Accept-Language prefers, or the default.", "http-request set-var(txn.lang) req.fhdr(accept-language),language(de;fr,en)"),
    Converter::new("debug", Type::Any, Type::Any, |value, call| {
        let text = |position: usize| String::from_utf8_lossy(call.text(position).unwrap_or_default()).into_owned();
        let destination = if call.arguments.len() > 1 { text(1) } else { "buf0".to_owned() };
        call.context.debug(&destination, &shown(&text(0), &value));
        Some(value)
    })
    .takes(&[ArgumentType::Str, ArgumentType::Str], 0)
    .checked(check_debug)
    .doc("The sample, shown in the named ring or on stderr on its way.", "http-request set-var(txn.host) hdr(host),debug(host,stderr)"),
];

/// Rings and streams that always exist.
const SINKS: &[&[u8]] = &[b"buf0", b"stdout", b"stderr"];

fn check_debug(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    match arguments.get(1) {
        Some(Argument::Str(name)) if !SINKS.contains(&&**name) => {
            Err(format!("No such sink '{}'", String::from_utf8_lossy(name)))
        }
        _ => Ok(()),
    }
}

/// What `debug` shows of a value.
fn shown(prefix: &str, value: &Value<'_>) -> String {
    let text = value.clone().into_text().map_or_else(
        || "(undisplayable)".to_owned(),
        |text| {
            let shown = text.iter().map(|byte| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' });
            format!("<{}>", shown.collect::<String>())
        },
    );
    format!("[debug] {prefix}: type={} {text}", value.kind())
}

fn cut<'a>(value: Value<'a>, call: &Call<'a>) -> Option<Value<'a>> {
    let block = bytes(value)?;
    // A negative offset is beyond every end, a negative length is none.
    let start = usize::try_from(call.integer(0)?).unwrap_or(usize::MAX);
    let length = call.integer(1).and_then(|length| usize::try_from(length).ok()).unwrap_or(usize::MAX);
    Some(Value::Bin(block.slice(start, start.saturating_add(length))))
}

fn lower(value: Value<'_>) -> Option<Value<'_>> {
    change_case(value, u8::is_ascii_uppercase, <[u8]>::make_ascii_lowercase)
}

fn change_case<'a>(value: Value<'a>, needs: fn(&u8) -> bool, change: fn(&mut [u8])) -> Option<Value<'a>> {
    let text = bytes(value)?;
    if !text.iter().any(needs) {
        return Some(Value::Str(text));
    }
    let mut text = text.into_owned();
    change(&mut text);
    Some(Value::str(text))
}

/// Where the port starts, if a colon and digits end the text.
fn port_start(text: &[u8]) -> Option<usize> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let start = text.len() - digits;
    (text.get(start.checked_sub(1)?) == Some(&b':')).then_some(start)
}

fn check_part(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    match (arguments.first(), arguments.get(1)) {
        (Some(Argument::Sint(0)), _) => Err("Unexpected value 0 for index".to_owned()),
        (_, Some(Argument::Str(set))) if set.is_empty() => Err("Empty separators list".to_owned()),
        _ => Ok(()),
    }
}

/// Where field number `index` and those after it are, `count` in all (0 is all), counted from the end if it is negative.
fn field(text: &[u8], index: i64, set: &[u8], count: i64) -> Option<Range<usize>> {
    let wanted = usize::try_from(index.unsigned_abs()).ok()?;
    let backward = index < 0;
    // Walks over delimiters from the side that fields are counted from; positions are distances from that side.
    let delimiters = |skip: usize| {
        let is_delimiter = move |position: &usize| {
            let at = if backward { text.len() - 1 - position } else { *position };
            text.get(at).is_some_and(|byte| set.contains(byte))
        };
        (skip..text.len()).filter(is_delimiter)
    };
    let start = match wanted.checked_sub(2) {
        None => 0,
        Some(before) => delimiters(0).nth(before)? + 1,
    };
    let end = match usize::try_from(count).ok().and_then(|count| count.checked_sub(1)) {
        // A count of zero, or below, is everything that follows.
        None => text.len(),
        Some(more) => delimiters(start).nth(more).unwrap_or(text.len()),
    };
    Some(if backward { text.len() - end..text.len() - start } else { start..end })
}

/// Like `field`, but delimiters together separate once, and those around the words are none.
fn word(text: &[u8], index: i64, set: &[u8], count: i64) -> Range<usize> {
    let wanted = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    let backward = index < 0;
    let is_delimiter = |position: usize| {
        let at = if backward { text.len() - 1 - position } else { position };
        text.get(at).is_some_and(|byte| set.contains(byte))
    };
    let mut words = Vec::new();
    let mut position = 0;
    while position < text.len() {
        if is_delimiter(position) {
            position += 1;
            continue;
        }
        let start = position;
        while position < text.len() && !is_delimiter(position) {
            position += 1;
        }
        words.push(start..position);
    }
    let Some(first) = wanted.checked_sub(1).and_then(|first| words.get(first)) else { return 0..0 };
    let count = usize::try_from(count).unwrap_or(0);
    // With fewer words than asked for, the rest belongs to the last one, delimiters included.
    let last = if count == 0 { None } else { words.get(wanted.saturating_sub(1).saturating_add(count - 1)) };
    let range = first.start..last.map_or(text.len(), |last| last.end);
    if backward { text.len() - range.end..text.len() - range.start } else { range }
}

fn check_regex(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    let flags: &[u8] = match arguments.get(2) {
        Some(Argument::Str(flags)) => flags,
        _ => &[],
    };
    if let Some(bad) = flags.iter().find(|flag| !b"ig".contains(flag)) {
        return Err(format!("invalid regex flag '{}', only 'i' and 'g' are supported", char::from(*bad)));
    }
    let (ignore_case, global) = (flags.contains(&b'i'), flags.contains(&b'g'));
    let Some(Argument::Str(pattern)) = arguments.first() else { return Ok(()) };
    let regex = Regex::new(pattern, ignore_case)
        .map_err(|reason| format!("regex '{}' is invalid (error={reason})", String::from_utf8_lossy(pattern)))?;
    arguments.truncate(2);
    arguments.push(Argument::Sint(i64::from(global)));
    if let Some(first) = arguments.first_mut() {
        *first = Argument::Regex(Arc::new(regex));
    }
    Ok(())
}

fn substitute<'a>(value: Value<'a>, call: &Call<'a>) -> Option<Value<'a>> {
    let text = bytes(value)?;
    let Some(Argument::Regex(regex)) = call.arguments.first() else { return None };
    let template = call.text(1)?;
    let global = call.integer(2) == Some(1);
    let mut output: Vec<u8> = Vec::new();
    let mut start = 0;
    let mut replaced = false;
    while !replaced || global {
        let Some(groups) = regex.groups_at(&text, start) else { break };
        let Some(Some(whole)) = groups.first().cloned() else { break };
        output.extend_from_slice(text.get(start..whole.start).unwrap_or_default());
        expand(template, &text, &groups, &mut output);
        replaced = true;
        if start >= text.len() || output.len() > MADE_BYTES_MAX {
            start = text.len();
            break;
        }
        if whole.end == start {
            // A match of nothing is one before a character: that one is kept.
            output.extend(text.get(start));
            start += 1;
        } else {
            start = whole.end;
        }
    }
    if !replaced {
        return Some(Value::Str(text));
    }
    output.extend_from_slice(text.get(start..).unwrap_or_default());
    output.truncate(MADE_BYTES_MAX);
    Some(Value::str(output))
}

/// Whether a range of Accept-Language names a language: it is the language, or starts with it and a dash.
fn names_language(range: &[u8], language: &[u8]) -> bool {
    match range.strip_prefix(language) {
        Some(rest) => rest.is_empty() || rest.first() == Some(&b'-'),
        None => false,
    }
}

/// A quality in thousandths; malformed ones count as far as they can be read.
fn quality(text: &[u8]) -> u32 {
    let digit = |position: usize| text.get(position).filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0');
    let Some(whole) = digit(0) else { return 1000 };
    let mut value = u32::from(whole) * 1000;
    if text.get(1) == Some(&b'.') {
        for (position, weight) in [(2, 100), (3, 10), (4, 1)] {
            let Some(digit) = digit(position) else { break };
            value += u32::from(digit) * weight;
        }
    }
    value.min(1000)
}

fn language<'a>(value: Value<'a>, call: &Call<'a>) -> Option<Value<'a>> {
    let accepted = bytes(value)?;
    let languages = call.text(0)?;
    let mut best: Option<(u32, &'a [u8])> = None;
    for part in accepted.split(|byte| *byte == b',') {
        let part = part.trim_ascii();
        let end = part.iter().position(|byte| *byte == b';' || byte.is_ascii_whitespace()).unwrap_or(part.len());
        let range = part.get(..end).unwrap_or_default();
        if range.is_empty() {
            continue;
        }
        let Some(language) = languages.split(|byte| *byte == b';').find(|name| names_language(range, name)) else {
            continue;
        };
        let rest = part.get(end..).unwrap_or_default().trim_ascii_start();
        let quality = match rest.strip_prefix(b";").map(<[u8]>::trim_ascii_start) {
            Some(parameter) => {
                let number = parameter.strip_prefix(b"q").map(<[u8]>::trim_ascii_start);
                let number = number.and_then(|number| number.strip_prefix(b"=")).map(<[u8]>::trim_ascii_start);
                number.map_or(1000, |number| if number.is_empty() { 1000 } else { quality(number) })
            }
            None if rest.is_empty() => 1000,
            None => continue,
        };
        if quality > best.map_or(0, |(best, _)| best) {
            best = Some((quality, language));
        }
        if quality >= 1000 {
            break;
        }
    }
    let found = best.map(|(_, language)| language).filter(|language| !language.is_empty());
    found
        .or_else(|| call.text(1))
        .filter(|language| !language.is_empty())
        .map(|language| Value::Str(Bytes::Borrowed(language)))
}
