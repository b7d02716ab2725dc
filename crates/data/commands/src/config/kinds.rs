//! Kinds of settings: how their text is read and written.

use resp::parse_integer;

use keyspace::{Bytes, changes::EventClass};

use super::InvalidValue;

/// A kind of setting.
pub trait Kind: Sized {
    /// Reads it from the words behind its name.
    ///
    /// # Errors
    ///
    /// What would be right, in Redis' words.
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue>;
    /// Reads it, where words may say but a part of it.
    ///
    /// # Errors
    ///
    /// As of [`parse`](Self::parse).
    fn update(&mut self, words: &[&[u8]]) -> Result<(), InvalidValue> {
        *self = Self::parse(words)?;
        Ok(())
    }
    /// Writes it.
    fn text(&self) -> String;
    /// The same where it may be no text.
    fn to_bytes(&self) -> Vec<u8> {
        self.text().into_bytes()
    }
}

fn one<'a>(words: &[&'a [u8]]) -> Result<&'a [u8], InvalidValue> {
    match words {
        [word] => Ok(word),
        _ => Err(InvalidValue::WordCount),
    }
}

/// An integer within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integer<const LEAST: i64, const MOST: i64>(pub i64);

impl<const LEAST: i64, const MOST: i64> Kind for Integer<LEAST, MOST> {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        let value = parse_integer(one(words)?).ok_or(InvalidValue::NotInteger)?;
        within(value, LEAST, MOST).map(Self)
    }
    fn text(&self) -> String {
        self.0.to_string()
    }
}

fn within<T: PartialOrd + Copy + Into<i128>>(value: T, least: T, most: T) -> Result<T, InvalidValue> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(InvalidValue::OutOfBounds { least: least.into(), most: most.into() })
    }
}

/// A number of bytes within bounds, with units: `1k` is 1000, `1kb` is 1024, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory<const LEAST: u64 = 0, const MOST: u64 = { i64::MAX as u64 }>(pub u64);

impl<const LEAST: u64, const MOST: u64> Kind for Memory<LEAST, MOST> {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        let invalid = || InvalidValue::NotMemory;
        let word = one(words)?;
        let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, unit) = word.split_at(digits);
        let number = std::str::from_utf8(number).ok().and_then(|text| text.parse::<u64>().ok()).ok_or_else(invalid)?;
        let factor = match unit.to_ascii_lowercase().as_slice() {
            b"" | b"b" => 1,
            b"k" => 1000,
            b"kb" => 1024,
            b"m" => 1_000_000,
            b"mb" => 1024 * 1024,
            b"g" => 1_000_000_000,
            b"gb" => 1024 * 1024 * 1024,
            _ => return Err(invalid()),
        };
        let bytes = number.checked_mul(factor).ok_or_else(invalid)?;
        within(bytes, LEAST, MOST).map(Self)
    }
    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// `hz`: of what is beyond its bounds, the nearest bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hertz(pub i64);

impl Kind for Hertz {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        Integer::<0, { i32::MAX as i64 }>::parse(words).map(|integer| Self(integer.0.clamp(1, 500)))
    }
    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// `yes` or `no`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag(pub bool);

impl Kind for Flag {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        match one(words)?.to_ascii_lowercase().as_slice() {
            b"yes" => Ok(Self(true)),
            b"no" => Ok(Self(false)),
            _ => Err(InvalidValue::NotFlag),
        }
    }
    fn text(&self) -> String {
        if self.0 { "yes" } else { "no" }.into()
    }
}

/// Words as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(pub String);

impl Kind for Text {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        let text = String::from_utf8(words.join(&b' '));
        // Another name or path than the one that was said would be worse than none.
        text.map(Self).map_err(|_| InvalidValue::NotUtf8)
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

/// A password: any bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Password(pub Bytes);

impl Kind for Password {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        Ok(Self(Bytes::from_slice(&words.join(&b' '))))
    }
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
    fn to_bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }
}

/// One of several words.
pub trait Choice: Copy + PartialEq + 'static {
    /// The words with what they mean.
    const WORDS: &'static [(&'static str, Self)];
}

impl<T: Choice> Kind for T {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        let word = one(words)?;
        let found = Self::WORDS.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word));
        let names = || Self::WORDS.iter().map(|(name, _)| *name).collect();
        found.map(|(_, value)| *value).ok_or_else(|| InvalidValue::NotOneOf(names()))
    }
    fn text(&self) -> String {
        Self::WORDS.iter().find(|(_, value)| value == self).map_or("", |(name, _)| name).into()
    }
}

/// `notify-keyspace-events`: letters of the classes of events that are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Events(pub EventClass);

/// What `A` stands for.
const ALL_EVENTS: EventClass = EventClass::GENERIC
    .union(EventClass::STRING)
    .union(EventClass::LIST)
    .union(EventClass::SET)
    .union(EventClass::HASH)
    .union(EventClass::SORTED_SET)
    .union(EventClass::EXPIRED)
    .union(EventClass::EVICTED)
    .union(EventClass::STREAM);

/// The classes' letters, in the order in which they are written.
const EVENT_LETTERS: &[(char, EventClass)] = &[
    ('g', EventClass::GENERIC),
    ('$', EventClass::STRING),
    ('l', EventClass::LIST),
    ('s', EventClass::SET),
    ('h', EventClass::HASH),
    ('z', EventClass::SORTED_SET),
    ('x', EventClass::EXPIRED),
    ('e', EventClass::EVICTED),
    ('t', EventClass::STREAM),
    ('n', EventClass::NEW),
    ('q', EventClass::QUEUE),
    ('K', EventClass::KEYSPACE),
    ('E', EventClass::KEYEVENT),
    ('m', EventClass::KEY_MISS),
];

impl Kind for Events {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        let mut classes = EventClass::empty();
        for letter in one(words)? {
            let letter = char::from(*letter);
            match EVENT_LETTERS.iter().find(|(known, _)| *known == letter) {
                Some((_, class)) => classes |= *class,
                None if letter == 'A' => classes |= ALL_EVENTS,
                // Modules' events are taken: there are none.
                None if letter == 'd' => {}
                None => return Err(InvalidValue::EventClass),
            }
        }
        Ok(Self(classes))
    }

    fn text(&self) -> String {
        let all = self.0.contains(ALL_EVENTS);
        let written = EVENT_LETTERS
            .iter()
            .filter(|(_, class)| self.0.contains(*class) && !(all && ALL_EVENTS.contains(*class)))
            .map(|(letter, _)| *letter);
        all.then_some('A').into_iter().chain(written).collect()
    }
}
