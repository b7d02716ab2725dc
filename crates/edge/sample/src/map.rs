//! Maps: the converters that look a sample up in a file.

use std::sync::Arc;

use crate::bytes::Bytes;
use crate::parser::ParseContext;
use crate::pattern::{Compilation, MatchMethod, PatternExpression, User, map_value};
use crate::value::{Type, Value};

/// A map, loaded.
#[derive(Debug)]
pub(crate) struct Map {
    expression: Arc<PatternExpression>,
    default: Option<Value<'static>>,
}

impl Map {
    /// Loads the map at `path`, whose values are of type `output`.
    pub(crate) fn load(
        path: &[u8],
        default: Option<&[u8]>,
        method: MatchMethod,
        output: Type,
        parser: &mut ParseContext<'_>,
    ) -> Result<Self, String> {
        let path = std::str::from_utf8(path).map_err(|_| "a path must be UTF-8".to_owned())?;
        let reference = parser.load(path, true, User::Map).map_err(|error| error.to_string())?;
        let compilation = Compilation { method, ignore_case: false, resolves: false, output: Some(output) };
        let expression = reference
            .expression(compilation, &|_| None)
            .map_err(|(line, reason)| format!("{reason} at line {line} of file '{path}'"))?;
        let default = match default {
            None => None,
            Some(text) => Some(map_value(&Arc::from(text), output).ok_or_else(|| match output {
                Type::Sint => format!("map: cannot parse default value '{}'", String::from_utf8_lossy(text)),
                _ => format!("map: cannot parse default ip <{}>", String::from_utf8_lossy(text)),
            })?),
        };
        Ok(Map { expression, default })
    }

    /// The value for `key`, or the default one.
    ///
    /// NOTE: a value is copied while nobody may change it: what is looked up is short, and a counter of who shares it would go
    /// from one worker's cache to the other's.
    pub(crate) fn find<'a>(&'a self, key: &Value<'_>) -> Option<Value<'a>> {
        let found = self.expression.read(|index| {
            if self.expression.compilation.method != MatchMethod::Regm {
                let slot = index.find(key)?;
                // A pattern without a value stands for itself.
                return Some(slot.value.as_ref().map_or(Value::Sint(1), copy));
            }
            let Value::Str(subject) = key else { return None };
            let (slot, groups) = index.find_groups(subject)?;
            let Some(Value::Str(template)) = &slot.value else { return Some(Value::Sint(1)) };
            let mut output = Vec::with_capacity(template.len());
            pcre::expand(template, subject, &groups, &mut output);
            Some(Value::str(output))
        });
        found.or_else(|| self.default.as_ref().map(borrow))
    }
}

fn copy(value: &Value<'static>) -> Value<'static> {
    match value {
        Value::Str(bytes) => Value::Str(Bytes::Owned(bytes.to_vec())),
        other => other.clone(),
    }
}

/// The value again, without copying its bytes.
fn borrow<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::Str(bytes) => Value::Str(Bytes::Borrowed(bytes)),
        other => other.clone(),
    }
}
