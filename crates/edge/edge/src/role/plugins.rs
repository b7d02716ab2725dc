//! Whether the program has the plugins that a configuration names, and what these say of their arguments.

use haproxycfg::{
    diagnostics::{Diagnostic, Severity},
    model::Config,
};
use live::plugins::all_calls;
use plugin::Plugins;

/// What is wrong with the rules that name plugins.
pub fn problems(config: &Config, plugins: Plugins) -> Vec<Diagnostic> {
    let mut said = Vec::new();
    for (call, location) in all_calls(config) {
        let name = &call.name;
        let problem = match plugins.named(name) {
            Some((_, plugin)) => match plugin.answerer.check(&call.arguments) {
                Ok(()) => continue,
                Err(problem) => format!("plugin.{name}: {problem}."),
            },
            None => {
                let names: Vec<&str> = plugins.names().collect();
                let near = basics::nearest(name, names.iter().copied());
                let near = near.map(|near| format!("; did you mean 'plugin.{near}'?")).unwrap_or_default();
                let has =
                    if names.is_empty() { "no plugins".to_owned() } else { format!("plugins {}", names.join(", ")) };
                format!("'plugin.{name}': the program has no plugin of that name{near} (it has {has}).")
            }
        };
        let message = format!("parsing [{}:{}] : use-service: {problem}", location.file, location.line);
        said.push(Diagnostic::whole(Severity::Alert, message));
    }
    said
}
