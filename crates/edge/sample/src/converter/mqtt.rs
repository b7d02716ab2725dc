//! The first packets of an MQTT connection: CONNECT of the client and CONNACK of the server, in versions 3.1, 3.1.1 and 5.0.

use std::ops::Range;

use super::bytes;
use crate::arguments::{Argument, ArgumentType};
use crate::keyword::{Converter, Judgement};
use crate::value::{Type, Value};

const CONNECT: u8 = 1;
const CONNACK: u8 = 2;

/// The types of packets, from 1 on, and the flags that their first byte must have.
const PACKETS: [(&str, u8); 15] = [
    ("CONNECT", 0),
    ("CONNACK", 0),
    ("PUBLISH", 0x0f),
    ("PUBACK", 0),
    ("PUBREC", 0),
    ("PUBREL", 2),
    ("PUBCOMP", 0),
    ("SUBSCRIBE", 2),
    ("SUBACK", 0),
    ("UNSUBSCRIBE", 2),
    ("UNSUBACK", 0),
    ("PINGREQ", 0),
    ("PINGRESP", 0),
    ("DISCONNECT", 0),
    ("AUTH", 0),
];

/// What can be asked of a packet. Properties, which version 5.0 has, go by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Flags,
    ReasonCode,
    ProtocolName,
    ProtocolVersion,
    ClientIdentifier,
    WillTopic,
    WillPayload,
    Username,
    Password,
    Keepalive,
    Property(u8),
}

/// Fields that have names, and in which of CONNECT and CONNACK they are.
const NAMED: [(&str, Field, &[u8]); 10] = [
    ("flags", Field::Flags, &[CONNECT, CONNACK]),
    ("reason_code", Field::ReasonCode, &[CONNACK, 4, 5, 6, 7, 14]),
    ("protocol_name", Field::ProtocolName, &[CONNECT]),
    ("protocol_version", Field::ProtocolVersion, &[CONNECT, CONNACK]),
    ("client_identifier", Field::ClientIdentifier, &[CONNECT]),
    ("will_topic", Field::WillTopic, &[CONNECT]),
    ("will_payload", Field::WillPayload, &[CONNECT]),
    ("username", Field::Username, &[CONNECT]),
    ("password", Field::Password, &[CONNECT]),
    ("keepalive", Field::Keepalive, &[CONNECT]),
];

/// How a property is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A byte of 0 or 1.
    Switch,
    Two,
    /// Not zero.
    TwoPositive,
    Four,
    FourPositive,
    Text,
    /// Not empty.
    SomeText,
    /// Two texts; may come more than once.
    Pair,
}

/// Properties: the number, the form, and where they are.
type Properties = &'static [(u8, Form)];

const IN_CONNECT: Properties = &[
    (17, Form::Four),
    (21, Form::Text),
    (22, Form::Text),
    (23, Form::Switch),
    (25, Form::Switch),
    (33, Form::TwoPositive),
    (34, Form::Two),
    (USER_PROPERTY, Form::Pair),
    (39, Form::FourPositive),
];

/// The properties of the message that a client leaves behind.
const IN_WILL: Properties = &[
    (1, Form::Switch),
    (2, Form::Four),
    (3, Form::Text),
    (8, Form::Text),
    (9, Form::Text),
    (24, Form::Four),
    (USER_PROPERTY, Form::Pair),
];

const IN_CONNACK: Properties = &[
    (17, Form::Four),
    (18, Form::SomeText),
    (19, Form::Two),
    (21, Form::Text),
    (22, Form::Text),
    (26, Form::Text),
    (28, Form::Text),
    (31, Form::Text),
    (33, Form::TwoPositive),
    (34, Form::Two),
    (36, Form::Switch),
    (37, Form::Switch),
    (USER_PROPERTY, Form::Pair),
    (39, Form::FourPositive),
    (40, Form::Switch),
    (41, Form::Switch),
    (42, Form::Switch),
];

const USER_PROPERTY: u8 = 38;
const AUTHENTICATION_METHOD: u8 = 21;
const AUTHENTICATION_DATA: u8 = 22;

