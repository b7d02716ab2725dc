//! What the machine asks of whoever runs it.

use std::fmt;

use super::{
    value::{Backend, Value},
    workspace::Workspace,
};
use crate::{
    modules::{Function, Method},
    pattern::TooHard,
    program::{HeaderRef, ObjectIndex, StorageIndex},
    variables::{StorageVariable, Variable},
};

/// Why a program failed while it ran. The client gets a 503, and the log the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The workspace is full.
    WorkspaceFull,
    /// A division by zero, or a whole number that is too large.
    Arithmetic,
    /// Routines call one another too deep.
    TooDeep,
    /// The subroutine ended without an answer, or the program is not what the compiler makes.
    NoAnswer,
    /// What the host says.
    Host(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkspaceFull => formatter.write_str("Out of workspace"),
            Self::Arithmetic => formatter.write_str("Division by zero, or a number that is too large"),
            Self::TooDeep => formatter.write_str("Subroutines call one another too deep"),
            Self::NoAnswer => formatter.write_str("The subroutine returned nothing"),
            Self::Host(why) => formatter.write_str(why),
        }
    }
}

impl std::error::Error for Failure {}

/// One request or one fetch. The compiler has seen to it that each variable is asked for and set only where it may be.
pub trait Host {
    /// The first value of a header.
    fn header(&self, header: &HeaderRef) -> Option<&[u8]>;

    /// The text of a variable where it is, for those that need no copy to be looked at; `None` for all others.
    fn borrowed(&self, variable: Variable) -> Option<&[u8]> {
        let _ = variable;
        None
    }

    /// Gives a header this value and no other.
    ///
    /// # Errors
    /// There is no room for it.
    fn set_header(&mut self, header: &HeaderRef, value: &[u8]) -> Result<(), Failure>;

    /// Removes a header.
    fn unset_header(&mut self, header: &HeaderRef);

    /// The value of a variable.
    ///
    /// # Errors
    /// There is no room for it.
    fn variable<'w>(&self, variable: Variable, workspace: &'w Workspace) -> Result<Value<'w>, Failure>;

    /// Sets a variable.
    ///
    /// # Errors
    /// The value makes no sense for it.
    fn set_variable(&mut self, variable: Variable, value: Value<'_>) -> Result<(), Failure>;

    /// Puts more behind a body that is made here.
    ///
    /// # Errors
    /// There is no room for it.
    fn append_body(&mut self, variable: Variable, value: Value<'_>) -> Result<(), Failure>;

    /// Removes what a variable stands for.
    fn unset_variable(&mut self, variable: Variable);

    /// What a storage says of itself.
    fn storage(&self, storage: StorageIndex, variable: StorageVariable) -> Value<'static>;

    /// The name of a backend that the program does not declare.
    fn backend_name(&self, backend: Backend) -> Option<&str>;

    /// The backend that a director chooses.
    fn resolve(&mut self, backend: Option<Backend>) -> Option<Backend>;

    /// Adds to the key of the cache.
    fn hash_data(&mut self, data: &[u8]);

    /// What has been added since the last time is one thing, apart from what follows.
    fn end_hash_data(&mut self) {}

    /// Bans what the expression says.
    ///
    /// # Errors
    /// It is no expression.
    fn ban(&mut self, expression: &[u8]) -> Result<(), Failure>;

    /// A list has been asked about an address, and is to be logged (`+log`).
    fn log_acl(&mut self, acl: &str, entry: Option<&str>);

    /// A match was given up; it counts as none.
    fn log_hard_match(&mut self, pattern: &str, why: TooHard);

    /// Does what a module's function does.
    ///
    /// # Errors
    /// Why the program cannot go on.
    fn call<'w>(
        &mut self,
        function: &'static Function,
        arguments: &[Option<Value<'w>>],
        workspace: &'w Workspace,
    ) -> Result<Value<'w>, Failure>;

    /// Does what an object's method does.
    ///
    /// # Errors
    /// Why the program cannot go on.
    fn method<'w>(
        &mut self,
        object: ObjectIndex,
        method: &'static Method,
        arguments: &[Option<Value<'w>>],
        workspace: &'w Workspace,
    ) -> Result<Value<'w>, Failure>;

    /// Makes an object; in `vcl_init` alone.
    ///
    /// # Errors
    /// Why the program cannot be used.
    fn make(&mut self, object: ObjectIndex, arguments: &[Option<Value<'_>>]) -> Result<(), Failure>;
}
