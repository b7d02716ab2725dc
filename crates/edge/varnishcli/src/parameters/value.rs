//! Values: text to value, value to text, bounds.

use crate::{json, line};

/// A name that is in a set or is not.
pub type Bit = &'static str;

/// The number that means no limit.
const UNLIMITED: u64 = u32::MAX as u64;
/// Digits that numbers may have before and behind the point.
const WHOLE_DIGITS_MAX: usize = 12;
const FRACTION_DIGITS_MAX: usize = 3;

/// What values a parameter may have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Seconds, shown with three digits of a fraction.
    Timeout,
    /// Another number.
    Double,
    Boolean,
    Unsigned,
    Bytes,
    Text,
    /// Three numbers: the least and the greatest size of a pool, and seconds.
    Pool,
    /// Names. Which of them are in the set is shown with `sign` before them.
    Bits {
        names: fn() -> Vec<Bit>,
        what: &'static str,
        sign: char,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Number(f64),
    Boolean(bool),
    Unsigned(u64),
    Bytes(u64),
    Text(String),
    Pool(u64, u64, f64),
    /// In the order of the table.
    Bits(Vec<Bit>),
}

impl Value {
    /// The value that a text means; `former` is what names are added to or taken from.
    pub(crate) fn parse(kind: &Kind, text: &str, former: Option<&Self>) -> Result<Self, String> {
        match kind {
            Kind::Timeout | Kind::Double => {
                decimal(text).map(Self::Number).ok_or_else(|| format!("Invalid number ({text})\n"))
            }
            Kind::Boolean => match text.to_ascii_lowercase().as_str() {
                "on" | "enable" | "yes" | "true" => Ok(Self::Boolean(true)),
                "off" | "disable" | "no" | "false" => Ok(Self::Boolean(false)),
                _ => Err("use \"on\" or \"off\"\n".to_owned()),
            },
            Kind::Unsigned => unsigned(text).map(Self::Unsigned),
            Kind::Bytes => bytes(text)
                .map(Self::Bytes)
                .map_err(|what| format!("Could not convert to bytes.\n{what}\n  Try something like '80k' or '120M'\n")),
            Kind::Text => Ok(Self::Text(text.to_owned())),
            Kind::Pool => pool(text),
            Kind::Bits { names, what, sign } => bits(text, former, &names(), (*sign, what)),
        }
    }

    /// Whether it is within bounds, which are texts of the same kind.
    pub(crate) fn check(&self, kind: &Kind, least: Option<&str>, most: Option<&str>) -> Result<(), String> {
        let bound = |text: Option<&str>| text.and_then(|text| Self::parse(kind, text, None).ok());
        let (low, high) = (bound(least), bound(most));
        let (least, most) = (least.unwrap_or_default(), most.unwrap_or_default());
        match self {
            Self::Number(value) => {
                if matches!(low, Some(Self::Number(low)) if *value < low) {
                    return Err(format!("Must be greater or equal to {least}\n"));
                }
                if matches!(high, Some(Self::Number(high)) if *value > high) {
                    return Err(format!("Must be less than or equal to {most}\n"));
                }
            }
            Self::Unsigned(value) | Self::Bytes(value) => {
                if matches!(low, Some(Self::Unsigned(low) | Self::Bytes(low)) if *value < low) {
                    return Err(format!("Must be at least {least}\n"));
                }
                if matches!(high, Some(Self::Unsigned(high) | Self::Bytes(high)) if *value > high) {
                    return Err(format!("Must be no more than {most}\n"));
                }
            }
            Self::Boolean(_) | Self::Text(_) | Self::Pool(..) | Self::Bits(_) => {}
        }
        Ok(())
    }

    /// As it is shown.
    pub(crate) fn text(&self, kind: &Kind) -> String {
        match (self, kind) {
            (Self::Number(number), Kind::Timeout) => format!("{number:.3}"),
            (Self::Number(number), _) => number.to_string(),
            (Self::Boolean(is_on), _) => if *is_on { "on" } else { "off" }.to_owned(),
            (Self::Unsigned(UNLIMITED), _) => "unlimited".to_owned(),
            (Self::Unsigned(number), _) => number.to_string(),
            (Self::Bytes(bytes), _) => bytes_text(*bytes),
            (Self::Text(text), _) => text.clone(),
            (Self::Pool(least, most, age), _) => format!("{least},{most},{age}"),
            (Self::Bits(bits), Kind::Bits { sign, .. }) if !bits.is_empty() => {
                bits.iter().map(|bit| format!("{sign}{bit}")).collect::<Vec<_>>().join(",")
            }
            (Self::Bits(_), Kind::Bits { sign: '-', .. }) => "(all enabled)".to_owned(),
            (Self::Bits(_), _) => "none".to_owned(),
        }
    }

