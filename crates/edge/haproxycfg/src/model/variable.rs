//! `set-var`, wherever it stands.

use sample::{Expression as Expr, LogFormat};

/// `set-var`.
#[derive(Clone, Debug)]
pub struct SetVariable {
    /// Which.
    pub name: sample::VariableName,
    /// To what.
    pub value: VariableValue,
    /// `set-var(name,condition...)`: only when all hold.
    pub conditions: Vec<VariableCondition>,
}

/// A condition of `set-var(name,condition...)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableCondition {
    /// `ifexists`: the variable was set before, even if unset since.
    Exists,
    /// `ifnotexists`.
    NotExists,
    /// `ifempty`: the new value is empty; integers never are.
    Empty,
    /// `ifnotempty`.
    NotEmpty,
    /// `ifset`: the variable has a value.
    Set,
    /// `ifnotset`.
    NotSet,
    /// `ifgt`: the variable's value is greater than the new one; both are integers.
    Greater,
    /// `iflt`: the variable's value is less than the new one; both are integers.
    Less,
}

/// What a variable is set to.
#[derive(Clone, Debug)]
pub enum VariableValue {
    /// `set-var`.
    Expr(Expr),
    /// `set-var-fmt`.
    Format(LogFormat),
}
