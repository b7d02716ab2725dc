//! Variables: names, scopes, storage and the accounting of their size.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
};

use crate::error::{Error, ErrorKind};
use crate::value::Value;

/// How long a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// As long as the process.
    Process,
    /// As long as the client's connection.
    Session,
    /// From the request to the end of the response.
    Transaction,
    /// While the request is processed.
    Request,
    /// While the response is processed.
    Response,
    /// During one health check.
    Check,
}

impl Scope {
    /// The prefix in names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Process => "proc",
            Scope::Session => "sess",
            Scope::Transaction => "txn",
            Scope::Request => "req",
            Scope::Response => "res",
            Scope::Check => "check",
        }
    }
}

/// A variable's name: `txn.user`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VariableName {
    scope: Scope,
    name: Arc<str>,
}

impl VariableName {
    /// Reads a name with its scope.
    ///
    /// # Errors
    /// When the scope is unknown or the name has other characters than letters, digits, `_` and `.`.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Argument, message).word(text));
        if text.is_empty() {
            return refuse("Empty variable name cannot be accepted".to_owned());
        }
        let scopes =
            [Scope::Process, Scope::Session, Scope::Transaction, Scope::Request, Scope::Response, Scope::Check];
        let found = scopes.into_iter().find_map(|scope| {
            let rest = text.strip_prefix(scope.name().as_bytes())?.strip_prefix(b".")?;
            (!rest.is_empty()).then_some((scope, rest))
        });
        let Some((scope, rest)) = found else {
            let text = String::from_utf8_lossy(text);
            return refuse(format!(
                "invalid variable name '{text}'. A variable name must be start by its scope. The scope can be 'proc', \
                 'sess', 'txn', 'req', 'res' or 'check'"
            ));
        };
        if let Some(bad) = rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b"_.".contains(byte)) {
            let tail = String::from_utf8_lossy(rest.get(bad..).unwrap_or_default()).into_owned();
            return refuse(format!("invalid syntax at char '{tail}'"));
        }
        Ok(VariableName { scope, name: Arc::from(String::from_utf8_lossy(rest)) })
    }

    /// The scope.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The name without its scope.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The most memory that variables may take, in bytes; none is no limit. `tune.vars.*-max-size`.
#[derive(Clone, Copy, Debug, Default)]
pub struct VariableLimits {
    /// All variables of all scopes.
    pub global: Option<usize>,
    /// Those of the process; inner scopes count too.
    pub process: Option<usize>,
    /// Those of one session; inner scopes count too.
    pub session: Option<usize>,
    /// Those of one transaction; inner scopes count too.
    pub transaction: Option<usize>,
    /// Those of one request or response.
    pub request_response: Option<usize>,
}

/// What one variable counts for, besides its bytes.
pub const VARIABLE_OVERHEAD: usize = 56;

/// The variables of one scope. There are few, so they are a list.
#[derive(Debug, Default)]
struct Variables {
    entries: Vec<(Arc<str>, Value<'static>)>,
    /// Bytes that count against this scope's limit, those of inner scopes included.
    used: usize,
}

fn weight(value: &Value<'_>) -> usize {
    VARIABLE_OVERHEAD
        + match value {
            Value::Str(bytes) | Value::Bin(bytes) | Value::Meth(bytes) => bytes.len(),
            _ => 0,
        }
}

impl Variables {
    fn find(&self, name: &str) -> Option<&Value<'static>> {
        self.entries.iter().find(|(found, _)| **found == *name).map(|(_, value)| value)
    }

    fn replace(&mut self, name: &VariableName, value: Value<'static>) {
        match self.entries.iter_mut().find(|(found, _)| *found == name.name) {
            Some((_, slot)) => *slot = value,
            None => self.entries.push((Arc::clone(&name.name), value)),
        }
    }

    fn remove(&mut self, name: &str) -> usize {
        match self.entries.iter().position(|(found, _)| **found == *name) {
            Some(position) => weight(&self.entries.swap_remove(position).1),
            None => 0,
        }
    }

    fn total(&self) -> usize {
        self.entries.iter().map(|(_, value)| weight(value)).sum()
    }
}

/// The variables of the process, shared by its threads. The lock is held for one look-up or one store.
#[derive(Debug, Default)]
pub struct ProcessVariables {
    inner: Mutex<Variables>,
}

impl ProcessVariables {
    /// None set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, action: impl FnOnce(&mut Variables) -> T) -> T {
        action(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The value of `name`.
    #[must_use]
    pub fn find(&self, name: &VariableName) -> Option<Value<'static>> {
        self.with(|variables| variables.find(&name.name).cloned())
    }

    /// Sets `name` regardless of limits: what the configuration itself does.
    pub fn set(&self, name: &VariableName, value: Value<'static>) {
        self.with(|variables| variables.replace(name, value));
    }

