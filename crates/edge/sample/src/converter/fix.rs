//! Messages of the Financial Information eXchange protocol: `tag=value` fields, each ended by a byte of 1.
//!
//! A message is in order when `BeginString`, `BodyLength` and `MsgType` come first and `CheckSum` last, and both numbers are
//! right: the body goes from behind `BodyLength` to `CheckSum`, the sum is that of all bytes before `CheckSum`.

use super::bytes;
use crate::arguments::{Argument, ArgumentType};
use crate::keyword::{Converter, Judgement};
use crate::value::{Type, Value};

const DELIMITER: u8 = 1;
/// No message is shorter.
const MESSAGE_BYTES_MIN: usize = 26;

const BEGIN_STRING: u32 = 8;
const BODY_LENGTH: u32 = 9;
const CHECK_SUM: u32 = 10;
const MESSAGE_TYPE: u32 = 35;

/// The tags that have names here.
const NAMES: [(&str, u32); 6] = [
    ("MsgType", MESSAGE_TYPE),
    ("CheckSum", CHECK_SUM),
    ("BodyLength", BODY_LENGTH),
    ("TargetCompID", 56),
    ("BeginString", BEGIN_STRING),
    ("SenderCompID", 49),
];

/// The versions, and the greatest tag of each. All of 5.0 call themselves the same.
const VERSIONS: [(&[u8], u32); 6] = [
    (b"FIX.4.0", 140),
    (b"FIX.4.1", 211),
    (b"FIX.4.2", 446),
    (b"FIX.4.3", 659),
    (b"FIX.4.4", 956),
    (b"FIXT.1.1", 1621),
];

/// Tags that users may define in every version.
const USER_DEFINED: std::ops::RangeInclusive<u32> = 10_000..=19_999;

pub(super) const CONVERTERS: &[Converter] = &[
    Converter::new("fix_is_valid", Type::Bin, Type::Bool, |value, call| {
        let message = bytes(value)?;
        call.judge(judge(&message)).map(Value::Bool)
    })
    .doc(
        "Whether it is a valid FIX message; nothing while it is incomplete.",
        "tcp-request content reject unless { req.payload(0,0),fix_is_valid }",
    ),
    Converter::new("fix_tag_value", Type::Bin, Type::Bin, |value, call| {
        let message = bytes(value)?;
        let tag = call.integer(0)?;
        let (start, end) = call.judge(find(&message, tag))?;
        Some(Value::Bin(message.slice(start, end)))
    })
    .takes(&[ArgumentType::Str], 1)
    .checked(|arguments, _| {
        let Some(Argument::Str(name)) = arguments.first() else { return Ok(()) };
        let named = || NAMES.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
        let Some(tag) = tag_of(name).or_else(|| named().map(|(_, tag)| *tag)) else {
            return Err(format!("Unknown FIX tag name '{}'", String::from_utf8_lossy(name)));
        };
        *arguments = vec![Argument::Sint(i64::from(tag))];
        Ok(())
    })
    .doc(
        "The value of a tag of a FIX message, by its number or name.",
        "tcp-request content set-var(txn.type) req.payload(0,0),fix_tag_value(MsgType)",
    ),
];

/// The number of a tag; 0 is none.
fn tag_of(text: &[u8]) -> Option<u32> {
    let tag = number(text)?;
    (tag != 0).then_some(tag)
}

/// A text of digits as a number, around 32 bits.
fn number(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0u32, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| value.wrapping_mul(10).wrapping_add(u32::from(digit)))
    })
}

/// A field: its tag, and where its value starts and ends.
struct Field<'a> {
    tag: &'a [u8],
    start: usize,
    end: usize,
}

/// The field at the start of `rest`, which begins at `offset` of the message.
fn field(rest: &[u8], offset: usize) -> Judgement<Field<'_>> {
    let Some(equals) = memchr::memchr(b'=', rest) else { return Judgement::Open };
    let (tag, value) = rest.split_at(equals);
    match memchr::memchr(DELIMITER, value) {
        None => Judgement::Open,
        Some(_) if tag.is_empty() => Judgement::Settled(None),
        Some(length) => {
            Judgement::Settled(Some(Field { tag, start: offset + equals + 1, end: offset + equals + length }))
        }
    }
}

fn judge(message: &[u8]) -> Judgement<bool> {
    if message.len() < MESSAGE_BYTES_MIN {
        return Judgement::Open;
    }
    let invalid = Judgement::Settled(Some(false));
    let (mut position, mut sum, mut greatest, mut body_length, mut body) = (0, 0u8, None, 0, 0);
    let mut count = 0;
    while let Some(rest) = message.get(position..).filter(|rest| !rest.is_empty()) {
        let field = match field(rest, position) {
            Judgement::Open => return Judgement::Open,
            Judgement::Settled(None) => return invalid,
            Judgement::Settled(Some(field)) => field,
        };
        let value = message.get(field.start..field.end).unwrap_or_default();
        let Some(tag) = tag_of(field.tag) else { return invalid };
        if greatest.is_some_and(|greatest| tag > greatest && !USER_DEFINED.contains(&tag)) {
            return invalid;
        }
        count += 1;
        match (count, tag) {
            (1, BEGIN_STRING) => {
                let Some((_, most)) = VERSIONS.iter().find(|(name, _)| *name == value) else { return invalid };
                greatest = Some(*most);
            }
            (2, BODY_LENGTH) => {
                body_length = number(value).unwrap_or(0);
                if body_length == 0 {
                    return invalid;
                }
                body = field.end + 1;
            }
            (3, MESSAGE_TYPE) => {}
            (1..=3, _) => return invalid,
            (_, CHECK_SUM) => {
                let is_right = usize::try_from(body_length) == Ok(position - body)
                    && value.len() == 3
                    && number(value) == Some(u32::from(sum));
                return Judgement::Settled(Some(is_right));
            }
            _ => {}
        }
        let end = field.end + 1;
        let summed = message.get(position..end).unwrap_or_default();
        sum = summed.iter().fold(sum, |sum, byte| sum.wrapping_add(*byte));
        position = end;
    }
    if body > 0 { Judgement::Open } else { invalid }
}

/// Where the value of a tag is.
fn find(message: &[u8], wanted: i64) -> Judgement<(usize, usize)> {
    let mut position = 0;
    while let Some(rest) = message.get(position..).filter(|rest| !rest.is_empty()) {
        let field = match field(rest, position) {
            Judgement::Open => return Judgement::Open,
            Judgement::Settled(None) => return Judgement::Settled(None),
            Judgement::Settled(Some(field)) => field,
        };
        let Some(tag) = tag_of(field.tag) else { return Judgement::Settled(None) };
        if i64::from(tag) == wanted {
            // NOTE: as in HAProxy, a tag without a value is waited for.
            return if field.start < field.end {
                Judgement::Settled(Some((field.start, field.end)))
            } else {
                Judgement::Open
            };
        }
        if tag == CHECK_SUM {
            return Judgement::Settled(None);
        }
        position = field.end + 1;
    }
    Judgement::Open
}
