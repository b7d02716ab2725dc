//! A value of a statistic and what kind of value it is, in the terms of HAProxy's typed output.

use std::{borrow::Cow, fmt::Write as _};

/// Greatest integer that every JSON reader keeps exact (RFC 8259 section 6).
const JSON_INTEGER_MAX: u64 = (1 << 53) - 1;

/// A value, or nothing where the object has no such statistic.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Nothing to say.
    #[default]
    Empty,
    /// Signed, for ages that may be "never" (-1).
    S32(i32),
    /// Unsigned.
    U32(u32),
    /// Unsigned and long.
    U64(u64),
    /// A fraction, only on demand (`show info float`, Prometheus).
    Float(f64),
    /// Text.
    Text(Cow<'static, str>),
}

impl Value {
    /// Text made at run time.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Cow::Owned(text.into()))
    }

    /// A count that HAProxy keeps in 32 bits: stays at the greatest instead of starting again.
    #[must_use]
    pub fn u32_from(value: u64) -> Self {
        Self::U32(u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// The number, if it is a whole one.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::U32(value) => Some(u64::from(*value)),
            Self::U64(value) => Some(*value),
            Self::S32(value) => u64::try_from(*value).ok(),
            Self::Empty | Self::Float(_) | Self::Text(_) => None,
        }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Three letters for the type, as in the typed output.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Empty => "",
            Self::S32(_) => "s32",
            Self::U32(_) => "u32",
            Self::U64(_) => "u64",
            Self::Float(_) => "flt",
            Self::Text(_) => "str",
        }
    }

    /// Writes it as it is.
    pub fn write_plain(&self, out: &mut String) {
        // Writing to a `String` cannot fail.
        let _ = match self {
            Self::Empty => Ok(()),
            Self::S32(value) => write!(out, "{value}"),
            Self::U32(value) => write!(out, "{value}"),
            Self::U64(value) => write!(out, "{value}"),
            Self::Float(value) => {
                write_float(out, *value);
                Ok(())
            }
            Self::Text(text) => {
                out.push_str(text);
                Ok(())
            }
        };
    }

    /// Writes it as a field of CSV: text with a comma, quote or line break is quoted (RFC 4180 section 2).
    pub fn write_csv(&self, out: &mut String) {
        match self {
            Self::Text(text) if text.contains(['"', ',', '\r', '\n']) => {
                out.push('"');
                for character in text.chars() {
                    if character == '"' {
                        out.push('"');
                    }
                    out.push(character);
                }
                out.push('"');
            }
            other => other.write_plain(out),
        }
    }

    /// Writes it as JSON. Integers that not every reader keeps exact stay at the greatest that is.
    pub fn write_json(&self, out: &mut String) {
        match self {
            Self::Empty => out.push_str("null"),
            Self::U64(value) => {
                let _ = write!(out, "{}", (*value).min(JSON_INTEGER_MAX));
            }
            Self::Text(text) => write_json_string(out, text),
            other => other.write_plain(out),
        }
    }
}

/// Writes a fraction with up to six places and no zeros at the end.
fn write_float(out: &mut String, value: f64) {
    let text = format!("{value:.6}");
    out.push_str(text.trim_end_matches('0').trim_end_matches('.'));
}

/// Writes a JSON string with its quotes.
pub fn write_json_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if (control as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Measured.
    Metric,
    /// A state.
    Status,
    /// Identifies the object.
    Key,
    /// Said by the configuration.
    Config,
    /// Belongs to the program.
    Product,
}

/// How a value behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Goes up and down.
    Gauge,
    /// A bound that is set.
    Limit,
    /// The greatest so far.
    Max,
    /// In the last second.
    Rate,
    /// Only grows.
    Counter,
    /// A length of time.
    Duration,
    /// Time since something happened.
    Age,
    /// A name.
    Name,
    /// Free text for people.
    Output,
    /// A mean.
    Average,
}

/// To what a value extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// To one process.
    Process,
    /// To every process that runs the same configuration.
    Service,
}

impl Origin {
    fn letter(self) -> char {
        match self {
            Self::Metric => 'M',
            Self::Status => 'S',
            Self::Key => 'K',
            Self::Config => 'C',
            Self::Product => 'P',
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Metric => "Metric",
            Self::Status => "Status",
            Self::Key => "Key",
            Self::Config => "Config",
            Self::Product => "Product",
        }
    }
}

impl Nature {
    fn letter(self) -> char {
        match self {
            Self::Gauge => 'G',
            Self::Limit => 'L',
            Self::Max => 'M',
            Self::Rate => 'R',
            Self::Counter => 'C',
            Self::Duration => 'D',
            Self::Age => 'A',
            Self::Name => 'N',
            Self::Output => 'O',
            Self::Average => 'a',
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gauge => "Gauge",
            Self::Limit => "Limit",
            Self::Max => "Max",
            Self::Rate => "Rate",
            Self::Counter => "Counter",
            Self::Duration => "Duration",
            Self::Age => "Age",
            Self::Name => "Name",
            Self::Output => "Output",
            Self::Average => "Avg",
        }
    }
}

/// Origin, nature and scope together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags {
    /// Where it comes from.
    pub origin: Origin,
    /// How it behaves.
    pub nature: Nature,
    /// To what it extends.
    pub scope: Scope,
}

impl Tags {
    /// Tags of a value of the process.
    #[must_use]
    pub const fn process(origin: Origin, nature: Nature) -> Self {
        Self { origin, nature, scope: Scope::Process }
    }

    /// Tags of a value of the service.
    #[must_use]
    pub const fn service(origin: Origin, nature: Nature) -> Self {
        Self { origin, nature, scope: Scope::Service }
    }

    /// Three letters, as in the typed output.
    pub fn write_letters(self, out: &mut String) {
        out.push(self.origin.letter());
        out.push(self.nature.letter());
        out.push(match self.scope {
            Scope::Process => 'P',
            Scope::Service => 'S',
        });
    }

    /// A JSON object.
    pub fn write_json(self, out: &mut String) {
        let scope = match self.scope {
            Scope::Process => "Process",
            Scope::Service => "Service",
        };
        let (origin, nature) = (self.origin.name(), self.nature.name());
        let _ = write!(out, r#"{{"origin":"{origin}","nature":"{nature}","scope":"{scope}"}}"#);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(value: &Value) -> String {
        let mut out = String::new();
        value.write_csv(&mut out);
        out
    }

    fn json(value: &Value) -> String {
        let mut out = String::new();
        value.write_json(&mut out);
        out
    }

    #[test]
    fn csv_quotes_only_what_would_break_the_line() {
        for (value, expected) in [
            (Value::Empty, ""),
            (Value::S32(-1), "-1"),
            (Value::U64(u64::MAX), "18446744073709551615"),
            (Value::text("Connection refused"), "Connection refused"),
            (Value::text("a,b"), "\"a,b\""),
            (Value::text("say \"hi\""), "\"say \"\"hi\"\"\""),
            (Value::Float(2.0), "2"),
            (Value::Float(198.529_817), "198.529817"),
            (Value::Float(1.5), "1.5"),
            (Value::Float(100.0), "100"),
        ] {
            assert_eq!(csv(&value), expected);
        }
    }

    #[test]
    fn json_is_escaped_and_bounded() {
        for (value, expected) in [
            (Value::U64(u64::MAX), "9007199254740991"),
            (Value::text("a\"b\\c\n\u{1}é"), "\"a\\\"b\\\\c\\n\\u0001é\""),
            (Value::U32(7), "7"),
        ] {
            assert_eq!(json(&value), expected);
        }
    }
}
