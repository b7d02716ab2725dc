//! Parameters of varnishd 7.1: their values as text and as numbers.

mod table;
mod value;

use crate::{
    Status,
    parameters::value::{Kind, Value},
};

pub use table::Param;
pub use value::Bit;

/// What a parameter does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What it says.
    Honoured,
    /// It is kept and shown, and changes nothing; why.
    Without(&'static str),
    /// It cannot be given another value; why.
    Refused(&'static str),
    /// This platform does not have it, in Varnish either.
    Unavailable,
}

impl Effect {
    /// What users are told.
    #[must_use]
    pub fn note(self) -> Option<&'static str> {
        match self {
            Self::Without(why) | Self::Refused(why) => Some(why),
            Self::Honoured | Self::Unavailable => None,
        }
    }
}

/// What else is to be known of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Objects keep the value of when they were made.
    ObjSticky,
    /// It takes a while.
    DelayedEffect,
    /// Nobody knows yet what is best.
    Experimental,
    /// VCLs that are loaded later have it.
    MustReload,
    /// A worker that is started later has it.
    MustRestart,
    /// For developers.
    Wizard,
    /// Its default is the build's.
    BuildOptions,
}

impl Flag {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ObjSticky => "obj_sticky",
            Self::DelayedEffect => "delayed_effect",
            Self::Experimental => "experimental",
            Self::MustReload => "must_reload",
            Self::MustRestart => "must_restart",
            Self::Wizard => "wizard",
            Self::BuildOptions => "build_options",
        }
    }

    /// What users are told.
    pub(crate) fn note(self) -> Option<&'static str> {
        Some(match self {
            Self::ObjSticky => {
                "NB: An object keeps the value of when it was made. A ban or a restart lets all objects have the new one."
            }
            Self::DelayedEffect => "NB: It may take a while until a change is seen everywhere.",
            Self::Experimental => "NB: Which value is best is not known well. Change it with care.",
            Self::MustReload => "NB: A change is for VCLs that are loaded after it.",
            Self::MustRestart => "NB: A change is for the next start of the worker.",
            Self::Wizard => "NB: This is for developers.",
            Self::BuildOptions => return None,
        })
    }
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Specification {
    /// Its name.
    pub name: &'static str,
    /// What kind of value it has.
    pub(crate) kind: Kind,
    /// In what it counts.
    pub units: &'static str,
    /// The least value.
    pub minimum: Option<&'static str>,
    /// The greatest value.
    pub maximum: Option<&'static str>,
    /// The value that it has if nobody gives it another one.
    pub default: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// What else is to be known.
    pub flags: &'static [Flag],
    /// What it does here.
    pub effect: Effect,
}

/// Why a parameter does not have a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ParameterError {
    /// Of which kind this is.
    pub status: Status,
    text: String,
}

impl ParameterError {
    fn of(text: impl Into<String>) -> Self {
        Self { status: Status::Parameter, text: text.into() }
    }
}

/// All parameters with their values.
#[derive(Clone, Debug)]
pub struct Parameters {
    values: Vec<Value>,
    protected: Vec<&'static str>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { values: table::ALL.iter().map(default_of).collect(), protected: Vec::new() }
    }
}

/// Every default can be read: a test does.
fn default_of(specification: &Specification) -> Value {
    Value::parse(&specification.kind, specification.default, None)
        .unwrap_or_else(|_| Value::Text(specification.default.to_owned()))
}

/// All parameters, in the order of their names.
pub(crate) fn specifications() -> &'static [Specification] {
    table::ALL
}

fn index(name: &str) -> Option<usize> {
    table::ALL.iter().position(|specification| specification.name == name)
}

