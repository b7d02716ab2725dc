//! What a ban tests: `req.url ~ ^/news && obj.http.x-tag == sport` (varnish-cli(7), vcl(7)).

use std::{fmt, hash::Hasher as _};

use http::Headers;
use pcre::Regex;
use rustc_hash::FxHasher;

use super::Subject;
use crate::Time;

/// Most tests of one ban.
const TESTS_MAX: usize = 256;

/// Why a text is no ban; in Varnish's words, as clients of its management protocol look at them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is nothing.
    #[error("No ban conditions found.")]
    Empty,
    /// A field without an operator.
    #[error("Expected comparison operator.")]
    NoOperator,
    /// An operator with nothing behind it.
    #[error("Expected second operand.")]
    NoOperand,
    /// Something else than `&&` between two tests.
    #[error("Expected && between conditions, found \"{0}\"")]
    NoAnd(String),
    /// A field that cannot be tested.
    #[error("Unknown or unsupported field \"{0}\"")]
    UnknownField(String),
    /// An operator that the field does not have.
    #[error("expected conditional ({expected}) got \"{found}\"")]
    WrongOperator {
        /// Those that it has.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// No regular expression.
    #[error("Regex compile error: {0}")]
    Regex(String),
    /// No duration.
    #[error("expected duration <n.nn>[ms|s|m|h|d|w|y] got \"{0}\"")]
    Duration(String),
    /// A quote that does not end.
    #[error("Missing '\"'")]
    Quote,
    /// More tests than a ban may have.
    #[error("a ban has at most {TESTS_MAX} conditions; make several bans")]
    TooMany,
}

/// The tests of a ban: it is about what passes all of them.
#[derive(Debug, Default)]
pub struct Expression {
    tests: Vec<Test>,
}

#[derive(Debug)]
struct Test {
    field: Field,
    operator: Operator,
    /// As it was written.
    operand: Box<str>,
    compiled: Operand,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Url,
    RequestHeader(Box<str>),
    Status,
    ObjectHeader(Box<str>),
    Ttl,
    Age,
    Grace,
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Matches,
    MatchesNot,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

#[derive(Debug)]
enum Operand {
    Text,
    Pattern(Box<Regex>),
    Seconds(f64),
}

const TEXT_OPERATORS: &str = "==, !=, ~ or !~";
const DURATION_OPERATORS: &str = "==, !=, >, >=, < or <=";

impl Expression {
    /// Reads what VCL's `ban()` and `std.ban()` are given.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let words = split(text)?;
        Self::of_words(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Reads the arguments of the command `ban`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn of_words(words: &[&str]) -> Result<Self, Refused> {
        let mut tests = Vec::new();
        let mut words = words.iter().copied();
        loop {
            let field = words.next().ok_or(Refused::Empty)?;
            let operator = words.next().ok_or(Refused::NoOperator)?;
            let operand = words.next().ok_or(Refused::NoOperand)?;
            tests.push(Test::new(field, operator, operand)?);
            match words.next() {
                None => return Ok(Self { tests }),
                Some("&&") if tests.len() < TESTS_MAX => {}
                Some("&&") => return Err(Refused::TooMany),
                Some(other) => return Err(Refused::NoAnd(other.to_owned())),
            }
        }
    }

    /// Whether it tests nothing: the first entry of a list.
    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// The words that it was made of, for [`Expression::of_words`].
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::with_capacity(self.tests.len() * 4);
        for test in &self.tests {
            if !words.is_empty() {
                words.push("&&".to_owned());
            }
            words.extend([test.field.to_string(), test.operator.name().to_owned(), test.operand.to_string()]);
        }
        words
    }

    /// Whether it says something of requests: the lurker cannot test that.
    #[must_use]
    pub fn is_about_requests(&self) -> bool {
        self.tests.iter().any(|test| matches!(test.field, Field::Url | Field::RequestHeader(_)))
    }

    /// Whether it says something of objects.
    #[must_use]
    pub fn is_about_objects(&self) -> bool {
        self.tests.iter().any(|test| !matches!(test.field, Field::Url | Field::RequestHeader(_)))
    }

