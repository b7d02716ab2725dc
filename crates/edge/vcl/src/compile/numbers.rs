//! Numbers with units.

use super::{Compiler, Outcome};
use crate::{
    diagnostic::Diagnostic,
    token::{Kind, Sign},
};

/// Units of time, in seconds.
const DURATIONS: &[(&str, f64)] =
    &[("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0), ("w", 604_800.0), ("y", 31_536_000.0)];

/// Units of bytes.
const BYTES: &[(&str, u8)] = &[("b", 0), ("kb", 10), ("mb", 20), ("gb", 30), ("tb", 40)];

/// Seconds of a unit of time.
#[must_use]
pub fn seconds_of(unit: &str) -> Option<f64> {
    DURATIONS.iter().find(|(name, _)| *name == unit).map(|(_, seconds)| *seconds)
}

impl Compiler<'_> {
    /// `1.5h`, where nothing but a duration can stand.
    pub(super) fn duration(&mut self) -> Outcome<f64> {
        let negative = self.take(Sign::Minus);
        let token = self.peek();
        let number = match token.kind {
            Kind::Integer | Kind::Real => self.next_text().parse().unwrap_or(0.0),
            _ => return Err(self.unexpected(Kind::Integer)),
        };
        let seconds = self.duration_unit(number)?;
        Ok(if negative { -seconds } else { seconds })
    }

    /// The unit behind a number.
    pub(super) fn duration_unit(&mut self, number: f64) -> Outcome<f64> {
        let token = self.expect_kind(Kind::Identifier)?;
        match seconds_of(self.text(token)) {
            Some(seconds) => Ok(number * seconds),
            None => Err(Diagnostic::at(format!("Unknown duration unit '{}'", self.text(token)), token.span)
                .say("Legal duration units are 'ms', 's', 'm', 'h', 'd', 'w' and 'y'")),
        }
    }

    /// `10KB`
    pub(super) fn bytes_unit(&mut self, number: f64) -> Outcome<i64> {
        let token = self.peek();
        if token.kind != Kind::Identifier {
            let found = self.text(token);
            return Err(Diagnostic::at(format!("Expected BYTES unit (B, KB, MB...) got '{found}'"), token.span));
        }
        let unit = self.next_text().to_ascii_lowercase();
        match BYTES.iter().find(|(name, _)| *name == unit) {
            Some((_, bits)) => Ok((number * (1_u64 << bits) as f64) as i64),
            None => Err(Diagnostic::at(format!("Unknown BYTES unit '{}'", self.text(token)), token.span)
                .say("Legal are 'B', 'KB', 'MB', 'GB' and 'TB'")),
        }
    }

    /// A whole number without a unit.
    pub(super) fn plain_integer(&mut self) -> Outcome<u32> {
        let token = self.expect_kind(Kind::Integer)?;
        self.text(token).parse().map_err(|_| {
            Diagnostic::at(
                format!("'{}' is too large; at most {} is possible.", self.text(token), u32::MAX),
                token.span,
            )
        })
    }
}