    /// Every name without scope and its value, for `show vars` and the like.
    #[must_use]
    pub fn list(&self) -> Vec<(String, Value<'static>)> {
        self.with(|variables| variables.entries.iter().map(|(name, value)| (name.to_string(), value.clone())).collect())
    }
}

/// The variables that one stream sees: those of the process, its session, its transaction and its request or response.
#[derive(Debug)]
pub struct StreamVariables {
    process: Arc<ProcessVariables>,
    limits: Arc<VariableLimits>,
    /// Those of the session, which all its streams see.
    session: Rc<RefCell<Variables>>,
    transaction: Variables,
    message: Variables,
    /// What `message` holds now: the scopes `req` and `res` never exist together.
    message_scope: Option<Scope>,
}

impl StreamVariables {
    /// Nothing set but what the process has. There is a session, and no transaction yet.
    #[must_use]
    pub fn new(process: Arc<ProcessVariables>, limits: impl Into<Arc<VariableLimits>>) -> Self {
        StreamVariables {
            process,
            limits: limits.into(),
            session: Rc::default(),
            transaction: Variables::default(),
            message: Variables::default(),
            message_scope: None,
        }
    }

    /// Those of another stream of the same session, which has no transaction yet.
    #[must_use]
    pub fn of_same_session(&self) -> Self {
        StreamVariables {
            process: Arc::clone(&self.process),
            limits: Arc::clone(&self.limits),
            session: Rc::clone(&self.session),
            transaction: Variables::default(),
            message: Variables::default(),
            message_scope: None,
        }
    }

    /// Whether the session has variables of its own.
    #[must_use]
    pub fn has_session_variables(&self) -> bool {
        !self.session.borrow().entries.is_empty()
    }

    /// Starts a transaction with its request; whatever the previous one left is forgotten.
    pub fn start_request(&mut self) {
        self.end_transaction();
        self.message_scope = Some(Scope::Request);
    }

    /// From now on the scope is `res`; variables of the request are forgotten.
    pub fn start_response(&mut self) {
        self.forget_message();
        self.message_scope = Some(Scope::Response);
    }

    /// Ends the transaction: only those of the session stay.
    pub fn end_transaction(&mut self) {
        self.forget_message();
        let freed = self.transaction.total();
        self.transaction = Variables::default();
        self.release(Scope::Transaction, freed);
        self.message_scope = None;
    }

    fn forget_message(&mut self) {
        let freed = self.message.total();
        self.message.entries.clear();
        self.release(Scope::Request, freed);
        self.message.used = 0;
    }

    /// Whether variables of `scope` can be used now.
    #[must_use]
    pub fn has_scope(&self, scope: Scope) -> bool {
        match scope {
            Scope::Process | Scope::Session => true,
            Scope::Transaction => self.message_scope.is_some(),
            Scope::Request | Scope::Response => self.message_scope == Some(scope),
            Scope::Check => false,
        }
    }

    /// Changes the variables of a scope that is there.
    fn with_scope<T>(&mut self, scope: Scope, change: impl FnOnce(&mut Variables) -> T) -> T {
        match scope {
            Scope::Session => change(&mut self.session.borrow_mut()),
            Scope::Transaction => change(&mut self.transaction),
            Scope::Request | Scope::Response => change(&mut self.message),
            Scope::Process | Scope::Check => self.process.with(change),
        }
    }

    /// The value of `name`.
    #[must_use]
    pub fn find(&self, name: &VariableName) -> Option<Value<'static>> {
        if !self.has_scope(name.scope) {
            return None;
        }
        match name.scope {
            Scope::Process => self.process.find(name),
            Scope::Session => self.session.borrow().find(&name.name).cloned(),
            Scope::Transaction => self.transaction.find(&name.name).cloned(),
            Scope::Request | Scope::Response => self.message.find(&name.name).cloned(),
            Scope::Check => None,
        }
    }

    /// Sets `name`; false when its scope is not there or a limit would be passed, and then nothing changes.
    pub fn set(&mut self, name: &VariableName, value: Value<'static>) -> bool {
        if !self.has_scope(name.scope) {
            return false;
        }
        let before = self.find(name).as_ref().map_or(0, weight);
        let after = weight(&value);
        if after > before && !self.reserve(name.scope, after - before) {
            return false;
        }
        if before > after {
            self.release(name.scope, before - after);
        }
        self.with_scope(name.scope, |variables| variables.replace(name, value));
        true
    }

    /// Forgets `name`; whether its scope is there.
    pub fn unset(&mut self, name: &VariableName) -> bool {
        if !self.has_scope(name.scope) {
            return false;
        }
        let freed = self.with_scope(name.scope, |variables| variables.remove(&name.name));
        self.release(name.scope, freed);
        true
    }

    /// Takes `size` bytes from the scope and all that are around it, or from none.
    fn reserve(&mut self, scope: Scope, size: usize) -> bool {
        let exceeds = |used: usize, limit: Option<usize>| limit.is_some_and(|limit| used.saturating_add(size) > limit);
        let depth = depth(scope);
        if (depth >= 3 && exceeds(self.message.used, self.limits.request_response))
            || (depth >= 2 && exceeds(self.transaction.used, self.limits.transaction))
            || (depth >= 1 && exceeds(self.session.borrow().used, self.limits.session))
        {
            return false;
        }
        let limits = *self.limits;
        let granted = self.process.with(|process| {
            let granted = !exceeds(process.used, limits.process) && !exceeds(process.used, limits.global);
            if granted && (limits.process.is_some() || limits.global.is_some()) {
                process.used = process.used.saturating_add(size);
            }
            granted
        });
        if granted {
            self.account(scope, |used| used.saturating_add(size));
        }
        granted
    }

    fn release(&mut self, scope: Scope, size: usize) {
        if size == 0 {
            return;
        }
        if self.limits.process.is_some() || self.limits.global.is_some() {
            self.process.with(|process| process.used = process.used.saturating_sub(size));
        }
        self.account(scope, |used| used.saturating_sub(size));
    }

    fn account(&mut self, scope: Scope, change: impl Fn(usize) -> usize) {
        let depth = depth(scope);
        if depth >= 3 {
            self.message.used = change(self.message.used);
        }
        if depth >= 2 {
            self.transaction.used = change(self.transaction.used);
        }
        if depth >= 1 {
            let session = &mut *self.session.borrow_mut();
            session.used = change(session.used);
        }
    }
}

