//! `set-var` and `set-var-fmt`, in rules, in checks and in the `global` section.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use haproxycfg::{
    diagnostics::Severity,
    model::{Config, SetVariable, VariableValue},
    source::Bundle,
};
use sample::{Bytes, Context, Direction, Options, Scope, Value, VariableName};

use crate::Process;

/// Sets a variable of `context`. An expression without a result leaves it as it is.
pub fn set(context: &dyn Context, set: &SetVariable, options: Options) {
    let value = match &set.value {
        VariableValue::Expr(expression) => expression.evaluate(context, options).value().map(Value::into_static),
        VariableValue::Format(format) => Some(Value::str(format.to_vec(context))),
    };
    let Some(value) = value else { return };
    let old = context.variable(&set.name);
    if set.conditions.iter().all(|condition| condition.allows_for(&set.name, old.as_ref(), &value)) {
        context.set_variable(&set.name, value);
    }
}

/// How the expressions are evaluated: there is nothing to wait for.
const OPTIONS: Options = Options { direction: Direction::Request, is_final: true };

/// The process, as an expression of the `global` section sees it.
struct ProcessContext<'a> {
    config: &'a Config,
    process: &'a Process,
}

impl Context for ProcessContext<'_> {
    fn now(&self) -> Duration {
        basics::clock::since_1970()
    }

    fn local_offset(&self, unix_seconds: i64) -> i32 {
        telemetry::local_offset(unix_seconds)
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

    fn set_variable(&self, name: &VariableName, value: Value<'static>) -> bool {
        let settable = name.scope() == Scope::Process;
        if settable {
            self.process.variables.set(name, value);
        }
        settable
    }

    fn has_scope(&self, scope: Scope) -> bool {
        scope == Scope::Process
    }
}

/// Sets the variables that the `global` section of `config` names, in order, so that a later one may use an earlier one.
pub fn set_global(config: &Config, process: &Process) {
    let context = ProcessContext { config, process };
    for line in &config.global.set_vars {
        set(&context, line, OPTIONS);
    }
}

/// The value of a variable of the process.
pub fn find(process: &Process, name: &str) -> Option<Value<'static>> {
    let name = VariableName::parse(name.as_bytes()).ok()?;
    (name.scope() == Scope::Process).then(|| process.variables.find(&name))?
}

/// Sets a variable by command, with the words that a line of the `global` section takes.
///
/// # Errors
/// What is wrong with the name, expression or format.
pub fn set_by_command(
    config: &Config,
    process: &Process,
    name: &str,
    is_format: bool,
    text: &str,
) -> Result<(), String> {
    match VariableName::parse(name.as_bytes()) {
        Ok(parsed) if parsed.scope() != Scope::Process => {
            return Err(format!("'set var': cannot set variable '{name}', only scope 'proc' is permitted here."));
        }
        Ok(_) => {}
        Err(_) => {
            return Err(format!(
                "invalid variable name '{name}'. A variable name must be start by its scope. The scope can be 'proc', \
                 'sess', 'txn', 'req', 'res' or 'check'"
            ));
        }
    }
    let word = if is_format { "set-var-fmt" } else { "set-var" };
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let line = format!("global\n{word} {} {}\n", quoted(name), quoted(text));
    let files = Bundle::default().with("CLI", line.as_bytes());
    let environment = config.global.environment.clone().into_iter().collect();
    let parsed = haproxycfg::parse(&["CLI".to_owned()], &files, environment, &haproxycfg::Options::default());
    let Some(line) = parsed.config else {
        let first = parsed.diagnostics.into_iter().find(|said| said.severity == Severity::Alert);
        return Err(first.map_or_else(|| "invalid expression".to_owned(), |said| said.message));
    };
    let context = ProcessContext { config, process };
    for variable in &line.global.set_vars {
        set(&context, variable, OPTIONS);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use haproxycfg::model::{HttpAction, StreamAction};

    use super::*;
    use crate::test_instance::configuration;

    fn process() -> Process {
        Process::new(
            1,
            Instant::now(),
            std::time::SystemTime::now(),
            std::sync::Arc::new(logs::Outputs::new()),
            std::sync::Arc::new(()),
        )
    }

    fn find(process: &Process, name: &str) -> Option<Value<'static>> {
        process.variables.find(&VariableName::parse(name.as_bytes()).unwrap())
    }

    #[test]
    fn expressions_formats_and_the_order_of_lines() {
        let config = configuration(
            "global\n\
             setenv NAME edge\n\
             set-var proc.number int(5),add(2)\n\
             set-var proc.name env(NAME),upper\n\
             set-var proc.again var(proc.number),mul(2)\n\
             set-var-fmt proc.text \"%[var(proc.name)]-%[var(proc.again)]-%[hostname]\"\n\
             set-var proc.number var(proc.absent)\n",
        );
        let process = process();
        set_global(&config, &process);
        assert_eq!(find(&process, "proc.number"), Some(Value::Sint(7)));
        assert_eq!(find(&process, "proc.name"), Some(Value::str(b"EDGE".to_vec())));
        assert_eq!(find(&process, "proc.again"), Some(Value::Sint(14)));
        assert_eq!(find(&process, "proc.text"), Some(Value::str(format!("EDGE-14-{}", process.hostname).into_bytes())));
        assert_eq!(find(&process, "proc.absent"), None);
    }

    #[test]
    fn commands_set_what_lines_set() {
        let (config, process) = (configuration("global\nsetenv NAME edge\n"), process());
        let set = |name, is_format, text| set_by_command(&config, &process, name, is_format, text);
        for (name, is_format, text, value) in [
            ("proc.number", false, "int(5),add(2)", Value::Sint(7)),
            ("proc.quoted", false, "str(a $HOME # b)", Value::str(b"a $HOME # b".to_vec())),
            ("proc.text", true, "a %[env(NAME)]", Value::str(b"a edge".to_vec())),
        ] {
            assert_eq!(set(name, is_format, text), Ok(()), "{text}");
            assert_eq!(super::find(&process, name), Some(value), "{text}");
        }
        for (name, text, wrong) in [
            ("txn.a", "int(1)", "only scope 'proc' is permitted here"),
            ("a", "int(1)", "invalid variable name 'a'"),
            ("proc.a", "nosuch(1)", "unknown fetch method 'nosuch'"),
            ("proc.a", "", ""),
        ] {
            assert!(set(name, false, text).unwrap_err().contains(wrong), "{name} {text}");
        }
        assert_eq!(super::find(&process, "proc.a"), None);
    }

    #[test]
    fn conditions_all_have_to_hold() {
        let config = configuration(
            "frontend fe\nmode http\nbind 127.0.0.1:1\ntimeout client 1s\n\
             http-request set-var(proc.number,ifset) int(5)\n\
             http-request set-var(proc.number,ifnotset) int(5)\n\
             http-request set-var(proc.number,ifnotset) int(6)\n\
             http-request set-var(proc.number,ifset,ifgt) int(6)\n\
             http-request set-var(proc.number,ifset,iflt) int(6)\n",
        );
        let process = process();
        let context = ProcessContext { config: &config, process: &process };
        let steps: Vec<_> = config.proxies[0]
            .http_request
            .iter()
            .map(|rule| {
                let HttpAction::Stream(StreamAction::SetVar(line)) = &rule.action else { panic!("{rule:?}") };
                set(&context, line, OPTIONS);
                find(&process, "proc.number")
            })
            .collect();
        assert_eq!(steps, [None, Some(5), Some(5), Some(5), Some(6)].map(|step| step.map(Value::Sint)));
    }
}