/// Properties that other packets have: they may be asked for, and are never found.
const IN_OTHERS: [(u8, &[u8]); 15] = [
    (3, &[1, 2, 3, 8, 9, 11, 35, USER_PROPERTY]),
    (4, &[31, USER_PROPERTY]),
    (5, &[31, USER_PROPERTY]),
    (6, &[31, USER_PROPERTY]),
    (7, &[31, USER_PROPERTY]),
    (8, &[11, USER_PROPERTY]),
    (9, &[31, USER_PROPERTY]),
    (10, &[USER_PROPERTY]),
    (11, &[31, USER_PROPERTY]),
    (12, &[]),
    (13, &[]),
    (14, &[17, 28, 31, USER_PROPERTY]),
    (15, &[21, 22, 31, USER_PROPERTY]),
    (CONNECT, &[]),
    (CONNACK, &[]),
];

/// Bits of a CONNECT packet's flags.
const RESERVED: u8 = 0x01;
const WILL: u8 = 0x04;
const WILL_QOS: u8 = 0x18;
const WILL_RETAIN: u8 = 0x20;
const PASSWORD: u8 = 0x40;
const USERNAME: u8 = 0x80;

/// Bytes of a length of variable size.
const LENGTH_BYTES_MAX: usize = 4;

pub(super) const CONVERTERS: &[Converter] = &[
    Converter::new("mqtt_is_valid", Type::Bin, Type::Bool, |value, call| {
        let packet = bytes(value)?;
        call.judge(match Packet::read(&packet) {
            Judgement::Open => Judgement::Open,
            Judgement::Settled(packet) => Judgement::Settled(Some(packet.is_some())),
        })
        .map(Value::Bool)
    })
    .doc(
        "Whether it is a valid MQTT packet, CONNECT or CONNACK; nothing while it is incomplete.",
        "tcp-request content reject unless { req.payload(0,0),mqtt_is_valid }",
    ),
    Converter::new("mqtt_field_value", Type::Bin, Type::Str, |value, call| {
        let packet = bytes(value)?;
        let (Some(kind), Some(field)) = (call.integer(0), call.integer(1)) else { return None };
        let found = match Packet::read(&packet) {
            Judgement::Open => Judgement::Open,
            Judgement::Settled(read) => {
                let read = read.filter(|read| i64::from(read.kind) == kind);
                Judgement::Settled(read.and_then(|read| read.field(field_of(field)?)))
            }
        };
        Some(match call.judge(found)? {
            // As in HAProxy, the bytes stay a block.
            FieldValue::Text(range) => Value::Bin(packet.slice(range.start, range.end)),
            FieldValue::Number(number) => Value::bin(number.to_string()),
        })
    })
    .takes(&[ArgumentType::Str, ArgumentType::Str], 2)
    .checked(|arguments, _| {
        let (Some(Argument::Str(kind)), Some(Argument::Str(name))) = (arguments.first(), arguments.get(1)) else {
            return Ok(());
        };
        let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let Some(found) = packet_named(kind) else { return Err(format!("Unknown MQTT type '{}'", shown(kind))) };
        let Some(field) = field_named(found, name) else {
            let (name, kind) = (shown(name), shown(kind));
            return Err(format!("Unknown MQTT field name '{name}' for packet type '{kind}'"));
        };
        *arguments = vec![Argument::Sint(i64::from(found)), Argument::Sint(number_of(field))];
        Ok(())
    })
    .doc(
        "A field of an MQTT packet by its name, or a property by its number.",
        "tcp-request content set-var(txn.user) req.payload(0,0),mqtt_field_value(connect,username)",
    ),
];

/// The type of packet of that name or number.
fn packet_named(text: &[u8]) -> Option<u8> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u8>().ok());
    if let Some(number) = number {
        return (1..=15).contains(&number).then_some(number);
    }
    let position = PACKETS.iter().position(|(name, _)| name.as_bytes().eq_ignore_ascii_case(text))?;
    u8::try_from(position + 1).ok()
}

/// The field of that name, if packets of that type have it.
fn field_named(kind: u8, text: &[u8]) -> Option<Field> {
    if let Some((_, field, kinds)) = NAMED.iter().find(|(name, ..)| name.as_bytes().eq_ignore_ascii_case(text)) {
        return kinds.contains(&kind).then_some(*field);
    }
    let number: u8 = std::str::from_utf8(text).ok().filter(|text| !text.starts_with(['0', '+']))?.parse().ok()?;
    let is_in = |properties: Properties| properties.iter().any(|(known, _)| *known == number);
    let is_known = match kind {
        CONNECT => is_in(IN_CONNECT) || is_in(IN_WILL),
        CONNACK => is_in(IN_CONNACK),
        _ => IN_OTHERS.iter().any(|(other, properties)| *other == kind && properties.contains(&number)),
    };
    is_known.then_some(Field::Property(number))
}