impl Drop for StreamVariables {
    fn drop(&mut self) {
        self.end_transaction();
        if Rc::strong_count(&self.session) == 1 {
            let freed = self.session.borrow().total();
            self.release(Scope::Session, freed);
        }
    }
}

/// How many scopes are around this one.
fn depth(scope: Scope) -> u8 {
    match scope {
        Scope::Process => 0,
        Scope::Session | Scope::Check => 1,
        Scope::Transaction => 2,
        Scope::Request | Scope::Response => 3,
    }
}

/// When `set-var` with conditions really sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetCondition {
    /// `ifexists`: the variable exists.
    IfExists,
    /// `ifnotexists`: the variable does not exist.
    IfNotExists,
    /// `ifempty`: the new value is empty; integers never are.
    IfEmpty,
    /// `ifnotempty`: the new value is not empty.
    IfNotEmpty,
    /// `ifset`: the variable has a value.
    IfSet,
    /// `ifnotset`: the variable has no value.
    IfNotSet,
    /// `ifgt`: the variable is an integer greater than the new one.
    IfGreater,
    /// `iflt`: the variable is an integer less than the new one.
    IfLess,
}

impl SetCondition {
    /// Every condition with the word for it.
    pub const WORDS: [(&'static str, SetCondition); 8] = [
        ("ifexists", SetCondition::IfExists),
        ("ifnotexists", SetCondition::IfNotExists),
        ("ifempty", SetCondition::IfEmpty),
        ("ifnotempty", SetCondition::IfNotEmpty),
        ("ifset", SetCondition::IfSet),
        ("ifnotset", SetCondition::IfNotSet),
        ("ifgt", SetCondition::IfGreater),
        ("iflt", SetCondition::IfLess),
    ];

    /// Reads the word for a condition.
    #[must_use]
    pub fn parse(word: &[u8]) -> Option<Self> {
        Self::WORDS.into_iter().find(|(name, _)| name.as_bytes() == word).map(|(_, condition)| condition)
    }

    /// Whether `new` may replace `old`.
    #[must_use]
    pub fn allows(self, old: Option<&Value<'_>>, new: &Value<'_>) -> bool {
        self.decide(old.is_some(), old, new)
    }

    /// Whether `new` may be put into the variable `name`, which holds `old`. Variables of the process exist from the moment
    /// the configuration names them, set or not.
    #[must_use]
    pub fn allows_for(self, name: &VariableName, old: Option<&Value<'_>>, new: &Value<'_>) -> bool {
        self.decide(old.is_some() || name.scope == Scope::Process, old, new)
    }

    fn decide(self, exists: bool, old: Option<&Value<'_>>, new: &Value<'_>) -> bool {
        let is_empty = matches!(new, Value::Str(bytes) | Value::Bin(bytes) if bytes.is_empty());
        let is_text = matches!(new, Value::Str(_) | Value::Bin(_));
        match self {
            SetCondition::IfExists => exists,
            SetCondition::IfNotExists => !exists,
            SetCondition::IfSet => old.is_some(),
            SetCondition::IfNotSet => old.is_none(),
            SetCondition::IfEmpty => is_empty,
            SetCondition::IfNotEmpty => !is_text || !is_empty,
            SetCondition::IfGreater => match (old, new) {
                (Some(Value::Sint(old)), Value::Sint(new)) => old > new,
                _ => true,
            },
            SetCondition::IfLess => match (old, new) {
                (Some(Value::Sint(old)), Value::Sint(new)) => old < new,
                _ => true,
            },
        }
    }
}