    /// A number that two expressions that say the same share, and others hardly ever.
    pub(super) fn saying(&self) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write(self.to_string().as_bytes());
        hasher.finish()
    }

    /// Whether another one that is newer makes this one superfluous. One about ages means other objects with each second.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let moves =
            |expression: &Self| expression.tests.iter().any(|test| matches!(test.field, Field::Ttl | Field::Age));
        !moves(self) && !moves(other) && self.to_string() == other.to_string()
    }

    /// Whether all tests pass; `tests` counts them. `time` is when the ban was made.
    #[must_use]
    pub fn matches(&self, subject: &Subject<'_>, time: Time, tests: &mut u64) -> bool {
        self.tests.iter().all(|test| {
            *tests += 1;
            test.passes(subject, time)
        })
    }
}

impl Test {
    fn new(field: &str, operator: &str, operand: &str) -> Result<Self, Refused> {
        let known = Field::parse(field).ok_or_else(|| Refused::UnknownField(field.to_owned()))?;
        let allowed = if known.is_duration() { DURATION_OPERATORS } else { TEXT_OPERATORS };
        let parsed = Operator::parse(operator).filter(|parsed| parsed.is_for_durations(known.is_duration()));
        let parsed = parsed.ok_or_else(|| Refused::WrongOperator { expected: allowed, found: operator.to_owned() })?;
        let compiled = if known.is_duration() {
            Operand::Seconds(seconds(operand).ok_or_else(|| Refused::Duration(operand.to_owned()))?)
        } else if matches!(parsed, Operator::Matches | Operator::MatchesNot) {
            Operand::Pattern(Box::new(Regex::new(operand.as_bytes(), false).map_err(Refused::Regex)?))
        } else {
            Operand::Text
        };
        Ok(Self { field: known, operator: parsed, operand: operand.into(), compiled })
    }

    fn passes(&self, subject: &Subject<'_>, time: Time) -> bool {
        if let Operand::Seconds(seconds) = self.compiled {
            let lifetime = subject.object.lifetime();
            // NOTE: ages and times to live are those of the moment when the ban was made.
            let (found, wanted) = match self.field {
                Field::Ttl => (lifetime.fresh_until(), seconds + time),
                Field::Age => (-lifetime.origin, seconds - time),
                Field::Grace => (lifetime.grace, seconds),
                _ => (lifetime.keep, seconds),
            };
            return self.operator.compares(found, wanted);
        }
        let mut digits = [0; 3];
        let found = self.text_of(subject, &mut digits);
        match (&self.compiled, self.operator, found) {
            (Operand::Pattern(pattern), Operator::Matches, Some(found)) => pattern.is_match(found),
            (Operand::Pattern(pattern), _, Some(found)) => !pattern.is_match(found),
            (Operand::Pattern(_), _, None) => false,
            (_, Operator::Equal, found) => found.is_some_and(|found| found == self.operand.as_bytes()),
            (_, _, found) => found.is_none_or(|found| found != self.operand.as_bytes()),
        }
    }

    fn text_of<'t>(&'t self, subject: &'t Subject<'_>, digits: &'t mut [u8; 3]) -> Option<&'t [u8]> {
        let field = |headers: &'t Headers, name: &'t str| headers.first(name.as_bytes());
        match &self.field {
            Field::Url => subject.request.map(|(url, _)| url),
            Field::RequestHeader(name) => subject.request.and_then(|(_, headers)| field(headers, name)),
            Field::ObjectHeader(name) => subject.object.head().first(name.as_bytes()),
            _ => {
                let status = subject.object.head().status();
                for (digit, value) in digits.iter_mut().zip([status / 100, status / 10, status]) {
                    *digit = b'0' + u8::try_from(value % 10).unwrap_or(0);
                }
                Some(digits)
            }
        }
    }
}