/// A field as an argument: properties by their numbers, the others below zero.
fn number_of(field: Field) -> i64 {
    match field {
        Field::Property(number) => i64::from(number),
        named => NAMED.iter().zip(1i64..).find(|((_, field, _), _)| *field == named).map_or(0, |(_, place)| -place),
    }
}

fn field_of(number: i64) -> Option<Field> {
    match u8::try_from(number) {
        Ok(property) => Some(Field::Property(property)),
        Err(_) => NAMED.iter().zip(1i64..).find(|(_, place)| -place == number).map(|((_, field, _), _)| *field),
    }
}

/// The value of a field: where its text is, or a number.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FieldValue {
    Text(Range<usize>),
    Number(u32),
}

/// A packet, read.
#[derive(Debug, Default)]
struct Packet {
    kind: u8,
    version: u8,
    flags: u8,
    reason: u8,
    keepalive: u32,
    protocol: Range<usize>,
    client: Range<usize>,
    will_topic: Range<usize>,
    will_payload: Range<usize>,
    username: Range<usize>,
    password: Range<usize>,
    properties: Vec<(u8, FieldValue)>,
}

impl Packet {
    fn read(message: &[u8]) -> Judgement<Packet> {
        let [first, _, ..] = message else { return Judgement::Open };
        let (kind, flags) = (first >> 4, first & 0x0f);
        let known = usize::from(kind).checked_sub(1).and_then(|place| PACKETS.get(place));
        if known.is_none_or(|(_, wanted)| *wanted != flags) {
            return Judgement::Settled(None);
        }
        let mut reader = Reader { message, position: 1, end: message.len() };
        let Some(length) = reader.length() else { return Judgement::Settled(None) };
        let start = reader.position;
        if message.len() - start < length {
            return Judgement::Open;
        }
        let mut packet = Packet { kind, ..Packet::default() };
        let read = match kind {
            CONNECT => packet.read_connect(&mut reader),
            CONNACK => match packet.read_connack(&mut reader) {
                // NOTE: as in HAProxy, a property that nobody knows is no judgement.
                Some(false) => return Judgement::Open,
                read => read.map(|_| ()),
            },
            _ => None,
        };
        // What was announced must have been used to the byte.
        Judgement::Settled(read.filter(|()| reader.position - start == length).map(|()| packet))
    }

    fn read_connect(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        self.protocol = reader.text()?;
        let protocol = reader.message.get(self.protocol.clone())?;
        if !protocol.eq_ignore_ascii_case(b"MQTT") && !protocol.eq_ignore_ascii_case(b"MQIsdp") {
            return None;
        }
        self.version = reader.byte()?;
        self.flags = reader.byte()?;
        let is_known = (3..=5).contains(&self.version) && self.flags & RESERVED == 0;
        if !is_known || self.flags & (WILL | WILL_QOS | WILL_RETAIN) == WILL_QOS {
            return None;
        }
        self.keepalive = reader.integer(2)?;
        if self.version == 5 {
            self.read_properties(reader, IN_CONNECT).filter(|is_known| *is_known)?;
        }
        let has_text = |packet: &Packet, number| matches!(packet.property(number), Some(FieldValue::Text(text)) if !text.is_empty());
        if has_text(self, AUTHENTICATION_DATA) && !has_text(self, AUTHENTICATION_METHOD) {
            return None;
        }
        self.client = reader.text()?;
        if self.flags & WILL != 0 {
            if self.version == 5 {
                self.read_properties(reader, IN_WILL).filter(|is_known| *is_known)?;
            }
            self.will_topic = reader.text()?;
            self.will_payload = reader.text()?;
        }
        if self.flags & USERNAME != 0 {
            self.username = reader.text()?;
        }
        if self.flags & PASSWORD != 0 {
            self.password = reader.text()?;
        }
        Some(())
    }

    /// False if there is a property that nobody knows.
    fn read_connack(&mut self, reader: &mut Reader<'_>) -> Option<bool> {
        // Only version 5.0 has more than two bytes.
        self.version = match reader.end - reader.position {
            0 | 1 => return None,
            2 => 4,
            _ => 5,
        };
        self.flags = reader.byte()?;
        if self.flags & 0xfe != 0 {
            return None;
        }
        self.reason = reader.byte()?;
        if self.version == 5 { self.read_properties(reader, IN_CONNACK) } else { Some(true) }
    }

