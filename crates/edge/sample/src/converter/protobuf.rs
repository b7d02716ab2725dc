//! Fields of protocol buffers messages, by their numbers, also within messages that gRPC frames.

use super::bytes;
use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::bytes::Bytes;
use crate::keyword::{Call, Converter};
use crate::parser::ParseContext;
use crate::value::{Type, Value};

/// How bytes are written.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// Bytes of a number of variable size.
const VARINT_BYTES_MAX: usize = 10;

/// The compression flag and the length before each message of gRPC.
const GRPC_HEADER_BYTES: usize = 5;

const FIELD: &[ArgumentType] = &[ArgumentType::ProtobufField, ArgumentType::Str];

/// The types that a field may be read as, and how each is written; without one, it is a block of bytes.
const TYPES: [(&str, Form); 14] = [
    ("int32", Form::Varint),
    ("uint32", Form::Varint),
    ("sint32", Form::Zigzag),
    ("int64", Form::Varint),
    ("uint64", Form::Varint),
    ("sint64", Form::Zigzag),
    ("bool", Form::Varint),
    ("enum", Form::Varint),
    ("fixed32", Form::Fixed32),
    ("sfixed32", Form::Signed32),
    ("float", Form::Float),
    ("fixed64", Form::Fixed64),
    ("sfixed64", Form::Fixed64),
    ("double", Form::Double),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Block,
    Varint,
    /// Signs in the lowest bit.
    Zigzag,
    Fixed32,
    Signed32,
    Float,
    Fixed64,
    Double,
}

pub(super) const CONVERTERS: &[Converter] = &[
    Converter::new("protobuf", Type::Bin, Type::Bin, |value, call| {
        let message = bytes(value)?;
        let mut reader = Reader { bytes: &message, position: 0 };
        let found = look_up(&mut reader, call)?;
        found.read(message, call)
    })
    .takes(FIELD, 1)
    .checked(check)
    .doc(
        "A field of a protocol buffers message, by the numbers of it and those around it, read as a type.",
        "http-request set-var(txn.id) req.body,protobuf(1.2,uint32)",
    ),
    Converter::new("ungrpc", Type::Bin, Type::Bin, |value, call| {
        let body = bytes(value)?;
        let (mut position, mut left) = (0usize, body.len());
        while left > GRPC_HEADER_BYTES {
            let header = body.get(position..position.checked_add(GRPC_HEADER_BYTES)?)?;
            let [_, a, b, c, d] = *header else { return None };
            let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
            position += GRPC_HEADER_BYTES;
            left = (left - GRPC_HEADER_BYTES).checked_sub(length)?;
            let end = position.checked_add(length)?;
            let mut reader = Reader { bytes: body.get(..end)?, position };
            if let Some(found) = look_up(&mut reader, call) {
                return found.read(body.slice(0, end), call);
            }
            // NOTE: as in HAProxy, what is broken within a message is not jumped over.
            position = reader.position;
        }
        None
    })
    .takes(FIELD, 1)
    .checked(check)
    .doc(
        "A field of a gRPC message, by the numbers of it and those around it, read as a type.",
        "http-request deny if { req.body,ungrpc(1.1,int32) 59 }",
    ),
];

/// The type goes in front as its place in the table, for when it is needed.
fn check(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    let form = match arguments.get(1) {
        Some(Argument::Str(name)) => {
            let place = TYPES.iter().position(|(known, _)| known.as_bytes() == &**name);
            let place =
                place.ok_or_else(|| format!("Wrong protocol buffer type '{}'", String::from_utf8_lossy(name)))?;
            i64::try_from(place).unwrap_or(-1)
        }
        _ => -1,
    };
    arguments.truncate(1);
    arguments.push(Argument::Sint(form));
    Ok(())
}

/// A field: where it starts, how it is written, and its length if it has one.
struct FieldPosition {
    start: usize,
    wire: u64,
    length: u64,
}