    /// In JSON.
    pub(crate) fn json(&self, kind: &Kind) -> String {
        match self {
            Self::Boolean(is_on) => is_on.to_string(),
            Self::Unsigned(number) | Self::Bytes(number) => number.to_string(),
            Self::Number(_) => self.text(kind),
            Self::Text(text) => json::string(text),
            Self::Bits(_) => json::string(&self.text(kind)),
            Self::Pool(least, most, age) => json::object(&[
                ("min_pool", least.to_string()),
                ("max_pool", most.to_string()),
                ("max_age", age.to_string()),
            ]),
        }
    }
}

/// A number as `12.345`: at most 12 digits, a point, at most 3.
fn decimal(text: &str) -> Option<f64> {
    let text = text.trim_matches(' ');
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let are_digits =
        |text: &str, most: usize| (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    // `.5` is half.
    let has_whole = are_digits(whole, WHOLE_DIGITS_MAX) || whole.is_empty() && digits.starts_with('.');
    let is_number = has_whole && are_digits(fraction, FRACTION_DIGITS_MAX);
    is_number.then(|| text.parse().ok()).flatten()
}

fn unsigned(text: &str) -> Result<u64, String> {
    if text.eq_ignore_ascii_case("unlimited") {
        return Ok(UNLIMITED);
    }
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let is_plain = !text.starts_with('+');
    number.filter(|number| is_plain && *number <= UNLIMITED).ok_or_else(|| format!("Not a number ({text})\n"))
}

/// `80k`, `0.25G`, `267`.
fn bytes(text: &str) -> Result<u64, &'static str> {
    const UNKNOWN: &str = "Unknown BYTES unit of measurement ([KMGTP][B])";
    const FRACTION: &str = "Fractional BYTES not allowed";
    let text = text.trim();
    let split = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number = decimal(number).filter(|number| *number >= 0.0).ok_or("Invalid number")?;
    let unit = unit.trim_start().to_ascii_lowercase();
    let shift = match unit.strip_suffix('b').unwrap_or(&unit) {
        "" if number.fract() != 0.0 => return Err(FRACTION),
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return Err(UNKNOWN),
    };
    // Twelve digits and 50 bits are more than a u64 has: what is too large becomes the largest.
    Ok((number * (1_u64 << shift) as f64) as u64)
}

/// Bytes in the largest unit that shows them without loss, or with two digits of a quarter.
fn bytes_text(bytes: u64) -> String {
    if bytes == 0 || bytes & 0xff != 0 {
        return format!("{bytes}b");
    }
    let mut left = bytes;
    for unit in ["k", "M", "G", "T", "P", "E"] {
        if left & 0x300 != 0 {
            return format!("{:.2}{unit}", left as f64 / 1024.0);
        }
        left /= 1024;
        if left & 0xff != 0 {
            return format!("{left}{unit}");
        }
    }
    format!("{bytes}b")
}

fn pool(text: &str) -> Result<Value, String> {
    const AGE_MAX: f64 = 1_000_000.0;
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let [least, most, age] = fields.as_slice() else {
        return Err("Three fields required: min_pool, max_pool and max_age\n".to_owned());
    };
    let (least, most) = (unsigned(least)?, unsigned(most)?);
    let age = decimal(age).ok_or_else(|| format!("Invalid number ({age})\n"))?;
    if !(0.0..=AGE_MAX).contains(&age) {
        return Err(format!("max_age must be from 0 to {AGE_MAX}\n"));
    }
    if least > most {
        return Err("min_pool cannot be larger than max_pool\n".to_owned());
    }
    Ok(Value::Pool(least, most, age))
}

/// `+name,-name`: names that enter the set, or leave it.
fn bits(text: &str, former: Option<&Value>, names: &[Bit], (sign, what): (char, &str)) -> Result<Value, String> {
    if sign == '+' && text == "none" {
        return Ok(Value::Bits(Vec::new()));
    }
    let words = line::words(text.as_bytes(), Some(b',')).map_err(|error| format!("Cannot parse: {error}\n"))?;
    let mut chosen: Vec<Bit> = match former {
        Some(Value::Bits(bits)) => bits.clone(),
        _ => Vec::new(),
    };
    for word in words {
        let word = String::from_utf8_lossy(&word).into_owned();
        let Some((given, name)) = word.split_at_checked(1).filter(|(given, _)| matches!(*given, "+" | "-")) else {
            return Err(format!("Missing '+' or '-' ({word})\n"));
        };
        let Some(bit) = names.iter().find(|bit| bit.eq_ignore_ascii_case(name)) else {
            return Err(format!("Unknown {what} ({word})\n"));
        };
        chosen.retain(|other| other != bit);
        if given.starts_with(sign) {
            chosen.push(bit);
        }
    }
    // In the order of the table, so that equal sets are equal.
    Ok(Value::Bits(names.iter().filter(|bit| chosen.contains(bit)).copied().collect()))
}
