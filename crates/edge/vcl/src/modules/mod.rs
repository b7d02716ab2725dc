//! Modules: what `import` brings. `table` declares their functions and classes; [`run::pure`](crate::run::pure) has those that need nothing
//! but their arguments, and the host has all others.

mod table;

pub use table::{FunctionId, MethodId, classes, function, functions, is_module};

use crate::{subroutine::Subroutines, types::Type};

/// What a parameter is when it is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Absent {
    /// It must be given.
    Needed,
    /// It may be left out, and the function knows.
    Unknown,
    /// This condition.
    Bool(bool),
    /// This number.
    Int(i64),
    /// This number.
    Real(f64),
    /// These seconds.
    Duration(f64),
    /// This text.
    String(&'static str),
    /// This word.
    Word(&'static str),
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name; empty for one that is given by its place alone.
    pub name: &'static str,
    /// What it is.
    pub kind: Type,
    /// What it is when it is left out.
    pub absent: Absent,
    /// The words that a parameter of type ENUM may be.
    pub words: &'static [&'static str],
}

/// A function of a module.
#[derive(Debug)]
pub struct Function {
    /// Which.
    pub id: FunctionId,
    /// The module.
    pub module: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it gives.
    pub returns: Type,
    /// What it takes.
    pub parameters: &'static [Parameter],
    /// Where it may be called.
    pub places: Subroutines,
}

/// A method of a class.
#[derive(Debug)]
pub struct Method {
    /// Which.
    pub id: MethodId,
    /// Its name.
    pub name: &'static str,
    /// What it gives.
    pub returns: Type,
    /// What it takes.
    pub parameters: &'static [Parameter],
    /// Where it may be called.
    pub places: Subroutines,
}

/// A class of objects.
#[derive(Debug)]
pub struct Class {
    /// Its name with its module: `directors.hash`.
    pub name: &'static str,
    /// What `new` takes.
    pub parameters: &'static [Parameter],
    /// What its objects can do.
    pub methods: &'static [Method],
}
