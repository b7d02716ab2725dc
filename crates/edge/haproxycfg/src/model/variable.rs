//! `set-var`, wherever it stands.

use sample::{Expression as Expr, LogFormat, SetCondition};

/// `set-var`.
#[derive(Clone, Debug)]
pub struct SetVariable {
    /// Which.
    pub name: sample::VariableName,
    /// To what.
    pub value: VariableValue,
    /// `set-var(name,condition...)`: only when all hold.
    pub conditions: Vec<SetCondition>,
}

/// What a variable is set to.
#[derive(Clone, Debug)]
pub enum VariableValue {
    /// `set-var`.
    Expr(Expr),
    /// `set-var-fmt`.
    Format(LogFormat),
}