impl Parameters {
    /// All names, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        table::ALL.iter().map(|specification| specification.name)
    }

    /// What is known of a parameter.
    #[must_use]
    pub fn specification(&self, name: &str) -> Option<&'static Specification> {
        table::ALL.get(index(name)?)
    }

    /// Gives a parameter a value.
    ///
    /// # Errors
    /// When it cannot have that value, or may not have another one.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParameterError> {
        let unknown = || ParameterError::of(format!("Unknown parameter \"{name}\"."));
        let at = index(name).ok_or_else(unknown)?;
        let specification = table::ALL.get(at).ok_or_else(unknown)?;
        let refuse = |status, text: String| Err(ParameterError { status, text });
        if matches!(specification.effect, Effect::Unavailable) {
            return refuse(Status::Cannot, format!("parameter \"{name}\" is not available on this platform."));
        }
        if self.protected.contains(&specification.name) {
            return refuse(Status::Authentication, format!("parameter \"{name}\" is protected."));
        }
        let former = self.values.get(at);
        let value = match (&specification.kind, text, former) {
            (Kind::Bits { .. }, "default", _) => default_of(specification),
            (kind, text, former) => Value::parse(kind, text, former).map_err(ParameterError::of)?,
        };
        if let Effect::Refused(why) = specification.effect
            && former != Some(&value)
        {
            return refuse(Status::Cannot, format!("parameter \"{name}\" cannot be changed. {why}"));
        }
        let (least, most) = self.bounds(name);
        value.check(&specification.kind, least.as_deref(), most.as_deref()).map_err(|why| {
            let depends_on = match (name, least != specification.minimum.map(str::to_owned)) {
                ("thread_pool_min", _) => " (thread_pool_max)",
                ("thread_pool_max", true) => " (thread_pool_min)",
                ("thread_pool_reserve", _) if why.starts_with("Must be no more") => " (95% of thread_pool_min)",
                _ => "",
            };
            ParameterError::of(format!("{}{depends_on}\n", why.trim_end()))
        })?;
        if let Some(place) = self.values.get_mut(at) {
            *place = value;
        }
        Ok(())
    }

    /// Gives a parameter its default value.
    ///
    /// # Errors
    /// As [`Parameters::set`].
    pub fn reset(&mut self, name: &str) -> Result<(), ParameterError> {
        let default = self.specification(name).map(|specification| specification.default).unwrap_or_default();
        if let Some(Kind::Bits { .. }) = self.specification(name).map(|specification| specification.kind) {
            return self.set(name, "default");
        }
        self.set(name, default)
    }

    /// Lets nobody change these any more: `varnishd -r a,b`.
    ///
    /// # Errors
    /// When there is no parameter with such a name.
    pub fn protect(&mut self, names: &str) -> Result<(), ParameterError> {
        for name in names.split([',', ' ']).filter(|name| !name.is_empty()) {
            let Some(specification) = self.specification(name) else {
                return Err(ParameterError::of(format!("Unknown parameter {name}")));
            };
            self.protected.push(specification.name);
        }
        Ok(())
    }

    /// The least and the greatest value that a parameter may have now; some depend on others.
    #[must_use]
    pub fn bounds(&self, name: &str) -> (Option<String>, Option<String>) {
        let Some(specification) = self.specification(name) else { return (None, None) };
        let least = specification.minimum.map(str::to_owned);
        let most = specification.maximum.map(str::to_owned);
        /// Bytes of a record in a buffer besides its text.
        const RECORD: u64 = 12;
        match name {
            "thread_pool_min" => (least, Some(self.unsigned(Param::thread_pool_max).to_string())),
            "thread_pool_max" => (Some(self.unsigned(Param::thread_pool_min).to_string()), most),
            "thread_pool_reserve" => (least, Some((self.unsigned(Param::thread_pool_min) * 950 / 1000).to_string())),
            "vsl_buffer" => (Some((self.bytes(Param::vsl_reclen) + RECORD).to_string()), most),
            "vsl_reclen" => (least, Some(self.bytes(Param::vsl_buffer).saturating_sub(RECORD).to_string())),
            _ => (least, most),
        }
    }

    /// The value as it is shown.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        let value = index(name).and_then(|at| Some((table::ALL.get(at)?, self.values.get(at)?)));
        value.map(|(specification, value)| value.text(&specification.kind)).unwrap_or_default()
    }

    /// The value in JSON.
    #[must_use]
    pub fn json(&self, name: &str) -> String {
        let value = index(name).and_then(|at| Some((table::ALL.get(at)?, self.values.get(at)?)));
        value.map_or_else(|| "null".to_owned(), |(specification, value)| value.json(&specification.kind))
    }

    /// Whether it has its default value.
    #[must_use]
    pub fn is_default(&self, name: &str) -> bool {
        let default = self.specification(name).map(default_of);
        index(name).and_then(|at| self.values.get(at)) == default.as_ref()
    }

    fn value(&self, parameter: Param) -> Option<&Value> {
        self.values.get(parameter as usize)
    }

    /// Seconds, or another number with a fraction.
    #[must_use]
    pub fn number(&self, parameter: Param) -> f64 {
        if let Some(Value::Number(number)) = self.value(parameter) { *number } else { 0.0 }
    }

    /// A whole number; `unlimited` is the largest there is.
    #[must_use]
    pub fn unsigned(&self, parameter: Param) -> u64 {
        if let Some(Value::Unsigned(number)) = self.value(parameter) { *number } else { 0 }
    }

    /// An amount of data.
    #[must_use]
    pub fn bytes(&self, parameter: Param) -> u64 {
        if let Some(Value::Bytes(bytes)) = self.value(parameter) { *bytes } else { 0 }
    }

    /// Whether it is on.
    #[must_use]
    pub fn is_on(&self, parameter: Param) -> bool {
        matches!(self.value(parameter), Some(Value::Boolean(true)))
    }

    /// A text.
    #[must_use]
    pub fn string(&self, parameter: Param) -> &str {
        if let Some(Value::Text(text)) = self.value(parameter) { text } else { "" }
    }

    /// Whether a name is in a set: `feature` has `http2`, `vsl_mask` has the tag's name (which is *not* logged then).
    #[must_use]
    pub fn has(&self, parameter: Param, name: &str) -> bool {
        matches!(self.value(parameter), Some(Value::Bits(bits)) if bits.iter().any(|bit| bit.eq_ignore_ascii_case(name)))
    }
}

#[cfg(test)]
mod tests;
