//! The variables of the process that `set-var` and `set-var-fmt` of the `global` section set.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haproxycfg::model::{Config, VariableValue};
use sample::{Bytes, Context, Direction, Options, Scope, Value, VariableName};

use crate::live::Process;

/// How the expressions are evaluated: there is nothing to wait for.
const OPTIONS: Options = Options { direction: Direction::Request, is_final: true };

/// The process, as an expression of the `global` section sees it.
struct ProcessContext<'a> {
    config: &'a Config,
    process: &'a Process,
}

impl Context for ProcessContext<'_> {
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn local_offset(&self, unix_seconds: i64) -> i32 {
        crate::logs::local_offset(unix_seconds)
    }

    fn process(&self) -> sample::Process<'_> {
        sample::Process {
            hostname: &self.process.hostname,
            pid: std::process::id(),
            stopping: self.process.stopping.load(Relaxed),
            ..sample::Process::default()
        }
    }

    fn environment(&self, name: &[u8]) -> Option<Bytes<'_>> {
        let name = std::str::from_utf8(name).ok()?;
        self.config.global.environment.get(name).map(|value| Bytes::Borrowed(value.as_bytes()))
    }

    fn variable(&self, name: &VariableName) -> Option<Value<'static>> {
        (name.scope() == Scope::Process).then(|| self.process.variables.find(name))?
    }

    fn has_scope(&self, scope: Scope) -> bool {
        scope == Scope::Process
    }
}

/// Sets the variables of `config` in order, so that a later one may use an earlier one. Expressions without a result set
/// nothing.
pub fn set(config: &Config, process: &Process) {
    let context = ProcessContext { config, process };
    for set in &config.global.set_vars {
        let value = match &set.value {
            VariableValue::Expr(expression) => expression.evaluate(&context, OPTIONS).value().map(Value::into_static),
            VariableValue::Format(format) => Some(Value::str(format.to_vec(&context))),
        };
        if let Some(value) = value {
            process.variables.set(&set.name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc, time::Instant};

    use haproxycfg::source::{Files, ReadError};

    use super::*;

    struct Text(&'static str);

    impl Files for Text {
        fn read(&self, _: &str) -> Result<Arc<[u8]>, ReadError> {
            Ok(self.0.as_bytes().into())
        }

        fn list(&self, _: &str) -> Result<Option<Vec<String>>, ReadError> {
            Ok(None)
        }
    }

    #[test]
    fn expressions_formats_and_the_order_of_lines() {
        let text = Text(
            "global\n\
             setenv NAME edge\n\
             set-var proc.number int(5),add(2)\n\
             set-var proc.name env(NAME),upper\n\
             set-var proc.again var(proc.number),mul(2)\n\
             set-var-fmt proc.text \"%[var(proc.name)]-%[var(proc.again)]-%[hostname]\"\n\
             set-var proc.number var(proc.absent)\n",
        );
        let options = haproxycfg::Options::default();
        let parsed = haproxycfg::parse(&["test.cfg".into()], &text, BTreeMap::new(), &options);
        let config = parsed.config.unwrap_or_else(|| panic!("{:#?}", parsed.diagnostics));
        let process = Process::new(1, Instant::now(), SystemTime::now());
        set(&config, &process);
        let find = |name: &str| process.variables.find(&VariableName::parse(name.as_bytes()).unwrap());
        assert_eq!(find("proc.number"), Some(Value::Sint(7)));
        assert_eq!(find("proc.name"), Some(Value::str(b"EDGE".to_vec())));
        assert_eq!(find("proc.again"), Some(Value::Sint(14)));
        assert_eq!(find("proc.text"), Some(Value::str(format!("EDGE-14-{}", process.hostname).into_bytes())));
        assert_eq!(find("proc.absent"), None);
    }
}