    /// Reads a list of properties; false if there is one that nobody knows.
    fn read_properties(&mut self, reader: &mut Reader<'_>, known: Properties) -> Option<bool> {
        let length = reader.length()?;
        let end = reader.position.checked_add(length).filter(|end| *end <= reader.end)?;
        let mut list = Reader { message: reader.message, position: reader.position, end };
        reader.position = end;
        let first = self.properties.len();
        while list.position < list.end {
            let number = list.byte()?;
            let Some((_, form)) = known.iter().find(|(other, _)| *other == number) else { return Some(false) };
            let is_repeated = self.properties.iter().skip(first).any(|(other, _)| *other == number);
            if is_repeated && *form != Form::Pair {
                return None;
            }
            let found = match form {
                Form::Switch => FieldValue::Number(list.integer(1).filter(|value| *value <= 1)?),
                Form::Two => FieldValue::Number(list.integer(2)?),
                Form::TwoPositive => FieldValue::Number(list.integer(2).filter(|value| *value > 0)?),
                Form::Four => FieldValue::Number(list.integer(4)?),
                Form::FourPositive => FieldValue::Number(list.integer(4).filter(|value| *value > 0)?),
                Form::Text => FieldValue::Text(list.text()?),
                Form::SomeText => FieldValue::Text(list.text().filter(|text| !text.is_empty())?),
                Form::Pair => {
                    list.text()?;
                    list.text()?;
                    continue;
                }
            };
            self.properties.push((number, found));
        }
        Some(true)
    }

    fn property(&self, number: u8) -> Option<&FieldValue> {
        self.properties.iter().find(|(other, _)| *other == number).map(|(_, found)| found)
    }

    /// The value of a field; a text that is empty is none.
    fn field(&self, field: Field) -> Option<FieldValue> {
        let text = |range: &Range<usize>| (!range.is_empty()).then(|| FieldValue::Text(range.clone()));
        let number = |value: u8| Some(FieldValue::Number(u32::from(value)));
        match field {
            Field::Flags => number(self.flags),
            Field::ReasonCode => number(self.reason),
            Field::ProtocolName => text(&self.protocol),
            Field::ProtocolVersion => number(self.version),
            Field::ClientIdentifier => text(&self.client),
            Field::WillTopic => text(&self.will_topic),
            Field::WillPayload => text(&self.will_payload),
            Field::Username => text(&self.username),
            Field::Password => text(&self.password),
            Field::Keepalive => Some(FieldValue::Number(self.keepalive)),
            Field::Property(number) => {
                let known = |list: Properties| list.iter().find(|(other, _)| *other == number).map(|(_, form)| *form);
                let own = if self.kind == CONNECT { IN_CONNECT } else { IN_CONNACK };
                let of_will = || known(IN_WILL).filter(|_| self.kind == CONNECT && self.flags & WILL != 0);
                let form = known(own).or_else(of_will).filter(|_| self.version == 5)?;
                match (self.property(number), form) {
                    (Some(FieldValue::Text(range)), _) => text(range),
                    (Some(found), _) => Some(found.clone()),
                    // A number that is not there is zero.
                    (None, Form::Text | Form::SomeText | Form::Pair) => None,
                    (None, _) => Some(FieldValue::Number(0)),
                }
            }
        }
    }
}

/// Reads a message up to `end`.
struct Reader<'a> {
    message: &'a [u8],
    position: usize,
    end: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.message.get(..self.end)?.get(self.position).copied()?;
        self.position += 1;
        Some(byte)
    }

    /// An integer of so many bytes, highest first.
    fn integer(&mut self, bytes: usize) -> Option<u32> {
        (0..bytes).try_fold(0u32, |value, _| Some(value << 8 | u32::from(self.byte()?)))
    }

    /// A text behind its length.
    fn text(&mut self) -> Option<Range<usize>> {
        let length = usize::try_from(self.integer(2)?).ok()?;
        let start = self.position;
        let end = start.checked_add(length).filter(|end| *end <= self.end)?;
        self.position = end;
        Some(start..end)
    }

    /// A length of variable size, seven bits a byte, lowest first. As far as it goes, if it is cut off.
    fn length(&mut self) -> Option<usize> {
        let mut length = 0;
        for place in 0..LENGTH_BYTES_MAX {
            let Some(byte) = self.byte() else { return Some(length) };
            length += usize::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Some(length);
            }
        }
        None
    }
}