/// Looks the field up.
fn look_up(reader: &mut Reader<'_>, call: &Call<'_>) -> Option<FieldPosition> {
    let Some(Argument::Numbers(path)) = call.arguments.first() else { return None };
    let mut depth = 0;
    // Bytes left of the message that the path has led into; as HAProxy counts them, around 64 bits.
    let mut inner = 0u64;
    while reader.left() > 0 {
        let mut before = reader.left();
        let key = reader.varint()?;
        let (wire, number) = (key & 7, (key >> 3) & 0xffff_ffff);
        let is_wanted = path.get(depth).is_some_and(|wanted| u64::from(*wanted) == number);
        if wire == LENGTH_DELIMITED {
            inner = reader.varint().filter(|length| *length <= reader.left() as u64)?;
            before = reader.left();
        }
        if !is_wanted {
            match wire {
                VARINT => reader.varint().map(|_| ()),
                EIGHT_BYTES => reader.skip(8),
                LENGTH_DELIMITED => usize::try_from(inner).ok().and_then(|length| reader.skip(length)),
                FOUR_BYTES => reader.skip(4),
                _ => None,
            }?;
        } else if !matches!(wire, VARINT | EIGHT_BYTES | LENGTH_DELIMITED | FOUR_BYTES) {
            return None;
        }
        if is_wanted && depth + 1 == path.len() {
            return Some(FieldPosition { start: reader.position, wire, length: inner });
        }
        if inner.cast_signed() > 0 {
            inner = inner.wrapping_sub((before - reader.left()) as u64);
        }
        if is_wanted {
            depth += 1;
        } else if inner.cast_signed() <= 0 {
            depth = 0;
        }
    }
    None
}

impl FieldPosition {
    /// The value, read as the type that is asked for.
    fn read<'a>(self, message: Bytes<'a>, call: &Call<'a>) -> Option<Value<'a>> {
        let FieldPosition { start, wire, length } = self;
        let place = usize::try_from(call.integer(1)?).ok();
        let form = place.and_then(|place| TYPES.get(place)).map_or(Form::Block, |(_, form)| *form);
        let block = |message: Bytes<'a>, length: usize| {
            let end = start.checked_add(length).filter(|end| *end <= message.len())?;
            Some(Value::Bin(message.slice(start, end)))
        };
        let mut reader = Reader { bytes: &message, position: start };
        let integer = match (wire, form) {
            (VARINT, Form::Block) => {
                reader.varint()?;
                let length = reader.position - start;
                return block(message, length);
            }
            (EIGHT_BYTES, Form::Block) => return block(message, 8),
            (FOUR_BYTES, Form::Block) => return block(message, 4),
            (LENGTH_DELIMITED, Form::Block) => return block(message, usize::try_from(length).ok()?),
            (VARINT, Form::Varint) => reader.varint()?.cast_signed(),
            (VARINT, Form::Zigzag) => {
                let value = reader.varint()?;
                (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
            }
            (FOUR_BYTES, Form::Fixed32) => i64::from(u32::from_le_bytes(reader.array()?)),
            (FOUR_BYTES, Form::Signed32) => i64::from(i32::from_le_bytes(reader.array()?)),
            #[expect(clippy::cast_possible_truncation, reason = "a number is cut to an integer")]
            (FOUR_BYTES, Form::Float) => i64::from((f32::from_le_bytes(reader.array()?) as i64) as u32),
            (EIGHT_BYTES, Form::Fixed64) => i64::from_le_bytes(reader.array()?),
            #[expect(clippy::cast_possible_truncation, reason = "a number is cut to an integer")]
            (EIGHT_BYTES, Form::Double) => f64::from_le_bytes(reader.array()?) as i64,
            _ => return None,
        };
        Some(Value::Sint(integer))
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Reader<'_> {
    fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    /// A number of variable size, seven bits a byte, lowest first. Where nothing is left it is zero.
    fn varint(&mut self) -> Option<u64> {
        if self.left() == 0 {
            return Some(0);
        }
        let mut value = 0;
        for place in 0..VARINT_BYTES_MAX {
            let byte = *self.bytes.get(self.position)?;
            self.position += 1;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        if self.left() < count {
            return None;
        }
        self.position += count;
        Some(())
    }

    fn array<const N: usize>(&self) -> Option<[u8; N]> {
        self.bytes.get(self.position..)?.first_chunk().copied()
    }
}
