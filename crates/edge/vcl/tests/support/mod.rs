//! A host that is a table: one exchange without a network.

#![allow(dead_code, reason = "each program of tests uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends")]

use std::collections::HashMap;

use vcl::{
    modules::{Function, Method},
    pattern::TooHard,
    program::{HeaderRef, ObjectIndex, Program, StorageIndex},
    run::{self, Answer, Backend, Failure, Host, Value, Workspace},
    subroutine::Subroutine,
    variables::{Message, StorageVariable, Variable},
};

/// A value that outlives its workspace.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    Text(Vec<u8>),
    Number(f64),
    Int(i64),
    Bool(bool),
    Other(String),
}

#[derive(Default)]
pub struct Table {
    pub headers: HashMap<(Message, String), Vec<u8>>,
    pub variables: HashMap<Variable, Kept>,
    pub hashed: Vec<Vec<u8>>,
    pub bans: Vec<Vec<u8>>,
    pub called: Vec<String>,
    pub log: Vec<String>,
}

fn key(header: &HeaderRef) -> (Message, String) {
    (header.message, header.name.lower.to_string())
}

impl Table {
    pub fn with(headers: &[(Message, &str, &str)], variables: &[(Variable, Kept)]) -> Self {
        let headers =
            headers.iter().map(|(message, name, value)| ((*message, (*name).to_owned()), value.as_bytes().to_vec()));
        Self { headers: headers.collect(), variables: variables.iter().cloned().collect(), ..Self::default() }
    }

    pub fn header_text(&self, message: Message, name: &str) -> Option<String> {
        self.headers.get(&(message, name.to_owned())).map(|value| String::from_utf8_lossy(value).into_owned())
    }
}

impl Host for Table {
    fn header(&self, header: &HeaderRef) -> Option<&[u8]> {
        self.headers.get(&key(header)).map(Vec::as_slice)
    }

    fn set_header(&mut self, header: &HeaderRef, value: &[u8]) -> Result<(), Failure> {
        self.headers.insert(key(header), value.to_vec());
        Ok(())
    }

    fn unset_header(&mut self, header: &HeaderRef) {
        self.headers.remove(&key(header));
    }

    fn variable<'w>(&self, variable: Variable, workspace: &'w Workspace) -> Result<Value<'w>, Failure> {
        use vcl::types::Type;
        let kind = variable.definition().kind;
        Ok(match (self.variables.get(&variable), kind) {
            (Some(Kept::Text(text)), _) => Value::String(Some(workspace.keep(text)?)),
            (Some(Kept::Number(seconds)), Type::Time) => Value::Time(*seconds),
            (Some(Kept::Number(seconds)), _) => Value::Duration(*seconds),
            (Some(Kept::Int(value)), _) => Value::Int(*value),
            (Some(Kept::Bool(value)), _) => Value::Bool(*value),
            (_, Type::Ip) => Value::Ip(Some(("192.0.2.7".parse().unwrap(), 80))),
            (_, Type::Bool) => Value::Bool(false),
            (_, Type::Int) => Value::Int(0),
            (_, Type::Duration) => Value::Duration(0.0),
            (_, Type::Backend) => Value::Backend(None),
            _ => Value::String(None),
        })
    }

    fn set_variable(&mut self, variable: Variable, value: Value<'_>) -> Result<(), Failure> {
        let kept = match value {
            Value::String(text) => Kept::Text(text.unwrap_or_default().to_vec()),
            Value::Duration(seconds) | Value::Time(seconds) | Value::Real(seconds) => Kept::Number(seconds),
            Value::Int(value) => Kept::Int(value),
            Value::Bool(value) => Kept::Bool(value),
            other => Kept::Other(format!("{other:?}")),
        };
        self.variables.insert(variable, kept);
        Ok(())
    }

    fn append_body(&mut self, variable: Variable, value: Value<'_>) -> Result<(), Failure> {
        let mut whole = match self.variables.get(&variable) {
            Some(Kept::Text(text)) => text.clone(),
            _ => Vec::new(),
        };
        whole.extend_from_slice(value.text().unwrap_or_default());
        self.variables.insert(variable, Kept::Text(whole));
        Ok(())
    }

    fn unset_variable(&mut self, variable: Variable) {
        self.variables.remove(&variable);
    }

    fn storage(&self, _: StorageIndex, _: StorageVariable) -> Value<'static> {
        Value::Bytes(0)
    }

    fn backend_name(&self, _: Backend) -> Option<&str> {
        None
    }

    fn resolve(&mut self, backend: Option<Backend>) -> Option<Backend> {
        backend
    }

    fn hash_data(&mut self, data: &[u8]) {
        self.hashed.push(data.to_vec());
    }

    fn ban(&mut self, expression: &[u8]) -> Result<(), Failure> {
        self.bans.push(expression.to_vec());
        Ok(())
    }

    fn log_acl(&mut self, acl: &str, entry: Option<&str>) {
        self.log.push(format!("{acl}: {entry:?}"));
    }

    fn log_hard_match(&mut self, pattern: &str, _: TooHard) {
        self.log.push(format!("too hard: {pattern}"));
    }

    fn call<'w>(
        &mut self,
        function: &'static Function,
        arguments: &[Option<Value<'w>>],
        _: &'w Workspace,
    ) -> Result<Value<'w>, Failure> {
        self.called.push(format!("{}.{} {arguments:?}", function.module, function.name));
        Ok(Value::Void)
    }

    fn method<'w>(
        &mut self,
        object: ObjectIndex,
        method: &'static Method,
        _: &[Option<Value<'w>>],
        _: &'w Workspace,
    ) -> Result<Value<'w>, Failure> {
        self.called.push(format!("{}.{}", object.0, method.name));
        Ok(Value::Backend(Some(Backend::Object(object))))
    }

    fn make(&mut self, object: ObjectIndex, _: &[Option<Value<'_>>]) -> Result<(), Failure> {
        self.called.push(format!("new {}", object.0));
        Ok(())
    }
}

/// Compiles a text that must be right.
pub fn program(text: &str) -> Program {
    vcl::compile("test.vcl", text, &vcl::Options::default())
        .unwrap_or_else(|wrong| panic!("{}", wrong.message()))
        .program
}

/// Runs a subroutine; gives the action with what belongs to it, as text.
pub fn answer(program: &Program, subroutine: Subroutine, table: &mut Table) -> String {
    let workspace = Workspace::new(64 << 10);
    match run::run(program, subroutine, table, &workspace) {
        Ok(Answer { action, status, text, seconds, .. }) => {
            let mut shown = action.name().to_owned();
            if let Some(status) = status {
                shown.push_str(&format!(" {status}"));
            }
            if let Some(text) = text {
                shown.push_str(&format!(" {:?}", String::from_utf8_lossy(text)));
            }
            if let Some(seconds) = seconds {
                shown.push_str(&format!(" {seconds}s"));
            }
            shown
        }
        Err(failure) => format!("failed: {failure}"),
    }
}