impl Field {
    /// NOTE: what stands behind a name without a dot is ignored, as Varnish does it.
    fn parse(text: &str) -> Option<Self> {
        let named = |name: &str| name.to_owned().into_boxed_str();
        let fixed = [
            ("obj.status", Self::Status),
            ("obj.ttl", Self::Ttl),
            ("obj.age", Self::Age),
            ("obj.grace", Self::Grace),
            ("obj.keep", Self::Keep),
            ("req.url", Self::Url),
        ];
        if let Some(name) = text.strip_prefix("req.http.") {
            return Some(Self::RequestHeader(named(name)));
        }
        if let Some(name) = text.strip_prefix("obj.http.") {
            return Some(Self::ObjectHeader(named(name)));
        }
        fixed.into_iter().find(|(name, _)| text == *name).map(|(_, field)| field)
    }

    fn is_duration(&self) -> bool {
        matches!(self, Self::Ttl | Self::Age | Self::Grace | Self::Keep)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url => formatter.write_str("req.url"),
            Self::RequestHeader(name) => write!(formatter, "req.http.{name}"),
            Self::Status => formatter.write_str("obj.status"),
            Self::ObjectHeader(name) => write!(formatter, "obj.http.{name}"),
            Self::Ttl => formatter.write_str("obj.ttl"),
            Self::Age => formatter.write_str("obj.age"),
            Self::Grace => formatter.write_str("obj.grace"),
            Self::Keep => formatter.write_str("obj.keep"),
        }
    }
}

impl Operator {
    const ALL: [(&'static str, Self); 8] = [
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("~", Self::Matches),
        ("!~", Self::MatchesNot),
        (">", Self::Greater),
        (">=", Self::GreaterOrEqual),
        ("<", Self::Less),
        ("<=", Self::LessOrEqual),
    ];

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, operator)| *operator)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, operator)| *operator == self).map_or("", |(name, _)| name)
    }

    fn is_for_durations(self, durations: bool) -> bool {
        match self {
            Self::Equal | Self::NotEqual => true,
            Self::Matches | Self::MatchesNot => !durations,
            _ => durations,
        }
    }

    #[expect(clippy::float_cmp, reason = "what VCL has set is compared with what the ban says")]
    fn compares(self, found: f64, wanted: f64) -> bool {
        match self {
            Self::Equal => found == wanted,
            Self::NotEqual => found != wanted,
            Self::Greater => found > wanted,
            Self::GreaterOrEqual => found >= wanted,
            Self::Less => found < wanted,
            Self::LessOrEqual => found <= wanted,
            Self::Matches | Self::MatchesNot => false,
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, test) in self.tests.iter().enumerate() {
            let and = if place > 0 { " && " } else { "" };
            write!(formatter, "{and}{} {} ", test.field, test.operator.name())?;
            match test.compiled {
                Operand::Seconds(seconds) => write_duration(formatter, seconds)?,
                _ => formatter.write_str(&test.operand)?,
            }
        }
        Ok(())
    }
}

/// As `ban.list` has durations: the largest unit that leaves no rest.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float is cut to what fits")]
fn write_duration(formatter: &mut fmt::Formatter<'_>, seconds: f64) -> fmt::Result {
    const UNITS: [(u64, &str); 5] = [(365 * 86400, "y"), (7 * 86400, "w"), (86400, "d"), (3600, "h"), (60, "m")];
    let (whole, milliseconds) = (seconds as u64, (seconds * 1000.0) as u64 % 1000);
    match (whole, milliseconds) {
        (0, 0) => formatter.write_str("0s"),
        (0, _) => write!(formatter, "{milliseconds}ms"),
        (_, 1..) => write!(formatter, "{whole}.{milliseconds:03}s"),
        _ => match UNITS.iter().find(|(unit, _)| whole >= *unit && whole.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(formatter, "{}{name}", whole / unit),
            None => write!(formatter, "{whole}s"),
        },
    }
}

/// A duration with its unit.
fn seconds(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 7] =
        [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0), ("w", 604_800.0), ("y", 31_536_000.0)];
    let digits = text.find(|character: char| !character.is_ascii_digit() && character != '.' && character != '-')?;
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = UNITS.iter().find(|(name, _)| *name == unit.trim())?.1;
    let number: f64 = number.parse().ok()?;
    Some(number * factor)
}

/// Words by blanks; what stands between double quotes is one word, without escapes.
fn split(text: &str) -> Result<Vec<String>, Refused> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or(Refused::Quote)?,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Ok(words)
}
