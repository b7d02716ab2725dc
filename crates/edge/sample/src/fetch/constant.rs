//! Constants, and what the process itself knows.

use crate::arguments::{Argument, ArgumentType};
use crate::keyword::{Call, Cursor, Fetch, Fetched};
use crate::number;
use crate::parser::ParseContext;
use crate::place::{Source, Sources};
use crate::value::{Type, Value};

const CONSTANT: Sources = Sources::of(&[Source::Constant]);
const INTERNAL: Sources = Sources::of(&[Source::Internal]);

pub(super) const FETCHES: &[Fetch] = &[
    Fetch::new("always_false", Type::Bool, CONSTANT, |_, _| Fetched::Value(Value::Bool(false)))
        .doc("False.", "acl never always_false"),
    Fetch::new("always_true", Type::Bool, CONSTANT, |_, _| Fetched::Value(Value::Bool(true)))
        .doc("True.", "acl any always_true"),
];
